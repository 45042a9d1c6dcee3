"""`recordmill diff` on two tables of many rows: its counts, seconds and memory.

python -m tests.soak.diff                          1,000,000 rows
python -m tests.soak.diff --rows 100000
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile

import numpy as np

from benchmarks.measure import machine, python, run
from tests.soak.command import DifferenceError

_LIMIT = 512 << 20  # bytes of the command
_CHANGED = 100  # one row in so many has another value, one another class, and one is missing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
        compare(arguments.rows, pathlib.Path(folder))


def compare(count: int, folder: pathlib.Path) -> None:
    """Makes two datasets and compares them.

    Raises:
      DifferenceError: a count is wrong, or the command took too much memory.
    """
    rows = np.arange(count)
    values, classes = rows * 3, rows % 7
    kept = rows % _CHANGED != 2
    other_values = np.where(rows % _CHANGED == 0, values + 1, values)
    other_classes = np.where(rows % _CHANGED == 1, (classes + 1) % 7, classes)
    for name, columns in (
        ("before", (rows, values, classes)),
        ("after", (rows[kept], other_values[kept], other_classes[kept])),
    ):
        table = np.stack(columns, axis=1)
        np.savetxt(folder / f"{name}.csv", table, "%d", ",", header="id,x,class", comments="")
        options = ("--key-column", "id", "--no-statistics", "--quiet")
        command = ("table", "--input", folder / f"{name}.csv", "--output", folder / name)
        run(python("recordmill", *command, *options), memory=False)
    measured = run(
        python("recordmill", "diff", folder / "before", folder / "after", "--json"), memory=True
    )
    records = json.loads(measured.output)["records"]
    found = {kind: records[kind]["count"] for kind in ("added", "removed", "moved", "copies")}
    found |= {kind: records[kind]["count"] for kind in ("changed", "relabelled")}
    every = [int((rows % _CHANGED == n).sum()) for n in range(3)]
    expected = {"added": 0, "removed": every[2], "moved": 0, "copies": 0}
    expected |= {"changed": every[0], "relabelled": every[1]}
    print(
        f"{count:,} rows: {measured.wall:.1f} s, {measured.cpu:.1f} s of CPU,"
        f" {measured.peak / 2**20:.0f} MiB, {found}"
    )
    if found != expected or records["same"] != count - sum(every):
        raise DifferenceError(f"expected {expected}, got {records}")
    if measured.peak > _LIMIT:
        raise DifferenceError(f"expected at most {_LIMIT} bytes of memory, got {measured.peak}")


if __name__ == "__main__":
    main()
