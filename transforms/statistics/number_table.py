"""Statistics of many columns of numbers, as arrays over the columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from recordmill.transforms.model import batch
from recordmill.transforms.statistics import ranges
from recordmill.transforms.statistics.histogram_table import HistogramTable
from recordmill.transforms.statistics.moments import Moments
from recordmill.transforms.statistics.ranges import Counted, Ints
from recordmill.transforms.statistics.sketches import Distinct

Floats = npt.NDArray[np.float64]
Numbers = Ints | Floats
Time = Literal["date", "timestamp"]

_SALT = batch.salt(0, "distinct")
_SUMS = ("records", "values", "zeros", "nans", "below", "above", "finite", "totals", "squares")
_LEAST, _MOST = ("fewest", "least"), ("largest", "most")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NumberTable:
    """Statistics of n columns of numbers of one type.

    Fields are int64[n], unless stated otherwise.

    time: meaning of integers, if they are times.
    records: number of records that have the column.
    values: number of values in all records.
    fewest, largest: least and greatest number of values of one record; of no meaning without
      records.
    zeros, nans: numbers of zeros and of NaN.
    below, above: numbers of negative and positive infinities.
    finite: number of finite values.
    least, most: of the finite values, int64[n] or float64[n]; of no meaning without any.
    totals, squares: as in `Moments`, object[n].
    bits: histograms of the finite values.
    hashes, hash_edges: as in `Distinct`, uint64[m]; int64[n + 1], where each column begins.
    """

    time: Time | None
    records: Ints
    values: Ints
    fewest: Ints
    largest: Ints
    zeros: Ints
    nans: Ints
    below: Ints
    above: Ints
    finite: Ints
    least: Numbers
    most: Numbers
    totals: npt.NDArray[np.object_]
    squares: npt.NDArray[np.object_]
    bits: HistogramTable
    hashes: batch.UInt64Array
    hash_edges: Ints

    @classmethod
    def of_ranges(
        cls, values: Numbers, edges: Ints, *, sizes: Ints, record_edges: Ints, time: Time | None
    ) -> NumberTable:
        """Return the statistics of each range of numbers.

        values, edges: int64[n] or float64[n], and the ranges of them.
        sizes, record_edges: number of values of each record, int64[m], and the ranges of records.
        """
        floats = values.astype(np.float64, copy=False)
        moments = Moments.of_ranges(*ranges.choose(floats, np.isfinite(floats), edges))
        different = ranges.count_equal(values, edges)
        each = different.values.astype(np.float64, copy=False)
        is_finite = np.isfinite(each)
        finite, odd = different.where(is_finite), different.where(~is_finite)
        least, most = _extremes(finite.values, finite.edges)
        fewest, largest = _extremes(sizes, record_edges)
        distinct = Distinct.of_ranges(_hash_numbers(different.values), different.edges)
        return cls(
            time=time,
            records=np.diff(record_edges),
            values=np.diff(edges),
            fewest=fewest,
            largest=largest,
            zeros=_totals(different.where(each == 0)),
            nans=_totals(odd.where(np.isnan(odd.values))),
            below=_totals(odd.where(odd.values == -np.inf)),
            above=_totals(odd.where(odd.values == np.inf)),
            finite=np.array([one.count for one in moments]),
            least=least + 0,  # -0.0 becomes 0.0
            most=most + 0,
            totals=np.array([one.total for one in moments], object),
            squares=np.array([one.squares for one in moments], object),
            bits=HistogramTable.of_ranges(finite._replace(values=each[is_finite])),
            hashes=np.concatenate([one.hashes for one in distinct]),
            hash_edges=ranges.edges_of([len(one.hashes) for one in distinct]),
        )

    @classmethod
    def sum(cls, several: Sequence[NumberTable]) -> NumberTable:
        """Add the statistics of the same columns over several groups of records, at least one."""
        first = several[0]
        if len(several) == 1:
            return first
        columns = {
            **{name: _reduce(np.add, several, name) for name in _SUMS},
            **{name: _reduce(np.minimum, several, name) for name in _LEAST},
            **{name: _reduce(np.maximum, several, name) for name in _MOST},
        }
        hashes, edges = ranges.interleave(
            [one.hashes for one in several], [one.hash_edges for one in several]
        )
        distinct = Distinct.of_ranges(hashes, edges)
        return cls(
            time=first.time,
            bits=HistogramTable.sum([one.bits for one in several]),
            hashes=np.concatenate([one.hashes for one in distinct]),
            hash_edges=ranges.edges_of([len(one.hashes) for one in distinct]),
            **columns,
        )

    @classmethod
    def concat(cls, several: Sequence[NumberTable]) -> NumberTable:
        """Return the columns of all tables of one type, of which there is at least one."""
        first = several[0]
        if len(several) == 1:
            return first
        names = (*_SUMS, *_LEAST, *_MOST, "hashes")
        columns = {name: np.concatenate([getattr(one, name) for one in several]) for name in names}
        return cls(
            time=first.time,
            bits=HistogramTable.concat([one.bits for one in several]),
            hash_edges=ranges.join_edges([one.hash_edges for one in several]),
            **columns,
        )

    def take(self, columns: Ints) -> NumberTable:
        """Return the statistics of some columns."""
        hashes, edges = ranges.take(self.hashes, self.hash_edges, columns)
        return NumberTable(
            time=self.time,
            bits=self.bits.take(columns),
            hashes=hashes,
            hash_edges=edges,
            **{name: getattr(self, name)[columns] for name in (*_SUMS, *_LEAST, *_MOST)},
        )

    def without_histograms(self) -> NumberTable:
        """Return the statistics with histograms without bins."""
        return dataclasses.replace(self, bits=HistogramTable.empty(len(self)))

    def __len__(self) -> int:
        return len(self.records)

    @property
    def is_float(self) -> bool:
        """True for a table of floats, false for one of integers."""
        return self.least.dtype.kind == "f"

    def moments(self) -> list[Moments]:
        """Return the moments of each column."""
        several = zip(self.finite.tolist(), self.totals, self.squares, strict=True)
        return [Moments(count=n, total=total, squares=squares) for n, total, squares in several]

    def distinct(self) -> list[Distinct]:
        """Return the sketch of distinct values of each column."""
        return [Distinct(hashes=one) for one in ranges.pieces(self.hashes, self.hash_edges)]


def _reduce(ufunc: np.ufunc, several: Sequence[NumberTable], name: str) -> ranges.Array:
    found: ranges.Array = ufunc.reduce([getattr(one, name) for one in several])
    return found


def _totals(counted: Counted) -> Ints:
    return np.array(counted.totals(), np.int64)


def _extremes(values: Numbers, edges: Ints) -> tuple[ranges.Array, ranges.Array]:
    """Return the least and the greatest value of each range.

    For an empty range they are the greatest and the least number, which a sum ignores.
    """
    low, high = -math.inf, math.inf
    if values.dtype.kind != "f":
        limits = np.iinfo(np.int64)
        low, high = limits.min, limits.max
    least = np.full(len(edges) - 1, high, values.dtype)
    most = np.full(len(edges) - 1, low, values.dtype)
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    if len(filled):
        least[filled] = np.minimum.reduceat(values, edges[filled])
        most[filled] = np.maximum.reduceat(values, edges[filled])
    return least, most


def _hash_numbers(values: Numbers) -> batch.UInt64Array:
    """Return hashes, uint64[n], equal for equal numbers; all NaN have the same hash."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 becomes 0.0
    return batch.mix(values.view(np.uint64), _SALT)
