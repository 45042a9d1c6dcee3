"""Files of text as whole rows, in UTF-8 and in flat memory: from the beginning, or a section."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import dataclasses
import functools
import gzip
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.transforms.model import batch
from recordmill.transforms.sources.row_formats.row_boundaries import (
    Block,
    IntArray,
    LargeRow,
    cut_rows,
    row_ends,
)
from recordmill.transforms.sources.row_formats.row_format import (
    DELIMITED,
    UTF8,
    Shape,
    stands_alone,
)
from recordmill.transforms.sources.row_formats.rows import (
    READ_BYTES,
    BadRow,
    FileSection,
    Oddities,
    Origin,
)

_FIRST = 64 << 10  # bytes of the first chunk: often just the header is wanted
_MARK = codecs.BOM_UTF8
_BLANK = b"\t\n\v\f\r "
_SPOILT = "recordmill.spoilt"
# Half of a surrogate pair, which no encoding gives: `to_utf8` makes invalid UTF-8 of it.
codecs.register_error(_SPOILT, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LineBlock:
    """Up to `batch.ROWS` rows of UTF-8, one after the other; none is blank.

    ends: int64[n], where each ends in data. numbers: int64[n]. bad: those that were left out.
    """

    data: bytes
    ends: IntArray
    numbers: IntArray
    bad: tuple[BadRow, ...] = ()

    def rows(self) -> list[bytes]:
        """Each without its line break."""
        starts = [0, *self.ends.tolist()]
        return [self.data[start:end].rstrip(b"\r\n") for start, end in itertools.pairwise(starts)]


def to_utf8(data: bytes, encoding: str) -> bytes:
    """Text in another encoding; what is none in it becomes what is no UTF-8."""
    return data.decode(encoding, _SPOILT).encode(UTF8, "surrogatepass")


def is_utf8(data: bytes) -> bool:
    """Whether bytes are."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class TextFile:
    """Rows of a file of text.

    streamed: whether it can be read only from its beginning.
    """

    def __init__(self, origin: Origin, shape: Shape) -> None:
        self.origin = origin
        self.shape = shape
        self.streamed = shape.compression is not None or not stands_alone(shape.encoding)
        self.oddities = Oddities()
        # A CSV's rows are those of its table; elsewhere a row's number is that of its line.
        self._table = shape.format in DELIMITED
        self._delimiter = shape.delimiter if self._table and shape.quotes else None

    def cut(self, start: int = 0, end: int | None = None) -> Iterator[Block | LargeRow]:
        """The rows from `start` to `end`; of a streamed file all, in UTF-8."""
        chunks = self._chunks(start, None if self.streamed else end)
        return cut_rows(chunks, limit=self.shape.max_row_bytes, delimiter=self._delimiter)

    @property
    def begin(self) -> int:
        """Where rows begin, behind a byte order mark."""
        return len(_MARK) if self._head.startswith(_MARK) and self.shape.encoding == UTF8 else 0

    def sections(self, begin: int, size: int) -> Iterator[FileSection]:
        """The sections from `begin` on; a streamed file is one.

        Of what is compressed, and has no quotes to look at, nothing is read.
        """
        if self.streamed:
            if self._delimiter is not None:
                for _ in self._numbered(0):
                    pass
            bytes_ = (self.origin.size or 0) * (1 if self.shape.compression is None else 4)
            yield FileSection(0, self.origin.size or 0, 1, bytes_)
            return
        at, first, count = begin, 1, 0  # the section: where it begins, its first row, lines so far
        offset = begin  # of the block
        for ends, numbers in self._numbered(begin):
            places = ends + offset
            row = 0
            while True:
                within = int(np.searchsorted(places, at + size, side="right"))
                cut = min(within, row + batch.ROWS - count)
                if cut >= len(places):
                    count += len(places) - row
                    break
                if cut == row and not count:
                    cut += 1  # a row by itself
                place = int(places[cut - 1]) if cut else offset
                yield FileSection(at, place, first, place - at)
                at, first, count, row = place, int(numbers[cut]), 0, cut
            offset = int(places[-1])
        if offset > at:
            yield FileSection(at, offset, first, offset - at)

    def lines(self, section: FileSection, *, header: bool = False) -> Iterator[LineBlock]:
        """The rows of a section. header: whether the first one is no row."""
        number = section.row - header
        for block in self.cut(section.start, section.end):
            self._refuse_open_quote(block, number)
            if isinstance(block, LargeRow):
                yield _no_lines([self._too_large(number, block.size)])
                number += 1
                continue
            lines, number = self._clean(block, number, section.row)
            yield from _parts(lines)

    def _numbered(self, begin: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Block by block, where each row ends, int64[n], and its number, int64[n + 1]: one that has
        none, and the end, have that of the next.
        """
        number = 1
        for block in self.cut(begin):
            self._refuse_open_quote(block, number)
            if isinstance(block, LargeRow):
                yield np.array([block.size]), np.array([number, number + 1])
                number += 1
                continue
            numbers = self._numbers(block, number)
            self._note(block, numbers)
            yield block.ends, numbers
            number = int(numbers[-1])

    def _clean(self, block: Block, number: int, least: int) -> tuple[LineBlock, int]:
        """The good rows of a block that have at least the number `least`, and the next number."""
        sizes = np.diff(block.ends, prepend=0)
        numbers = self._numbers(block, number)
        numbers, following = numbers[:-1], int(numbers[-1])
        data, ends = block.data, block.ends
        if not self.streamed and self.shape.encoding != UTF8:
            data = to_utf8(data, self.shape.encoding)
            ends = row_ends(data, self._delimiter)
        keep = ~self._blank(data, ends) & (numbers >= least)
        bad = {}
        for row in np.flatnonzero(keep & (sizes > self.shape.max_row_bytes)).tolist():
            bad[row] = self._too_large(int(numbers[row]), int(sizes[row]))
        for row, why in self._spoilt(data, ends):
            if keep[row]:
                bad.setdefault(row, BadRow(int(numbers[row]), Reason.BAD_VALUE, why))
        keep[list(bad)] = False
        if not keep.all():
            lengths = np.diff(ends, prepend=0)
            data = np.frombuffer(data, np.uint8)[np.repeat(keep, lengths)].tobytes()
            ends, numbers = np.cumsum(lengths[keep]), numbers[keep]
        told = tuple(bad[row] for row in sorted(bad))
        return LineBlock(data=data, ends=ends, numbers=numbers, bad=told), following

    def _spoilt(self, data: bytes, ends: IntArray) -> Iterator[tuple[int, str]]:
        """Rows that are no text, and why."""
        if not is_utf8(data):
            starts = [0, *ends.tolist()]
            why = self._not_text()
            for row, (start, end) in enumerate(itertools.pairwise(starts)):
                if not is_utf8(data[start:end]):
                    yield row, why
        if b"\0" in data:
            zeros = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
            for row in np.unique(np.searchsorted(ends, zeros, side="right")).tolist():
                yield row, "a zero byte: expected text"

    def _not_text(self) -> str:
        encoding = self.shape.encoding.upper()
        if not self._table and self.origin.noun == "listing":
            return f"not {encoding}"
        return f"not {encoding}: {self.origin.encoding_advice}"

    def _too_large(self, number: int, size: int) -> BadRow:
        limit = f"{self.shape.max_row_bytes}"
        if self.origin.noun == "file":
            limit = f"--max-row-bytes {limit}"
        why = f"a row of {size} bytes, more than {limit}"
        if self._delimiter is not None:
            why += "; perhaps a quote is left open"
            why += ", or is data (--quoting off)" if self.origin.noun == "file" else ""
        return BadRow(number, Reason.TOO_LARGE, why)

    def _numbers(self, block: Block, number: int) -> IntArray:
        """The number of each row, the first having `number`, and that of what follows."""
        if not self._table:
            return number + np.arange(len(block.ends) + 1)
        counted = ~self._blank(block.data, block.ends)
        return number + np.append(0, np.cumsum(counted))

    def _blank(self, data: bytes, ends: IntArray) -> npt.NDArray[np.bool_]:
        """Which rows are none: they have nothing in them, or a comment."""
        starts = np.append(0, ends[:-1])
        blanks = b"\r\n" if self._table else _BLANK
        first = np.frombuffer(data, np.uint8)[starts]
        mask = np.isin(first, np.frombuffer(blanks, np.uint8))
        for row in np.flatnonzero(mask).tolist():
            mask[row] = not data[starts[row] : ends[row]].strip(blanks)
        if self.shape.comment:
            mask |= first == ord(self.shape.comment)
        return mask

    def _refuse_open_quote(self, block: Block | LargeRow, number: int) -> None:
        if not block.left_open:
            return
        if isinstance(block, Block):
            number = int(self._numbers(block, number)[-2])
        row = f"row {number}" if number else "the header"
        advice = "close it, or double the quotes inside a value"
        if self.origin.noun == "file":
            advice += "; if quotes are data there, say --quoting off"
        raise ConfigError(
            f"a quote is left open in {self.origin.place}: {row} runs to the end of the file; "
            f"{advice}"
        )

    def _note(self, block: Block, numbers: IntArray) -> None:
        for what in ("spanning", "trailing"):
            rows = getattr(block, what)
            if len(rows) and not getattr(self.oddities, what):
                setattr(self.oddities, f"first_{what}", int(numbers[rows[0]]))
            setattr(self.oddities, what, getattr(self.oddities, what) + len(rows))

    @functools.cached_property
    def _head(self) -> bytes:
        """The first bytes, unpacked but not decoded."""
        with self.origin.parsing(), self._opened() as file:
            head: bytes = file.read(_FIRST)
        if self.shape.encoding == UTF8 and head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise ConfigError(
                f"expected UTF-8, but the {self.origin.noun} {self.origin.place} begins with the "
                "mark of UTF-16: save it as UTF-8"
                + (", or say --encoding utf-16" if self.origin.noun == "file" else "")
            )
        return head

    @functools.cached_property
    def _returns_only(self) -> bool:
        """Whether lines of a table end with CR alone, as some programs for the Mac write them."""
        return self._table and b"\n" not in self._head and b"\r" in self._head

    def _chunks(self, start: int, end: int | None) -> Iterator[bytes]:
        with self.origin.parsing(), self._opened() as file:
            if self.streamed:
                chunks: Iterable[bytes] = _read(file)
                if self.shape.encoding != UTF8:
                    chunks = _decoded(chunks, self.shape.encoding)
            else:
                file.seek(start)
                chunks = _read(file, None if end is None else end - start)
            marked = start == 0 and (self.streamed or self.shape.encoding == UTF8)
            for chunk in chunks:
                text = chunk.removeprefix(_MARK) if marked else chunk
                yield text.replace(b"\r", b"\n") if self._returns_only else text
                marked = False

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        with self.origin.open() as file:
            match self.shape.compression:
                case None:
                    yield file
                case "gz":
                    with gzip.GzipFile(fileobj=file) as unpacked:
                        yield unpacked
                case "bz2":
                    with bz2.BZ2File(file) as unpacked:
                        yield unpacked
                case "zst":
                    with pa.CompressedInputStream(file, "zstd") as unpacked:
                        yield unpacked


def _read(file: BinaryIO, length: int | None = None) -> Iterator[bytes]:
    size = _FIRST if length is None else READ_BYTES
    while length is None or length:
        data = file.read(size if length is None else min(size, length))
        if not data:
            return
        yield data
        length = None if length is None else length - len(data)
        size = READ_BYTES


def _decoded(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(_SPOILT)
    for chunk in chunks:
        if text := decoder.decode(chunk):
            yield text.encode(UTF8, "surrogatepass")
    if text := decoder.decode(b"", final=True):
        yield text.encode(UTF8, "surrogatepass")


def _no_lines(bad: list[BadRow]) -> LineBlock:
    none = np.zeros(0, np.int64)
    return LineBlock(data=b"", ends=none, numbers=none, bad=tuple(bad))


def _parts(lines: LineBlock) -> Iterator[LineBlock]:
    """The same lines in parts of up to `batch.ROWS`; what was left out comes with the first."""
    for row in range(0, max(len(lines.ends), 1), batch.ROWS):
        start = int(lines.ends[row - 1]) if row else 0
        ends = lines.ends[row : row + batch.ROWS]
        yield LineBlock(
            data=lines.data[start : int(ends[-1])] if len(ends) else b"",
            ends=ends - start,
            numbers=lines.numbers[row : row + batch.ROWS],
            bad=() if row else lines.bad,
        )
