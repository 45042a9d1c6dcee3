"""Rows that were dropped as repeated, although a clock may have shown their times twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np
import pyarrow as pa

from recordmill.options.durations import clock_hint
from recordmill.transforms.model import batch
from recordmill.transforms.windowing.time_survey import SERIES, TIME

_HOUR = 3600 * 10**6


@dataclasses.dataclass(frozen=True, kw_only=True)
class RepeatedHours:
    """Rows of an hour that a clock shows twice, equal to those of the first pass.

    rows: number of rows of the second pass that were dropped. series, time: the first one of them.
    """

    rows: int = 0
    series: str = ""
    time: int = 0

    def __add__(self, other: RepeatedHours) -> RepeatedHours:
        first = min((one for one in (self, other) if one.rows), key=_place, default=self)
        return dataclasses.replace(first, rows=self.rows + other.rows)

    @classmethod
    def of(cls, rows: pa.RecordBatch, rejected: Collection[str]) -> RepeatedHours:
        """Return the dropped rows in short stretches of times that all occur twice.

        rows: ordered by series and time, before any is dropped. rejected: keys of the repeated rows
        that were not dropped.
        """
        codes, names = batch.encode(rows[SERIES])
        times = np.asarray(rows[TIME])
        firsts = np.flatnonzero(np.append(True, (np.diff(codes) != 0) | (np.diff(times) != 0)))
        series, at = codes[firsts], times[firsts]
        sizes = np.diff(np.append(firsts, len(rows)))
        parted = (np.diff(series) != 0) | (np.diff(sizes) != 0)
        begins = np.flatnonzero(np.append(True, parted))
        ends = np.append(begins[1:], len(at)) - 1
        after = np.minimum(ends + 1, len(at) - 1)
        is_hour = (series[after] == series[begins]) & (at[after] - at[begins] == _HOUR)
        short = (at[ends] - at[begins] < _HOUR) & ((ends > begins) | is_hour)
        total = cls()
        for stretch in np.flatnonzero((sizes[begins] == 2) & short).tolist():
            begin, end = int(begins[stretch]), int(ends[stretch])
            if not (clock_hint(int(at[begin])) and clock_hint(int(at[end]))):
                continue
            second = rows[batch.KEY].take(pa.array(firsts[begin : end + 1] + 1)).to_pylist()
            dropped = [place for place, key in enumerate(second) if key not in rejected]
            if dropped:
                first = int(at[begin + dropped[0]])
                name = names[int(series[begin])].as_py()
                total += cls(rows=len(dropped), series=name, time=first)
        return total


def _place(hours: RepeatedHours) -> tuple[str, int]:
    return hours.series, hours.time
