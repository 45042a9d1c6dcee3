"""Flat arrays of variable-length values, as Arrow lays them out: the data and n + 1 offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_RADIX_BITS = 48


def offsets_of(sizes: Ints) -> Ints:
    """Return the offsets of consecutive values of these sizes: int64[n] to int64[n + 1]."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def stable_order(numbers: npt.NDArray[np.integer[Any]]) -> Ints:
    """Return the indices that sort integers of shape [n]; equal ones keep their order."""
    if not len(numbers):
        return np.zeros(0, np.int64)
    lowest = int(numbers.min())
    span = int(numbers.max()) - lowest
    if span >> _RADIX_BITS:
        return np.argsort(numbers, kind="stable")
    # NumPy sorts 16-bit integers by radix sort, of which three take less time than comparisons.
    rest = numbers.astype(np.uint64) - np.uint64(lowest % 2**64)
    order = np.argsort(rest.astype(np.uint16), kind="stable")
    for shift in range(16, span.bit_length(), 16):
        digits = (rest >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def hash_order(hashes: npt.NDArray[np.uint64]) -> Ints:
    """Return the indices that sort hashes; those of equal ones are in any order. uint64[n]."""
    if not len(hashes):
        return np.zeros(0, np.int64)
    lowest = hashes.min()
    others = max(int(hashes.max() - lowest).bit_length() - _RADIX_BITS, 0)
    order = stable_order((hashes - lowest) >> np.uint64(others))
    ordered = hashes[order]
    if (ordered[1:] < ordered[:-1]).any():  # hardly ever: two differ in their lowest bits only
        return np.argsort(hashes)
    return order
