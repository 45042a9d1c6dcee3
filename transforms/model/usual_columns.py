"""Usual names of the columns of labels and splits."""

from __future__ import annotations

from collections.abc import Collection

LABELS = ("label", "class", "category", "target")
SPLITS = ("split",)


def quoted(names: Collection[str]) -> str:
    """Return names as a list for a message."""
    return ", ".join(map(repr, names)) or "no columns"
