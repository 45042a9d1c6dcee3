"""Checks of Arrow and Parquet data before it is used.

Arrow trusts offsets and dictionary indices: forged ones crash the process, or put its memory into
rows. Parquet can claim gigabytes in a few bytes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError

_MOST_BYTES = 1 << 30  # of rows, if they are stored in far fewer bytes,
_MOST_RATIO = 1032  # by this ratio, the largest of deflate


def check_names(schema: pa.Schema) -> None:
    """Raise ArrowInvalid if the name of a column, or of a field inside of one, is not UTF-8."""
    for number in range(len(schema)):
        try:
            _read_names(schema.field(number))
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(
                f"the name of column {number + 1}, or of a field in it, is not UTF-8: rename it"
            ) from error


def _read_names(field: pa.Field) -> None:
    field.name  # noqa: B018  (it raises UnicodeDecodeError)
    for number in range(field.type.num_fields):
        _read_names(field.type.field(number))


def validate(rows: pa.RecordBatch) -> None:
    """Check the offsets and indices of rows. Raises ArrowInvalid."""
    for column in rows.columns:
        _validate(column)


def _validate(column: pa.Array) -> None:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_dictionary(kind):
        column.validate()
        _validate(column.dictionary)
        _validate(column.indices)
        extent = pc.min_max(column.indices).as_py()
        if extent["min"] is not None and not (
            0 <= extent["min"] <= extent["max"] < len(column.dictionary)
        ):
            raise pa.ArrowInvalid("a dictionary index is out of bounds")
        return
    # Invalid UTF-8 is rejected row by row, later.
    plain = _binary(kind)
    column.validate()
    (column if plain == kind else column.view(plain)).validate(full=True)


def _binary(kind: pa.DataType) -> pa.DataType:
    """Return a type with binary in the place of string, if it has no other parts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(_binary(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_binary(kind.value_type))
    return kind


class Expansion:
    """Sum of the bytes of rows that were read from a part of a file.

    stored: bytes of the part in the file. place: of the file, for messages.
    """

    def __init__(self, stored: int, place: object) -> None:
        self._most = max(_MOST_BYTES, stored * _MOST_RATIO)
        self._stored = stored
        self._place = place
        self._read = 0

    def add(self, size: int) -> None:
        """Add the bytes of rows. Raises ConfigError if they are implausibly many."""
        self._read += size
        if self._read > self._most:
            raise ConfigError(
                f"{self._place}: {self._stored} bytes of it hold rows of more than"
                f" {self._most} bytes: write the file again, or leave it out"
            )
