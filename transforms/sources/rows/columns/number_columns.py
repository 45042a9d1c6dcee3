"""Columns that options read as numbers: numbers to predict, and weights."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.input_facts import ColumnRoles
from recordmill.option_names import option_name
from recordmill.transforms.model.usual_columns import column_named
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.folders.number_labels import NUMBERS, LabelType, beyond_float32
from recordmill.transforms.sources.folders.references import Unlabelled, no_label
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.rows.columns.record_columns import (
    InvalidRows,
    invalid_rows,
    is_null,
    user_field,
)

_LARGEST = float(np.finfo(np.float32).max)


def number_field(
    field: pa.Field, label_type: LabelType | None, *, unlabelled: Unlabelled, where: str
) -> pa.Field:
    """Return the field of a column of numbers to predict, given its field in the input.

    Args:
      field: Field in the input.
      label_type: Type of the numbers.
      unlabelled: Whether rows without a number are rejected or kept.
      where: The input, for messages.

    Raises:
      ConfigError: Values of its type are not numbers.
    """
    kind = NUMBERS[str(label_type)]
    try:
        pa.array([], field.type).cast(kind)
    except pa.ArrowNotImplementedError as error:
        raise ConfigError(
            f"{option_name('label_type', label_type)}: the column {field.name!r} of {where}"
            f" has the type {field.type}, not numbers: name another one with"
            f" {option_name('label_column')}"
        ) from error
    nullable = field.nullable and unlabelled == "keep"
    return user_field(field.with_type(kind).with_nullable(nullable))


def weight_field(field: pa.Field, *, where: str) -> pa.Field:
    """Return the field of the weights in records, given their field in the input.

    where: the input, for messages.

    Raises:
      ConfigError: Values of its type are not numbers.
    """
    kind = field.type
    if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        raise ConfigError(
            f"{option_name('weight_column', field.name)}: the column has the type {kind} in"
            f" {where}, not numbers: name another one"
        )
    return pa.field(field.name, pa.float64(), False)


def invalid_numbers(
    rows: Rows, roles: ColumnRoles, *, unlabelled: Unlabelled, finite: bool
) -> list[InvalidRows]:
    """Return the rows whose number to predict, or whose weight, is invalid.

    Args:
      rows: Rows with these columns as numbers, null if missing.
      roles: Roles of the columns.
      unlabelled: Whether rows without a number to predict are rejected or kept.
      finite: Whether that number must be finite as a float32.
    """
    faults = []
    if roles.target is not None and finite:
        faults.append(_rows_out_of_range(rows, roles.target))
    if roles.target is not None and unlabelled == "reject":
        faults.append(_rows_without_number(rows, roles.target))
    if roles.weight is not None:
        faults.append(_invalid_weights(rows, roles.weight))
    return faults


def _rows_without_number(rows: Rows, name: str) -> InvalidRows:
    """Return the rows without a number in the column of numbers to predict."""

    def missing(row: int) -> RejectCause:
        return no_label(f"a number in {column_named(name)}, row {rows.numbers[row]}")

    return InvalidRows(is_null(rows.columns[name]), missing)


def _rows_out_of_range(rows: Rows, name: str) -> InvalidRows:
    """Return the rows with a number to predict that float32 cannot hold."""
    values = rows.columns[name]

    def too_large(row: int) -> str:
        return f"{column_named(name)}: {values[row].as_py():g} is not a finite float32"

    return invalid_rows(rows, beyond_float32(values), too_large)


def _invalid_weights(rows: Rows, name: str) -> InvalidRows:
    """Return the rows whose weight is missing, below 0, or not a finite float32.

    rows: with the weights as float64, null if missing.
    """
    values = rows.columns[name]
    numbers = np.asarray(values.fill_null(-1))

    def why(row: int) -> str:
        value = values[row].as_py()
        got = "none" if value is None else f"{value:g}"
        return f"column {name!r}: expected a weight of 0 or more, got {got}"

    return invalid_rows(rows, ~((numbers >= 0) & (numbers <= _LARGEST)), why)
