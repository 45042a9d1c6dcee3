"""How fast a dataset of pictures is read for training, against other ways to read the same files.

    python -m benchmarks.loading                         20,000 pictures, 5 epochs by each
    python -m benchmarks.loading --pictures 400 --runs 1 --only ours,naive
    python -m benchmarks.loading --torch                 those for PyTorch and Grain

The pictures are copies of real photos, 224x224, written by `recordmill images` before the clock
runs. Every epoch is a process of its own, in alternation; a first round, which is not counted,
reads the files into the page cache. What is timed is within the process, from when its libraries
are imported: to the first batch, to the last, and to the end of the epoch. An iterator with
AUTOTUNE in it may take seconds to end.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence

from benchmarks.contest import Contender, add_options
from benchmarks.images import copy_photos
from benchmarks.measure import PEERS, TORCH_PEERS, FailedError, bar, machine, python, run, two_cores

_SIDE = 224  # pixels
_SHARDS = 8

# What was asked for, in medians.
_LOAD_BAR = 0.95  # pictures/s of recordmill.load, over those of the fastest
_READ_BAR = 1.8  # records/s of recordmill.read, over those of PyPI's tfrecord
_OPEN_BAR = 50  # microseconds to read a record by its number, at most
_TORCH_BAR = 1  # pictures/s of torch_dataset, over those of the fastest peer
_GRAIN_BAR = 0.9  # records/s of grain_source, over those of ArrayRecord


def _contender(name: str, what: str, interpreter: str | pathlib.Path = sys.executable) -> Contender:
    def command(dataset: pathlib.Path, _: pathlib.Path) -> list[str]:
        return python("benchmarks.peers.load_roads", name, dataset, interpreter=interpreter)

    return Contender(name=name, what=what, command=command)


_LOADERS = (
    _contender("ours", "recordmill.load, shuffled"),
    _contender("naive", "TFRecordDataset.map.batch"),
    _contender("interleaved", "interleave, shuffle, map, batch"),
    _contender("in_batches", "interleave, shuffle, batch, parse_example, decode"),
    _contender("tfds", "tfds.builder_from_directory, shuffled"),
    _contender("tfrecord", "tfrecord and Pillow", PEERS),
)
_READERS = (
    _contender("read", "recordmill.read, checksums checked"),
    _contender("tfrecord_read", "tfrecord, no checksums", PEERS),
    _contender("at_random", "recordmill.open, random numbers"),
)


def _torch_contender(name: str, what: str) -> Contender:
    def command(dataset: pathlib.Path, formats: pathlib.Path) -> list[str]:
        arguments = ("benchmarks.peers.torch_roads", name, dataset, formats)
        return python(*arguments, interpreter=TORCH_PEERS)

    return Contender(name=name, what=what, command=command)


_TORCH = (
    _torch_contender("torch_dataset", "recordmill.torch_dataset with Decode"),
    _torch_contender("torch_dataset_pillow", "the same, decoded by Pillow"),
    _torch_contender("webdataset", "WebDataset, Pillow"),
    _torch_contender("webdataset_simplejpeg", "WebDataset, simplejpeg"),
    _torch_contender("image_folder", "torchvision's ImageFolder"),
    _torch_contender("mosaic", "MosaicML streaming, Pillow"),
    _torch_contender("litdata", "litData, Pillow"),
)
_RANDOM = tuple(
    _torch_contender(f"{name}_{how}", f"{what}, {words}")
    for how, words in (
        ("single", "records at random"),
        ("batched", "batches of records at random"),
        ("grain", "shuffled by Grain, 16 threads"),
    )
    for name, what in (("grain_source", "recordmill.grain_source"), ("array_record", "ArrayRecord"))
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epoch:
    """Seconds to the `first` batch, to the `last`, to the end (`wall`), and of `cpu`."""

    first: float
    last: float
    wall: float
    cpu: float


def epochs(
    contenders: Sequence[Contender],
    dataset: pathlib.Path,
    formats: pathlib.Path,
    *,
    records: int,
    runs: int,
) -> dict[str, list[Epoch]]:
    """Reads the dataset by everybody in turn. formats: folder of those of peers.

    Raises FailedError where records were missed.
    """
    found: dict[str, list[Epoch]] = {contender.name: [] for contender in contenders}
    for number in range(runs + 1):
        for contender in contenders:
            ended = run(contender.command(dataset, formats), memory=False)
            measured = json.loads(ended.output.splitlines()[-1])
            if measured.pop("records") != records:
                raise FailedError(f"{contender.name} read {measured}, expected {records} records")
            print(f"run {number}: {contender.name} {measured['wall']:.2f} s", file=sys.stderr)
            if number:
                found[contender.name].append(Epoch(**measured))
    return found


def table(
    contenders: Sequence[Contender], found: Mapping[str, Sequence[Epoch]], *, records: int
) -> str:
    """Markdown."""
    lines = [
        "| | records/s, median (least-most) | until the last | CPU µs a record | s to the first |",
        "|---|--:|--:|--:|--:|",
    ]
    for contender in contenders:
        rates = sorted(records / one.wall for one in found[contender.name])
        cpu = statistics.median(one.cpu for one in found[contender.name]) / records * 1e6
        first = statistics.median(one.first for one in found[contender.name])
        last = statistics.median(records / one.last for one in found[contender.name])
        rate = f"{statistics.median(rates):,.0f} ({rates[0]:,.0f}-{rates[-1]:,.0f})"
        lines.append(f"| {contender.what} | {rate} | {last:,.0f} | {cpu:.0f} | {first:.3f} |")
    return "\n".join(lines)


def bars(found: Mapping[str, Sequence[Epoch]], records: int) -> list[str]:
    """What was got, and what was asked for."""
    rates = {
        name: statistics.median(records / one.wall for one in some) for name, some in found.items()
    }
    untils = {
        name: statistics.median(records / one.last for one in some) for name, some in found.items()
    }
    lines = []
    for what, these in (("", rates), (", until the last record", untils)):
        others = [these[one.name] for one in _LOADERS[1:] if one.name in these]
        if "ours" in these and others:
            got = these["ours"] / max(others)
            lines.append(bar(f"recordmill.load / the fastest other{what}", got, at_least=_LOAD_BAR))
    if "read" in rates and "tfrecord_read" in rates:
        got = rates["read"] / rates["tfrecord_read"]
        lines.append(bar("recordmill.read / tfrecord", got, at_least=_READ_BAR))
    if "at_random" in rates:
        got = 1e6 / rates["at_random"]
        lines.append(bar("µs a record by its number", got, at_most=_OPEN_BAR))
    peers = [rates[one.name] for one in _TORCH[2:] if one.name in rates]
    if "torch_dataset" in rates and peers:
        got = rates["torch_dataset"] / max(peers)
        lines.append(bar("torch_dataset / the fastest peer", got, at_least=_TORCH_BAR))
    for mine, theirs in zip(_RANDOM[::2], _RANDOM[1::2], strict=True):
        if {mine.name, theirs.name} <= rates.keys():
            got = rates[mine.name] / rates[theirs.name]
            lines.append(bar(f"{mine.what} / ArrayRecord", got, at_least=_GRAIN_BAR))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=20_000)
    with_torch = "--torch" in sys.argv
    parser.add_argument("--torch", action="store_true", help="loaders for PyTorch and Grain")
    add_options(parser, [*_TORCH, *_RANDOM] if with_torch else [*_LOADERS, *_READERS])
    arguments = parser.parse_args()
    two_cores()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        source, dataset = pathlib.Path(folder, "input"), pathlib.Path(folder, "dataset")
        copy_photos(arguments.pictures, source)
        places = ("--input", source, "--output", dataset, "--splits", "train=1", "--quiet")
        options = ("--size", _SIDE, "--num-shards", _SHARDS)
        run(python("recordmill", "images", *places, *options), memory=False)
        records, formats = arguments.pictures, pathlib.Path(folder, "formats")
        if with_torch:
            prepare = ("benchmarks.peers.torch_roads", "prepare", dataset, formats)
            run(python(*prepare, interpreter=TORCH_PEERS), memory=False)
        found = epochs(arguments.only, dataset, formats, records=records, runs=arguments.runs)
    print(f"\n{records} pictures, {arguments.runs} epochs by each in alternation\n")
    print(table(arguments.only, found, records=records))
    print(*["", *bars(found, records)], sep="\n", flush=True)


if __name__ == "__main__":
    main()
