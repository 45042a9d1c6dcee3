"""Series at size: windows against arithmetic, and memory against the length of a series.

python -m tests.soak.series                        1,000,000 and 10,000,000 rows
python -m tests.soak.series --rows 100000
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.measure import python, run
from recordmill.format.manifest import load
from recordmill.reading.reader import read
from recordmill.storage.files import Location
from tests.soak.command import DifferenceError

_WINDOW, _STRIDE = 64, 32
_GAP_EVERY = 10_007  # rows of a run
_SECOND = 10**6  # microseconds
_COUNTS = (1, 1000)  # of series


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="1000000,10000000")
    arguments = parser.parse_args()
    for rows in map(int, arguments.rows.split(",")):
        for series in _COUNTS:
            with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
                measure(rows, series, pathlib.Path(name))


def measure(rows: int, series: int, folder: pathlib.Path) -> None:
    """Cuts windows of rows that come in random order, and looks at what came out."""
    source = folder / "series.csv"
    expected = write(rows, series, source)
    splits = "time" if series == 1 else "series-time"
    command = python(
        *(
            "recordmill.pipelines.cli",
            "sensor",
            "--input",
            source,
            "--output",
            folder / "out",
            "--quiet",
        ),
        *("--time-column", "time", "--series-column", "series", "--split-by", splits),
        *("--window", _WINDOW, "--stride", _STRIDE, "--splits", "train=1"),
    )
    measured = run(command, memory=True)
    manifest = load(Location.parse(str(folder / "out")))
    made = manifest.ledger.records.written
    if made != expected:
        raise DifferenceError(f"expected {expected} windows, got {made}")
    for number, example in enumerate(read(folder / "out", "train")):
        values = example["value"]
        if not np.array_equal(values, values[0] + np.arange(_WINDOW)):
            raise DifferenceError(f"record {number}: rows that do not follow each other")
        if number >= 100_000:
            break
    print(
        f"{rows:,} rows of {series:,} series, {made:,} windows of {_WINDOW}: {measured.wall:.0f} s,"
        f" peak {measured.peak / 2**20:.0f} MiB",
        flush=True,
    )


def write(rows: int, series: int, target: pathlib.Path) -> int:
    """Writes a row a second of each series, with gaps, in random order; returns how many windows
    there are.
    """
    each = rows // series
    place = np.arange(each)
    time = (place + place // _GAP_EVERY * 100) * _SECOND
    of = np.repeat(np.arange(series), each)
    order = np.random.default_rng(0).permutation(each * series)
    columns = {
        "time": pa.array(np.tile(time, series)[order]).cast(pa.timestamp("us")).cast(pa.string()),
        "series": pa.array(of[order]).cast(pa.string()),
        "value": pa.array(np.tile(place % _GAP_EVERY, series)[order]),
    }
    pyarrow.csv.write_csv(pa.table(columns), target)
    runs = [_GAP_EVERY] * (each // _GAP_EVERY) + [each % _GAP_EVERY]
    return series * sum(max((run - _WINDOW) // _STRIDE + 1, 0) for run in runs)


if __name__ == "__main__":
    main()
