"""The commands that print the records behind a number of a report."""

from __future__ import annotations

import shlex

from recordmill.storage.files import Location


def inspect(dataset: Location, *options: str) -> str:
    """Return the `recordmill inspect` command of a dataset with these options."""
    return shlex.join(["recordmill", "inspect", "--dataset", str(dataset), *options])


def report(dataset: Location) -> str:
    """Return the `recordmill report` command that also shows local files."""
    return shlex.join(["recordmill", "report", "--dataset", str(dataset), "--local-files"])


def in_lines(command: str) -> str:
    """Return a command with one option per line, which a shell reads as the same words."""
    lines: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines)


def inspect_record(dataset: Location, split: str, number: int) -> str:
    """Return the command that prints a record."""
    return inspect(dataset, "--split", split, "--record", str(number))


def draw_class(dataset: Location, split: str, label: str) -> str:
    """Return the command that draws images of a class of a split."""
    return inspect(
        dataset, "--sheet", "sheet.png", "--split", split, f"--label={label}", "--per-class=100"
    )
