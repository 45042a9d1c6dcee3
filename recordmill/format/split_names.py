"""Names of splits, and their order."""

from __future__ import annotations

from collections.abc import Iterable

TRAIN = "train"  # the split that is balanced, and that statistics and vocabularies come from
_FIRST = (TRAIN, "validation", "test")


def in_order(splits: Iterable[str]) -> list[str]:
    """Sort names of splits: train, validation, test, then all others by name."""

    def rank(name: str) -> tuple[int, str]:
        return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)

    return sorted(splits, key=rank)
