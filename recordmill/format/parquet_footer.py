"""Check of the footer of a Parquet file, before pyarrow parses it.

pyarrow builds the schema by recursion. If columns are nested several thousand levels deep, this
crashes the process; with somewhat fewer levels it takes minutes.

Source: the compact protocol of Thrift
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), and
FileMetaData and SchemaElement (https://github.com/apache/parquet-format).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

_MAGIC = b"PAR1"
_TAIL = 8  # bytes: length of the footer, magic
_SMALL = 4096  # bytes; a smaller footer has columns of fewer than a thousand levels
_DEEPEST = 100

_SCHEMA, _CHILDREN = 2, 5  # numbers of fields
_BOOLS, _BYTE, _INTS, _DOUBLE, _BINARY = (1, 2), 3, (4, 5, 6), 7, 8  # types
_LISTS, _STRUCT = (9, 10), 12


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
