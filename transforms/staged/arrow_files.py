"""Arrow files and pieces in staging, which are checked when they are read.

A store can return other bytes than it holds, and hold other bytes than were written. So Arrow files
in a store have a checksum of each column in the metadata of their schema, and each piece of another
file is followed by its checksum. Content that does not match is read again before it counts as
damaged. Local files are validated by their structure: a later run compares their checksums.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import pyarrow as pa
import xxhash

from recordmill import strict_json
from recordmill.errors import DamageError
from recordmill.job.staging import advice_on
from recordmill.storage.files import Location, shown
from recordmill.storage.read_ahead import InputRange, RangesAhead
from recordmill.storage.storage_errors import raise_storage_errors
from recordmill.transforms.model import batch
from recordmill.transforms.staged.mapped_files import open_arrow, read_range

T = TypeVar("T")

PIECE_SUM = 8  # bytes of the checksum that follows a piece
_SUMS = b"recordmill.checksums"  # {column: xxh3_64 in hex}, in the metadata of a schema
_ATTEMPTS = 3  # of reads from a store
# Errors of pyarrow and Python for damaged bytes. Errors of storage are none of these.
_DAMAGE = (pa.ArrowException, OSError, ValueError)


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
    """Return rows as an Arrow file for a place in staging."""
    data = batch.to_buffer(rows, pa.ipc.new_file)
    if place.is_local:
        return data
    rows = pa.ipc.open_file(data).get_batch(0)  # with the buffers that a reader will have
    sums = strict_json.to_text({name: _sum(rows, name) for name in rows.schema.names})
    metadata = {**(rows.schema.metadata or {}), _SUMS: sums}
    return batch.to_buffer(rows.replace_schema_metadata(metadata), pa.ipc.new_file)


def read_arrow(place: Location, columns: Collection[str] | None = None) -> pa.RecordBatch:
    """Read a file of `arrow_file`, memory-mapped if it is local.

    columns: names of the columns to read, if the file has them; None reads all.

    Raises:
      DamageError: the file is damaged.
    """
    return read_checked(place, lambda: _read(place, columns))


def _read(place: Location, columns: Collection[str] | None) -> pa.RecordBatch:
    source = open_arrow(place)
    try:
        reader = pa.ipc.open_file(source)
    except pa.ArrowInvalid as error:
        raise ValueError("it is not an Arrow file") from error
    schema = reader.schema
    wanted = None
    if columns is not None:
        wanted = [name for name in schema.names if name in columns]
        if not isinstance(source, pa.MemoryMappedFile):  # some columns of which are copied
            fields = [schema.get_field_index(name) for name in wanted]
            reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=fields))
    rows = reader.get_batch(0)
    if wanted is not None:
        rows = rows.select(wanted)
    rows.validate()
    if place.is_local:
        return rows
    metadata = dict(schema.metadata or {})
    sums = json.loads(metadata.pop(_SUMS, b"{}"))
    if {*sums} != {*schema.names}:
        raise ValueError("it has other columns than were written")
    for name in rows.schema.names:
        if _sum(rows, name) != sums[name]:
            raise ValueError(f"the checksum of its column {name!r} does not match")
    return rows.replace_schema_metadata(metadata or None)


def _sum(rows: pa.RecordBatch, name: str) -> str:
    """Return a checksum of a column as it is in the file."""
    found = xxhash.xxh3_64()
    field, column = rows.schema.field(name), rows[name]
    found.update(f"{field} {len(column)}".encode())
    _add(found, column)
    return found.hexdigest()


def _add(found: Any, column: pa.Array) -> None:
    for buffer in column.buffers():
        found.update(b"-" if buffer is None else buffer)
    if pa.types.is_dictionary(column.type):
        _add(found, column.dictionary)


def piece_sum(piece: bytes | pa.Buffer) -> bytes:
    """Return the checksum that follows a piece of a staged file."""
    return xxhash.xxh3_64_digest(piece)


def range_of_piece(place: Location, offset: int, length: int) -> InputRange:
    """Return the range of a piece of a file in a store, with its checksum."""
    return InputRange(str(place), None, offset, offset + length + PIECE_SUM)


def _read_once(wanted: InputRange) -> bytes:
    place = Location.parse(wanted.path)
    return place.store.read_range(place.path, wanted.start, wanted.end - wanted.start)


pieces_ahead = RangesAhead(_read_once)  # `read_piece` takes them


def read_piece(place: Location, offset: int, length: int, *, mapped: bool = False) -> pa.Buffer:
    """Read a piece of a staged file, and compare it with the checksum that follows.

    mapped: whether to map it into memory, if it is local, instead of copying it.

    Raises:
      DamageError: the piece is damaged.
    """

    is_first = not place.is_local

    def read() -> pa.Buffer:
        nonlocal is_first
        size = length + PIECE_SUM
        found: bytes | pa.Buffer | None = None
        if is_first:
            is_first = False
            with raise_storage_errors("read", place):
                found = pieces_ahead.take(range_of_piece(place, offset, length))
        if found is None:
            found = read_range(place, offset, size) if mapped else place.read_range(offset, size)
        both = pa.py_buffer(found)
        piece = both.slice(0, length)
        if both.slice(length).to_pybytes() != piece_sum(piece):
            raise ValueError(f"the checksum of the {length:,} bytes from {offset:,} does not match")
        return piece

    return read_checked(place, read)
