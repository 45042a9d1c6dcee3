"""Means and scales of series: learned from their rows in train, or from the rows of a window.

A scaled value is (value - mean) / scale. The scale is the standard deviation, or 1 if that is 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.split_names import TRAIN
from recordmill.transforms.encoders.table_numbers import compute, numbers_of
from recordmill.transforms.encoders.table_options import ColumnTransform
from recordmill.transforms.model import batch
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.statistics.moments import Moments
from recordmill.transforms.windowing.time_survey import SERIES, Ints

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SeriesScales:
    """Means and scales of series.

    rows: {series: its row in `table`}. table: float64[series, columns, 2], the mean and the scale
      of each scaled column; NaN without a value in train.
    """

    rows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    table: Floats = dataclasses.field(default_factory=lambda: np.zeros((0, 0, 2)))

    def of(self, series: pa.Array, column: int) -> Floats:
        """Return the mean and the scale of a column, NaN if unknown: float64[n, 2]."""
        codes, names = batch.encode(series)
        each = np.full((len(names), 2), np.nan)
        for code, name in enumerate(names.to_pylist()):
            if name in self.rows:
                each[code] = self.table[self.rows[name], column]
        return each[codes]

    def knows(self, series: str) -> bool:
        """Return whether all columns of a series have a mean of train."""
        return series in self.rows and not bool(np.isnan(self.table[self.rows[series]]).any())


class ScaleLearner:
    """Adds up the rows of each series in train."""

    def __init__(self, options: WindowOptions) -> None:
        self._scaled = options.scaled
        self._sums: dict[str, list[Moments]] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, which have their splits and are ordered by series."""
        rows = rows.filter(pc.equal(rows[batch.SPLIT], TRAIN).fill_null(False))
        if not len(rows):
            return
        codes, names = batch.encode(rows[SERIES])
        firsts = np.flatnonzero(np.diff(codes, prepend=-1))
        series = names.take(pa.array(codes[firsts])).to_pylist()
        for place, transform in enumerate(self._scaled):
            values, missing = numbers_of(rows[transform.column])
            values = compute(transform, values[~missing])
            edges = np.append(0, np.cumsum(~missing))[np.append(firsts, len(rows))]
            for name, moments in zip(series, Moments.of_ranges(values, edges), strict=True):
                sums = self._sums.setdefault(name, [Moments()] * len(self._scaled))
                sums[place] += moments

    def scales(self) -> SeriesScales:
        """Return the means and the scales of the series that were added."""
        table = np.empty((len(self._sums), len(self._scaled), 2))
        for row, sums in enumerate(self._sums.values()):
            table[row] = [(one.mean, one.deviation or 1.0) for one in sums]
        return SeriesScales(rows={name: row for row, name in enumerate(self._sums)}, table=table)


def scale_windows(
    rows: pa.RecordBatch, starts: Ints, window: int, transform: ColumnTransform
) -> Floats:
    """Return the mean and the scale of a column of each window by its own rows: float64[n, 2].

    They are 0 and 1 for a window without a value. Differences from its first value are added, one
    after another, so that equal values have no deviation, and sums are the same on every machine.
    """
    values, missing = numbers_of(rows[transform.column])
    values = np.where(missing, 0.0, compute(transform, values))
    inside = starts[:, None] + np.arange(window)
    there = ~missing[inside]
    counts = np.maximum(there.sum(axis=1), 1)
    first = values[starts + np.argmax(there, axis=1)] * there.any(axis=1)
    apart = (values[inside] - first[:, None]) * there
    means = _sums(apart) / counts
    apart = (apart - means[:, None]) * there
    deviations = np.sqrt(_sums(apart * apart) / counts)
    means += first
    return np.stack([means, np.where(deviations == 0, 1.0, deviations)], axis=1)


def _sums(table: Floats) -> Floats:
    """Return the sum of each row, float64[n]."""
    sums: Floats = np.add.accumulate(table, axis=1)[:, -1]
    return sums
