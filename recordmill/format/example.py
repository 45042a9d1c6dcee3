"""Arrow columns to tf.train.Example and SequenceExample, without protobuf or TensorFlow.

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
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.framing import HEAD, TAIL, frame_heads, mask_crcs
from recordmill.format.row_assembly import (
    Bytes,
    Field,
    FieldLayout,
    Ints,
    fixed,
    items,
    lay,
    offsets_of,
    sum_sizes,
    weave,
)
from recordmill.format.varint import encode_varint, encode_varints

_Number = TypeVar("_Number", bound=np.generic)

NO_STEPS: Mapping[str, int] = MappingProxyType({})

_ROWS = 1 << 14  # rows encoded at once: their bytes should stay in the processor's cache

# A tag is a field's number and its wire type. Fields are of type "bytes of a given length" wherever
# they are a message, a string or a packed list, which is everywhere in what is written here.
_FIRST, _SECOND, _THIRD = b"\x0a", b"\x12", b"\x1a"
_BYTES, _FLOATS, _INTS = _FIRST, _SECOND, _THIRD


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedExamples:
    """Serialised Examples one after another; number i is data[offsets[i]:offsets[i + 1]]."""

    data: bytes
    offsets: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class Frames:
    """Framed Examples one after another, as a shard holds them; `lengths` are those of frames."""

    data: bytes
    lengths: Ints


def encode_examples(columns: pa.RecordBatch) -> EncodedExamples:
    """Encodes a row as an Example, a column as a feature.

    Integers and bools become int64, floats float32, strings and binary bytes, dates the days and
    timestamps the microseconds since 1970 (UTC), int64; lists of those become several values, a
    null no feature. The bytes are those of protobuf's deterministic
    serialisation, features sorted by the UTF-8 of their names. (So do C++ and pure Python; Python's
    default, upb 6.33, puts "ab" before "a".)

    Raises:
        ValueError: a column of another type, a null inside a list, or two columns of one name.
    """
    pieces: list[memoryview] = []
    sizes = [np.zeros(0, np.int64)]
    for strands in _examples(columns):
        woven = weave(strands)
        pieces.extend(woven.pieces())
        sizes.append(woven.sizes)
    return EncodedExamples(data=b"".join(pieces), offsets=offsets_of(np.concatenate(sizes)))


def encode_frames(columns: pa.RecordBatch, steps: Mapping[str, int] = NO_STEPS) -> Frames:
    """Encodes rows as `encode_examples` does, and frames them.

    steps: columns of lists of one length that become feature lists of so many steps, which have
      equally many of the values each; then rows are SequenceExamples.

    Raises:
        ValueError: as `encode_examples`, or a row takes more than a record can hold.
    """
    pieces: list[memoryview] = []
    lengths = [np.zeros(0, np.int64)]
    for strands in _examples(columns, steps):
        head = frame_heads(sum_sizes(strands))
        tail = np.zeros((len(head), TAIL), np.uint8)
        woven = weave([lay(fixed(head)), *strands, lay(fixed(tail))])
        crcs = mask_crcs(woven.crcs(skip=HEAD, drop=TAIL)).astype("<u4")
        items(woven.buffer, TAIL)[woven.edges[1:] - TAIL] = crcs.view(f"V{TAIL}")
        pieces.extend(woven.pieces())
        lengths.append(woven.sizes)
    return Frames(data=b"".join(pieces), lengths=np.concatenate(lengths))


def _examples(
    columns: pa.RecordBatch, steps: Mapping[str, int] = NO_STEPS
) -> Iterator[list[FieldLayout]]:
    """What Examples are woven of, some rows at a time: their head and an entry per feature; then
    the same of feature lists, where there are any.
    """
    names = columns.schema.names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"expected one column per feature, got several named {twice}: rename them")
    # Protobuf sorts the keys of a map by their UTF-8, which is the order of code points.
    fields = [_field(name, columns.column(name)) for name in sorted(set(names) - steps.keys())]
    lists = [_list_field(name, columns.column(name), steps[name]) for name in sorted(steps)]
    for start in range(0, columns.num_rows, _ROWS):
        stop = min(start + _ROWS, columns.num_rows)
        strands = _message(_FIRST, fields, start, stop)
        if lists:
            strands += _message(_SECOND, lists, start, stop)
        yield strands


def _message(tag: bytes, fields: Sequence[Field], start: int, stop: int) -> list[FieldLayout]:
    """A field of the record that holds a map: its head and its entries."""
    entries = [lay(field.rows(start, stop)) for field in fields]
    sizes = sum_sizes(entries) if entries else np.zeros(stop - start, np.int64)
    data, widths = encode_varints(sizes)
    starts = offsets_of(widths)[:-1]
    head = Field(data=data, starts=starts, sizes=widths, head=lambda _: tag)
    return [lay(head), *entries]


def _field(name: str, column: pa.Array) -> Field:
    """The map entries of a column."""
    kind, as_item, data, edges = _content(name, column)
    sizes = np.diff(edges)
    if column.null_count:
        sizes[_nulls(column)] = -1
    head = functools.partial(_entry_head, name.encode(), kind, as_item)
    return Field(data=data, starts=edges[:-1], sizes=sizes, head=head)


def _list_field(name: str, column: pa.Array, steps: int) -> Field:
    """The map entries of a column of lists as feature lists."""
    if not isinstance(column, pa.FixedSizeListArray) or column.null_count:
        raise ValueError(f"column {name!r}: expected lists of one length, got {column.type}")
    width = column.type.list_size // steps
    of_step = pa.FixedSizeListArray.from_arrays(column.flatten(), width)
    kind, as_item, data, edges = _content(name, of_step)
    head = functools.partial(_step_head, kind, as_item)
    strand = lay(Field(data=data, starts=edges[:-1], sizes=np.diff(edges), head=head))
    laid = np.frombuffer(b"".join(weave([strand]).pieces()), np.uint8)
    edges = offsets_of(strand.sizes)[::steps]
    head = functools.partial(_list_head, name.encode())
    return Field(data=laid, starts=edges[:-1], sizes=np.diff(edges), head=head)


def _content(name: str, column: pa.Array) -> tuple[bytes, bool, Bytes, Ints]:
    """The kind of list, whether its values still need the head of an item (`_feature_head`), their
    bytes, and where these begin and end for each row, int64[n + 1].
    """
    is_list = isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray)
    single = _single_values(column) if is_list else column
    if single is None:
        kind, data, edges = _lists(name, column)
        return kind, kind != _BYTES, data, edges
    if pa.types.is_dictionary(single.type):
        single = single.dictionary_decode()
    kind, data, edges = _values(name, single)
    return kind, True, data, edges


@functools.lru_cache(maxsize=1 << 14)
def _step_head(kind: bytes, as_item: bool, size: int) -> bytes:
    """What stands before `size` bytes of a step's values; as `_feature_head` has them."""
    head = _feature_head(kind, as_item, size)
    return _FIRST + encode_varint(len(head) + size) + head


