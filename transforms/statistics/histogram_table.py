"""Histograms of many columns by first bits, as arrays.

A call of NumPy for the few hundred bins of one column takes longer than its work, so most functions
handle all columns at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recordmill.transforms.statistics import bit_histogram, ranges
from recordmill.transforms.statistics.bit_histogram import (
    REST,
    FirstBits,
    Floats,
    bounds_of,
    keys_of,
    shorten,
    values_of,
)
from recordmill.transforms.statistics.ranges import Counted, Ints, add_equal


class Buckets(NamedTuple):
    """Buckets of several columns: float64[m] each, and int64[n + 1], where each column begins."""

    low: Floats
    high: Floats
    held: Floats
    edges: Ints


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HistogramTable:
    """A `FirstBits` for each of n columns.

    prefixes, counts: int64[m], the bins of one column after another.
    edges: int64[n + 1], where the bins of each column begin.
    dropped: int64[n].
    """

    prefixes: Ints
    counts: Ints
    edges: Ints
    dropped: Ints

    @classmethod
    def of_ranges(cls, different: Counted) -> HistogramTable:
        """Return a histogram per range of finite float64, by as many bits as MOST_BINS allows.

        different: counts of the distinct values of each range, ascending; neighbours may be equal.
        """
        keys, counts, edges = different._replace(values=keys_of(different.values))
        most = bit_histogram.MOST_BINS
        if np.diff(edges).max(initial=0) <= most or (keys[1:] == keys[:-1]).any():
            keys, counts, edges = add_equal(Counted(keys, counts, edges))
        dropped = np.zeros(len(edges) - 1, np.int64)
        return cls(prefixes=keys, counts=counts, edges=edges, dropped=dropped)._limited()

    @classmethod
    def empty(cls, columns: int) -> HistogramTable:
        """Return histograms without bins."""
        none = np.zeros(0, np.int64)
        edges, dropped = np.zeros(columns + 1, np.int64), np.zeros(columns, np.int64)
        return cls(prefixes=none, counts=none, edges=edges, dropped=dropped)

    @classmethod
    def sum(cls, several: Sequence[HistogramTable]) -> HistogramTable:
        """Add tables of the same columns; each column drops as many bits as any of them, or more.

        several: at least one.
        """
        if len(several) == 1:
            return several[0]
        dropped = np.maximum.reduce([one.dropped for one in several])
        prefixes, edges = ranges.interleave(
            [shorten(one.prefixes, one.repeat(dropped - one.dropped)) for one in several],
            [one.edges for one in several],
        )
        counts, _ = ranges.interleave(
            [one.counts for one in several], [one.edges for one in several]
        )
        order = np.arange(len(prefixes))
        for own, places in zip(
            ranges.pieces(prefixes, edges), ranges.pieces(order, edges), strict=True
        ):
            places[:] = places[own.argsort(kind="stable")]  # fast for runs that are sorted
        prefixes, counts, edges = add_equal(Counted(prefixes[order], counts[order], edges))
        found = cls(prefixes=prefixes, counts=counts, edges=edges, dropped=dropped)
        return found._limited()

    @classmethod
    def concat(cls, several: Sequence[HistogramTable]) -> HistogramTable:
        """Return the columns of all tables, of which there is at least one."""
        return cls(
            prefixes=np.concatenate([one.prefixes for one in several]),
            counts=np.concatenate([one.counts for one in several]),
            edges=ranges.join_edges([one.edges for one in several]),
            dropped=np.concatenate([one.dropped for one in several]),
        )

    def take(self, columns: Ints) -> HistogramTable:
        """Return the histograms of some columns."""
        prefixes, edges = ranges.take(self.prefixes, self.edges, columns)
        counts, _ = ranges.take(self.counts, self.edges, columns)
        return HistogramTable(
            prefixes=prefixes, counts=counts, edges=edges, dropped=self.dropped[columns]
        )

    def repeat(self, values: ranges.Array) -> ranges.Array:
        """Return one value per column as one value per bin."""
        return np.repeat(values, np.diff(self.edges))

    def column(self, number: int) -> FirstBits:
        """Return the histogram of one column."""
        own = slice(*self.edges[number : number + 2].tolist())
        return FirstBits(
            prefixes=self.prefixes[own],
            counts=self.counts[own],
            dropped=int(self.dropped[number]),
        )

    @property
    def totals(self) -> Ints:
        """Number of values of each column: int64[n]."""
        return np.diff(self._ends[self.edges])

    def quantiles(self, parts: int) -> Floats:
        """Return the parts - 1 quantiles of every column: float64[n, parts - 1].

        Of each it is the number nearest to 0 of its prefix. A column without values has any number.
        """
        if not len(self.prefixes):
            return np.zeros((len(self.dropped), parts - 1))
        ends = self._ends
        # The least prefix whose cumulative count reaches the quantile; integers are exact.
        wanted = ends[self.edges[:-1], None] * parts + self.totals[:, None] * np.arange(1, parts)
        places = np.searchsorted(ends[1:] * parts, wanted.ravel())
        places = np.minimum(places, len(self.prefixes) - 1)
        found = values_of(self.prefixes[places], np.repeat(self.dropped, parts - 1))
        return found.reshape(-1, parts - 1)

    def with_bins(self, number: int) -> HistogramTable:
        """Return histograms by as few bits as leave `number` bins, or as many as there are."""
        sizes = np.diff(self.edges)
        at_most = REST - self.dropped
        lengths = bit_histogram.differing_bits(self.prefixes, self.repeat(at_most)[:-1])
        # A pair of neighbours belongs to its first bin; the last bin of a column has no neighbour.
        inside = np.ones(len(self.prefixes), np.bool_)
        inside[self.edges[1:][sizes > 0] - 1] = False
        width = REST + 2
        places = self.repeat(np.arange(len(sizes)))[inside] * width + lengths[inside[:-1]]
        pairs = np.bincount(places, minlength=len(sizes) * width).reshape(-1, width)
        bins = 1 + np.cumsum(pairs[:, ::-1], axis=1)[:, ::-1][:, 1:]  # without 0 to REST bits
        enough = bins >= np.minimum(number, sizes)[:, None]
        enough &= np.arange(REST + 1) <= at_most[:, None]
        bits = np.where(sizes > 0, REST - np.argmax(enough[:, ::-1], axis=1), 0)
        found = Counted(shorten(self.prefixes, self.repeat(bits)), self.counts, self.edges)
        prefixes, counts, edges = add_equal(found)
        return HistogramTable(
            prefixes=prefixes, counts=counts, edges=edges, dropped=self.dropped + bits
        )

    def joined(self, parts: int) -> Buckets:
        """Return joined neighbouring bins of each column, in order.

        Each holds at least 1/parts of all values of the column, except the last. If a column has no
        more than `parts` bins, they are not joined.
        """
        low, high = self.bounds()
        ends, sizes, totals = self._ends, np.diff(self.edges), self.totals
        is_last = np.zeros(len(self.prefixes), np.bool_)
        is_last[self.edges[1:][sizes > 0] - 1] = True
        is_last |= self.repeat(sizes <= parts)
        columns = np.flatnonzero(sizes > parts)
        first, stop, total = self.edges[:-1][columns], self.edges[1:][columns], totals[columns]
        reached = ends[1:] * parts
        while len(first):  # once per bucket, for all columns that have so many
            last = np.searchsorted(reached, ends[first] * parts + total)
            more = last < stop - 1
            first, stop, total = last[more] + 1, stop[more], total[more]
            is_last[last[more]] = True
        lasts = np.flatnonzero(is_last)
        firsts = np.append(0, lasts[:-1] + 1)[: len(lasts)]
        held = (ends[lasts + 1] - ends[firsts]).astype(np.float64)
        return Buckets(low[firsts], high[lasts], held, np.searchsorted(lasts, self.edges))

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the lower and upper bound of the numbers of each bin: float64[m] each."""
        return bounds_of(self.prefixes, self.repeat(self.dropped))

    def held(self) -> Floats:
        """Return the number of values of its column below and up to each bin: float64[m, 2]."""
        ends = self._ends
        held = np.stack([ends[:-1], ends[1:]], axis=1)
        return (held - self.repeat(ends[self.edges[:-1]])[:, None]).astype(np.float64)

    @property
    def _ends(self) -> Ints:
        return np.append(0, np.cumsum(self.counts))

    def _limited(self) -> HistogramTable:
        """Return histograms with fewer bits for columns that have too many bins."""
        large = np.diff(self.edges) > bit_histogram.MOST_BINS
        if not large.any():
            return self
        limited = [bit_histogram.limit(self.column(number)) for number in range(len(large))]
        return HistogramTable(
            prefixes=np.concatenate([one.prefixes for one in limited]),
            counts=np.concatenate([one.counts for one in limited]),
            edges=ranges.edges_of([len(one.prefixes) for one in limited]),
            dropped=np.array([one.dropped for one in limited]),
        )
