"""Time steps of series: the microseconds between two rows of a series that follow each other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from recordmill.transforms.model import batch
from recordmill.transforms.windowing.time_survey import SERIES, TIME

STEP = "__series_step__"  # int64: step of the series of a row, if a column gives it

_KEPT = 32  # steps of a series that are counted on from one cell to the next: the most frequent


class StepCounter:
    """Counts the distances between rows of each series; cells must come in the order of time."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}
        self._last: dict[str, int] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Count the distances of rows that are ordered by series and time."""
        if not len(rows):
            return
        codes, names = batch.encode(rows[SERIES])
        times = np.asarray(rows[TIME])
        series = names.to_pylist()
        firsts = np.flatnonzero(np.diff(codes, prepend=-1))
        lasts = np.append(firsts[1:], len(rows)) - 1
        apart = np.diff(times, prepend=times[0])
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            name = series[codes[first]]
            apart[first] = times[first] - self._last.get(name, times[first])
            self._last[name] = int(times[last])
        later = apart > 0
        pairs, counts = np.unique(
            np.stack([codes[later], apart[later]]), axis=1, return_counts=True
        )
        for code, step, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            self._counts.setdefault(series[code], Counter())[step] += count
        for code in np.unique(codes).tolist():
            found = self._counts.get(series[code], Counter())
            if len(found) > _KEPT:
                kept = sorted(found, key=lambda step: (-found[step], step))[:_KEPT]
                self._counts[series[code]] = Counter({step: found[step] for step in kept})

    def steps(self) -> dict[str, int]:
        """Return the most frequent step of each series that has two rows; the smallest in a tie."""
        return {
            name: min(found, key=lambda step: (-found[step], step))
            for name, found in self._counts.items()
        }