@functools.lru_cache(maxsize=1 << 14)
def _list_head(name: bytes, size: int) -> bytes:
    """What stands before `size` bytes of steps, from the map's entry on."""
    head = _FIRST + encode_varint(len(name)) + name + _SECOND + encode_varint(size)
    return _FIRST + encode_varint(len(head) + size) + head


@functools.lru_cache(maxsize=1 << 14)
def _entry_head(name: bytes, kind: bytes, as_item: bool, size: int) -> bytes:
    """What stands before `size` bytes of values of a feature, from the map's entry on; as
    `_feature_head` has them.
    """
    head = _feature_head(kind, as_item, size)
    head = _SECOND + encode_varint(len(head) + size) + head
    head = _FIRST + encode_varint(len(name)) + name + head
    return _FIRST + encode_varint(len(head) + size) + head


def _feature_head(kind: bytes, as_item: bool, size: int) -> bytes:
    """What stands before `size` bytes of values, from their list on.

    as_item: the values are one byte string, or numbers to pack (none are written as nothing);
    otherwise they are byte strings that have their heads already.
    """
    head = _item_head(size) if as_item and (size or kind == _BYTES) else b""
    return kind + encode_varint(len(head) + size) + head


def _item_head(size: int) -> bytes:
    """What stands before a byte string of a list, or before all numbers of one."""
    return _FIRST + encode_varint(size)


