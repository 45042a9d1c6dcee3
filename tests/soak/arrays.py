"""Arrays at size: gigabytes of .npy in bounded memory, and every number as it was.

python -m tests.soak.arrays                        4 GB, as files, as one stack, and in chunks
python -m tests.soak.arrays --gigabytes 0.5
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import shutil
import tempfile

import numpy as np

from benchmarks.measure import machine, python, run
from recordmill.format.manifest import load
from recordmill.reading.reader import read
from recordmill.storage.files import Location
from tests.soak.command import DifferenceError

_LIMIT = 1 << 30  # bytes of the whole tree of processes
_SIDE = 1 << 10
_EVERY = 50  # records between two that are looked at


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--shape", choices=[*_SHAPES], action="append")
    arguments = parser.parse_args()
    print(machine())
    for name in arguments.shape or _SHAPES:
        with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
            measure(name, round(arguments.gigabytes * 10**9), pathlib.Path(folder))


# What is written, and the options that make records of it.
_SHAPES: dict[str, tuple[bool, tuple[object, ...]]] = {
    "files": (False, ()),
    "stack": (True, ("--per-item",)),
    "chunks": (True, ("--chunk", 512, "--chunk-axis", 2)),
}


def measure(name: str, size: int, folder: pathlib.Path) -> None:
    """Makes a dataset of so many bytes, and looks at what came out."""
    is_stack, options = _SHAPES[name]
    planes = size // (_SIDE * _SIDE * 4)
    source = folder / "in"
    source.mkdir()
    # Chunks of one array are a record each of half of its bytes: of several arrays, then.
    height = planes if name == "stack" else 4
    for first in range(0, planes, height):
        write(source / f"{first:06d}.npy", first, min(height, planes - first))
    command = python(
        *(
            "recordmill.pipelines.cli",
            "arrays",
            "--input",
            source,
            "--output",
            folder / "out",
            "--quiet",
        ),
        *("--splits", "train=0.9,validation=0.05,test=0.05", *options),
    )
    measured = run(command, memory=True)
    if is_stack:
        shutil.rmtree(source)
    manifest = load(Location.parse(str(folder / "out")))
    made = manifest.ledger.records.written
    records = itertools.chain.from_iterable(read(folder / "out", one) for one in manifest.splits)
    for number, record in enumerate(records):
        if number % _EVERY == 0:
            check(record)
    print(
        f"{name}: {size / 1e9:g} GB, {made} records in {measured.wall:.0f} s"
        f" ({measured.cpu:.0f} s of CPU), {measured.peak / 2**20:.0f} MiB at most"
    )
    if measured.peak > _LIMIT:
        raise DifferenceError(f"{measured.peak} bytes of memory, more than {_LIMIT}")


def write(path: pathlib.Path, first: int, planes: int) -> None:
    """A file of planes, of which each number tells where it stands."""
    array = np.lib.format.open_memmap(path, "w+", np.dtype("<f4"), (planes, _SIDE, _SIDE))
    row = np.arange(_SIDE, dtype="<f4")
    for number in range(planes):
        array[number] = row[None, :] + np.float32((first + number) * _SIDE)
        if number % 64 == 63:
            array.flush()


def check(record: dict[str, np.ndarray]) -> None:
    """Raises DifferenceError for numbers that do not follow each other as they were written."""
    array = record["array/encoded"]
    array = array[None] if array.ndim == 2 else array
    steps = np.diff(array, axis=-1)
    planes = np.diff(array[:, 0, 0])
    if not (steps == 1).all() or not (planes == _SIDE).all() or not (array == array[:, :1]).all():
        raise DifferenceError(f"{record['array/filename']}: other numbers than were written")


if __name__ == "__main__":
    main()
