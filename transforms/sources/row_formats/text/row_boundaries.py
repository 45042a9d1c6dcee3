"""Splitting of text into rows at line breaks outside of quotes.

Quotes follow the rules of pyarrow's parser (cpp/src/arrow/csv/parser.cc): a quote opens a value
only at the beginning of the value; inside a quoted value, a doubled quote is a literal quote; text
after the closing quote, and any other quote, is data. An escape character makes the next byte data,
inside and outside of quotes. Where values are trimmed, spaces around their quotes do not count.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

_NEWLINE, _QUOTE, _SPACE = b'\n" '

# The spaces around a line end, at the ends of the data, and inside of a row; or a quoted value.
_ENDS = rb"[ \t]*(?P<end>\r?\n)[ \t]*|\A[ \t]+|[ \t]+\Z|(?P<run>[ \t]+)"
_RUNS = re.compile(_ENDS)
_QUOTED_RUNS = re.compile(rb'(?<![^ \t\n])"(?:[^"]|"")*"|' + _ENDS)

IntArray = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuoteRules:
    """Rules of quoted values.

    delimiter: byte between values. escape: byte that makes the next byte data; empty for none.
    spaces: whether spaces may stand before an opening quote and after a closing one.
    """

    delimiter: bytes
    escape: bytes = b""
    spaces: bool = False

    def mask(self, data: bytes) -> bytes:
        """Return data of the same length in which escaped bytes are letters.

        An escape byte at the end, whose next byte is not known yet, stays.
        """
        if not self.escape or self.escape not in data:
            return data
        return re.sub(re.escape(self.escape) + b"(?s:.)", b"xx", data)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive whole rows.

    data: bytes of the rows.
    ends: end offset of each row in data, with its line break, int64[n]. The last row may have none.
    spanning: indices of the rows with a value that spans lines, if each line may be a row, because
    it has as many delimiters as the row, and no quote is doubled, int64[m].
    trailing: indices of the rows with text after a closing quote, int64[m].
    spaced: indices of the rows with a quote that would open a value without the spaces before it,
    int64[m].
    unclosed: offsets of the quotes that open a value over several lines whose closing quote is at
    the beginning of a value and has text after it, so that it may be an opening one, int64[m].
    unclosed_quote: whether a quote in the last row is never closed.
    """

    data: bytes
    ends: IntArray
    spanning: IntArray
    trailing: IntArray
    spaced: IntArray
    unclosed: IntArray
    unclosed_quote: bool = False

    def rows_at(self, offsets: IntArray) -> IntArray:
        """Return the indices of the rows that contain the offsets, without repetition."""
        return np.unique(np.searchsorted(self.ends, offsets, side="right"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LargeRow:
    """A row above the size limit, without its content. size: bytes, with its line break."""

    size: int
    unclosed_quote: bool = False


def cut_rows(
    chunks: Iterable[bytes], *, limit: int, rules: QuoteRules | None
) -> Iterator[Block | LargeRow]:
    """Split a stream of chunks of any size into blocks of whole rows.

    Args:
      chunks: of the stream.
      limit: maximum size of a row that is held in memory. A Block may still contain rows slightly
        above it.
      rules: of quotes; None if every line is a row.
    """
    kept = b""  # the incomplete row; if it is too large, its `_quote_state`
    dropped = 0  # bytes of it that are no longer in memory
    for chunk in chunks:
        data = kept + chunk if kept else chunk
        block = _whole_rows(data, rules)
        if dropped and len(block.ends):
            end = int(block.ends[0])
            yield LargeRow(size=dropped + end - len(kept))
            data, kept, dropped = data[end:], b"", 0
            block = _whole_rows(data, rules)
        if len(block.ends):
            yield block
            data, kept = data[len(block.data) :], b""
        if dropped or len(data) > limit:
            dropped += len(data) - (len(kept) if dropped else 0)
            data = _quote_state(data, rules)
        kept = data
    if kept or dropped:
        block = _last_row(kept, rules)
        if dropped:
            yield LargeRow(size=dropped, unclosed_quote=block.unclosed_quote)
        else:
            yield block


def row_ends(data: bytes, rules: QuoteRules | None) -> IntArray:
    """Return the end offset of each row of whole rows, int64[n]."""
    ends = _whole_rows(data, rules).ends
    return ends if not data or (len(ends) and ends[-1] == len(data)) else np.append(ends, len(data))


def _whole_rows(data: bytes, rules: QuoteRules | None) -> Block:
    """Return the rows that end in data."""
    masked = data if rules is None else rules.mask(data)
    raw = np.frombuffer(masked, np.uint8)
    ends = np.flatnonzero(raw == _NEWLINE) + 1
    none = np.zeros(0, np.int64)
    if rules is None or not len(ends) or b'"' not in masked:
        end = int(ends[-1]) if len(ends) else 0
        return Block(
            data=data[:end],
            ends=ends,
            spanning=none,
            trailing=none,
            spaced=none,
            unclosed=none,
        )
    opening, closing, others = _find_quotes(masked, raw, rules)
    inside = np.searchsorted(opening, ends - 1) > np.searchsorted(closing, ends - 1)
    lines, held, ends = ends, ends[inside], ends[~inside]
    end = int(ends[-1]) if len(ends) else 0
    closed = closing[closing < end - 1]
    after = raw[_next_solid(raw, closed)] if rules.spaces else raw[closed + 1]
    odd = closed[~_among(after, rules.delimiter + b'"\r\n')]
    before = _among(raw[odd - 1], rules.delimiter + b"\n")
    begins = odd[before & (raw[odd + 1] != _SPACE)]
    starts = [_opening_of(int(close), opening, closing) for close in begins.tolist()]
    spans = [masked.find(b"\n", at, close) >= 0 for at, close in zip(starts, begins, strict=True)]
    spaced = none if rules.spaces else _spaced_quotes(others, raw, opening, closing, rules)
    return Block(
        data=data[:end],
        ends=ends,
        spanning=_rows_of_possible_rows(
            lines, held[held < end], ends, opening, closing, raw, rules
        ),
        trailing=_rows_of(odd, ends),
        spaced=_rows_of(spaced[spaced < end], ends),
        unclosed=np.array(starts, np.int64)[np.array(spans, np.bool_)],
    )


def _rows_of_possible_rows(
    lines: IntArray,
    held: IntArray,
    ends: IntArray,
    opening: IntArray,
    closing: IntArray,
    raw: npt.NDArray[np.uint8],
    rules: QuoteRules,
) -> IntArray:
    """Return the indices of rows with values that span lines, if each line may be a row.

    Args:
      lines: End offsets of all lines.
      held: End offsets of the lines that end inside a value.
      ends: End offsets of the rows.
      opening: Offsets of opening quotes.
      closing: Offsets of closing quotes.
      raw: The data.
      rules: Rules of quotes.
    """
    spanning = _rows_of(held - 1, ends)
    if not len(spanning):
        return spanning
    lines = lines[lines <= ends[-1]]
    marks = np.flatnonzero(raw[: ends[-1]] == rules.delimiter[0])
    outside = marks[np.searchsorted(opening, marks) == np.searchsorted(closing, marks)]
    of_lines = np.diff(np.searchsorted(marks, lines), prepend=0)
    of_rows = np.diff(np.searchsorted(outside, ends), prepend=0)
    row_of = np.searchsorted(ends, lines - 1, side="right")
    others = row_of[of_lines != of_rows[row_of]]
    doubled = closing[: len(opening) - 1][closing[: len(opening) - 1] + 1 == opening[1:]]
    doubled = np.searchsorted(ends, doubled, side="right")
    possible = np.ones(len(ends) + 1, np.bool_)
    possible[others] = possible[doubled] = False
    return spanning[possible[spanning]]


def _opening_of(close: int, opening: IntArray, closing: IntArray) -> int:
    """Return the offset of the opening quote of a value, given that of its closing quote."""
    at = int(np.searchsorted(closing, close))
    while at and opening[at] == closing[at - 1] + 1:  # a doubled quote
        at -= 1
    return int(opening[at])


def _last_row(data: bytes, rules: QuoteRules | None) -> Block:
    """Return the last row, which has no line break."""
    block = _whole_rows(data + b"\n", rules)
    return dataclasses.replace(
        block, data=data, ends=np.array([len(data)], np.int64), unclosed_quote=not len(block.ends)
    )


def _among(values: npt.NDArray[np.uint8], chars: bytes) -> npt.NDArray[np.bool_]:
    """Return whether each byte is in `chars`, much faster than `np.isin` if these are few."""
    return _members(chars)[values]


@functools.lru_cache(maxsize=64)
def _members(chars: bytes) -> npt.NDArray[np.bool_]:
    """Return for each of the 256 bytes whether it is in `chars`."""
    found = np.zeros(256, np.bool_)
    found[[*chars]] = True
    return found


def _rows_of(positions: IntArray, ends: IntArray) -> IntArray:
    """Return the indices of the rows that contain the positions, without repetition."""
    if not len(positions):
        return np.zeros(0, np.int64)
    return np.unique(np.searchsorted(ends, positions, side="right"))


def single_spaces(data: bytes, *, quotes: bool) -> bytes:
    """Return whole rows with a space for each run of spaces and tabs, none at the ends of rows.

    quotes: whether quotes enclose values, in which spaces stay.
    """
    pattern = _QUOTED_RUNS if quotes else _RUNS

    def spaced(found: re.Match[bytes]) -> bytes:
        if found[0][:1] == b'"':
            return found[0]
        return found["end"] or b" " * (found["run"] is not None)

    return pattern.sub(spaced, data)


def drop_spaces(data: bytes, rules: QuoteRules) -> bytes:
    """Return whole rows without the spaces before opening and after closing quotes."""
    if not rules.spaces or (b' "' not in data and b'" ' not in data):
        return data
    masked = rules.mask(data)
    raw = np.frombuffer(masked, np.uint8)
    opening, closing, _ = _find_quotes(masked, raw, rules)
    after = _next_solid(raw, closing)
    ended = np.append(raw, _NEWLINE)[after]
    ends_value = _among(ended, rules.delimiter + b"\r\n")
    edges = np.zeros(len(data) + 1, np.int8)  # 1 where spaces to drop begin, -1 where they end
    edges[_last_solid(raw, opening) + 1] += 1
    edges[opening] -= 1
    edges[closing[ends_value] + 1] += 1
    edges[after[ends_value]] -= 1
    kept: bytes = np.frombuffer(data, np.uint8)[np.cumsum(edges[:-1]) == 0].tobytes()
    return kept


def _last_solid(raw: npt.NDArray[np.uint8], offsets: IntArray) -> IntArray:
    """Return the offset of the last byte before each offset that is no space, else -1."""
    solid = np.append(-1, np.flatnonzero(raw != _SPACE))
    return solid[np.searchsorted(solid, offsets) - 1]


def _next_solid(raw: npt.NDArray[np.uint8], offsets: IntArray) -> IntArray:
    """Return the offset of the first byte after each offset that is no space, else the end."""
    solid = np.append(np.flatnonzero(raw != _SPACE), len(raw))
    return solid[np.searchsorted(solid, offsets, side="right")]


def _spaced_quotes(
    others: IntArray,
    raw: npt.NDArray[np.uint8],
    opening: IntArray,
    closing: IntArray,
    rules: QuoteRules,
) -> IntArray:
    """Return the offsets of quotes outside of quoted values that spaces and a delimiter precede.

    others: quotes that neither open nor close a value.
    """
    marks: IntArray = others[raw[others - 1] == _SPACE]
    if not len(marks) or rules.delimiter == b" ":
        return np.zeros(0, np.int64)
    marks = marks[np.searchsorted(opening, marks) == np.searchsorted(closing, marks)]
    before = np.append(raw, _NEWLINE)[_last_solid(raw, marks)]
    found: IntArray = marks[_among(before, rules.delimiter + b"\n")]
    return found


def _find_quotes(
    data: bytes, raw: npt.NDArray[np.uint8], rules: QuoteRules
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the offsets of opening, closing and other quotes. data begins with a row.

    An unclosed quote has no closing offset. If no quote is data, every second quote opens (a
    doubled quote closes and opens again). A vectorised check confirms this: each of them is at the
    beginning of a value, or right after the previous quote. Otherwise quotes are found one by one.
    """
    marks = np.flatnonzero(raw == _QUOTE)
    opening, closing = marks[::2], marks[1::2]
    at = _last_solid(raw, opening) if rules.spaces else opening - 1
    right = (raw[at] == rules.delimiter[0]) | (raw[at] == _NEWLINE) | (at < 0)
    right[1:] |= opening[1:] == closing[: len(opening) - 1] + 1
    if right.all():
        return opening, closing, marks[:0]
    opening, closing = _find_quotes_sequentially(data, rules)
    return opening, closing, np.setdiff1d(marks, np.concatenate([opening, closing]))


def _find_quotes_sequentially(data: bytes, rules: QuoteRules) -> tuple[IntArray, IntArray]:
    delimiter = re.escape(rules.delimiter)
    pattern = b'(?:\\A|(?<=[%b\n])) *"' if rules.spaces else b'"(?<![^%b\n]")'
    find_opening = re.compile(pattern % delimiter).search
    opening, closing = [], []
    at = 0
    while found := find_opening(data, at):
        opening.append(found.end() - 1)
        end = data.find(b'"', found.end())
        while end >= 0 and data[end + 1 : end + 2] == b'"':
            end = data.find(b'"', end + 2)
        if end < 0:
            break
        closing.append(end)
        at = end + 1
    return np.array(opening, np.int64), np.array(closing, np.int64)


def _quote_state(row: bytes, rules: QuoteRules | None) -> bytes:
    """Return a short text that leaves quotes in the same state as the beginning of a row."""
    if rules is None:
        return b""
    row = rules.mask(row)
    escape = rules.escape if rules.escape and row.endswith(rules.escape) else b""
    opening, closing, _ = _find_quotes(row, np.frombuffer(row, np.uint8), rules)
    if len(opening) > len(closing):
        return b'"' + escape
    if len(closing) and closing[-1] == len(row) - 1:
        return b'""'  # it may be the first half of a doubled quote
    begin = row.rstrip(b" ") if rules.spaces else row
    if not begin or begin.endswith(rules.delimiter):  # spaces may begin a row
        return begin and rules.delimiter
    return b"x" + escape
