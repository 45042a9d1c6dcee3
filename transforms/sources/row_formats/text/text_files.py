"""Text files as blocks of whole rows in UTF-8, with constant memory, in sections."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import functools
import gzip
import io
import itertools
import lzma
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.option_names import option_name
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.reading.row_file import (
    BadRow,
    FileSection,
    Origin,
    QuoteAnomalies,
)
from recordmill.transforms.sources.row_formats.reading.row_format import (
    DELIMITED,
    UTF8,
    FileFormat,
    is_byte_searchable,
)
from recordmill.transforms.sources.row_formats.reading.zip_files import open_only_member
from recordmill.transforms.sources.row_formats.text.line_blocks import (
    LineBlock,
    rejected_rows,
    select_rows,
    split_block,
    without_marks,
)
from recordmill.transforms.sources.row_formats.text.quote_anomalies import (
    ESCAPE,
    count_anomalies,
    count_enclosed,
)
from recordmill.transforms.sources.row_formats.text.row_boundaries import (
    Block,
    IntArray,
    LargeRow,
    QuoteRules,
    cut_rows,
    row_ends,
)
from recordmill.transforms.sources.row_formats.text.text_encodings import (
    Utf8Evidence,
    Utf16Error,
    decoded_chunks,
    holds_utf8,
    in_utf8,
    is_utf8,
    refuse_other_content,
    to_utf8,
    wide_encoding,
)

_FIRST_READ = 64 << 10  # bytes of the first read, because often only the header is needed
_BOM = codecs.BOM_UTF8
_BLANK = b"\t\n\v\f\r "


def quote_rules(file_format: FileFormat) -> QuoteRules:
    """Return the rules of quoted values in CSV and TSV."""
    return QuoteRules(
        delimiter=file_format.delimiter,
        escape=file_format.escape,
        spaces=file_format.value_parser.trim and file_format.delimiter != b" ",
    )


class TextFile:
    """Rows of a text file.

    streamed: whether the file can be read only from its beginning.
    """

    def __init__(self, origin: Origin, file_format: FileFormat) -> None:
        self.origin = origin
        self.file_format = file_format
        self.streamed = file_format.compression is not None or not is_byte_searchable(
            file_format.encoding
        )
        self.quote_anomalies: QuoteAnomalies = {}
        self._whole: bytes | None = None
        # In CSV and TSV rows are numbered; in other formats the row number is the line number.
        self._table = file_format.format in DELIMITED
        self._rules = quote_rules(file_format) if self._table and file_format.quotes else None

    def hold(self) -> None:
        """Hold a small file in memory, because the whole file will be read."""
        small = self.origin.size is not None and self.origin.size <= limits.PART_BYTES
        if self._whole is None and self.file_format.compression is None and small:
            with self.origin.parsing(), self.origin.open() as file:
                self._whole = file.read()

    def cut(self, start: int = 0, end: int | None = None) -> Iterator[Block | LargeRow]:
        """Yield the rows from offset `start` to `end`; all rows, in UTF-8, of a streamed file."""
        chunks = self._chunks(start, None if self.streamed else end)
        return cut_rows(chunks, limit=self.file_format.max_row_bytes, rules=self._rules)

    @functools.cached_property
    def begin(self) -> int:
        """Offset of the first row, after a byte order mark and skipped lines.

        Those of a streamed file are left out of its chunks.
        """
        offset, left = self._mark, 0 if self.streamed else self.file_format.skip_rows
        for chunk in self._chunks(0, None) if left else ():
            end, left = _after_lines(chunk, left)
            offset += end
            if not left:
                break
        return offset

    @functools.cached_property
    def _mark(self) -> int:
        """Size of the byte order mark of a file that is read as bytes."""
        return len(_BOM) if self._head.startswith(_BOM) and self.file_format.encoding == UTF8 else 0

    def sections(self, begin: int, size: int) -> Iterator[FileSection]:
        """Yield the sections from offset `begin` on; a streamed file is one section.

        Does not read a compressed file without quotes.
        """
        self.hold()
        if self._is_one_section(begin, size):
            yield FileSection(begin, len(self._head), 1, len(self._head) - begin)
            return
        if self.streamed:
            if self._rules is not None:
                for _ in self._numbered(0):
                    pass
            bytes_ = (self.origin.size or 0) * (1 if self.file_format.compression is None else 4)
            yield FileSection(0, self.origin.size or 0, 1, bytes_)
            return
        at, first, count = begin, 1, 0  # the section: start offset, first row, rows so far
        offset = begin  # of the block
        for ends, numbers in self._numbered(begin):
            places = ends + offset
            row = 0
            while True:
                within = int(np.searchsorted(places, at + size, side="right"))
                cut = min(within, row + limits.PART_ROWS - count)
                if cut >= len(places):
                    count += len(places) - row
                    break
                if cut == row and not count:
                    cut += 1  # a section has at least one row
                place = int(places[cut - 1]) if cut else offset
                yield FileSection(at, place, first, place - at)
                at, first, count, row = place, int(numbers[cut]), 0, cut
            offset = int(places[-1])
        if offset > at:
            yield FileSection(at, offset, first, offset - at)

    def _is_one_section(self, begin: int, size: int) -> bool:
        """Return whether a small file is known to be one section without finding its rows."""
        rows, head = len(self._head) - begin, self._head
        return (
            not self.streamed
            and self._is_small
            and 0 < rows <= size
            and b'"' not in head[begin:]
            and not self.file_format.escape
            and max(head.count(b"\n"), head.count(b"\r")) < limits.PART_ROWS
        )

    def lines(self, section: FileSection, *, header: int = 0) -> Iterator[LineBlock]:
        """Yield the rows of a section. header: number of rows before the data."""
        number = section.row - header
        self.hold()
        for block in self.cut(section.start, section.end):
            self._refuse_open_quote(block, number)
            if isinstance(block, LargeRow):
                yield rejected_rows([self._too_large(number, block.size)])
                number += 1
                continue
            lines, number = self._valid_lines(block, number, section.row)
            yield from split_block(lines)

    def joined_lines(self, data: bytes, starts: IntArray) -> Iterator[tuple[LineBlock, IntArray]]:
        """Yield the rows of joined files, and the number of the first row of each file, int64[n].

        Row numbers continue from file to file. starts: offsets of the files in data.
        """
        for block in cut_rows([data], limit=len(data), rules=self._rules):
            assert isinstance(block, Block)  # no row is larger than the data
            numbers = self._numbers(block, 1)
            lines = self._valid_lines(block, 1, 1)[0]
            yield lines, numbers[np.searchsorted(block.ends, starts, side="right")]

    def after_header(self, block: Block) -> LineBlock:
        """Return the rows of a block after the header."""
        return self._valid_lines(block, 1 - self.file_format.header_rows, 1)[0]

    def _numbered(self, begin: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the end offsets, int64[n], and row numbers, int64[n + 1], of each block.

        The last number is that of the row after the block. A row that does not count, such as a
        blank one, has the number of the next row.
        """
        # A streamed file begins with its header.
        number = 1 - self.file_format.header_rows * (self.streamed and self._table)
        offset = begin
        for block in self.cut(begin):
            self._refuse_open_quote(block, number, offset)
            if isinstance(block, LargeRow):
                yield np.array([block.size]), np.array([number, number + 1])
                number += 1
                offset += block.size
                continue
            numbers = self._numbers(block, number)
            self._refuse_joined_rows(block, numbers, offset)
            count_anomalies(self.quote_anomalies, block, numbers)
            if self._table and self._rules is None and self.file_format.checks_quotes:
                count_enclosed(self.quote_anomalies, block, numbers, self.file_format.delimiter)
            yield block.ends, numbers
            number = int(numbers[-1])
            offset += len(block.data)

    def _valid_lines(self, block: Block, number: int, least: int) -> tuple[LineBlock, int]:
        """Return the valid rows of a block from number `least` on, and the next row number."""
        sizes = np.diff(block.ends, prepend=0)
        numbers = self._numbers(block, number)
        numbers, following = numbers[:-1], int(numbers[-1])
        data, ends = block.data, block.ends
        if not self.streamed and self.file_format.encoding != UTF8:
            data = to_utf8(data, self.file_format.encoding)
            ends = row_ends(data, self._rules)
        data, ends = without_marks(data, ends)
        keep = ~self._blank(data, ends) & (numbers >= least)
        bad = {}
        for row in np.flatnonzero(keep & (sizes > self.file_format.max_row_bytes)).tolist():
            bad[row] = self._too_large(int(numbers[row]), int(sizes[row]))
        for row, why in self._invalid_rows(data, ends):
            if keep[row]:
                bad.setdefault(row, BadRow(int(numbers[row]), Reason.BAD_VALUE, why))
        keep[list(bad)] = False
        if not keep.all():
            data, ends = select_rows(data, ends, keep)
            numbers = numbers[keep]
        rejected = tuple(bad[row] for row in sorted(bad))
        return LineBlock(data=data, ends=ends, numbers=numbers, bad=rejected), following

    def _invalid_rows(self, data: bytes, ends: IntArray) -> Iterator[tuple[int, str]]:
        """Yield (index, message) of rows that are not text."""
        if not is_utf8(data):
            starts = [0, *ends.tolist()]
            why = self._encoding_error()
            for row, (start, end) in enumerate(itertools.pairwise(starts)):
                if not is_utf8(data[start:end]):
                    yield row, why
        if b"\0" in data:
            zeros = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
            for row in np.unique(np.searchsorted(ends, zeros, side="right")).tolist():
                yield row, "a zero byte: expected text"

    def _encoding_error(self) -> str:
        encoding = self.file_format.encoding.upper()
        # --encoding would be refused for a file that begins with UTF-8.
        if self.file_format.encoding == UTF8 and holds_utf8(self._head, "latin-1"):
            return "not UTF-8, but other rows of the file are: convert this row to UTF-8"
        return f"not {encoding}: {self.origin.encoding_advice}"

    def _too_large(self, number: int, size: int) -> BadRow:
        limit = f"{self.file_format.max_row_bytes}"
        if self.origin.noun == "file":
            limit = f"--max-row-bytes {limit}"
        why = f"a row of {size} bytes, more than {limit}"
        if self._rules is not None:
            why += "; a quote may be unclosed"
            why += ", or data (--quoting off)"
        return BadRow(number, Reason.TOO_LARGE, why)

    def _numbers(self, block: Block, number: int) -> IntArray:
        """Return the number of each row, starting from `number`, and that of the next row."""
        if not self._table:
            return number + np.arange(len(block.ends) + 1)
        counted = ~self._blank(block.data, block.ends)
        return number + np.append(0, np.cumsum(counted))

    def _blank(self, data: bytes, ends: IntArray) -> npt.NDArray[np.bool_]:
        """Return the mask of rows that are blank or comments, bool[n]."""
        starts = np.append(0, ends[:-1])
        blanks = b"\r\n" if self._table and not self.file_format.runs else _BLANK
        first = np.frombuffer(data, np.uint8)[starts]
        mask = np.isin(first, np.frombuffer(blanks, np.uint8))
        for row in np.flatnonzero(mask).tolist():
            mask[row] = not data[starts[row] : ends[row]].strip(blanks)
        if self.file_format.comment:
            mask |= first == ord(self.file_format.comment)
        return mask

    def _refuse_open_quote(
        self, block: Block | LargeRow, number: int, offset: int | None = None
    ) -> None:
        if not block.unclosed_quote:
            return
        start, content = 0, b""
        if isinstance(block, Block):
            number = int(self._numbers(block, number)[-2])
            start = int(block.ends[-2]) if len(block.ends) > 1 else 0
            content = block.data[start:]
        row = f"row {number}" if number else "the header"
        if offset is not None:
            row += f" begins in line {self._line_of(offset + start)} and"
        escape = self.file_format.escape.decode()
        what = "unclosed quote" + (f" (or {escape} before the last line end)" if escape else "")
        raise ConfigError(
            f"{what} in {self.origin.place}: {row} extends to the end of the file;"
            f" {self._quote_advice(content)}"
        )

    def _refuse_joined_rows(self, block: Block, numbers: IntArray, offset: int) -> None:
        """Raise ConfigError if a row seems to hold several rows because of an unclosed quote."""
        if not len(block.unclosed) or not self.file_format.checks_quotes:
            return
        row = int(block.rows_at(block.unclosed)[0])
        line = self._line_of(offset + int(block.unclosed[0]))
        start = int(block.ends[row - 1]) if row else 0
        last = self._line_of(offset + start) + block.data.count(b"\n", start, block.ends[row]) - 1
        raise ConfigError(
            f"unclosed quote in {self.origin.place}: row {numbers[row]} extends to line {last},"
            f" because the quote in line {line} is closed only there, by a quote that seems to open"
            f" a value: {self._quote_advice(block.data[start : block.ends[row]])}; if the row is"
            f" correct, pass {option_name('quoting')} on"
        )

    def _quote_advice(self, row: bytes) -> str:
        """Return advice for a row with an unclosed quote."""
        advice = "close it, or double the quotes inside a value; if quotes are data there, pass"
        advice += " --quoting off"
        if b'\\"' in row and not self.file_format.escape:
            advice += f"; if backslashes escape quotes, {ESCAPE}"
        return advice

    def _line_of(self, offset: int) -> int:
        """Return the number of the line at an offset of the rows. Reads the file up to there."""
        lines = 1 + (self.file_format.skip_rows if self.streamed else 0)
        left = offset if self.streamed else offset - self._mark
        for chunk in self._chunks(0, None):
            lines += chunk.count(b"\n", 0, max(left, 0))
            left -= len(chunk)
            if left <= 0:
                break
        return lines

    @functools.cached_property
    def _head(self) -> bytes:
        """The first bytes, decompressed but not decoded."""
        with self.origin.parsing():
            is_stored = self.origin.mtime is not None and not self.origin.place.is_local
            if is_stored and self._whole is None and not self.streamed:
                head = _head_of(self.origin)
            else:
                with self._opened() as file:
                    head = file.read(_FIRST_READ)
        refuse_other_content(head, f"the {self.origin.noun} {self.origin.place}")
        if self.file_format.encoding == UTF8 and (wide := wide_encoding(head)) is not None:
            raise Utf16Error(
                f"expected UTF-8, but the {self.origin.noun} {self.origin.place} seems to be"
                f" {wide.upper()}: save it as UTF-8, or pass --encoding {wide}"
            )
        if holds_utf8(head, self.file_format.encoding):
            raise in_utf8(self.file_format.encoding, f"the {self.origin.noun} {self.origin.place}")
        return head

    def adds_to(self, evidence: Utf8Evidence) -> bool:
        """Add the beginning of the file; return whether this and earlier files are UTF-8."""
        return evidence.holds(self._head, self.file_format.encoding)

    @property
    def _is_small(self) -> bool:
        """True if `_head` is the whole file."""
        return len(self._head) < _FIRST_READ

    @property
    def is_blank(self) -> bool:
        """True if the file holds no byte, after decompression."""
        return not self._head

    @property
    def first_text(self) -> str:
        """The beginning of the file, without the bytes that cannot be decoded."""
        return self._head.decode(self.file_format.encoding, "ignore")

    @functools.cached_property
    def _has_cr_line_ends(self) -> bool:
        return ends_lines_with_cr(self._head)

    def _chunks(self, start: int, end: int | None) -> Iterator[bytes]:
        with self.origin.parsing():
            chunks: Iterable[bytes] = self._stored_chunks(start, end)
            if self.streamed and self.file_format.encoding != UTF8:
                chunks = decoded_chunks(chunks, self.file_format.encoding)
            marked = start == 0 and (self.streamed or self.file_format.encoding == UTF8)
            skip = self.file_format.skip_rows if self.streamed else 0
            for chunk in chunks:
                text = chunk.removeprefix(_BOM) if marked else chunk
                if self._has_cr_line_ends:
                    text = text.replace(b"\r", b"\n")
                marked = False
                if skip:
                    begin, skip = _after_lines(text, skip)
                    text = text[begin:]
                yield text

    def _stored_chunks(self, start: int, end: int | None) -> Iterator[bytes]:
        """Yield the bytes of the file, which is opened only if `_head` does not hold them."""
        size = _FIRST_READ
        if not self.streamed and not start and end is None:
            yield self._head
            if self._is_small:
                return
            start, size = len(self._head), limits.BATCH_BYTES
        with self._reread() as file:
            source = file
            if end is not None and not self.origin.place.is_local:
                source = getattr(file, "raw", file)  # one request; a buffer would make several
            if not self.streamed:
                source.seek(start)
            yield from _read(source, None if end is None else end - start, first=size)

    def _reread(self) -> contextlib.AbstractContextManager[Any]:
        """Open the file, of which the beginning was read."""
        return io.BytesIO(self._head) if self._is_small else self._opened()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        with self.origin.open() if self._whole is None else io.BytesIO(self._whole) as file:
            match self.file_format.compression:
                case None:
                    yield file
                case "gz":
                    with gzip.GzipFile(fileobj=file) as unpacked:
                        yield unpacked
                case "bz2":
                    with bz2.BZ2File(file) as unpacked:
                        yield unpacked
                case "xz":
                    with lzma.LZMAFile(file) as unpacked:
                        yield unpacked
                case "zst":
                    with pa.CompressedInputStream(file, "zstd") as unpacked:
                        yield unpacked
                case "zip":
                    with open_only_member(file, self.origin.place) as unpacked:
                        yield unpacked


