"""Conversion of columns to text, because labels and keys may be numbers."""

from __future__ import annotations

import codecs
import json
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from recordmill.errors import ConfigError
from recordmill.format.class_names import number_text
from recordmill.transforms.model.user_columns import is_list

_BYTES = "bytes"


def json_text(value: object) -> str | None:
    """Return a JSON value as text: a string unchanged, 3.0 as '3', other values as JSON."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return number_text(value) if isinstance(value, float) else json.dumps(value)


def decode_dictionary(column: pa.Array) -> pa.Array:
    """Return a column with dictionary encoding removed."""
    return column.dictionary_decode() if types.is_dictionary(column.type) else column


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column, whether they are in a dictionary or not."""
    return kind.value_type if types.is_dictionary(kind) else kind


def as_text(column: pa.Array, name: str) -> pa.Array:
    """Convert a column to string[n]; of structs with the content of files, this content.

    Raises:
      ConfigError: it holds neither text, numbers nor times.
    """
    column = decode_dictionary(column)
    if is_file(column.type):
        column = _file_bytes(column)
    kind = column.type
    if types.is_floating(kind):
        # Not as Python's floats, of which the shortest text is longer than that of a float32.
        values = column.to_numpy(zero_copy_only=False)
        numbers = values.tolist() if kind == pa.float64() else values
        return pa.array(list(map(number_text, numbers)), pa.string())
    if types.is_decimal(kind) and kind.scale > 0:
        found = column.to_pylist()
        return pa.array([None if v is None else _decimal_text(v) for v in found], pa.string())
    if is_text(kind) or is_binary(kind):
        return column.cast(pa.string(), safe=False)  # `valid_text` finds what is not UTF-8
    try:
        return column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise ConfigError(f"expected text or numbers in column {name!r}, got {kind}") from error


def _decimal_text(value: Decimal) -> str:
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def transcoded(column: pa.Array, encoding: str) -> pa.Array:
    """Return a column of bytes, or of structs with the content of files, as UTF-8: binary[n].

    Bytes that cannot be decoded become bytes that are not UTF-8, which `valid_text` finds.
    """
    column = decode_dictionary(column)
    if is_file(column.type):
        column = _file_bytes(column)
    return pa.array([_utf8(value, encoding) for value in column.to_pylist()], pa.binary())


def _utf8(value: bytes | None, encoding: str) -> bytes | None:
    try:
        return None if value is None else value.decode(encoding).encode()
    except UnicodeError:  # also of surrogates, which UTF-8 cannot encode
        return b"\xff"


def _file_bytes(column: pa.Array) -> pa.Array:
    """Return the content of files without a byte order mark: binary[n]."""
    found = pc.struct_field(column, [column.type.get_field_index(_BYTES)]).cast(pa.binary())
    if not pc.any(pc.starts_with(found, codecs.BOM_UTF8)).as_py():
        return found
    mark = len(codecs.BOM_UTF8)
    tails = [v[mark:] if v and v.startswith(codecs.BOM_UTF8) else v for v in found.to_pylist()]
    return pa.array(tails, pa.binary())


def valid_text(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Drop the rows with text that is not UTF-8.

    pyarrow does not check Parquet, nor CSV with `check_utf8=False`.

    Returns: the other rows, and {bad row: its first column that is not UTF-8}.
    """
    bad: dict[int, str] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        listed = is_list(column.type)
        if is_text(column.type.value_type if listed else column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                values = column.cast(_binary_type(column.type)).to_pylist()
                texts = values if listed else [[value] for value in values]
                for row, some in enumerate(texts):
                    if not all(map(_is_utf8, some or ())):
                        bad.setdefault(row, name)
    if not bad:
        return rows, bad
    kept = np.ones(len(rows), np.bool_)
    kept[[*bad]] = False
    return rows.filter(pa.array(kept)), dict(sorted(bad.items()))


def lists_with_nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the mask of lists that an Example cannot hold, bool[n].

    These are lists with a null inside, and null lists in a column of fixed-size lists.
    """
    fixed = pa.types.is_fixed_size_list(column.type)
    if not pc.list_flatten(column).null_count and not (fixed and column.null_count):
        return np.zeros(len(column), np.bool_)
    lists = column.to_pylist()
    return np.array([fixed if some is None else None in some for some in lists], np.bool_)


def _binary_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column of texts, or of lists of texts, with binary instead of string."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.binary(), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(pa.binary())
    return pa.list_(pa.binary()) if pa.types.is_list(kind) else pa.binary()


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def is_file(kind: pa.DataType) -> bool:
    """Return whether a type is a struct with the content of a file, as dataset hubs export it."""
    place = kind.get_field_index(_BYTES) if types.is_struct(kind) else -1
    return place >= 0 and is_binary(kind.field(place).type)


def is_binary(kind: pa.DataType) -> bool:
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view())
