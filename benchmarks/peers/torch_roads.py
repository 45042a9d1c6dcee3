"""Ways to load photos for PyTorch and Grain: prepares their formats, or loads one epoch.

    python -m benchmarks.peers.torch_roads prepare DATASET FOLDER
    python -m benchmarks.peers.torch_roads ROAD DATASET FOLDER

It runs in the environment of `make peers` that has these libraries. An epoch prints the JSON of
`benchmarks.peers.load_roads`. Each format holds the same JPEG files; unless its name says
otherwise, a library decodes as its documentation shows.
"""

from __future__ import annotations

import io
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

import numpy as np
from PIL import Image

import recordmill

BATCH, WORKERS, SHARDS, SEED = 64, 2, 8, 1

Road = Callable[[pathlib.Path, pathlib.Path], Iterator[int]]


def prepare(dataset: pathlib.Path, folder: pathlib.Path) -> None:
    """Write the photos of a dataset in the format of each peer."""
    import litdata
    import webdataset
    from array_record.python.array_record_module import ArrayRecordWriter
    from streaming import MDSWriter

    records = recordmill.open(dataset, "train")
    for name in ("photos", "webdataset", "arrayrecord"):
        (folder / name).mkdir(parents=True)
    tars = webdataset.ShardWriter(
        str(folder / "webdataset" / "%03d.tar"), maxcount=-(-len(records) // SHARDS), verbose=0
    )
    mosaic = MDSWriter(out=str(folder / "mosaic"), columns={"image": "bytes", "label": "int"})
    rows = [
        ArrayRecordWriter(str(folder / "arrayrecord" / f"{shard}"), "group_size:1")
        for shard in range(SHARDS)
    ]
    with tars, mosaic:
        for number, record in enumerate(records):
            image, label = record["image/encoded"], int(record["image/class/label"])
            place = folder / "photos" / f"{label}"
            place.mkdir(exist_ok=True)
            (place / f"{number:06d}.jpg").write_bytes(image)
            tars.write({"__key__": f"{number:06d}", "jpg": image, "cls": label})
            mosaic.write({"image": image, "label": label})
            rows[number * SHARDS // len(records)].write(records.payload(number))
    for writer in rows:
        writer.close()
    litdata.optimize(
        fn=_litdata_sample, inputs=sorted(map(str, (folder / "photos").rglob("*.jpg"))),
        output_dir=str(folder / "litdata"), chunk_bytes="64MB", num_workers=WORKERS,
    )  # fmt: skip


def _litdata_sample(path: str) -> dict[str, Any]:
    place = pathlib.Path(path)
    return {"image": place.read_bytes(), "label": int(place.parent.name)}


def _pillow(content: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def _simplejpeg(content: bytes) -> Any:
    import simplejpeg

    return simplejpeg.decode_jpeg(content, fastdct=True)


def torch_dataset(dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """recordmill.torch_dataset with Decode."""
    from torch.utils.data import DataLoader

    data = recordmill.torch_dataset(
        dataset, "train", batch_size=BATCH, shuffle=True, seed=SEED, transform=recordmill.Decode()
    )
    return _sizes(DataLoader(data, batch_size=None, num_workers=WORKERS))


def torch_dataset_pillow(dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """recordmill.torch_dataset, decoded by Pillow."""
    from torch.utils.data import DataLoader

    data = recordmill.torch_dataset(
        dataset, "train", batch_size=BATCH, shuffle=True, seed=SEED, transform=_by_pillow,
        features=["image/encoded", "image/class/label"],
    )  # fmt: skip
    return _sizes(DataLoader(data, batch_size=None, num_workers=WORKERS))


def _by_pillow(record: dict[str, Any]) -> Any:
    return _pillow(record["image/encoded"]), record["image/class/label"]


def _webdataset(folder: pathlib.Path, decode: Callable[[bytes], Any]) -> Iterator[int]:
    import webdataset
    from torch.utils.data import DataLoader

    tars = sorted(map(str, (folder / "webdataset").glob("*.tar")))
    data = webdataset.WebDataset(tars, shardshuffle=SHARDS, seed=SEED).shuffle(1000)
    data = data.to_tuple("jpg", "cls").map_tuple(decode, int).batched(BATCH)
    return _sizes(DataLoader(data, batch_size=None, num_workers=WORKERS))


def webdataset(dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """WebDataset, decoded by Pillow."""
    return _webdataset(folder, _pillow)


def webdataset_simplejpeg(dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """WebDataset, decoded by simplejpeg."""
    return _webdataset(folder, _simplejpeg)


def image_folder(dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """torchvision's ImageFolder."""
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    data = ImageFolder(str(folder / "photos"), transform=np.array)
    return _sizes(DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=WORKERS))


def mosaic(dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """MosaicML's streaming, decoded by Pillow."""
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    class Photos(StreamingDataset):
        def __getitem__(self, at: int) -> Any:
            sample = super().__getitem__(at)
            return _pillow(sample["image"]), sample["label"]

    data = Photos(local=str(folder / "mosaic"), shuffle=True, batch_size=BATCH)
    return _sizes(DataLoader(data, batch_size=BATCH, num_workers=WORKERS))


def litdata(dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """litData, decoded by Pillow."""
    from litdata import StreamingDataLoader, StreamingDataset

    class Photos(StreamingDataset):
        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            return _pillow(sample["image"]), sample["label"]

    data = Photos(str(folder / "litdata"), shuffle=True)
    return _sizes(StreamingDataLoader(data, batch_size=BATCH, num_workers=WORKERS))


def _order(count: int) -> list[int]:
    return random.Random(SEED).sample(range(count), count)


def _sources(name: str, dataset: pathlib.Path, folder: pathlib.Path) -> tuple[Any, Any]:
    """Return a source, and the function that makes records of its items."""
    if name == "grain_source":
        return recordmill.grain_source(dataset, "train"), None
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    files = sorted(map(str, (folder / "arrayrecord").iterdir()))
    records = recordmill.open(dataset, "train")
    return ArrayRecordDataSource(files), lambda payload: records.decode(payload, 0)


def _single(name: str, dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    source, decode = _sources(name, dataset, folder)
    for index in _order(len(source)):
        item = source[index]
        _ = item if decode is None else decode(item)
        yield 1


def _batched(name: str, dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    source, decode = _sources(name, dataset, folder)
    order = _order(len(source))
    for at in range(0, len(order), BATCH):
        items = source.__getitems__(order[at : at + BATCH])
        _ = items if decode is None else [*map(decode, items)]
        yield len(items)


def _grain(name: str, dataset: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    import grain

    source, decode = _sources(name, dataset, folder)
    data = grain.MapDataset.source(source).shuffle(SEED)
    for _ in (data if decode is None else data.map(decode)).to_iter_dataset():
        yield 1


def _pair(kind: Callable[..., Iterator[int]]) -> dict[str, Road]:
    def road(name: str) -> Road:
        return lambda dataset, folder: kind(name, dataset, folder)

    return {f"{name}{kind.__name__}": road(name) for name in ("grain_source", "array_record")}


ROADS: dict[str, Road] = {
    **{
        one.__name__: one
        for one in (
            *(torch_dataset, torch_dataset_pillow, webdataset, webdataset_simplejpeg),
            *(image_folder, mosaic, litdata),
        )
    },
    **_pair(_single),
    **_pair(_batched),
    **_pair(_grain),
}


def _sizes(batches: Any) -> Iterator[int]:
    for _, labels in batches:
        yield len(labels)


def main(name: str, dataset: str, folder: str) -> None:
    if name == "prepare":
        prepare(pathlib.Path(dataset), pathlib.Path(folder))
        _end_helpers()
        return
    _import(name)
    cpu, started = _cpu(), time.perf_counter()
    first, last, records = 0.0, 0.0, 0
    for size in itertools.chain(ROADS[name](pathlib.Path(dataset), pathlib.Path(folder))):
        last = time.perf_counter() - started
        first = first or last
        records += size
    found = {"records": records, "first": first, "last": last}
    found |= {"wall": time.perf_counter() - started, "cpu": _cpu() - cpu}
    _end_helpers()
    print(json.dumps(found), flush=True)
    os._exit(0)  # some libraries print when the interpreter ends


def _end_helpers() -> None:
    """End processes of the libraries, such as for shared memory, that would end after this one."""
    for child in multiprocessing.active_children():
        child.terminate()
        child.join()
    resource_tracker._resource_tracker._stop()


def _cpu() -> float:
    """Processor time of this process and its workers that have ended, in seconds."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in usages)


def _import(name: str) -> None:
    """Import what a road needs, before the clock runs."""
    needed = {
        "webdataset": "webdataset",
        "webdataset_simplejpeg": "webdataset",
        "image_folder": "torchvision.datasets",
        "mosaic": "streaming",
        "litdata": "litdata",
    }
    if name.startswith(("grain_source", "array_record")):
        import grain  # noqa: F401
    else:
        import torch.utils.data  # noqa: F401
    if name in needed:
        __import__(needed[name])
    _ = recordmill.Decode, recordmill.open, recordmill.grain_source


if __name__ == "__main__":
    main(*sys.argv[1:])
