"""Operations on consecutive ranges of an array: range i is from edges[i] to edges[i + 1].

Edges are int64[n + 1] from 0 to the length of the array; ranges may be empty. Most functions call
NumPy once for all ranges, because calls for a few hundred values take longer than their work.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]


def pieces(values: Array, edges: Ints) -> list[Array]:
    """Return each range as a view."""
    return [values[start:end] for start, end in itertools.pairwise(edges.tolist())]


def edges_of(sizes: Sequence[int]) -> Ints:
    """Return the edges of consecutive ranges of these sizes."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def join_edges(several: Sequence[Ints]) -> Ints:
    """Return the edges of the ranges of several arrays that are concatenated."""
    return np.append(0, np.cumsum(np.concatenate([np.diff(edges) for edges in several])))


def take(values: Array, edges: Ints, places: Ints) -> tuple[Array, Ints]:
    """Return the values and the edges of the ranges at some places."""
    some = pieces(values, edges)
    found = [some[place] for place in places.tolist()]
    return np.concatenate([values[:0], *found]), edges_of([len(one) for one in found])


def interleave(several: Sequence[Array], edges: Sequence[Ints]) -> tuple[Array, Ints]:
    """Return the first range of every array, then the second of every array, and so on.

    All arrays have the same number of ranges. The edges are those of ranges of the same number.
    """
    parts = [pieces(values, own) for values, own in zip(several, edges, strict=True)]
    found = [one for same in zip(*parts, strict=True) for one in same]
    return np.concatenate([several[0][:0], *found]), np.add.reduce(edges)


def choose(values: Array, chosen: Mask, edges: Ints) -> tuple[Array, Ints]:
    """Return the values selected by `chosen`, bool[n], and the edges of the ranges among them."""
    if chosen.all():
        return values, edges
    return values[chosen], np.searchsorted(np.flatnonzero(chosen), edges)


def extremes(values: Array, edges: Ints) -> list[tuple[Any, Any]]:
    """Return (least, greatest) of each range; (None, None) for an empty one."""
    found: list[tuple[Any, Any]] = [(None, None)] * (len(edges) - 1)
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    if len(filled):
        least = np.minimum.reduceat(values, edges[filled]).tolist()
        most = np.maximum.reduceat(values, edges[filled]).tolist()
        for place, one in zip(filled.tolist(), zip(least, most, strict=True), strict=True):
            found[place] = one
    return found


class Counted(NamedTuple):
    """Distinct values of each range, ascending, with their counts, int64[m]."""

    values: Array
    counts: Ints
    edges: Ints

    def where(self, chosen: Mask) -> Counted:
        """Return only the values where `chosen`, bool[m], is true."""
        values, edges = choose(self.values, chosen, self.edges)
        counts, _ = choose(self.counts, chosen, self.edges)
        return Counted(values, counts, edges)

    def totals(self) -> list[int]:
        """Return the sum of the counts of each range."""
        ends = np.append(0, np.cumsum(self.counts))
        found: list[int] = np.diff(ends[self.edges]).tolist()
        return found


def count_equal(values: Array, edges: Ints) -> Counted:
    """Count the values of each range, in any order. NaN are not equal to each other."""
    ordered = values.copy()
    for one in pieces(ordered, edges):
        one.sort()
    starts = _starts(ordered, edges)
    found = ordered.take(starts[:-1])  # `[]` takes twice as long
    return Counted(found, np.diff(starts), np.searchsorted(starts, edges))


def add_equal(counted: Counted) -> Counted:
    """Add the counts of equal neighbours within each range."""
    values, counts, edges = counted
    starts = _starts(values, edges)
    firsts = starts[:-1]
    sums = np.add.reduceat(counts, firsts)
    return Counted(values.take(firsts), sums, np.searchsorted(starts, edges))


def _starts(values: Array, edges: Ints) -> Ints:
    """Return where a value differs from the one before it or begins a range, and the last edge."""
    is_start = np.ones(len(values) + 1, np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_start[1:-1])
    is_start[edges] = True
    return np.flatnonzero(is_start)
