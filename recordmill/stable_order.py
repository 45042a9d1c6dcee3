"""Puts rows in the order of small numbers: their shard, their class, the size of a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def stable_order(numbers: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """The indices that sort integers of [n]; equal ones stay in their order."""
    # Of 16 bits numpy sorts by radix, which is much faster.
    ends = np.iinfo(np.int16)
    if len(numbers) and ends.min <= numbers.min() and numbers.max() <= ends.max:
        numbers = numbers.astype(np.int16)
    return np.argsort(numbers, kind="stable")
