"""Values of Arrow columns as bytes, which are equal only for equal values of the same type."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

_NULL, _VALID = b"\0", b"\1"
_count = struct.Struct("<Q").pack


def row_bytes(column: pa.Array) -> list[bytes]:
    """Return the bytes of each value; joined, those of several columns stay distinct.

    A value is a byte for null, or a byte and the value: numbers as in memory, so that NaNs of other
    bits differ; strings and lists after their length; structs as the values of their fields.

    Raises:
      TypeError: the type is not supported.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return row_bytes(column.cast(kind.value_type))
    if pa.types.is_null(kind):
        return [_NULL] * len(column)
    valid = np.asarray(column.is_valid())
    if pa.types.is_struct(kind):
        fields = [row_bytes(column.field(number)) for number in range(kind.num_fields)]
        values = [b"".join(parts) for parts in zip(*fields, strict=True)] if fields else []
        values = values or [b""] * len(column)
    elif (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        values = _lists(column)
    elif _is_text(kind):
        texts = column.cast(pa.large_binary()).to_pylist()
        values = [b"" if text is None else _count(len(text)) + text for text in texts]
    elif pa.types.is_boolean(kind):
        values = _fixed(column.cast(pa.uint8()))
    elif pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        values = _fixed(column)
    else:
        raise TypeError(f"expected numbers, times, texts, lists or structs, got {kind}")
    return [
        _VALID + value if is_valid else _NULL
        for value, is_valid in zip(values, valid.tolist(), strict=True)
    ]


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def _lists(column: pa.Array) -> list[bytes]:
    items = row_bytes(column.flatten())  # without those of nulls
    if pa.types.is_fixed_size_list(column.type):
        lengths = np.where(np.asarray(column.is_valid()), column.type.list_size, 0)
    else:
        lengths = np.asarray(column.value_lengths().fill_null(0)).astype(np.int64)
    ends = np.cumsum(lengths).tolist()
    return [
        _count(length) + b"".join(items[end - length : end])
        for length, end in zip(lengths.tolist(), ends, strict=True)
    ]


def _fixed(column: pa.Array) -> list[bytes]:
    width = column.type.bit_width // 8
    data = column.buffers()[1]
    if data is None or not width:
        return [b""] * len(column)
    view = memoryview(data)[column.offset * width : (column.offset + len(column)) * width]
    return [bytes(view[at : at + width]) for at in range(0, len(view), width)]
