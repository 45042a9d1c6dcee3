"""Arrow files and pieces in staging, which are checked when they are read.

A store can return other bytes than it holds, and hold other bytes than were written. So Arrow files
in a store have a header with the range and the checksum of each column, and each piece of another
file is followed by its checksum. Content that does not match is read again before it counts as
damaged. Local files are validated by their structure: a later run compares their checksums.
"""

from __future__ import annotations

import itertools
import json
import mmap
import operator
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import xxhash

from recordmill.errors import DamageError
from recordmill.job.staging import advice_on, to_json
from recordmill.storage.files import Location, results_of_each, shown
from recordmill.transforms.model import batch
from recordmill.transforms.staged.mapped_files import open_arrow, read_or_take, read_range

T = TypeVar("T")

PIECE_SUM = 8  # bytes of the checksum that follows a piece
_LENGTH = struct.Struct("<Q")  # of the header, which follows
_LONGEST = 1 << 26  # bytes of a header; more is damage
_ALIGNED = 64  # bytes; the Arrow file behind the header starts at a multiple
_FIRST = 1 << 19  # bytes that are read first: most files are smaller
_READ = 2 << 20  # bytes of a further read
_GAP = 1 << 16  # bytes between ranges that are read together
_ATTEMPTS = 3  # of reads from a store
# Errors of pyarrow and Python for damaged bytes. Errors of storage are none of these.
_DAMAGE = (pa.ArrowException, OSError, ValueError, struct.error)


def read_checked(place: Location, read: Callable[[], T]) -> T:
    """Call a function that reads a staged file, again if a store may have sent other bytes.

    Raises:
      DamageError: the function failed every time with an error of damaged bytes.
    """
    for left in reversed(range(1 if place.is_local else _ATTEMPTS)):
        try:
            return read()
        except MemoryError:  # also for a size that is damaged
            if not left:
                raise
        except _DAMAGE as error:
            if not left:
                what = str(error).partition("\n")[0].rstrip(".")
                raise DamageError(
                    f"{shown(place)} is damaged: {what}; {advice_on(place)}"
                ) from error
    raise AssertionError


def arrow_file(rows: pa.RecordBatch, place: Location) -> pa.Buffer:
    """Return rows as a file for a place in staging: an Arrow file, in a store behind a header."""
    data = batch.to_buffer(rows, pa.ipc.new_file)
    return data if place.is_local else pa.py_buffer(b"".join((_header_of(data), data)))


def read_arrow(place: Location, columns: Collection[str] | None = None) -> pa.RecordBatch:
    """Read a file of `arrow_file`, memory-mapped if it is local.

    columns: names of the columns to read, if the file has them; None reads all.

    Raises:
      DamageError: the file is damaged.
    """
    if place.is_local:
        return read_checked(place, lambda: _rows(open_arrow(place), columns))
    attempts = itertools.count()
    return read_checked(place, lambda: _rows(_stored(place, columns, next(attempts)), columns))


def _rows(source: Any, columns: Collection[str] | None) -> pa.RecordBatch:
    try:
        reader = pa.ipc.open_file(source)
    except pa.ArrowInvalid as error:
        raise ValueError("it is not an Arrow file") from error
    wanted = None
    if columns is not None:
        schema = reader.schema
        wanted = [name for name in schema.names if name in columns]
        if not isinstance(source, pa.MemoryMappedFile):  # some columns of which are copied
            fields = [schema.get_field_index(name) for name in wanted]
            reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=fields))
    rows = reader.get_batch(0)
    if wanted is not None:
        rows = rows.select(wanted)
    rows.validate()
    return rows


def _header_of(data: pa.Buffer) -> bytes:
    """Return the header of an Arrow file in a store: its size, and (start, end, sum) of ranges.

    `columns` has the range of the values of each column, `others` the ranges between them (schema,
    dictionaries, footer).
    """
    rows = pa.ipc.open_file(data).get_batch(0)
    ranges = {name: _range_of(rows[name], data) for name in rows.schema.names}
    columns = {name: (*one, _sum(data, *one)) for name, one in ranges.items()}
    edges = [0, *itertools.chain.from_iterable(sorted(ranges.values())), data.size]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    others = [(*gap, _sum(data, *gap)) for gap in gaps if gap[0] < gap[1]]
    text = to_json({"size": data.size, "columns": columns, "others": others})
    header = _LENGTH.pack(len(text)) + text + piece_sum(text)
    return header + bytes(-len(header) % _ALIGNED)


