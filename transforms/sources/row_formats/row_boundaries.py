"""Where the rows of a text end: at line breaks, but for those that quotes hold inside a value.

Quotes are read as pyarrow's parser reads them (cpp/src/arrow/csv/parser.cc): one opens a value
only where the value begins; inside, a doubled one is a quote; what follows the closing one is data,
and so is every other quote.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

_NEWLINE, _RETURN, _QUOTE = b'\n\r"'

IntArray = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """Whole rows, one after the other.

    ends: int64[n], where each ends in data, its line break included; the last one may have none.
    spanning, trailing: int64[m], the rows with a value that spans lines, or goes on after its
      closing quote.
    left_open: whether a quote of the last row is never closed.
    """

    data: bytes
    ends: IntArray
    spanning: IntArray
    trailing: IntArray
    left_open: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class LargeRow:
    """A row above the limit, of which nothing is kept. size: bytes, its line break included."""

    size: int
    left_open: bool = False


def cut_rows(
    chunks: Iterable[bytes], *, limit: int, delimiter: bytes | None
) -> Iterator[Block | LargeRow]:
    """Cuts a stream, whatever the size of its chunks, where rows end.

    limit: bytes of a row that are held in memory, at most. Rows somewhat above it may still be in a
      Block.
    delimiter: of values that may stand in quotes; None where every line is a row.
    """
    kept = b""  # of the row that has begun; where it is too large, `_gist` of it
    gone = 0  # bytes of it that are kept no more
    for chunk in chunks:
        data = kept + chunk if kept else chunk
        block = _whole_rows(data, delimiter)
        if gone and len(block.ends):
            end = int(block.ends[0])
            yield LargeRow(size=gone + end - len(kept))
            data, kept, gone = data[end:], b"", 0
            block = _whole_rows(data, delimiter)
        if len(block.ends):
            yield block
            data, kept = data[len(block.data) :], b""
        if gone or len(data) > limit:
            gone += len(data) - (len(kept) if gone else 0)
            data = _gist(data, delimiter)
        kept = data
    if kept or gone:
        block = _last_row(kept, delimiter)
        if gone:
            yield LargeRow(size=gone, left_open=block.left_open)
        else:
            yield block


def row_ends(data: bytes, delimiter: bytes | None) -> IntArray:
    """Where each row of whole rows ends: int64[n]."""
    ends = _whole_rows(data, delimiter).ends
    return ends if not data or (len(ends) and ends[-1] == len(data)) else np.append(ends, len(data))


def _whole_rows(data: bytes, delimiter: bytes | None) -> Block:
    """The rows that end in data."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw == _NEWLINE) + 1
    none = np.zeros(0, np.int64)
    if delimiter is None or not len(ends) or b'"' not in data:
        end = int(ends[-1]) if len(ends) else 0
        return Block(data=data[:end], ends=ends, spanning=none, trailing=none)
    opening, closing = _quoted(data, raw, delimiter)
    inside = np.searchsorted(opening, ends - 1) > np.searchsorted(closing, ends - 1)
    held, ends = ends[inside], ends[~inside]
    end = int(ends[-1]) if len(ends) else 0
    after = raw[closing[closing < end - 1] + 1]
    fine = np.isin(after, np.frombuffer(delimiter + b'"\r\n', np.uint8))
    return Block(
        data=data[:end],
        ends=ends,
        spanning=_rows_of(held[held < end] - 1, ends),
        trailing=_rows_of(closing[closing < end - 1][~fine], ends),
    )


def _last_row(data: bytes, delimiter: bytes | None) -> Block:
    """The row that no line break ends."""
    block = _whole_rows(data + b"\n", delimiter)
    return dataclasses.replace(
        block, data=data, ends=np.array([len(data)], np.int64), left_open=not len(block.ends)
    )


def _rows_of(positions: IntArray, ends: IntArray) -> IntArray:
    """The rows in which the positions are, each once."""
    return np.unique(np.searchsorted(ends, positions, side="right"))


def _quoted(data: bytes, raw: npt.NDArray[np.uint8], delimiter: bytes) -> tuple[IntArray, IntArray]:
    """Opening and closing quotes; data begins with a row. One that is not closed has no partner.

    Where no quote is data, every second one opens (a doubled one closes and opens again), and that
    it does can be seen of all of them at once: it stands where a value begins, or right after the
    one before. Else each is looked at by itself.
    """
    marks = np.flatnonzero(raw == _QUOTE)
    opening, closing = marks[::2], marks[1::2]
    before = raw[opening - 1]
    right = (before == delimiter[0]) | (before == _NEWLINE) | (opening == 0)
    right[1:] |= opening[1:] == closing[: len(opening) - 1] + 1
    return (opening, closing) if right.all() else _quoted_one_by_one(data, delimiter)


def _quoted_one_by_one(data: bytes, delimiter: bytes) -> tuple[IntArray, IntArray]:
    find_opening = re.compile(b'"(?<![^%b\n]")' % re.escape(delimiter)).search
    opening, closing = [], []
    at = 0
    while found := find_opening(data, at):
        opening.append(found.start())
        end = data.find(b'"', found.end())
        while end >= 0 and data[end + 1 : end + 2] == b'"':
            end = data.find(b'"', end + 2)
        if end < 0:
            break
        closing.append(end)
        at = end + 1
    return np.array(opening, np.int64), np.array(closing, np.int64)


def _gist(row: bytes, delimiter: bytes | None) -> bytes:
    """A few bytes after which quotes mean what they mean after all of a row's beginning."""
    if delimiter is None:
        return b""
    opening, closing = _quoted(row, np.frombuffer(row, np.uint8), delimiter)
    if len(opening) > len(closing):
        return b'"'
    if len(closing) and closing[-1] == len(row) - 1:
        return b'""'  # perhaps the first half of a doubled one
    return delimiter if row.endswith(delimiter) else b"x"
