"""Arrow columns to tf.train.Example and back, without protobuf or TensorFlow.

    message Example   { Features features = 1; }
    message Features  { map<string, Feature> feature = 1; }
    message Feature   { oneof kind { BytesList = 1; FloatList = 2; Int64List = 3; } }
    message *List     { repeated ... value = 1; }   (numbers are packed)

Source: https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/example and
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.framing import HEAD, TAIL, frame_heads, mask_crcs
from recordmill.varint import decode_varints, encode_varint, encode_varints, read_varint
from recordmill.weave import (
    Bytes,
    Field,
    Ints,
    Strand,
    fixed,
    items,
    lay,
    offsets_of,
    sum_sizes,
    weave,
)

_Number = TypeVar("_Number", bound=np.generic)
Value = list[bytes] | npt.NDArray[np.int64] | npt.NDArray[np.float32] | None

_ROWS = 1 << 14  # rows encoded at once: their bytes should stay in the processor's cache

# A tag is a field's number and its wire type. Fields are of type "bytes of a given length" wherever
# they are a message, a string or a packed list, which is everywhere in what is written here.
_FIRST, _SECOND, _THIRD = b"\x0a", b"\x12", b"\x1a"
_BYTES, _FLOATS, _INTS = _FIRST, _SECOND, _THIRD
_KINDS = (*_BYTES, *_FLOATS, *_INTS)
_UNPACKED = {_FLOATS[0]: 0x0D, _INTS[0]: 0x08}  # the tag of a number by itself


class ExampleError(ValueError):
    """Bytes that are not a tf.train.Example."""


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


def encode_frames(columns: pa.RecordBatch) -> Frames:
    """Encodes rows as `encode_examples` does, and frames them.

    Raises:
        ValueError: as `encode_examples`, or a row takes more than a record can hold.
    """
    pieces: list[memoryview] = []
    lengths = [np.zeros(0, np.int64)]
    for strands in _examples(columns):
        head = frame_heads(sum_sizes(strands))
        tail = np.zeros((len(head), TAIL), np.uint8)
        woven = weave([lay(fixed(head)), *strands, lay(fixed(tail))])
        crcs = mask_crcs(woven.crcs(skip=HEAD, drop=TAIL)).astype("<u4")
        items(woven.buffer, TAIL)[woven.edges[1:] - TAIL] = crcs.view(f"V{TAIL}")
        pieces.extend(woven.pieces())
        lengths.append(woven.sizes)
    return Frames(data=b"".join(pieces), lengths=np.concatenate(lengths))


def _examples(columns: pa.RecordBatch) -> Iterator[list[Strand]]:
    """What Examples are woven of, some rows at a time: their head and an entry per feature."""
    names = columns.schema.names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"expected one column per feature, got several named {twice}: rename them")
    # Protobuf sorts the keys of a map by their UTF-8, which is the order of code points.
    fields = [_field(name, columns.column(name)) for name in sorted(names)]
    for start in range(0, columns.num_rows, _ROWS):
        stop = min(start + _ROWS, columns.num_rows)
        entries = [lay(field.rows(start, stop)) for field in fields]
        sizes = sum_sizes(entries) if entries else np.zeros(stop - start, np.int64)
        data, widths = encode_varints(sizes)
        starts = offsets_of(widths)[:-1]
        head = Field(data=data, starts=starts, sizes=widths, head=lambda _: _FIRST)
        yield [lay(head), *entries]


def _field(name: str, column: pa.Array) -> Field:
    """The map entries of a column."""
    is_list = isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray)
    single = _single_values(column) if is_list else column
    if single is None:
        kind, data, edges = _lists(name, column)
        as_item = kind != _BYTES
    else:
        column = single
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind, data, edges = _values(name, column)
        as_item = True
    sizes = np.diff(edges)
    if column.null_count:
        sizes[_nulls(column)] = -1
    head = functools.partial(_entry_head, name.encode(), kind, as_item)
    return Field(data=data, starts=edges[:-1], sizes=sizes, head=head)


@functools.lru_cache(maxsize=1 << 14)
def _entry_head(name: bytes, kind: bytes, as_item: bool, size: int) -> bytes:
    """What stands before `size` bytes of values of a feature, from the map's entry on.

    as_item: the values are one byte string, or numbers to pack (none are written as nothing);
    otherwise they are byte strings that have their heads already.
    """
    head = _item_head(size) if as_item and (size or kind == _BYTES) else b""
    head = kind + encode_varint(len(head) + size) + head
    head = _SECOND + encode_varint(len(head) + size) + head
    head = _FIRST + encode_varint(len(name)) + name + head
    return _FIRST + encode_varint(len(head) + size) + head


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


# ---- reading


def decode_example(payload: bytes) -> dict[str, Value]:
    """Reads a serialised tf.train.Example: its features by name, None for one of no kind.

    Reads as protobuf does: fields that an Example does not have are skipped, numbers may be packed
    or not, of several entries of one name the last counts.

    Raises:
        ExampleError: the bytes are not a tf.train.Example.
    """
    features: dict[str, Value] = {}
    for tag, at, stop in _spans(payload, 0, len(payload)):
        if tag == _FIRST[0]:
            for inner, start, end in _spans(payload, at, stop):
                if inner == _FIRST[0]:
                    name, value = _entry(payload, start, end)
                    features[name] = value
    return features


def _entry(data: bytes, at: int, stop: int) -> tuple[str, Value]:
    """Reads an entry of the map."""
    name = ""
    kind = 0
    parts: list[bytes] = []
    for tag, start, end in _spans(data, at, stop):
        if tag == _FIRST[0]:
            try:
                name = data[start:end].decode()
            except UnicodeDecodeError as error:
                raise ExampleError(f"the name at byte {start} is not UTF-8") from error
        elif tag == _SECOND[0]:
            for inner, first, last in _spans(data, start, end):
                if inner in _KINDS:
                    if inner != kind:  # of a oneof the last counts, of one kind all together
                        kind, parts = inner, []
                    parts.extend(_parts(data, first, last, kind=kind))
    if kind == _BYTES[0]:
        return name, parts
    if kind == _FLOATS[0]:
        return name, np.frombuffer(b"".join(parts), "<f4")
    if kind == _INTS[0]:
        try:
            return name, decode_varints(b"".join(parts))
        except ValueError as error:
            raise ExampleError(f"feature {name!r}: {error}") from error
    return name, None


def _parts(data: bytes, at: int, stop: int, *, kind: int) -> Iterator[bytes]:
    """Yields the byte strings of a list, or stretches of whole encoded numbers."""
    for tag, start, end in _spans(data, at, stop):
        if tag == _FIRST[0]:
            if kind == _FLOATS[0] and (end - start) % 4:
                raise ExampleError(
                    f"floats at byte {start} take {end - start} bytes, expected 4 each"
                )
            if kind == _INTS[0] and start < end and data[end - 1] > 0x7F:
                raise ExampleError(f"the last of the integers before byte {end} is cut off")
            yield data[start:end]
        elif tag == _UNPACKED.get(kind):
            yield data[start:end]


def _spans(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yields the fields of the message data[at:stop]: tag, and where the content is."""
    while at < stop:
        tag = data[at]
        if tag in _KINDS and at + 1 < stop and data[at + 1] < 0x80:  # what is common, fast
            start = at + 2
            at = start + data[at + 1]
            if at > stop:
                raise _too_long(start, at, stop)
        else:
            tag, at = _varint(data, at, stop)
            start, at = _content(data, tag, at, stop)
        yield tag, start, at


