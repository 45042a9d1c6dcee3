"""Files of delimited text, CSV and TSV: header, sections and rows."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.csv

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.reading.json_documents import describe_json
from recordmill.transforms.sources.row_formats.reading.row_file import (
    FileSection,
    Origin,
    QuoteAnomalies,
    Rows,
)
from recordmill.transforms.sources.row_formats.reading.row_format import UTF8, FileFormat
from recordmill.transforms.sources.row_formats.text.csv_blocks import (
    TRAILING,
    CsvBlockParser,
    parse_options,
)
from recordmill.transforms.sources.row_formats.text.header_check import (
    data_in_header,
    example_names,
    late_header,
    other_layout,
    repeated,
)
from recordmill.transforms.sources.row_formats.text.joined_files import read_joined
from recordmill.transforms.sources.row_formats.text.line_blocks import LineBlock
from recordmill.transforms.sources.row_formats.text.row_boundaries import (
    Block,
    LargeRow,
    drop_spaces,
    row_ends,
    single_spaces,
)
from recordmill.transforms.sources.row_formats.text.text_encodings import other_text, to_utf8
from recordmill.transforms.sources.row_formats.text.text_files import TextFile, quote_rules
from recordmill.transforms.sources.row_formats.values.column_types import (
    ColumnType,
    ColumnTypes,
    unify,
)
from recordmill.transforms.sources.row_formats.values.equal_floats import equal_floats
from recordmill.transforms.sources.row_formats.values.odd_values import (
    OddValue,
    is_padded,
    odd_text,
)

_LINE_END = b"\n"
_END = 1 << 62  # after the end of any file
_SAMPLED = 32 << 20  # bytes at the start of a file, of which numbers are looked at for notes
_REPEATED_HEADER = "equal to the header, as where files were joined: remove the row"


class DelimitedFile:
    """File of delimited text with or without quotes (RFC 4180).

    It has a header unless the format names the columns. An empty field is null. Blank lines are
    skipped, and so are empty fields after the last column of a row or of the header.
    """

    def __init__(self, origin: Origin, file_format: FileFormat) -> None:
        self._origin = origin
        self._shape = file_format
        self._file = TextFile(origin, file_format)
        self._head_block: Block | None = None  # the block of the header, once it was read

    @property
    def quote_anomalies(self) -> QuoteAnomalies:
        return self._file.quote_anomalies

    def header(self) -> ColumnTypes | None:
        """Return the names of the columns, without types.

        Raises:
          ConfigError: the first row is a line for Excel, looks like data, or does not fit the rows
            below.
        """
        line = self._first_row[0]
        if self._has_header and line[:4].lower() == b"sep=" and len(line) == 5:
            raise ConfigError(
                f"{self._origin.place} begins with a line for Excel, {ascii(line)[1:]}: remove this"
                f" line, and pass {option_name('delimiter', ascii(line[4:])[1:])} unless it is the"
                " default"
            )
        if self._shape.checks_header and self._has_header:
            self._refuse_other_text()
            self._refuse_data_as_header()
        return {name: ColumnType() for name in self._names}

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        """Yield the sections; an empty one for a header without rows, which may be data."""
        self._file.hold()
        begin = self._begin
        if self._shape.columns:
            self._refuse_header()
        elif self._shape.checks_header:
            self._refuse_other_text()
        sections = self._file.sections(begin, size)
        first = next(sections, None)
        if first is not None:
            yield first
        elif self._has_header and self._first_row[0]:
            yield FileSection(begin, begin, 1, 0)
        yield from sections

    def column_types(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        return unify(column_types for column_types, _ in self.typed_rows(section, names, ()))

    def typed_rows(
        self, section: FileSection, names: Collection[str] | None, text: Collection[str]
    ) -> Iterator[tuple[ColumnTypes, Rows]]:
        looked_at = [name for name in self._names if names is None or name in names]
        wanted = [name for name in self._names if name in looked_at or name in text]
        for rows in self._read_text(section, wanted):
            column_types: ColumnTypes = {}
            columns = {name: rows.columns[name] for name in wanted}
            for name in looked_at:
                kind, values = self._shape.value_parser.infer(name, columns[name])
                if kind.types == (pa.string(),):
                    odd = odd_text(columns[name], self._shape.value_parser.decimal)
                    if odd is not None:
                        at, meant, every = odd
                        value, row = columns[name][at].as_py(), int(rows.numbers[at])
                        odd_value = OddValue(value, meant, row, every=every, of=rows.file_of(at))
                        odd_value = odd_value._replace(padded=is_padded(value))
                        kind = kind._replace(odd=odd_value)
                elif kind.types and kind.types[0] == pa.float64() and section.start < _SAMPLED:
                    kind = kind._replace(equal=equal_floats(values))
                column_types[name] = kind
                if name not in text:
                    columns[name] = values
            yield (
                column_types,
                dataclasses.replace(rows, columns=pa.RecordBatch.from_pydict(columns)),
            )

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        del text
        value_parser = self._shape.value_parser
        for rows in self._read_text(section, wanted.names):
            with self._origin.parsing():
                arrays = [
                    value_parser.cast(written, field.type)
                    for field, written in zip(wanted, rows.columns.columns, strict=True)
                ]
            yield dataclasses.replace(rows, columns=pa.record_batch(arrays, schema=wanted))

    @functools.cached_property
    def _blocks(self) -> CsvBlockParser:
        return CsvBlockParser(self._names, self._shape)

    @functools.cached_property
    def _names(self) -> list[str]:
        if self._shape.columns:
            return list(self._shape.columns)
        names = self._parse_header(self._first_row[0])
        if not self._has_header:
            return [f"c{number}" for number in range(1, len(names) + 1)]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"{self._origin.place} has duplicate column names: {', '.join(repeated(names))};"
                f" rename them, or, if the first row is data, {self._naming(len(names))}"
            )
        return names

    @functools.cached_property
    def _header_line(self) -> bytes:
        """The header in UTF-8, which joined files repeat; empty if equal rows may be data."""
        if not self._has_header or len(self._names) < 2 or all(map(_is_number, self._names)):
            return b""
        row = self._first_row[0]
        if not self._file.streamed and self._shape.encoding != UTF8:
            row = to_utf8(row, self._shape.encoding)
        return single_spaces(row, quotes=self._shape.quotes) if self._shape.runs else row

    def _parse_header(self, row: bytes) -> list[str]:
        if not self._file.streamed and self._shape.encoding != UTF8:
            row = to_utf8(row, self._shape.encoding)
        row = row.rstrip(TRAILING + b"\r\n") or row
        row = single_spaces(row, quotes=self._shape.quotes) if self._shape.runs else row
        if self._shape.quotes:
            row = drop_spaces(row, quote_rules(self._shape))
        with self._origin.parsing():
            names: list[str] = pyarrow.csv.read_csv(
                io.BytesIO(row and row.rstrip(b"\r\n") + b"\n"),
                parse_options=parse_options(self._shape),
            ).column_names
        return [name.strip() for name in names]

    @property
    def _has_header(self) -> bool:
        return self._shape.header_rows > 0

    @functools.cached_property
    def _begin(self) -> int:
        """The offset of the first row of data."""
        if not self._has_header:
            return self._file.begin
        at, left = self._first_row[1], self._shape.header_rows - 1
        for block in self._file.cut(at) if left else ():
            ends = [block.size] if isinstance(block, LargeRow) else block.ends.tolist()
            start = 0
            for end in ends:
                filled = isinstance(block, LargeRow) or block.data[start:end].strip(b"\r\n")
                start, left = end, left - bool(filled)
                if not left:
                    return at + end
            at += start
        return at

    def _single_spaced(self, lines: LineBlock) -> LineBlock:
        """Return rows with one space between values, if runs of spaces are delimiters."""
        if not self._shape.runs:
            return lines
        data = single_spaces(lines.data, quotes=self._shape.quotes)
        rules = quote_rules(self._shape) if self._shape.quotes else None
        return dataclasses.replace(lines, data=data, ends=row_ends(data, rules))

    @functools.cached_property
    def _first_row(self) -> tuple[bytes, int]:
        """The first row, empty if there is none, and its end offset in the file."""
        at, comment = self._file.begin, self._shape.comment
        for block in self._file.cut(at):
            if isinstance(block, LargeRow) or block.unclosed_quote:
                raise ConfigError(
                    f"the header of {self._origin.place} has no end: check for an unclosed quote"
                )
            start = 0
            for end in block.ends.tolist():
                row = block.data[start:end].strip(b"\r\n")
                if row and not (comment and row.startswith(comment)):
                    if self._shape.checks_quotes and (block.unclosed < end).any():
                        raise ConfigError(
                            f"the header of {self._origin.place} seems to have an unclosed quote:"
                            f" it extends over {row.count(_LINE_END) + 1} lines, to a quote that"
                            f" seems to open a value; close it, or pass {option_name('quoting')}"
                            f" off if quotes are data, or {option_name('quoting')} on if the header"
                            " is correct"
                        )
                    self._head_block = block
                    return row, at + end
                start = end
            at += len(block.data)
        return b"", at

    def _refuse_header(self) -> None:
        first = [name.lower() for name in self._parse_header(self._first_row[0] or b"-")]
        if first == [name.lower() for name in self._shape.columns]:
            raise ConfigError(
                f"{option_name('columns')} is for files without header, but {self._origin.place}"
                " has one: leave the option out"
            )

    def rows_at_start(self) -> Iterator[Rows]:
        """Yield the rows from the first one on, as text; for a reader that stops early."""
        begin = self._begin
        start = 0 if self._file.streamed else begin
        yield from self._read_text(FileSection(start, _END, 1, 0), self._names)

    def _refuse_other_text(self) -> None:
        """Raise ConfigError if the file has text of another format, such as JSON."""
        content = other_text(self._file.first_text)
        if content is not None and content.is_json:
            content = describe_json(self._file.first_text)
        if content is not None and not self._shape.skip_rows:
            raise ConfigError(f"{self._origin.place} is {content}")

    def _refuse_data_as_header(self) -> None:
        names = self._parse_header(self._first_row[0])
        if self._head_block is None or self._first_row[1] == 0:
            return
        numbered = [str(number) for number in range(len(names))]  # names may be repeated
        with self._origin.parsing():
            rows = CsvBlockParser(numbered, self._shape).parse(
                self._single_spaced(self._file.after_header(self._head_block)), numbered
            )
        text = self._file.first_text
        if self._shape.runs:
            text = single_spaces(text.encode(), quotes=self._shape.quotes).decode()
        lines = text.splitlines()[self._shape.skip_rows :]
        problem = late_header(names, rows, lines, self._shape) or other_layout(
            names, rows, quotes=self._shape.quotes
        )
        if problem:
            raise ConfigError(
                f"{self._origin.place}: {problem}; if it is the header, pass"
                f" {option_name('header')} yes"
            )
        if problem := data_in_header(names, rows.columns):
            raise ConfigError(
                f"the first row of {self._origin.place} looks like data, not like column names:"
                f" {problem}; {self._naming(len(names))}, or pass {option_name('header')} yes if"
                " the first row does hold the names"
            )

    def _naming(self, count: int) -> str:
        return (
            f"name the columns with --columns {example_names(count)} ({count} names), or pass"
            " --header no, which gives them such names"
        )

    def _read_text(self, section: FileSection, names: list[str]) -> Iterator[Rows]:
        """Yield rows with some columns as text, with nulls for missing values."""
        if not section.more:
            header = self._shape.header_rows if self._file.streamed else 0
            for lines in self._file.lines(section, header=header):
                yield self._parse(lines, names)
            return
        for joined in read_joined(section, self._origin, self._shape.header_rows):
            file = DelimitedFile(joined.origin, self._shape) if joined.first else self
            for lines in joined.lines(self._shape):
                yield file._parse(lines, names)

    def _parse(self, lines: LineBlock, names: list[str]) -> Rows:
        lines = self._single_spaced(lines)
        if self._header_line:
            lines = lines.reject_header(self._header_line, self._shape.delimiter, _REPEATED_HEADER)
        with self._origin.parsing():
            return self._blocks.parse(lines, names)


def _is_number(name: str) -> bool:
    return name.lstrip("+-").replace(".", "", 1).isdecimal()
