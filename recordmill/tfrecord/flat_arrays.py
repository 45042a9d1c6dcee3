"""Flat arrays of variable-length values, as Arrow lays them out: the data and n + 1 offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def offsets_of(sizes: Ints) -> Ints:
    """Return the offsets of consecutive values of these sizes: int64[n] to int64[n + 1]."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def stable_order(numbers: npt.NDArray[np.integer[Any]]) -> Ints:
    """Return the indices that sort integers of shape [n]; equal ones keep their order."""
    # numpy sorts 16-bit integers by radix sort, which is much faster.
    limits = np.iinfo(np.int16)
    if len(numbers) and limits.min <= numbers.min() and numbers.max() <= limits.max:
        numbers = numbers.astype(np.int16)
    return np.argsort(numbers, kind="stable")
