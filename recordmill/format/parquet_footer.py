"""Opens Parquet files of untrusted datasets with bounded memory.

pyarrow builds the schema by recursion. If columns are nested several thousand levels deep, this
crashes the process; with somewhat fewer levels it takes minutes. A few bytes can also stand for
millions of rows, or for millions of copies of a long text.

Source: the compact protocol of Thrift
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), and
FileMetaData and SchemaElement (https://github.com/apache/parquet-format).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_TAIL = 8  # bytes: length of the footer, magic
_SMALL = 4096  # bytes; a smaller footer has columns of fewer than a thousand levels
_DEEPEST = 100

# Every row has at least a key of 5 bytes, or hashes of 32, of which Snappy leaves a twentieth.
_ROWS_PER_BYTE = 8
_CODECS = ("UNCOMPRESSED", "SNAPPY")  # that Recordmill writes; others can pack a thousand times
_TEXTS_PER_BYTE = 64  # bytes of texts in a column of dictionary codes, for each byte of the file
_LEAST_TEXTS = 256 << 20

_SCHEMA, _CHILDREN = 2, 5  # numbers of fields
_BOOLS, _BYTE, _INTS, _DOUBLE, _BINARY = (1, 2), 3, (4, 5, 6), 7, 8  # types
_LISTS, _STRUCT = (9, 10), 12


class ParquetBoundsError(ValueError):
    """A Parquet file whose content would take far more memory than it has bytes."""


def open_parquet(
    file: BinaryIO, *, dictionaries: Collection[str] = (), buffer_size: int = 0
) -> tuple[pq.ParquetFile, int]:
    """Open an index or recipes, after checking that its content is in proportion to its size.

    dictionaries: paths of columns to read as dictionaries. Columns of texts that are stored as
      dictionaries are read so in any case; `plain_texts` converts them.

    Returns:
      The opened file, and its size in bytes.

    Raises:
      ParquetBoundsError: it has too many rows, or another compression than Recordmill writes.
      ArrowException, OSError: it is not Parquet.
    """
    size = file.seek(0, io.SEEK_END)
    check_footer(file)
    metadata = pq.read_metadata(file)
    rows, coded = metadata.num_rows, set[str]()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.compression not in _CODECS:
                raise ParquetBoundsError(
                    f"its column {column.path_in_schema} is compressed with {column.compression};"
                    f" expected {' or '.join(_CODECS)}"
                )
            rows = max(rows, column.num_values)
            name = column.path_in_schema
            is_coded = column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
            if is_coded or name in dictionaries:
                coded.add(name)
    if rows > size * _ROWS_PER_BYTE:
        raise ParquetBoundsError(f"states {rows} rows, but is only {size} bytes")
    # No threads: one that releases the stream while Python exits would abort the process.
    try:
        opened = pq.ParquetFile(
            file,
            metadata=metadata,
            page_checksum_verification=True,
            pre_buffer=False,
            read_dictionary=sorted(coded),
            buffer_size=buffer_size,
        )
    except KeyError as error:
        raise pa.ArrowInvalid(f"its schema has no column {error}, of which it has values") from None
    return opened, size


def plain_texts(table: pa.Table, size: int, keep: Collection[str] = ()) -> pa.Table:
    """Return a table with texts instead of dictionaries.

    size: of the file in bytes. keep: names of columns that stay as they are.

    Raises:
      ParquetBoundsError: the texts take far more memory than the file has bytes.
    """
    for at, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if name in keep:
            continue
        kind = column.type
        is_list = pa.types.is_list(kind)
        value_type = kind.value_type if is_list else kind
        if not pa.types.is_dictionary(value_type):
            continue
        texts = sum(_text_bytes(chunk.flatten() if is_list else chunk) for chunk in column.chunks)
        if texts > max(_LEAST_TEXTS, size * _TEXTS_PER_BYTE):
            raise ParquetBoundsError(
                f"the texts of its column {name} take {texts} bytes, but it is only {size} bytes"
            )
        plain = value_type.value_type
        table = table.set_column(at, name, column.cast(pa.list_(plain) if is_list else plain))
    return table


def _text_bytes(codes: pa.DictionaryArray) -> int:
    lengths = np.asarray(pc.binary_length(codes.dictionary).fill_null(0)).astype(np.int64)
    used = np.asarray(codes.indices.drop_null())
    return int((np.bincount(used, minlength=len(lengths)) * lengths).sum())


def check_footer(file: BinaryIO) -> None:
    """Raise ArrowInvalid if columns are nested more than 100 levels deep, and rewind the file.

    Other damage is left to pyarrow.
    """
    size = file.seek(0, io.SEEK_END)
    if size > _SMALL:
        file.seek(-_TAIL, io.SEEK_END)
        tail = file.read(_TAIL)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] == _MAGIC and _SMALL < length <= size - _TAIL:
            file.seek(-_TAIL - length, io.SEEK_END)
            # A footer that is cut off, or nested outside of the schema, is left to pyarrow, too.
            with contextlib.suppress(IndexError, RecursionError):
                _check_depth(_Compact(file.read(length)))
    file.seek(0)


def _check_depth(footer: _Compact) -> None:
    for number, kind in footer.fields():
        if number != _SCHEMA or kind not in _LISTS:
            footer.skip(kind)
            continue
        left: list[int] = []  # children that each open group still expects
        for _ in range(footer.list_header()[0]):
            children = 0
            for field, field_kind in footer.fields():
                if field == _CHILDREN and field_kind in _INTS:
                    children = footer.number() >> 1
                else:
                    footer.skip(field_kind)
            if left:
                left[-1] -= 1
            if children > 0:
                left.append(children)
            while left and left[-1] <= 0:
                left.pop()
            if len(left) > _DEEPEST:
                raise pa.ArrowInvalid(f"columns are nested more than {_DEEPEST} deep")
        return


class _Compact:
    """Reader of Thrift's compact protocol. Raises IndexError for invalid data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield (number, type) of the fields of a struct; the caller reads or skips each."""
        number = 0
        while start := self._byte():
            step, kind = start >> 4, start & 15
            if step:
                number += step
            else:
                number = self.number() >> 1
            yield number, kind

    def list_header(self) -> tuple[int, int]:
        """Read (number of elements, their type)."""
        start = self._byte()
        count = start >> 4
        return (self.number() if count == 15 else count), start & 15

    def number(self) -> int:
        """Read an unsigned varint; signed integers are zigzag-encoded in it."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise IndexError

    def skip(self, kind: int) -> None:
        """Skip a value of a type."""
        if kind == _BYTE:
            self._at += 1
        elif kind in _INTS:
            self.number()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            size = self.number()
            self._at += size
        elif kind in _LISTS:
            count, element = self.list_header()
            for _ in range(count):
                self.skip(_BYTE if element in _BOOLS else element)
        elif kind == _STRUCT:
            for _, field in self.fields():
                self.skip(field)
        elif kind not in _BOOLS:
            raise IndexError

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]
