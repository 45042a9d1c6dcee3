"""Usual names of the columns of labels, splits and paths."""

from __future__ import annotations

from collections.abc import Iterable

LABELS = ("label", "class", "category", "target")
SPLITS = ("split",)
PATHS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path")
# The column of classes that columns of 0 and 1 give.
OF_FLAGS = "--label-columns"
OF_TEMPLATE = "--path-template "  # prefix of the column of paths that columns make
# Prefixes of columns with facts of paths, and that one, which are not in the user's files.
OF_PATHS = ("--label-from ", "--group-from ", OF_TEMPLATE, OF_FLAGS)


def column_named(name: str) -> str:
    """Return the place of values for messages: `column 'x'`, or the option with a fact of paths."""
    return name if name.startswith(OF_PATHS) else f"column {name!r}"


def quoted(names: Iterable[str]) -> str:
    """Return the names of columns as a list for a message, without those of facts of paths."""
    return ", ".join(repr(one) for one in names if not one.startswith(OF_PATHS)) or "no columns"
