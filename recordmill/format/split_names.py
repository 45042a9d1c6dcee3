"""Names of splits."""

from __future__ import annotations

from collections.abc import Iterable

TRAIN = "train"  # the one that is learned from, and balanced
_FIRST = (TRAIN, "validation", "test")


def in_order(splits: Iterable[str]) -> list[str]:
    """Names of splits as they are shown and read: train, validation, test, all others by name."""

    def rank(name: str) -> tuple[int, str]:
        return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)

    return sorted(splits, key=rank)
