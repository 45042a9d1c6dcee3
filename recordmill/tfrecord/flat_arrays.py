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
    if not len(numbers):
        return np.zeros(0, np.int64)
    lowest, highest = int(numbers.min()), int(numbers.max())
    limits = np.iinfo(np.int16)
    if limits.min <= lowest and highest <= limits.max:
        # numpy sorts 16-bit integers by radix sort, which is much faster.
        return np.argsort(numbers.astype(np.int16), kind="stable")
    bits = len(numbers).bit_length()
    if highest >= 1 << 63 or (highest - lowest) >> (63 - bits):
        return np.argsort(numbers, kind="stable")
    # NumPy sorts values by vector instructions, but not indices, so each value carries its index.
    pairs: Ints = np.subtract(numbers, lowest, dtype=np.int64)
    pairs <<= bits
    pairs |= np.arange(len(pairs))
    pairs.sort()
    pairs &= (1 << bits) - 1
    return pairs
