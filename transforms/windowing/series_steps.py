"""Time steps of series: the microseconds between two rows of a series that follow each other."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pyarrow as pa

from recordmill.transforms.model import batch
from recordmill.transforms.windowing.time_survey import SERIES, TIME

STEP = "__series_step__"  # int64: step of the series of a row, if a column gives it

_KEPT = 32  # steps of a series that are counted on from one cell to the next: the most frequent
# A series has rows at another step if this many of them, and this fraction, have this distance.
_LEAST, _LEAST_FRACTION = 8, 0.01
# Least fraction of these distances that follow an equal one: those around gaps do not.
_STEADY = 0.75
_UNLIKE = 1.2  # least ratio of two different steps: times may be inexact


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtherStep:
    """Another step of a series than its own.

    own: step of the series in microseconds. other: the other step. rows: number of rows that are
    this far from the row before.
    """

    own: int
    other: int
    rows: int


class StepCounter:
    """Counts the distances between rows of each series; cells must come in the order of time."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}
        self._steady: dict[str, Counter[int]] = {}  # those of `_counts` that follow an equal one
        self._last: dict[str, tuple[int, int]] = {}  # last time of a series, last distance

    def add(self, rows: pa.RecordBatch) -> None:
        """Count the distances of rows that are ordered by series and time."""
        if not len(rows):
            return
        codes, names = batch.encode(rows[SERIES])
        times = np.asarray(rows[TIME])
        distinct = np.append(True, (np.diff(codes) != 0) | (np.diff(times) != 0))
        codes, times = codes[distinct], times[distinct]
        series = names.to_pylist()
        firsts = np.flatnonzero(np.diff(codes, prepend=-1))
        lasts = np.append(firsts[1:], len(codes)) - 1
        apart = np.diff(times, prepend=times[0])
        before = []
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            name = series[codes[first]]
            time, distance = self._last.get(name, (times[first], 0))
            apart[first] = times[first] - time
            before.append(distance)
            self._last[name] = int(times[last]), int(apart[last])
        steady = np.diff(apart, prepend=0) == 0
        steady[firsts] = apart[firsts] == np.array(before)
        columns = {"series": codes, "apart": apart, "steady": steady}
        distances = pa.table({name: pa.array(column) for name, column in columns.items()})
        found = (
            distances.filter(pa.array(apart > 0))
            .group_by(["series", "apart"], use_threads=False)
            .aggregate([("steady", "count"), ("steady", "sum")])
            .sort_by([("series", "ascending"), ("apart", "ascending")])
        )
        each = [np.asarray(column).tolist() for column in found.itercolumns()]
        for code, step, count, followed in zip(*each, strict=True):
            self._counts.setdefault(series[code], Counter())[step] += count
            if followed:
                self._steady.setdefault(series[code], Counter())[step] += followed
        for code in codes[firsts].tolist():
            counts = self._counts.get(series[code], Counter())
            if len(counts) > _KEPT:
                kept = sorted(counts, key=lambda step: (-counts[step], step))[:_KEPT]
                self._counts[series[code]] = Counter({step: counts[step] for step in kept})
                steady = self._steady.get(series[code], Counter())
                self._steady[series[code]] = Counter({step: steady[step] for step in kept})

    def steps(self) -> dict[str, int]:
        """Return the most frequent step of each series that has two rows; the smallest in a tie."""
        return {
            name: min(found, key=lambda step: (-found[step], step))
            for name, found in self._counts.items()
        }

    def other_steps(self) -> dict[str, OtherStep]:
        """Return the other step of each series with rows at two steps: the most frequent one."""
        found = {}
        for name, own in self.steps().items():
            counts, steady = self._counts[name], self._steady.get(name, Counter())
            least = max(_LEAST, _LEAST_FRACTION * counts.total())
            others = [
                step
                for step, count in counts.items()
                if count >= least
                and steady[step] >= _STEADY * count
                and max(step, own) >= _UNLIKE * min(step, own)
            ]
            if others:
                other = min(others, key=lambda step: (-counts[step], step))
                found[name] = OtherStep(own=own, other=other, rows=counts[other])
        return found