def ends_lines_with_cr(text: bytes) -> bool:
    """Return whether lines end with CR alone, as in files of old Mac programs.

    text: the beginning of a file, or all of it.
    """
    head = text[:_FIRST_READ]
    # The last byte may be the CR of a line end that was cut.
    return b"\n" not in head and b"\r" in (head[:-1] or head)


def _after_lines(text: bytes, count: int) -> tuple[int, int]:
    """Return the offset after some lines of a text, and the number of those that it lacks."""
    end = 0
    while count:
        found = text.find(b"\n", end) + 1
        if not found:
            return len(text), count
        end, count = found, count - 1
    return end, 0


@functools.lru_cache(maxsize=4)
def _head_of(origin: Origin) -> bytes:
    """Return the first bytes of a listed file in a store, kept for further sections of it."""
    with origin.open() as file:
        return file.read(_FIRST_READ)


def _read(file: BinaryIO, length: int | None, *, first: int) -> Iterator[bytes]:
    """Yield the next `length` bytes, or all. first: size of the first read, if all are read."""
    size = first if length is None else limits.BATCH_BYTES
    while length is None or length:
        data = file.read(size if length is None else min(size, length))
        if not data:
            return
        yield data
        length = None if length is None else length - len(data)
        size = limits.BATCH_BYTES
