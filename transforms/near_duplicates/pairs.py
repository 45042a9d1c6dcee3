"""Pairs of records that share a group, such as a band."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from recordmill.transforms.model.batch import UInt64Array

Indices = npt.NDArray[np.int64]
Pairs = tuple[Indices, Indices]

_SMALL = 32  # records of a group whose pairs are listed; larger ones are compared in blocks


def group_edges(ordered: UInt64Array) -> Indices:
    """Return the edges of runs of equal values, int64[runs + 1]."""
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    edges = [np.zeros(1, np.int64), changes, np.array([len(ordered)])]
    return np.concatenate(edges if len(ordered) else edges[:1])


def shifted(pairs: Iterator[Pairs], by: int) -> Iterator[Pairs]:
    """Add a number to both indices of each pair."""
    for left, right in pairs:
        yield left + by, right + by


def neighbours(
    starts: Indices,
    ends: Indices,
    at_once: int,
    near: Callable[[Indices, Indices], npt.NDArray[np.bool_]],
) -> Iterator[Pairs]:
    """Yield the pairs of places in the same group, left below right, that are `near`.

    starts, ends: int64[groups], the places of each group. at_once: pairs that are compared at a
    time.
    """
    sizes = ends - starts
    small = np.flatnonzero((sizes > 1) & (sizes <= _SMALL))
    pairs = np.cumsum(sizes[small] * (sizes[small] - 1) // 2)
    cuts = np.searchsorted(
        pairs, np.arange(at_once, pairs[-1] + at_once if len(pairs) else 0, at_once)
    )
    for some in np.split(small, cuts):
        left, right = all_pairs(starts[some], sizes[some])
        kept = near(left, right)
        yield left[kept], right[kept]
    side = max(int(at_once**0.5), 1)
    for group in np.flatnonzero(sizes > _SMALL).tolist():
        start, end = int(starts[group]), int(ends[group])
        for row in range(start, end, side):
            left = np.arange(row, min(row + side, end))
            for column in range(row, end, side):
                right = np.arange(column, min(column + side, end))
                found = np.flatnonzero(near(left[:, None], right[None]).ravel())
                rows, columns = np.divmod(found, len(right))
                later = left[rows] < right[columns]
                yield left[rows[later]], right[columns[later]]


def all_pairs(starts: Indices, sizes: Indices) -> Pairs:
    """Return all pairs of places of each group, left below right."""
    first = np.repeat(starts, sizes)
    place = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    later = np.repeat(sizes, sizes) - 1 - place
    left = np.repeat(first + place, later)
    step = np.arange(len(left)) - np.repeat(np.cumsum(later) - later, later)
    return left, left + 1 + step
