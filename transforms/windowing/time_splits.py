"""Splits in time, which begin at the same times in all series, or at different ones."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from recordmill.transforms.model import batch
from recordmill.transforms.windowing.time_survey import SERIES, TIME, Ints

_EARLIEST, _NEVER = -(2**63), 2**63 - 1  # int64: before and after every time


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeSplits:
    """Splits, and the times at which they begin.

    names: splits in the order of time. begins: int64 microseconds, the start of each split; the
      first split starts at the least int64. of_series: {series: starts} of series with their own.
    """

    names: Sequence[str] = ()
    begins: Sequence[int] = ()
    of_series: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def at(cls, times: Mapping[str, int], first: str) -> TimeSplits:
        """Return splits of all series. times: {split: its start}. first: the split before them."""
        later = sorted(times.items(), key=lambda one: one[1])
        return cls(
            names=(first, *(name for name, _ in later)),
            begins=(_EARLIEST, *(begin for _, begin in later)),
        )

    def __bool__(self) -> bool:
        return bool(self.names)

    def apply(self, rows: pa.RecordBatch, *, purge: int) -> pa.RecordBatch:
        """Assign splits to rows, and drop rows within `purge` microseconds after a split begins.

        Without splits the rows keep those that they have.
        """
        if not self or not len(rows):
            return rows
        times: Ints = np.asarray(rows[TIME])
        begins = self._begins_of(rows)
        at = (begins <= times[:, None]).sum(axis=1) - 1
        names = pa.array(self.names, pa.string())
        rows = batch.set_column(rows, batch.SPLIT, names.take(pa.array(at)))
        # In floats, because the first split begins at the smallest int64.
        begin = begins[np.arange(len(rows)), at].astype(np.float64)
        return rows.filter(pa.array((times - begin >= purge) | (at == 0)))

    def _begins_of(self, rows: pa.RecordBatch) -> Ints:
        """Return the starts of the splits of each row: int64[n or 1, splits]."""
        if not self.of_series:
            return np.array([self.begins], np.int64)[np.zeros(len(rows), np.int64)]
        codes, names = batch.encode(rows[SERIES])
        return np.array([self.of_series[name] for name in names.to_pylist()], np.int64)[codes]


def divide_each_series(
    cells: Callable[[], Iterable[tuple[pa.Array, Ints]]], fractions: Mapping[str, float]
) -> TimeSplits:
    """Divide each series at its own times, by the fractions of its distinct times.

    cells: returns (series, times) of cells, each sorted by series and time; the cells come in the
      order of time. It is called twice, so that memory holds a few numbers of each series.
    """
    ends = np.cumsum([*fractions.values()])[:-1]
    counts: Counter[str] = Counter()
    for name, times in _distinct(cells()):
        counts[name] += len(times)
    before: Counter[str] = Counter()
    begins: dict[str, list[int]] = {}
    for name, times in _distinct(cells()):
        mine = begins.setdefault(name, [_EARLIEST, *[_NEVER] * len(ends)])
        places = np.rint(ends * counts[name]).astype(np.int64) - before[name]
        for split, place in enumerate(places.tolist(), start=1):
            if 0 <= place < len(times):
                mine[split] = int(times[place])
        before[name] += len(times)
    return TimeSplits(names=tuple(fractions), of_series=begins)


def _distinct(cells: Iterable[tuple[pa.Array, Ints]]) -> Iterator[tuple[str, Ints]]:
    """Yield (series, its distinct times in a cell)."""
    for series, times in cells:
        if not len(series):
            continue
        codes, names = batch.encode(series)
        kept = np.append(True, (np.diff(codes) != 0) | (np.diff(times) != 0))
        codes, times = codes[kept], times[kept]
        firsts = np.flatnonzero(np.diff(codes, prepend=-1))
        for first, end in zip(firsts, np.append(firsts[1:], len(codes)), strict=True):
            yield names[codes[first]].as_py(), times[first:end]
