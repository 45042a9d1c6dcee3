"""How fast a dataset in an object store with latency is read for training, against a local copy.

    python -m benchmarks.store_loading                   20,000 images, 20 ms, 1 % of requests lost
    python -m benchmarks.store_loading --pictures 2000 --runs 1

The store is that of the tests (`tests.s3_store`), in a process of its own, on the same cores. Every
epoch is a process of its own, in alternation, which reads and decodes all images, shuffled, in
batches of 64: `recordmill.load`, and `recordmill.torch_dataset` with two workers of a DataLoader,
which decode by Pillow (with PYTHONPATH=build/torch, see `make test-torch`). With a cache, the first
epoch fills it and the later ones read from it; `small cache` has half the bytes of the dataset, and
has no bar for its speed. All epochs must give the same labels in the same order.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.images import copy_photos
from benchmarks.measure import FailedError, bar, machine, python, run, two_cores
from benchmarks.stores import started

_BAR = 0.8  # images/s from the store over those of local files
_SIDE = 224  # pixels
_BATCH = 64
_LOADERS = ("load", "torch")


def labels_of_load(dataset: str, options: dict[str, Any]) -> Iterator[list[int]]:
    """Yield the labels of each batch of `recordmill.load`."""
    import recordmill

    data = recordmill.load(dataset, batch_size=_BATCH, shuffle=True, seed=1, **options)
    for _, labels in data:
        yield labels.numpy().tolist()


def labels_of_torch(dataset: str, options: dict[str, Any]) -> Iterator[list[int]]:
    """Yield the labels of each batch of `recordmill.torch_dataset` with two workers."""
    from torch.utils.data import DataLoader

    import recordmill

    data = recordmill.torch_dataset(
        dataset, "train", batch_size=_BATCH, shuffle=True, seed=1, transform=decoded, **options
    )
    for _, labels in DataLoader(data, batch_size=None, num_workers=2):
        yield labels.tolist()


def decoded(record: dict[str, Any]) -> tuple[Any, int]:
    """Return the image and the label of a record."""
    import numpy as np
    from PIL import Image

    image = np.array(Image.open(io.BytesIO(record["image/encoded"])))
    return image, int(record["image/class/label"])


def read(loader: str, dataset: str, options: dict[str, Any]) -> None:
    """Read an epoch, and print its seconds, those to the first batch, and a hash of its labels."""
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    import recordmill

    if loader == "load":
        import tensorflow as tf

        tf.data.Dataset.range(1).cardinality()
        _ = recordmill.load
    else:
        import torch  # noqa: F401

        _ = recordmill.torch_dataset
    begun = time.perf_counter()
    several = (labels_of_load if loader == "load" else labels_of_torch)(dataset, options)
    order, first, records = hashlib.sha256(), 0.0, 0
    for labels in several:
        first = first or time.perf_counter() - begun
        records += len(labels)
        order.update(repr(labels).encode())
    wall = time.perf_counter() - begun
    print(
        json.dumps({"wall": wall, "first": first, "records": records, "order": order.hexdigest()})
    )


class CacheWatch:
    """The largest size of a folder while a block runs, in bytes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.largest = 0

    def __enter__(self) -> CacheWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.largest = max(self.largest, self._size())
        self.largest = max(self.largest, self._size())

    def _size(self) -> int:
        done = subprocess.run(
            ["find", str(self._folder), "-type", "f", "-printf", "%s\n"],
            capture_output=True,
            text=True,
            check=False,
        )
        return sum(map(int, done.stdout.split()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--latency", type=float, default=20, help="milliseconds")
    parser.add_argument("--lost", type=float, default=1, help="percent of requests")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--loaders", default=",".join(_LOADERS))
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        loader, dataset, options = arguments.read
        read(loader, dataset, json.loads(options))
        return
    two_cores()
    print(f"{arguments.pictures:,} images, {arguments.latency:g} ms, {arguments.lost:g} % lost")
    print(f"{machine()}\n")
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as made:
        folder = pathlib.Path(made)
        copy_photos(arguments.pictures, folder / "input")
        dataset = folder / "served" / "out"
        places = ("--input", folder / "input", "--output", dataset, "--splits", "train=1")
        options = ("--size", _SIDE, "--num-shards", 8, "--quiet")
        run(python("recordmill", "images", *places, *options), memory=False)
        served = ("--latency", arguments.latency, "--lost", arguments.lost)
        command = python("benchmarks.stores", "--serve", folder / "served", *served)
        with started(command) as store:
            for loader in arguments.loaders.split(","):
                compare(loader, dataset, store.uri("in/out"), arguments, folder)


def compare(
    loader: str,
    dataset: pathlib.Path,
    uri: str,
    arguments: argparse.Namespace,
    folder: pathlib.Path,
) -> None:
    """Print a line for each way to read, and the bars."""
    size = sum(path.stat().st_size for path in dataset.iterdir() if path.is_file())
    caches = {name: folder / f"{loader} {name}" for name in ("cache", "small cache")}
    sizes = {"cache": 2 * size, "small cache": size // 2}
    ways: dict[str, tuple[str, dict[str, Any]]] = {"local": (str(dataset), {}), "store": (uri, {})}
    for name, place in caches.items():
        ways[f"store, {name}"] = (uri, {"cache": str(place), "cache_size": sizes[name]})
    rates: dict[str, list[float]] = {name: [] for name in ways}
    firsts: dict[str, list[float]] = {name: [] for name in ways}
    largest = dict.fromkeys(caches, 0)
    orders = set()
    for number in range(arguments.runs + 1):
        for name, (place, options) in ways.items():
            watched = caches.get(name.removeprefix("store, "), folder / "nothing")
            with CacheWatch(watched) as watch:
                asked = ("--read", loader, place, json.dumps(options))
                ended = run(python("benchmarks.store_loading", *asked), memory=False)
            if watched in caches.values():
                key = name.removeprefix("store, ")
                largest[key] = max(largest[key], watch.largest)
            found = json.loads(ended.output.splitlines()[-1])
            orders.add(found["order"])
            if found["records"] != arguments.pictures or len(orders) > 1:
                raise FailedError(f"{loader}, {name}: read {found}, in another order than before")
            rate = found["records"] / found["wall"]
            print(f"run {number}: {loader}, {name}: {rate:,.0f} images/s", file=sys.stderr)
            if number:  # the first one fills the caches, and the page cache
                rates[name].append(rate)
                firsts[name].append(found["first"])
            elif name != "local":
                print(f"- {loader}, {name}, first epoch: {rate:,.0f} images/s")
    print("\n| | images/s, median (least-most) | over local | s to the first batch |")
    print("|---|--:|--:|--:|")
    local = statistics.median(rates["local"])
    lines = []
    for name, some in rates.items():
        rate = statistics.median(some)
        spread = f"{rate:,.0f} ({min(some):,.0f}-{max(some):,.0f})"
        first = statistics.median(firsts[name])
        print(f"| {loader}, {name} | {spread} | {rate / local:.2f} | {first:.2f} |")
        if name in ("store", "store, cache"):
            lines.append(bar(f"{loader}, {name}, over local", rate / local, at_least=_BAR))
    for name, most in largest.items():
        share = most / sizes[name]
        lines.append(bar(f"{loader}, {name}: largest size over cache_size", share, at_most=1))
    print("", *lines, "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
