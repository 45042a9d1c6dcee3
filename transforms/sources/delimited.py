"""CSV and TSV, parsed by pyarrow a block of whole rows at a time.

Rows are counted where they are cut, and again where they are parsed: none gets lost, or merged with
another one.
"""

from __future__ import annotations

import functools
import io
import itertools
import re
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from recordmill.errors import ConfigError, Reason
from transforms.sources.column_kinds import Kind, Kinds, join, kind_of_text
from transforms.sources.row_cutter import LargeRow
from transforms.sources.row_format import UTF8, Shape
from transforms.sources.rows import SECTION_BYTES, BadRow, Oddities, Origin, Rows, Section
from transforms.sources.text_files import Lines, TextFile, to_utf8

# CR ends a row for pyarrow. One that does not stand before LF, or at the end, is data.
_LONE_RETURN = re.compile(b"\r(?!\r*\n|\r*\\Z)")
# No text has these: Unicode keeps them for the inside of programs.
_NO_CHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


class Delimited:
    """CSV with quotes (RFC 4180) or without, with a header unless the columns are given.

    An empty field is null. Blank lines are no rows.
    """

    def __init__(self, origin: Origin, shape: Shape) -> None:
        self._origin = origin
        self._shape = shape
        self._file = TextFile(origin, shape)

    @property
    def oddities(self) -> Oddities:
        return self._file.oddities

    def header(self) -> Kinds | None:
        """Names only."""
        return {name: Kind() for name in self._names}

    def sections(self, size: int = SECTION_BYTES) -> Iterator[Section]:
        begin = self._file.begin if self._shape.columns else self._first_row[1]
        if self._shape.columns:
            self._refuse_header()
        return self._file.sections(begin, size)

    def kinds(self, section: Section, names: Collection[str] | None) -> Kinds:
        wanted = [name for name in self._names if names is None or name in names]
        kinds: Kinds = {}
        for rows in self._texts(section, wanted):
            found = {name: kind_of_text(rows.columns[name]) for name in wanted}
            kinds = join([kinds, found])
        return kinds

    def read(self, section: Section, wanted: pa.Schema, text: Collection[str]) -> Iterator[Rows]:
        del text
        for rows in self._texts(section, wanted.names):
            with self._origin.parsing():
                arrays = [rows.columns[field.name].cast(field.type) for field in wanted]
            columns = pa.record_batch(arrays, schema=wanted)
            yield Rows(columns=columns, numbers=rows.numbers, bad=rows.bad)

    @functools.cached_property
    def _names(self) -> list[str]:
        if self._shape.columns:
            return list(self._shape.columns)
        names = self._header_of(self._first_row[0])
        if len(set(names)) < len(names):
            raise ConfigError(
                f"a column name comes twice in {self._origin.place}: {', '.join(names)}"
            )
        return names

    def _header_of(self, row: bytes) -> list[str]:
        if not self._file.streamed and self._shape.encoding != UTF8:
            row = to_utf8(row, self._shape.encoding)
        with self._origin.parsing():
            names: list[str] = pyarrow.csv.read_csv(
                io.BytesIO(row and row.rstrip(b"\r\n") + b"\n"), parse_options=self._parse_options()
            ).column_names
        return names

    @functools.cached_property
    def _first_row(self) -> tuple[bytes, int]:
        """The row itself, empty if there is none, and where it ends in the file."""
        at = self._file.begin
        for block in self._file.cut():
            if isinstance(block, LargeRow) or block.left_open:
                raise ConfigError(
                    f"the header of {self._origin.place} has no end: perhaps a quote is left open"
                )
            start = 0
            for end in block.ends.tolist():
                if row := block.data[start:end].strip(b"\r\n"):
                    return row, at + end
                start = end
            at += len(block.data)
        return b"", at

    def _refuse_header(self) -> None:
        first = [name.lower() for name in self._header_of(self._first_row[0] or b"-")]
        if first == [name.lower() for name in self._shape.columns]:
            raise ConfigError(
                f"--columns is for files without a header, and {self._origin.place} begins with "
                "one: leave it out"
            )

    def _texts(self, section: Section, names: list[str]) -> Iterator[Rows]:
        """Some columns as they are written: strings, null where there is nothing."""
        header = self._file.streamed and not self._shape.columns
        for lines in self._file.lines(section, header=header):
            with self._origin.parsing():
                rows = self._parse(lines, names)
            yield rows

    def _parse(self, lines: Lines, names: list[str]) -> Rows:
        spoilt: list[int] = []  # rows of the block with too many or too few columns
        bad = list(lines.bad)

        def on_spoilt(row: pyarrow.csv.InvalidRow) -> str:
            spoilt.append(row.number - 1)
            number = int(lines.numbers[spoilt[-1]])
            why = f"{row.actual_columns} columns, expected {len(self._names)}"
            bad.append(BadRow(number, Reason.BAD_VALUE, why))
            return "skip"

        if not len(lines.ends):
            empty = pa.record_batch([pa.array([], pa.string())] * len(names), names=names)
            return Rows(columns=empty, numbers=lines.numbers, bad=bad)
        data, stand_in = _hide_lone_returns(lines.data)
        if data.startswith("\ufeff".encode()):
            data = b"\n" + data  # where it begins a block it would be taken for a byte order mark
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=self._names,
                block_size=len(data) + 1,  # a block that ends inside a row is an error
                use_threads=False,  # then rows have numbers
            ),
            parse_options=self._parse_options(on_spoilt),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.string()),
                check_utf8=False,
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        if len(table) + len(spoilt) != len(lines.ends):
            raise AssertionError(
                f"{self._origin.place}: {len(lines.ends)} rows from row {lines.numbers[0]} on were "
                f"parsed as {len(table) + len(spoilt)}"
            )
        arrays = [_whole(column) for column in table.columns]
        if stand_in is not None:
            arrays = [pc.replace_substring(array, stand_in, "\r") for array in arrays]
        numbers = lines.numbers
        if spoilt:
            numbers = np.delete(numbers, spoilt)
        return Rows(columns=pa.record_batch(arrays, names=names), numbers=numbers, bad=sorted(bad))

    def _parse_options(self, on_spoilt: object = None) -> pyarrow.csv.ParseOptions:
        return pyarrow.csv.ParseOptions(
            delimiter=self._shape.delimiter.decode(),
            quote_char='"' if self._shape.quotes else False,
            newlines_in_values=self._shape.quotes,
            invalid_row_handler=on_spoilt,
        )


def _hide_lone_returns(data: bytes) -> tuple[bytes, str | None]:
    """Puts what is not in the data in the place of CRs that end no row."""
    if b"\r" not in data or data.count(b"\r") == data.count(b"\r\n"):
        return data, None
    pairs = itertools.permutations(_NO_CHARACTERS, 2)
    stand_in = next(one + other for one, other in pairs if (one + other).encode() not in data)
    return _LONE_RETURN.sub(stand_in.encode(), data), stand_in


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
