"""The commands that print the records behind a number of a report."""

from __future__ import annotations

import shlex

from recordmill.storage.files import Location


def inspect(dataset: Location, *options: str) -> str:
    """Return the `recordmill inspect` command of a dataset with these options."""
    return shlex.join(["recordmill", "inspect", "--dataset", str(dataset), *options])


def inspect_record(dataset: Location, split: str, number: int) -> str:
    """Return the command that prints a record."""
    return inspect(dataset, "--split", split, "--record", str(number))


def draw_class(dataset: Location, split: str, label: str) -> str:
    """Return the command that draws images of a class of a split."""
    return inspect(
        dataset, "--sheet", "sheet.png", "--split", split, f"--label={label}", "--per-class=100"
    )
