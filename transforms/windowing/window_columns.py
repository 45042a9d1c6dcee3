"""Columns of windows: values, targets, labels and scales, from the rows that windows begin with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch
from recordmill.transforms.model.user_columns import scale_columns
from recordmill.transforms.model.window_options import LabelRule, WindowOptions
from recordmill.transforms.windowing.series_scales import SeriesScales, scale_windows
from recordmill.transforms.windowing.time_survey import SERIES, TIME, Ints
from recordmill.transforms.windowing.window_layout import AHEAD, OF_SERIES, START


class WindowColumns:
    """Takes windows out of rows.

    schema: schema of the windows. scales: means and scales of series, by their rows in train.
    """

    def __init__(self, options: WindowOptions, schema: pa.Schema, scales: SeriesScales) -> None:
        self._options = options
        self._schema = schema
        self._scales = scales

    def take(self, rows: pa.RecordBatch, starts: Ints) -> pa.RecordBatch:
        """Return the windows that begin with the rows `starts`; each has `reach` rows."""
        options = self._options
        at = pa.array(starts)
        series, begins = rows[SERIES].take(at), rows[TIME].take(at)
        columns = {
            batch.KEY: _keys(series, begins),
            batch.LABEL: _labels(rows[batch.LABEL], starts, options.window, options.label),
            batch.GROUP: _groups(rows, at),
            batch.SPLIT: rows[batch.SPLIT].take(at),
            OF_SERIES: series,
            START: begins.cast(pa.timestamp("us")),
        }
        columns |= self._scale_columns(rows, series, starts)
        taken = pa.array(_steps(starts, options.window))
        for field in self._schema:
            if field.name in columns:
                continue
            if field.name == AHEAD:
                columns[AHEAD] = self._targets(rows, starts)
            elif field.name in options.static_columns:
                columns[field.name] = rows[field.name].take(at)
            else:
                kind = field.type.value_type
                name = TIME if field.name == options.time_feature else field.name
                values = rows[name].take(taken).cast(kind, safe=False)  # rounds large integers
                if values.null_count:
                    values = values.fill_null(_missing_value(kind))
                columns[field.name] = pa.FixedSizeListArray.from_arrays(values, options.window)
        arrays = [columns[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _targets(self, rows: pa.RecordBatch, starts: Ints) -> pa.FixedSizeListArray:
        options = self._options
        taken = pa.array(_steps(starts + options.window, options.horizon))
        several = [
            np.asarray(rows[name].take(taken).cast(pa.float64(), safe=False).fill_null(math.nan))
            for name in options.targets
        ]
        values = pa.array(np.stack(several, axis=1).ravel())
        if len(several) > 1:
            values = pa.FixedSizeListArray.from_arrays(values, len(several))
        return pa.FixedSizeListArray.from_arrays(values, options.horizon)

    def _scale_columns(
        self, rows: pa.RecordBatch, series: pa.Array, starts: Ints
    ) -> dict[str, pa.Array]:
        """Return the mean and the scale of each scaled column: of the series, or of the window."""
        columns: dict[str, pa.Array] = {}
        for place, transform in enumerate(self._options.scaled):
            found = self._scales.of(series, place)
            own = np.flatnonzero(np.isnan(found[:, 0]))
            if len(own):
                found[own] = scale_windows(rows, starts[own], self._options.window, transform)
            for name, values in zip(scale_columns(transform.column), found.T, strict=True):
                columns[name] = pa.array(values)
        return columns


def _steps(starts: Ints, size: int) -> Ints:
    """Return the rows of all windows, one after another."""
    steps: Ints = (starts[:, None] + np.arange(size)).ravel()
    return steps


def _keys(series: pa.Array, begins: pa.Array) -> pa.Array:
    """Return keys of the form SERIES@START, with a fraction of a second only if it is not 0."""
    times = begins.cast(pa.timestamp("us"))
    texts = pc.strftime(times, format="%Y-%m-%dT%H:%M:%S")
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.binary_join_element_wise(series, texts, "@")


def _groups(rows: pa.RecordBatch, at: pa.Array) -> pa.Array:
    """Return the groups of windows: of the row, or its series; null if the split is set."""
    named = pc.coalesce(rows[batch.GROUP].take(at), rows[SERIES].take(at))
    return pc.if_else(rows[batch.SPLIT].take(at).is_null(), named, None)


def _labels(labels: pa.Array, starts: Ints, window: int, rule: LabelRule) -> pa.Array:
    """Return the label of each window by the rule; null if the deciding rows have none."""
    first = labels.take(pa.array(starts))
    last = labels.take(pa.array(starts + window - 1 + rule.rows))
    if rule.chooses_row:
        return first if rule.kind == "first" else last
    codes, names = batch.encode(labels)
    inside = codes[starts[:, None] + np.arange(window)]
    texts: Sequence[str] = names.to_pylist()
    code = texts.index(rule.name) if rule.name in texts else -2
    if rule.kind == "any":
        return pc.if_else(pa.array((inside == code).any(axis=1)), rule.name, last)
    if rule.kind == "all":
        others = (inside != code) & (inside >= 0)
        place = window - 1 - np.argmax(others[:, ::-1], axis=1)
        found = inside[np.arange(len(starts)), place]  # of the last row if no other class is there
        found = np.where(others.any(axis=1), found, np.where((inside < 0).any(axis=1), -1, found))
        return names.take(pa.array(found, mask=found < 0))
    most = np.zeros(len(starts), np.int64)
    found = np.full(len(starts), -1)
    for code in sorted(range(len(texts)), key=texts.__getitem__):
        counts = (inside == code).sum(axis=1)
        found = np.where(counts > most, code, found)
        most = np.maximum(counts, most)
    return names.take(pa.array(found, mask=found < 0))


def _missing_value(kind: pa.DataType) -> object:
    """Return the value that stands for a missing one in windows: NaN or empty."""
    if pa.types.is_floating(kind):
        return float("nan")
    return b"" if pa.types.is_binary(kind) else ""