def _range_of(column: pa.Array, data: pa.Buffer) -> tuple[int, int]:
    """Return the range of the values of a column, without its dictionary; (0, 0) if it has none."""
    buffers = [one for one in column.buffers() if one is not None and one.size]
    if not buffers:
        return 0, 0
    starts = [one.address - data.address for one in buffers]
    return min(starts), max(map(operator.add, starts, (one.size for one in buffers)))


def _sum(data: pa.Buffer, start: int, end: int) -> str:
    return xxhash.xxh3_64_hexdigest(data.slice(start, end - start))


def _stored(place: Location, columns: Collection[str] | None, attempt: int) -> pa.BufferReader:
    """Read an Arrow file of a store, of which only the ranges of some columns are filled."""
    first = read_or_take(place, 0, _FIRST, again=attempt > 0)
    (length,) = _LENGTH.unpack_from(first)
    end = _LENGTH.size + length
    if length > _LONGEST:
        raise ValueError("its header has no valid length")
    if len(first) == _FIRST < end + PIECE_SUM:
        first += place.read_range(_FIRST, end + PIECE_SUM - _FIRST)
    text = first[_LENGTH.size : end]
    if len(text) < length or first[end : end + PIECE_SUM] != piece_sum(text):
        raise ValueError("the checksum of its header does not match")
    header = json.loads(text)
    begin = end + PIECE_SUM + -(end + PIECE_SUM) % _ALIGNED
    parts = header["others"] + [
        part for name, part in header["columns"].items() if columns is None or name in columns
    ]
    data = _filled(place, first[begin:], begin, header["size"], sorted(parts))
    for start, end, expected in parts:
        if _sum(data, start, end) != expected:
            raise ValueError(f"the checksum of its bytes {start:,} to {end:,} does not match")
    return pa.BufferReader(data)


def _filled(
    place: Location, first: bytes, begin: int, size: int, parts: Sequence[tuple[int, int, str]]
) -> pa.Buffer:
    """Return the `size` bytes of a file from `begin` on, of which only some parts are filled.

    first: the first of these bytes, already read. Others are read in parallel.
    """
    if len(first) >= size:
        return pa.py_buffer(first).slice(0, size)
    # Pages that are not filled take no memory.
    data = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    data[: len(first)] = first
    ranges: list[tuple[int, int]] = []
    for start, end, _ in parts:
        start = max(start, len(first))
        if start >= end:
            continue
        if ranges and start - ranges[-1][1] <= _GAP:
            start = ranges.pop()[0]
        ranges += [(at, min(at + _READ, end)) for at in range(start, end, _READ)]

    def read(one: tuple[int, int]) -> bytes:
        return place.read_range(begin + one[0], one[1] - one[0])

    for (start, end), some in zip(ranges, results_of_each(read, ranges, at=place), strict=True):
        if len(some) != end - start:
            raise ValueError("it ends early")
        data[start:end] = some
    return pa.py_buffer(data)


def piece_sum(piece: bytes | pa.Buffer) -> bytes:
    """Return the checksum that follows a piece of a staged file."""
    return xxhash.xxh3_64_digest(piece)


def read_piece(place: Location, offset: int, length: int, *, mapped: bool = False) -> pa.Buffer:
    """Read a piece of a staged file, and compare it with the checksum that follows.

    mapped: whether to map it into memory, if it is local, instead of copying it.

    Raises:
      DamageError: the piece is damaged.
    """

    attempts = itertools.count()
    size = length + PIECE_SUM

    def read() -> pa.Buffer:
        if mapped and place.is_local:
            both = read_range(place, offset, size)
        else:
            both = pa.py_buffer(read_or_take(place, offset, size, again=next(attempts) > 0))
        piece = both.slice(0, length)
        if both.slice(length).to_pybytes() != piece_sum(piece):
            raise ValueError(f"the checksum of the {length:,} bytes from {offset:,} does not match")
        return piece

    return read_checked(place, read)
