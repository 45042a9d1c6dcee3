"""Layout of windows: their columns, and the rows that they were cut from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import flat, is_list, user_fields
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.sources.files.number_labels import TARGET, NumberLabels

OF_SERIES = "window/series"  # string: the series of a window
START = "window/start"  # timestamp: the time of its first row

_SYSTEM = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT)


def window_layout(
    rows: Layout, options: WindowOptions, numbers: NumberLabels | None = None
) -> Layout:
    """Return the layout of the windows of rows.

    numbers: converts labels to numbers to predict; None if labels are classes.

    Raises:
      ConfigError: windows cannot hold a column.
    """
    fields = [pa.field(name, pa.string()) for name in _SYSTEM]
    fields += [pa.field(OF_SERIES, pa.string(), False)]
    fields += [pa.field(START, pa.timestamp("us"), False)]
    for field in user_fields(rows.columns):
        if field.name in (OF_SERIES, START) or (numbers is not None and field.name == TARGET):
            raise ConfigError(
                f"column {field.name!r} has the name of a feature of windows: rename it, or drop it"
                " with --drop-columns"
            )
        kind = pa.list_(_value_type(field, options), options.window)
        fields.append(pa.field(field.name, kind, False))
    if options.time_feature is not None:
        kind = pa.list_(pa.timestamp("us"), options.window)
        fields.append(pa.field(options.time_feature, kind, False))
    if numbers is not None:
        fields.append(numbers.field)
    return Layout(
        columns=pa.schema(fields),
        labelled=rows.labelled and numbers is None,
        grouped=rows.grouped or options.split_by == "series",
        split_source="--split-by time" if options.split_by == "time" else rows.split_source,
    )


def _value_type(field: pa.Field, options: WindowOptions) -> pa.DataType:
    kind, types = field.type, pa.types
    if is_list(kind):
        raise ConfigError(
            f"column {field.name!r} holds lists, which windows cannot hold: drop it with"
            " --drop-columns"
        )
    missing = field.nullable or (options.gap_policy == "fill" and options.fill == "missing")
    numeric = types.is_integer(kind) or types.is_boolean(kind)
    if types.is_floating(kind) or (numeric and (missing or options.step is not None)):
        return pa.float64()
    if numeric:
        return pa.int64()
    if types.is_temporal(kind) and missing:
        raise ConfigError(
            f"column {field.name!r} has type {kind} and rows without a value, which windows cannot"
            " hold: drop it with --drop-columns"
        )
    return kind


def fields_of_rows(rows: pa.Schema, options: WindowOptions) -> pa.Schema:
    """Return the user's columns of rows, as `rows_of` restores them from windows.

    With resampling, integers become float64, because their mean need not be an integer.
    """
    fields = user_fields(rows)
    if options.step is None:
        return pa.schema(fields)
    numeric = (pa.types.is_integer, pa.types.is_boolean)
    return pa.schema(
        [f.with_type(pa.float64()) if any(is_a(f.type) for is_a in numeric) else f for f in fields]
    )


def rows_of(windows: pa.RecordBatch, rows: pa.Schema) -> pa.RecordBatch:
    """Return the rows of all windows; a row of several windows appears several times.

    rows: the columns, from `fields_of_rows`.
    """
    size = windows.schema.field(rows.names[0]).type.list_size
    window = pa.array(np.repeat(np.arange(len(windows)), size))
    columns = {n: windows[n].take(window) for n in (batch.KEY, batch.LABEL, batch.SPLIT)}
    for field in rows:
        columns[field.name] = flat(windows[field.name]).cast(field.type)
    return pa.RecordBatch.from_pydict(columns)
