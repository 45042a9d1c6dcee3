"""Names of splits: which are valid, their usual spellings, and their order."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

TRAIN = "train"  # the split that is balanced, and that statistics and vocabularies come from
DEFAULT_FRACTIONS: Mapping[str, float] = {TRAIN: 0.8, "validation": 0.1, "test": 0.1}
_FIRST = (TRAIN, "validation", "test")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SPELLINGS = {
    "train": TRAIN,
    "training": TRAIN,
    "val": "validation",
    "valid": "validation",
    "validate": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
}

# The shortest of them: each spelling contains one of these.
_PARTS = re.compile(
    "|".join(one for one in _SPELLINGS if not any(two in one for two in _SPELLINGS if two != one))
)
# trainset and test_set are train and test; train2017 is the train of COCO.
_ENDS = re.compile(r"[-_ ]?(set|(19|20)\d\d)$")
_BEGINS = re.compile(r"split[-_ ]|[^\W\d][\w .-]*=")  # of TFX's Split-train, and of split=train
_WHOLE = re.compile(r"(-?[0-9]+)\.0+$")
UNMAPPED = "no split for the value "  # followed by a value, in place of a split; not a valid name
NOTHING = "none"  # in an option, in place of a split: the records are left out
LEFT_OUT = "left out by "  # followed by the option, in place of a split; not a valid name
_SIMILAR = 0.75  # of the letters


def is_split_name(name: str) -> bool:
    """Return whether files can be named after a split of this name."""
    return _NAME.fullmatch(name) is not None


def canonical_split(name: str) -> str | None:
    """Return train, validation or test for a usual name of one of them, in any case, else None."""
    lower = name.lower()
    if lower in _SPELLINGS:
        return _SPELLINGS[lower]
    if _PARTS.search(lower) is None:
        return None
    if found := _BEGINS.match(lower):
        lower = lower[found.end() :]
    return _SPELLINGS.get(lower) or _SPELLINGS.get(_ENDS.sub("", lower))


def may_hold_split(text: str) -> bool:
    """Return False if no part of a text is a usual name of a split. This is a fast check."""
    return _PARTS.search(text.lower()) is not None  # re.IGNORECASE takes three times as long


def mapped_split(value: str, split_map: Mapping[str, str]) -> str:
    """Return the split of a value by a map; without one, `UNMAPPED` followed by the value.

    Args:
      value: The value; 5.0 is 5, as columns with missing values hold it.
      split_map: {value: split}; `*` stands for all other values, `none` becomes `LEFT_OUT`.
    """
    split = split_map.get(value) or split_map.get(_WHOLE.sub(r"\1", value)) or split_map.get("*")
    if split is None:
        return UNMAPPED + value
    return option_split(split, "split-map")


def option_split(name: str, option: str) -> str:
    """Return the split that an option names, `LEFT_OUT` followed by the option for `none`."""
    return LEFT_OUT + option if name == NOTHING else canonical_split(name) or name


def misspelt_split(name: str) -> str | None:
    """Return the name of a split that another name seems to misspell, such as train for tain."""
    lower = name.lower()
    known = [one for one in _SPELLINGS if one[0] == lower[:1] and abs(len(one) - len(lower)) < 2]
    nearest = difflib.get_close_matches(lower, known, n=1, cutoff=_SIMILAR)
    return nearest[0] if nearest and nearest[0] != lower and lower.isalpha() else None


def in_order(splits: Iterable[str]) -> list[str]:
    """Sort names of splits: train, validation, test, then all others by name."""

    def rank(name: str) -> tuple[int, str]:
        return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)

    return sorted(splits, key=rank)
