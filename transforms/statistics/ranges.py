"""Consecutive ranges of an array, each counted by itself: one is from edges[i] to edges[i + 1].

Edges are int64[n + 1] from 0 to the length of the array; ranges may be empty. Most calls of NumPy
are then for all ranges together: for a few hundred values each, a call takes longer than its work.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]


def pieces(values: Array, edges: Ints) -> list[Array]:
    """Each range, a view."""
    return [values[start:end] for start, end in itertools.pairwise(edges.tolist())]


def choose(values: Array, chosen: Mask, edges: Ints) -> tuple[Array, Ints]:
    """Chosen values, bool[n], and the edges of the ranges among them."""
    if chosen.all():
        return values, edges
    return values[chosen], np.searchsorted(np.flatnonzero(chosen), edges)


def extremes(values: Array, edges: Ints) -> list[tuple[Any, Any]]:
    """(least, most) of each range; (None, None) of an empty one."""
    found: list[tuple[Any, Any]] = [(None, None)] * (len(edges) - 1)
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    if len(filled):
        least = np.minimum.reduceat(values, edges[filled]).tolist()
        most = np.maximum.reduceat(values, edges[filled]).tolist()
        for place, one in zip(filled.tolist(), zip(least, most, strict=True), strict=True):
            found[place] = one
    return found


class Counted(NamedTuple):
    """The different values of each range, ascending, and how often each comes: int64[m]."""

    values: Array
    counts: Ints
    edges: Ints

    def where(self, chosen: Mask) -> Counted:
        """Of chosen values alone, bool[m]."""
        values, edges = choose(self.values, chosen, self.edges)
        counts, _ = choose(self.counts, chosen, self.edges)
        return Counted(values, counts, edges)

    def totals(self) -> list[int]:
        """What is counted in each range."""
        ends = np.append(0, np.cumsum(self.counts))
        found: list[int] = np.diff(ends[self.edges]).tolist()
        return found


def count_equal(values: Array, edges: Ints) -> Counted:
    """Counts values in any order. Of NaN none are equal."""
    ordered = values.copy()
    for one in pieces(ordered, edges):
        one.sort()
    return add_equal(Counted(ordered, np.ones(len(ordered), np.int64), edges))


def add_equal(counted: Counted) -> Counted:
    """Adds up what is counted of equal neighbours."""
    values, counts, edges = counted
    is_start = np.ones(len(values) + 1, np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_start[1:-1])
    is_start[edges] = True
    starts = np.flatnonzero(is_start)
    firsts = starts[:-1]
    sums = np.add.reduceat(counts, firsts)
    return Counted(values[firsts], sums, np.searchsorted(starts, edges))
