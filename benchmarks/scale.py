"""How much time and memory many references take, without and with writing what they stand for.

    python -m benchmarks.scale                          both, at full size
    python -m benchmarks.scale --only plan --rows 100000
    python -m benchmarks.scale --only road --rows 1000000

plan: `recordmill images --dry-run` over a CSV of 1,000,000 rows and 1,000 classes that names real
photos again and again. road: 10,000,000 synthetic references through plan, balance, reshuffle and a
writer of tiny records. Memory is looked at while the clock runs.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.measure import PHOTOS, FailedError, Measured, bar, machine, python, run, two_cores
from benchmarks.references import check_written

_GIB = 1 << 30
_PLAN_ROWS = 1_000_000
_PLAN_CLASSES = 1000
_PLAN_SECONDS = 30
_PLAN_PEAK = 1 * _GIB
_ROAD_ROWS = 10_000_000
_ROAD_PEAK = 2 * _GIB


def write_listing(rows: int, path: pathlib.Path) -> None:
    """A CSV of unequal classes: the largest has about ten times the records of the mean one."""
    generator = np.random.default_rng(0)
    photos = sorted(str(photo.relative_to(PHOTOS)) for photo in PHOTOS.rglob("*.jpg"))
    labels = (_PLAN_CLASSES * generator.random(rows) ** 1.5).astype(np.int64)
    columns = {
        "id": pa.array(generator.permutation(rows)),
        "path": pa.array(photos, pa.string()).take(pa.array(np.arange(rows) % len(photos))),
        "label": pa.array([f"class-{i}" for i in range(_PLAN_CLASSES)]).take(pa.array(labels)),
    }
    csv.write_csv(pa.table(columns), path)


def plan(rows: int) -> None:
    """A dry run over a listing."""
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        listing = pathlib.Path(folder, "list.csv")
        write_listing(rows, listing)
        places = ("--input", listing, "--input-root", PHOTOS)
        what = ("--key-column", "id", "--balance", "oversample", "--probe", "none")
        output = pathlib.Path(folder, "output")
        measured = run(
            python(
                "recordmill.pipelines.cli",
                "images",
                *places,
                "--output",
                output,
                *what,
                "--dry-run",
            ),
            memory=True,
        )
        if any(output.glob("*.tfrecord*")):
            raise FailedError("a dry run wrote shards")
    print(f"\nlisting of {rows:,} rows, {_PLAN_CLASSES:,} classes, --dry-run: {_shown(measured)}")
    if rows == _PLAN_ROWS:
        print(bar("wall s", measured.wall, at_most=_PLAN_SECONDS), flush=True)
        print(bar("peak GiB", measured.peak / _GIB, at_most=_PLAN_PEAK / _GIB), flush=True)


def road(rows: int) -> None:
    """The whole road, with records that are tiny."""
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        measured = run(python("benchmarks.run_references", rows, f"{folder}/out"), memory=True)
        written = check_written(pathlib.Path(folder, "out"), rows)
    print(f"\n{rows:,} references, {written:,} records written: {_shown(measured)}")
    if rows == _ROAD_ROWS:
        print(bar("peak GiB", measured.peak / _GIB, at_most=_ROAD_PEAK / _GIB), flush=True)


def _shown(measured: Measured) -> str:
    peak = measured.peak / 2**20
    return f"{measured.wall:.1f} s wall, {measured.cpu:.1f} s CPU, {peak:.0f} MiB peak"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["plan", "road"])
    parser.add_argument("--rows", type=int, help="instead of the full size")
    arguments = parser.parse_args()
    two_cores()
    print(machine())
    if arguments.only in (None, "plan"):
        plan(arguments.rows or _PLAN_ROWS)
    if arguments.only in (None, "road"):
        road(arguments.rows or _ROAD_ROWS)


if __name__ == "__main__":
    main()
