"""Layout of windows: their columns, and the rows that they were cut from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import flat, is_list, scale_columns, user_fields
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.sources.folders.number_labels import TARGET, NumberLabels

OF_SERIES = "window/series"  # string: the series of a window
START = "window/start"  # timestamp: the time of its first row
AHEAD = "target"  # float64 [horizon] or [horizon, targets]: the rows after the window

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
    columns = {field.name: field for field in user_fields(rows.columns)}
    _check_columns(columns, options)
    made = _made_fields(options)
    for field in columns.values():
        if any(field.name == other.name for other in (*fields, *made)) or (
            numbers is not None and field.name == TARGET
        ):
            raise ConfigError(
                f"column {field.name!r} has the name of a feature of windows: rename it, or drop it"
                f" with {option_name('drop_columns')}"
            )
    for field in columns.values():
        if field.name in options.static_columns:
            fields.append(field)
        else:
            kind = pa.list_(_value_type(field, options), options.window)
            fields.append(pa.field(field.name, kind, False))
    fields += made
    if numbers is not None:
        fields.append(numbers.field)
    return Layout(
        columns=pa.schema(fields),
        labelled=rows.labelled and numbers is None,
        grouped=rows.grouped or options.split_by == "series",
        split_source=f"--split-by {options.split_by}"
        if options.divides_time
        else rows.split_source,
    )


def _made_fields(options: WindowOptions) -> list[pa.Field]:
    """Return the fields of windows that rows do not have."""
    made = []
    if options.time_feature is not None:
        kind = pa.list_(pa.timestamp("us"), options.window)
        made.append(pa.field(options.time_feature, kind, False))
    for scaled in options.scaled:
        made += [pa.field(name, pa.float64(), False) for name in scale_columns(scaled.column)]
    if options.horizon:
        step = pa.float64()
        if len(options.targets) > 1:
            step = pa.list_(step, len(options.targets))
        made.append(pa.field(AHEAD, pa.list_(step, options.horizon), False))
    return made


def _check_columns(columns: Mapping[str, pa.Field], options: WindowOptions) -> None:
    """Raise ConfigError if an option names a column that does not exist or does not fit."""
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    named = (("target", options.targets), ("static_columns", options.static_columns))
    for option, names in named:
        for name in names:
            if name not in columns:
                raise ConfigError(
                    f"{option_name(option, name)}: no such column{did_you_mean(name, columns)};"
                    f" expected one of {', '.join(map(repr, columns))}"
                )
            kind = columns[name].type
            if option == "target" and not any(is_a(kind) for is_a in numeric):
                raise ConfigError(
                    f"{option_name('target', name)}: expected a column of numbers, got {kind}"
                )
            if is_list(kind):
                raise ConfigError(
                    f"{option_name(option, name)}: expected single values, got a column of {kind}"
                )
    for scaled in options.scaled:
        if scaled.column in options.static_columns:
            raise ConfigError(
                f"{option_name('zscore', scaled.column)}: a column of"
                f" {option_name('static_columns')} is constant in a series, so"
                f" {option_name('zscore_by', options.scale_by)} cannot scale it: leave it out of"
                " one of them"
            )
    if columns and not columns.keys() - {*options.static_columns}:
        raise ConfigError(
            f"{option_name('static_columns')}: expected at least one column that changes with time"
        )


def _value_type(field: pa.Field, options: WindowOptions) -> pa.DataType:
    kind, types = field.type, pa.types
    if is_list(kind):
        raise ConfigError(
            f"column {field.name!r} holds lists, which windows cannot hold: drop it with"
            f" {option_name('drop_columns')}"
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
            f" hold: drop it with {option_name('drop_columns')}"
        )
    return kind


def fields_of_rows(rows: pa.Schema, options: WindowOptions) -> pa.Schema:
    """Return the user's columns of rows, as `rows_of` restores them from windows.

    With resampling, integers become float64, because their mean need not be an integer.
    """

    def restored(field: pa.Field) -> pa.Field:
        numeric = pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
        if options.step is None or not numeric or field.name in options.static_columns:
            return field
        return field.with_type(pa.float64())

    return pa.schema(map(restored, user_fields(rows)))


def rows_of(windows: pa.RecordBatch, rows: pa.Schema) -> pa.RecordBatch:
    """Return the rows of all windows; a row of several windows appears several times.

    rows: the columns, from `fields_of_rows`.
    """
    kinds = {name: windows.schema.field(name).type for name in rows.names}
    size = next(kind.list_size for kind in kinds.values() if pa.types.is_fixed_size_list(kind))
    window = pa.array(np.repeat(np.arange(len(windows)), size))
    columns = {n: windows[n].take(window) for n in (batch.KEY, batch.LABEL, batch.SPLIT)}
    for field in rows:
        values = windows[field.name]
        if pa.types.is_fixed_size_list(kinds[field.name]):
            columns[field.name] = flat(values).cast(field.type)
        else:  # a value per series
            columns[field.name] = values.take(window)
    return pa.RecordBatch.from_pydict(columns)
