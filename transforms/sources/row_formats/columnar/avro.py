"""Avro files, which declare the types of their columns."""

from __future__ import annotations

import contextlib
import io
import itertools
import lzma
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.columnar.columnar import (
    ColumnarFile,
    group_units,
    split_rows,
)
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection

_SYNC = 16  # bytes of the sync marker after a block
_MOST_ROWS = 1 << 15  # per byte of a compressed block
_LONG_BYTES = 10  # of a number, at most
_CRC_BYTES = 4  # after a block that snappy compressed
_LENGTH_BYTES = 5  # of the length before it, at most
_MOST_EXPANSION = 64  # by snappy: 3 bytes copy up to 64

# Errors of fastavro for invalid headers and blocks.
_INVALID = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
    lzma.LZMAError,
    pa.ArrowException,
    struct.error,
    zlib.error,
)
_PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_TIMES: Mapping[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


class _DamagedBlockError(ValueError):
    """A damaged block; the message says what is wrong."""


class AvroFile(ColumnarFile):
    """Avro file. A section is a range of blocks, given by byte offsets."""

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        with self._opened() as (file, _):
            places, units = [file.tell()], []
            end = file.seek(0, io.SEEK_END)
            file.seek(places[0])
            while head := _block(file):
                count, size = head
                begin = file.tell()
                # Every record takes a byte at least, before the block is compressed.
                if not (0 <= count <= size * _MOST_ROWS and 0 <= size <= end - begin - _SYNC):
                    raise ConfigError(
                        f"{self.origin.place}: the block at byte {places[-1]} claims {count} rows"
                        f" in {size} bytes, and {max(end - begin - _SYNC, 0)} follow"
                    )
                file.seek(size + _SYNC, io.SEEK_CUR)
                places.append(file.tell())
                units.append((count, places[-1] - places[-2]))
        for section in group_units(units, size):
            yield section._replace(start=places[section.start], end=places[section.end])

    def _schema(self) -> pa.Schema:
        with self._opened() as (_, schema), self._reporting_damage():
            return pa.schema([_field(one, self.origin.place) for one in schema["fields"]])

    def _parts(self, section: FileSection, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._opened() as (file, schema):
            first = file.tell()
            file.seek(0)
            head = file.read(first)
            file.seek(section.start)
            content = io.BytesIO(head + file.read(section.end - section.start))
        with self._reporting_damage():
            content = _without_snappy(content, first)
        wanted = schema | {"fields": [one for one in schema["fields"] if one["name"] in names]}
        fields = self._schema()
        with self.origin.parsing(), self._reporting_damage():
            reader = fastavro.reader(content, wanted, handle_unicode_errors="surrogateescape")
        while True:
            with self.origin.parsing(), self._reporting_damage():
                records: list[Any] = list(itertools.islice(reader, limits.PART_ROWS))
                batches = list(_batches(records, fields, names))
            yield from batches
            if not records:
                return

    @contextlib.contextmanager
    def _reporting_damage(self) -> Iterator[None]:
        """Raise the errors of fastavro for a damaged file as ConfigError."""
        try:
            yield
        except ConfigError:
            raise
        except _INVALID as error:
            raise ConfigError(
                f"cannot parse the {self.origin.noun} {self.origin.place}: damaged Avro"
                f" ({error if isinstance(error, _DamagedBlockError) else type(error).__name__})"
            ) from error

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[BinaryIO, dict[str, Any]]]:
        """Open the file after its header. Yields the file and its schema."""
        with self.origin.parsing(), self.origin.open() as file:
            try:
                schema: Any = fastavro.block_reader(file).writer_schema
            except _INVALID as error:
                found = self.origin.other_content() or "not an Avro file"
                raise ConfigError(f"{self.origin.place} is {found}") from error
            if not isinstance(schema, dict) or schema.get("type") != "record":
                raise ConfigError(
                    f"{self.origin.place}: expected a schema of records, got {str(schema)[:200]}"
                )
            yield file, schema


def _without_snappy(content: io.BytesIO, first: int) -> io.BytesIO:
    """Return Avro without compression if it is compressed by snappy, else unchanged.

    fastavro needs another package for snappy, and does not check the CRC-32 of its blocks.

    first: offset of the first block.

    Raises:
      _DamagedBlockError, ArrowException: a block is damaged.
    """
    reader = fastavro.block_reader(content)
    if reader.codec != "snappy":
        content.seek(0)
        return content
    head = content.getvalue()[:first]
    plain = io.BytesIO()
    fastavro.writer(plain, reader.writer_schema, (), sync_marker=head[-_SYNC:])
    plain.seek(0, io.SEEK_END)
    content.seek(first)
    while found := _block(content):
        count, size = found
        data = _from_snappy(content.read(size))
        sync = content.read(_SYNC)
        plain.write(b"".join((_long_bytes(count), _long_bytes(len(data)), data, sync)))
    plain.seek(0)
    return plain


def _from_snappy(block: bytes) -> bytes:
    """Return the content of a block. Raises `_DamagedBlockError`, or an error of Arrow.

    Source: https://avro.apache.org/docs/1.12.0/specification/#snappy; the length of the content
    comes first, https://github.com/google/snappy/blob/main/format_description.txt.
    """
    data, crc = block[:-_CRC_BYTES], int.from_bytes(block[-_CRC_BYTES:])
    length = 0
    for place, byte in enumerate(data[:_LENGTH_BYTES]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if length > _MOST_EXPANSION * len(data):
        raise _DamagedBlockError(f"a block of {len(data)} bytes declares {length}")
    content: bytes = pa.Codec("snappy").decompress(data, length, asbytes=True)
    if zlib.crc32(content) != crc:
        raise _DamagedBlockError("the checksum of a block does not match its content")
    return content


def _long_bytes(value: int) -> bytes:
    """Return a number of at least 0 in the zigzag encoding that `_long` reads."""
    value <<= 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _block(file: BinaryIO) -> tuple[int, int] | None:
    """Return (records, bytes) of the next block, None at the end."""
    count = _long(file)
    size = None if count is None else _long(file)
    return None if count is None or size is None else (count, size)


def _long(file: BinaryIO) -> int | None:
    value, shift = 0, 0
    while shift < 7 * _LONG_BYTES and (byte := file.read(1)):
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return value >> 1 ^ -(value & 1)
    return None


def _field(field: Mapping[str, Any], place: object) -> pa.Field:
    kind, nullable = _type(field["type"])
    if kind is None:
        shown = str(field["type"])[:200]
        raise ConfigError(
            f"column {field['name']!r} of {place} has the Avro type {shown}: expected "
            "numbers, bools, strings, bytes, dates, timestamps, or arrays of these, optionally "
            "null; write the file without the column"
        )
    return pa.field(field["name"], kind, nullable)


def _type(declared: Any) -> tuple[pa.DataType | None, bool]:
    """Return (type, nullable) of an Avro type; the type is None if it is not supported."""
    if isinstance(declared, list):
        others = [one for one in declared if one != "null"]
        kind = _type(others[0])[0] if len(others) == 1 else None
        return kind, len(others) < len(declared)
    if isinstance(declared, str):
        return _PRIMITIVES.get(declared), False
    if declared.get("logicalType") in _TIMES:
        return _TIMES[declared["logicalType"]], False
    if declared["type"] == "array":
        item = _type(declared["items"])[0]
        return (None if item is None else pa.list_(item)), False
    if declared["type"] == "fixed" and declared["size"] < 1:
        return None, False  # it takes no bytes, so that a block could claim any number of them
    return _type(declared["type"])[0], False


def _batches(
    records: Sequence[Mapping[str, Any]], schema: pa.Schema, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    if records:
        fields = [schema.field(name) for name in names]
        arrays = [_array([record[f.name] for record in records], f.type) for f in fields]
        yield from split_rows(pa.record_batch(arrays, schema=pa.schema(fields)))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind != pa.string():
        return pa.array(values, kind)
    # Invalid UTF-8 is found later, row by row.
    encoded = [None if v is None else v.encode("utf-8", "surrogateescape") for v in values]
    return pa.array(encoded, pa.binary()).cast(pa.string(), safe=False)
