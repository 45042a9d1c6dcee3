"""Usual names of the columns of labels and splits."""

from __future__ import annotations

from collections.abc import Iterable

LABELS = ("label", "class", "category", "target")
SPLITS = ("split",)
# Prefixes of columns with facts of paths, which are not columns of the user's files.
OF_PATHS = ("--label-from ", "--group-from ")


def column_named(name: str) -> str:
    """Return the place of values for messages: `column 'x'`, or the option with a fact of paths."""
    return name if name.startswith(OF_PATHS) else f"column {name!r}"


def quoted(names: Iterable[str]) -> str:
    """Return the names of columns as a list for a message, without those of facts of paths."""
    return ", ".join(repr(one) for one in names if not one.startswith(OF_PATHS)) or "no columns"