def _single_values(column: pa.Array) -> pa.Array | None:
    """The values of lists where each has one, as which they are encoded; None where not."""
    if column.null_count:
        return None
    if isinstance(column, pa.FixedSizeListArray):
        if column.type.list_size != 1:
            return None
        first = column.offset
    else:
        edges = _numbers(column.offsets, np.int64)
        if (np.diff(edges) != 1).any():
            return None
        first = int(edges[0])
    values = column.values.slice(first, len(column))
    return None if values.null_count else values


def _lists(name: str, column: pa.Array) -> tuple[bytes, Bytes, Ints]:
    """What `_values` gives, with an item for every list."""
    if isinstance(column, pa.FixedSizeListArray):
        size = column.type.list_size
        edges = (np.arange(len(column) + 1) + column.offset) * size
    else:
        edges = _numbers(column.offsets, np.int64)
    values = column.values.slice(int(edges[0]), int(edges[-1] - edges[0]))
    edges = edges - edges[0]
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        rows = np.searchsorted(edges, np.flatnonzero(_nulls(values)), side="right") - 1
        rows = rows[~_nulls(column)[rows]]  # what stands behind a null list does not count
        if rows.size:
            raise ValueError(
                f"column {name!r}, row {rows[0]}: expected a list of values, got one with a null "
                "inside, which an Example cannot hold: fill it, or make the list itself null"
            )
    kind, data, ends = _values(name, values)
    if kind == _BYTES:
        strand = lay(Field(data=data, starts=ends[:-1], sizes=np.diff(ends), head=_item_head))
        data = np.frombuffer(b"".join(weave([strand]).pieces()), np.uint8)
        ends = offsets_of(strand.sizes)
    return kind, data, ends[edges]


def _values(name: str, values: pa.Array) -> tuple[bytes, Bytes, Ints]:
    """The kind of list for such values, their bytes, and where they begin and end, int64[n + 1]."""
    dtype = values.type
    if pa.types.is_boolean(dtype) or (pa.types.is_integer(dtype) and dtype != pa.uint64()):
        data, sizes = encode_varints(_numbers(values, np.int64))
        return _INTS, data, offsets_of(sizes)
    if pa.types.is_floating(dtype):
        floats = _numbers(values, np.float32)
        return _FLOATS, floats.view(np.uint8), np.arange(len(values) + 1) * floats.itemsize
    if dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return _BYTES, *_texts(values)
    if pa.types.is_date(dtype):
        return _values(name, values.cast(pa.date32()).cast(pa.int32()))
    if pa.types.is_timestamp(dtype):
        return _values(name, values.cast(pa.timestamp("us", dtype.tz), safe=False).cast(pa.int64()))
    raise ValueError(
        f"column {name!r} has the type {dtype}, which an Example cannot hold: cast it to integers "
        "(no uint64), floats, bools, strings, binary, dates or timestamps, or to lists of those"
    )


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are null, bool[n]."""
    return _numbers(array.is_null(), np.uint8).astype(np.bool_)


def _numbers(array: pa.Array, dtype: type[_Number]) -> npt.NDArray[_Number]:
    """Numbers or bools as an array of the type; what stands at a null means nothing."""
    arrow = pa.from_numpy_dtype(dtype)
    if array.type != arrow:
        array = array.cast(arrow)
    if not len(array):  # then Arrow may have no buffer
        return np.zeros(0, dtype)
    at = array.offset * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array), at)


def _texts(array: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of strings or binary, and where they begin and end, int64[n + 1]."""
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = array.buffers()
    large = array.type in (pa.large_string(), pa.large_binary())
    dtype = np.dtype(np.int64 if large else np.int32)
    edges = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize)
    return np.frombuffer(data or b"", np.uint8), edges.astype(np.int64)