def _content(data: bytes, tag: int, at: int, stop: int) -> tuple[int, int]:
    """Where the content of a field begins and ends, given where its tag ends."""
    number, wire_type = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise ExampleError(f"before byte {at}: no field can have the number {number}")
    if wire_type == 2:
        size, at = _varint(data, at, stop)
        end = at + size
    elif wire_type == 0:
        end = _varint(data, at, stop)[1]
    elif wire_type == 1:
        end = at + 8
    elif wire_type == 5:
        end = at + 4
    elif wire_type == 3:
        end = _end_of_group(data, number, at, stop)
    else:
        raise ExampleError(f"before byte {at}: no field can begin with the wire type {wire_type}")
    if end > stop:
        raise _too_long(at, end, stop)
    return at, end


def _too_long(at: int, end: int, stop: int) -> ExampleError:
    return ExampleError(f"the field at byte {at} ends at {end}, but its message at {stop}")


def _end_of_group(data: bytes, number: int, at: int, stop: int) -> int:
    """Where a group ends, its closing tag included."""
    opened = [number]
    while opened:
        tag, at = _varint(data, at, stop)
        if tag & 7 == 3:
            opened.append(tag >> 3)
        elif tag & 7 != 4:
            at = _content(data, tag, at, stop)[1]
        elif opened.pop() != tag >> 3:
            raise ExampleError(f"before byte {at}: a group ends that did not begin")
    return at


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    if at < stop and data[at] < 0x80:
        return data[at], at + 1
    try:
        return read_varint(data, at, stop)
    except ValueError as error:
        raise ExampleError(str(error)) from error
