"""Encodes Arrow columns as tf.train.Example and SequenceExample, without protobuf or TensorFlow.

    message Example          { Features features = 1; }
    message Features         { map<string, Feature> feature = 1; }
    message Feature          { oneof kind { BytesList = 1; FloatList = 2; Int64List = 3; } }
    message *List            { repeated ... value = 1; }   (numbers are packed)
    message SequenceExample  { Features context = 1; FeatureLists feature_lists = 2; }
    message FeatureLists     { map<string, FeatureList> feature_list = 1; }
    message FeatureList      { repeated Feature feature = 1; }

Source: https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/example and
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.arrow_buffers import bytes_of, float32_of, null_mask, numbers_of
from recordmill.tfrecord.checksums import mask_crcs
from recordmill.tfrecord.flat_arrays import Bytes, Ints, offsets_of
from recordmill.tfrecord.float_run import MIN_FEATURES, FloatRun
from recordmill.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, frame_headers
from recordmill.tfrecord.row_assembly import (
    FieldLayout,
    RowField,
    assemble_rows,
    assemble_values,
    byte_windows,
    fixed_width_field,
    layout_of,
    row_sizes,
)
from recordmill.tfrecord.varint import encode_varint, encode_varints

NO_STEPS: Mapping[str, int] = MappingProxyType({})

_BINARY = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_ROWS = 1 << 14  # rows encoded at once: their bytes should stay in the processor's cache

# Tags of fields 1, 2 and 3 with the wire type LEN, which messages, strings and packed lists have:
# every field that is written here.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
_BYTES, _FLOATS, _INTS = _FIELD_1, _FIELD_2, _FIELD_3  # tags of the lists in a Feature


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedExamples:
    """Serialized Examples one after another; Example i is data[offsets[i]:offsets[i + 1]]."""

    data: bytes
    offsets: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class Frames:
    """Framed Examples one after another, as in a shard; lengths: int64[n], bytes of each frame."""

    data: bytes | bytearray | memoryview
    lengths: Ints


def encode_examples(columns: pa.RecordBatch) -> EncodedExamples:
    """Encode every row as an Example, with every column as a feature.

    Integers and bools become int64, floats float32, strings and binary values bytes. Dates become
    days and timestamps microseconds since 1970 (UTC), int64. A list becomes several values; a null
    becomes an absent feature, and so does every value of a column of the type null. The bytes are
    those of protobuf's deterministic serialization, with features sorted by the UTF-8 of their
    names. (C++ and pure Python sort the same way; Python's default, upb 6.33, puts "ab" before
    "a".)

    Raises:
        ValueError: a column has another type, a list contains a null, a finite number is beyond
            float32, or two columns have the same name.
    """
    chunks: list[memoryview] = []
    sizes = [np.zeros(0, np.int64)]
    for layouts in _examples(columns):
        rows = assemble_rows(layouts)
        chunks.extend(rows.chunks())
        sizes.append(rows.sizes)
    return EncodedExamples(data=b"".join(chunks), offsets=offsets_of(np.concatenate(sizes)))


def encode_frames(
    columns: pa.RecordBatch,
    steps: Mapping[str, int] = NO_STEPS,
    *,
    allocate: Callable[[int], bytearray | memoryview] | None = None,
) -> Frames:
    """Encode rows as `encode_examples` does, and frame them.

    steps: {column: number of steps} for the columns that become feature lists; rows are then
      SequenceExamples. Such a column holds lists of one length, and a step is an equal part of a
      list.
    allocate: returns memory of a size for the data; None is a new bytes object.

    Raises:
        ValueError: as `encode_examples`, or a row exceeds the size of a record.
    """
    chunks: list[memoryview] = []
    lengths = [np.zeros(0, np.int64)]
    for layouts in _examples(columns, steps):
        headers = fixed_width_field(frame_headers(row_sizes(layouts)))
        footers = fixed_width_field(np.zeros((len(headers.sizes), FOOTER_BYTES), np.uint8))
        rows = assemble_rows([layout_of(headers), *layouts, layout_of(footers)])
        crcs = mask_crcs(rows.crcs(skip=HEADER_BYTES, drop=FOOTER_BYTES)).astype("<u4")
        footer_starts = rows.offsets[1:] - FOOTER_BYTES
        byte_windows(rows.buffer, FOOTER_BYTES)[footer_starts] = crcs.view(f"V{FOOTER_BYTES}")
        chunks.extend(rows.chunks())
        lengths.append(rows.sizes)
    data = b"".join(chunks) if allocate is None else _joined(chunks, allocate)
    return Frames(data=data, lengths=np.concatenate(lengths))


def _joined(
    chunks: Sequence[memoryview], allocate: Callable[[int], bytearray | memoryview]
) -> bytearray | memoryview:
    data = allocate(sum(map(len, chunks)))
    view, at = memoryview(data), 0
    for chunk in chunks:
        view[at : at + len(chunk)] = chunk
        at += len(chunk)
    return data


def _examples(
    columns: pa.RecordBatch, steps: Mapping[str, int] = NO_STEPS
) -> Iterator[list[FieldLayout]]:
    """Yield the fields of the Examples of up to `_ROWS` rows at a time.

    The fields are the head of `features` and a map entry per feature, then the same for
    `feature_lists`, if there are any.
    """
    names = columns.schema.names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"expected one column per feature, got several named {twice}: rename them")
    arrays = dict(zip(names, columns.columns, strict=True))
    # Protobuf sorts the keys of a map by their UTF-8, which is the order of code points.
    single = sorted(
        name for name in arrays.keys() - steps.keys() if not pa.types.is_null(arrays[name].type)
    )
    fields = _fields([(name, arrays[name]) for name in single])
    lists = [_list_field(name, arrays[name], steps[name]) for name in sorted(steps)]
    for start in range(0, columns.num_rows, _ROWS):
        stop = min(start + _ROWS, columns.num_rows)
        layouts = _map_message(_FIELD_1, fields, start, stop)
        if lists:
            layouts += _map_message(_FIELD_2, lists, start, stop)
        yield layouts


def _map_message(
    tag: bytes, fields: Sequence[RowField | FloatRun], start: int, stop: int
) -> list[FieldLayout]:
    """Return a message field that holds a map: its tag and length, then its entries."""
    entries = [layout_of(field.rows(start, stop)) for field in fields]
    sizes = row_sizes(entries) if entries else np.zeros(stop - start, np.int64)
    data, widths = encode_varints(sizes)
    starts = offsets_of(widths)[:-1]
    head = RowField(data=data, starts=starts, sizes=widths, prefix=lambda _: tag)
    return [layout_of(head), *entries]


def _fields(columns: Sequence[tuple[str, pa.Array]]) -> list[RowField | FloatRun]:
    """Return the map entries of columns; many neighbouring columns of floats share a field."""
    fields: list[RowField | FloatRun] = []
    for is_float, group in itertools.groupby(columns, key=lambda column: _is_float(column[1])):
        run = list(group)
        if not is_float or len(run) < MIN_FEATURES:
            fields += [_field(name, column) for name, column in run]
            continue
        size = np.dtype(np.float32).itemsize
        prefixes = [_entry_prefix(name.encode(), _FLOATS, True, size) for name, _ in run]
        values = [float32_of(name, column) for name, column in run]
        fields.append(FloatRun(prefixes=tuple(prefixes), values=values))
    return fields


def _is_float(column: pa.Array) -> bool:
    """Return whether a column has one float in every row."""
    return pa.types.is_floating(column.type) and not column.null_count


def _field(name: str, column: pa.Array) -> RowField:
    """Return the map entries of a column."""
    kind, as_item, data, offsets = _content(name, column)
    sizes = np.diff(offsets)
    if column.null_count:
        sizes[null_mask(column)] = -1
    prefix = functools.partial(_entry_prefix, name.encode(), kind, as_item)
    return RowField(data=data, starts=offsets[:-1], sizes=sizes, prefix=prefix)


def _list_field(name: str, column: pa.Array, steps: int) -> RowField:
    """Return the map entries of a column of lists that become feature lists."""
    if not isinstance(column, pa.FixedSizeListArray) or column.null_count:
        raise ValueError(f"column {name!r}: expected lists of one length, got {column.type}")
    width = column.type.list_size // steps
    step_values = pa.FixedSizeListArray.from_arrays(column.flatten(), width)
    kind, as_item, data, offsets = _content(name, step_values)
    prefix = functools.partial(_step_prefix, kind, as_item)
    data, offsets = assemble_values(
        RowField(data=data, starts=offsets[:-1], sizes=np.diff(offsets), prefix=prefix)
    )
    offsets = offsets[::steps]
    prefix = functools.partial(_list_prefix, name.encode())
    return RowField(data=data, starts=offsets[:-1], sizes=np.diff(offsets), prefix=prefix)


def _content(name: str, column: pa.Array) -> tuple[bytes, bool, Bytes, Ints]:
    """Encode the values of a column.

    Returns the tag of the list that holds them, the `as_item` of `_feature_prefix`, the bytes, and
    the offsets of the rows in them, int64[n + 1].
    """
    is_list = isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray)
    value_type = column.type.value_type if is_list else column.type
    if pa.types.is_dictionary(value_type):
        value_type = value_type.value_type
    if not _is_supported(value_type):
        raise ValueError(
            f"column {name!r} has the type {column.type}, which an Example cannot hold: cast it to"
            " integers (no uint64), floats, bools, strings, binary, dates or timestamps, or to"
            " lists of those"
        )
    single = _single_values(column) if is_list else column
    if single is None:
        kind, data, offsets = _lists(name, column)
        return kind, kind != _BYTES, data, offsets
    if pa.types.is_dictionary(single.type):
        single = single.dictionary_decode()
    kind, data, offsets = _values(name, single)
    return kind, True, data, offsets


@functools.lru_cache(maxsize=1 << 14)
def _step_prefix(kind: bytes, as_item: bool, size: int) -> bytes:
    """Return the prefix of a step of a feature list, for `size` bytes of values."""
    prefix = _feature_prefix(kind, as_item, size)
    return _FIELD_1 + encode_varint(len(prefix) + size) + prefix


@functools.lru_cache(maxsize=1 << 14)
def _list_prefix(name: bytes, size: int) -> bytes:
    """Return the prefix of a map entry that holds a feature list, for `size` bytes of steps."""
    prefix = _FIELD_1 + encode_varint(len(name)) + name + _FIELD_2 + encode_varint(size)
    return _FIELD_1 + encode_varint(len(prefix) + size) + prefix


@functools.lru_cache(maxsize=1 << 14)
def _entry_prefix(name: bytes, kind: bytes, as_item: bool, size: int) -> bytes:
    """Return the prefix of a map entry that holds a feature, for `size` bytes of values."""
    prefix = _feature_prefix(kind, as_item, size)
    prefix = _FIELD_2 + encode_varint(len(prefix) + size) + prefix
    prefix = _FIELD_1 + encode_varint(len(name)) + name + prefix
    return _FIELD_1 + encode_varint(len(prefix) + size) + prefix


def _feature_prefix(kind: bytes, as_item: bool, size: int) -> bytes:
    """Return the prefix of a Feature's list, for `size` bytes of values.

    as_item: the values are one byte string or packed numbers (an empty list of numbers has no
      item); otherwise they are byte strings that already have their own prefixes.
    """
    item = _item_prefix(size) if as_item and (size or kind == _BYTES) else b""
    return kind + encode_varint(len(item) + size) + item


def _item_prefix(size: int) -> bytes:
    """Return the prefix of one byte string of a list, or of all packed numbers of a list."""
    return _FIELD_1 + encode_varint(size)


def _single_values(column: pa.Array) -> pa.Array | None:
    """Return the values of lists that have one value each; None if any list has another number."""
    if column.null_count:
        return None
    if isinstance(column, pa.FixedSizeListArray):
        if column.type.list_size != 1:
            return None
        first = column.offset
    else:
        offsets = numbers_of(column.offsets, np.int64)
        if (np.diff(offsets) != 1).any():
            return None
        first = int(offsets[0])
    values = column.values.slice(first, len(column))
    return None if values.null_count else values


def _lists(name: str, column: pa.Array) -> tuple[bytes, Bytes, Ints]:
    """Encode lists: return what `_values` returns, with offsets of lists."""
    if isinstance(column, pa.FixedSizeListArray):
        size = column.type.list_size
        offsets = (np.arange(len(column) + 1) + column.offset) * size
    else:
        offsets = numbers_of(column.offsets, np.int64)
    values = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    offsets = offsets - offsets[0]
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        rows = np.searchsorted(offsets, np.flatnonzero(null_mask(values)), side="right") - 1
        rows = rows[~null_mask(column)[rows]]  # the values behind a null list do not count
        if rows.size:
            raise ValueError(
                f"column {name!r}, row {rows[0]}: expected a list of values, got one with a null "
                "inside, which an Example cannot hold: fill it, or make the list itself null"
            )
    if column.null_count and pa.types.is_floating(values.type):  # what is behind nulls may overflow
        behind = pa.array(np.repeat(null_mask(column), np.diff(offsets)))
        values = pc.if_else(behind, pa.scalar(0, values.type), values)
    kind, data, ends = _values(name, values)
    if kind == _BYTES:
        data, ends = assemble_values(
            RowField(data=data, starts=ends[:-1], sizes=np.diff(ends), prefix=_item_prefix)
        )
    return kind, data, ends[offsets]


def _values(name: str, values: pa.Array) -> tuple[bytes, Bytes, Ints]:
    """Encode values: return the tag of their list, their bytes, and the offsets, int64[n + 1]."""
    dtype = values.type
    if pa.types.is_timestamp(dtype):
        values = values.cast(pa.timestamp("us", dtype.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date(dtype):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_floating(dtype):
        floats = float32_of(name, values)
        return _FLOATS, floats.view(np.uint8), np.arange(len(values) + 1) * floats.itemsize
    elif dtype in _BINARY:
        return _BYTES, *bytes_of(values)
    data, sizes = encode_varints(numbers_of(values, np.int64))
    return _INTS, data, offsets_of(sizes)


def _is_supported(dtype: pa.DataType) -> bool:
    """Return whether values of a type can be encoded."""
    is_integer = pa.types.is_integer(dtype) and dtype != pa.uint64()
    is_time = pa.types.is_date(dtype) or pa.types.is_timestamp(dtype)
    is_number = is_integer or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype)
    return is_number or is_time or dtype in _BINARY
