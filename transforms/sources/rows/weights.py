"""The column of weights of records: numbers of 0 or more."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.option_names import option_name
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.row_formats.row_file import Rows
from recordmill.transforms.sources.rows.record_columns import InvalidRows

_LARGEST = float(np.finfo(np.float32).max)


def weight_field(field: pa.Field, *, where: str) -> pa.Field:
    """Return the field of the weights in records, given their field in the input.

    where: the input, for messages.

    Raises:
      ConfigError: values of its type are no numbers.
    """
    kind = field.type
    if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        raise ConfigError(
            f"{option_name('weight_column', field.name)}: the column has type {kind} in {where},"
            " which holds no numbers: name another one"
        )
    return pa.field(field.name, pa.float64(), False)


def invalid_weights(rows: Rows, name: str) -> InvalidRows:
    """Return the rows whose weight is missing, below 0, or no finite float32.

    rows: with the weights as float64, null if missing.
    """
    values = rows.columns[name]
    numbers = np.asarray(values.fill_null(-1))

    def why(row: int) -> RejectCause:
        value = values[row].as_py()
        got = "none" if value is None else f"{value:g}"
        detail = f"row {rows.numbers[row]}: column {name!r}: expected a weight of 0 or more, got"
        return RejectCause(Reason.BAD_VALUE, f"{detail} {got}")

    return InvalidRows(~((numbers >= 0) & (numbers <= _LARGEST)), why)
