"""CSV and TSV: their header, their sections, and what the values of a column are."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.csv

from recordmill.errors import ConfigError
from recordmill.transforms.sources.row_formats.column_types import ColumnType, ColumnTypes, join
from recordmill.transforms.sources.row_formats.csv_blocks import STRAY, CsvBlocks, parse_options
from recordmill.transforms.sources.row_formats.row_boundaries import LargeRow
from recordmill.transforms.sources.row_formats.row_format import UTF8, Shape
from recordmill.transforms.sources.row_formats.rows import (
    SECTION_BYTES,
    FileSection,
    Oddities,
    Origin,
    Rows,
)
from recordmill.transforms.sources.row_formats.text_files import TextFile, to_utf8


class Delimited:
    """CSV with quotes (RFC 4180) or without, with a header unless the columns are given.

    An empty field is null. Blank lines are no rows. Separators behind a row, or the header, with
    nothing between them are no part of it.
    """

    def __init__(self, origin: Origin, shape: Shape) -> None:
        self._origin = origin
        self._shape = shape
        self._file = TextFile(origin, shape)

    @property
    def oddities(self) -> Oddities:
        return self._file.oddities

    def header(self) -> ColumnTypes | None:
        """Names only."""
        return {name: ColumnType() for name in self._names}

    def sections(self, size: int = SECTION_BYTES) -> Iterator[FileSection]:
        begin = self._file.begin if self._shape.columns else self._first_row[1]
        if self._shape.columns:
            self._refuse_header()
        return self._file.sections(begin, size)

    def kinds(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        return join(kinds for kinds, _ in self.typed(section, names, ()))

    def typed(
        self, section: FileSection, names: Collection[str] | None, text: Collection[str]
    ) -> Iterator[tuple[ColumnTypes, Rows]]:
        looked_at = [name for name in self._names if names is None or name in names]
        wanted = [name for name in self._names if name in looked_at or name in text]
        for rows in self._texts(section, wanted):
            kinds: ColumnTypes = {}
            columns = {name: rows.columns[name] for name in wanted}
            for name in looked_at:
                kinds[name], values = self._shape.cells.typed(name, columns[name])
                if name not in text:
                    columns[name] = values
            yield kinds, dataclasses.replace(rows, columns=pa.RecordBatch.from_pydict(columns))

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        del text
        cells = self._shape.cells
        for rows in self._texts(section, wanted.names):
            with self._origin.parsing():
                arrays = [
                    cells.cast(written, field.type)
                    for field, written in zip(wanted, rows.columns.columns, strict=True)
                ]
            yield dataclasses.replace(rows, columns=pa.record_batch(arrays, schema=wanted))

    @functools.cached_property
    def _blocks(self) -> CsvBlocks:
        return CsvBlocks(self._names, self._shape)

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
        row = row.rstrip(STRAY + b"\r\n") or row
        with self._origin.parsing():
            names: list[str] = pyarrow.csv.read_csv(
                io.BytesIO(row and row.rstrip(b"\r\n") + b"\n"),
                parse_options=parse_options(self._shape),
            ).column_names
        return names

    @functools.cached_property
    def _first_row(self) -> tuple[bytes, int]:
        """The row itself, empty if there is none, and where it ends in the file."""
        at, comment = self._file.begin, self._shape.comment
        for block in self._file.cut():
            if isinstance(block, LargeRow) or block.left_open:
                raise ConfigError(
                    f"the header of {self._origin.place} has no end: perhaps a quote is left open"
                )
            start = 0
            for end in block.ends.tolist():
                row = block.data[start:end].strip(b"\r\n")
                if row and not (comment and row.startswith(comment)):
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

    def _texts(self, section: FileSection, names: list[str]) -> Iterator[Rows]:
        """Some columns as they are written: strings, null where there is nothing."""
        header = self._file.streamed and not self._shape.columns
        for lines in self._file.lines(section, header=header):
            with self._origin.parsing():
                rows = self._blocks.parse(lines, names)
            yield rows
