"""Parser of blocks of delimited text, based on pyarrow, that accepts trailing delimiters.

It verifies that pyarrow parses as many rows as the block has, so that no row is lost or merged.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from recordmill.notes import count_of
from recordmill.transforms.sources.row_formats.reading.row_file import Rows, in_order
from recordmill.transforms.sources.row_formats.reading.row_format import FileFormat
from recordmill.transforms.sources.row_formats.text.line_blocks import LineBlock
from recordmill.transforms.sources.row_formats.text.row_boundaries import IntArray, drop_spaces
from recordmill.transforms.sources.row_formats.text.text_files import quote_rules
from recordmill.transforms.sources.row_formats.values.value_parsing import Mask, ValueParser

# A CR that is neither before LF nor at the end of the block. pyarrow would end a row there.
_LONE_RETURN = re.compile(b"\r(?!\r*\n|\r*\\Z)")
# Characters that programs write after the last column of a row.
_CR_INSIDE = "; it holds carriage returns, which end a line only if all lines end with them"
TRAILING = b",;\t| "
_IS_TRAILING = rf"^[{TRAILING.decode()}]*$"
_UNNAMED = "\0"  # prefix of the names of surplus columns
# Unicode noncharacters, which are reserved for internal use.
_NONCHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


def parse_options(file_format: FileFormat, on_invalid: object = None) -> pyarrow.csv.ParseOptions:
    """Return the options of pyarrow's parser."""
    return pyarrow.csv.ParseOptions(
        delimiter=file_format.delimiter.decode(),
        quote_char='"' if file_format.quotes else False,
        escape_char=file_format.escape.decode() or False,
        newlines_in_values=file_format.quotes,
        invalid_row_handler=on_invalid,
    )


class CsvBlockParser:
    """Parses the blocks of a file, given the names of its columns."""

    def __init__(self, names: Sequence[str], file_format: FileFormat) -> None:
        self._names = list(names)
        self._shape = file_format
        self._cells: ValueParser = file_format.value_parser
        self._delimiter = file_format.delimiter
        self._rules = quote_rules(file_format)
        self._surplus = 0  # number of empty columns after the named ones

    def parse(self, lines: LineBlock, names: list[str]) -> Rows:
        """Return rows with some columns as text, with nulls for missing values.

        Raises AssertionError if the number of parsed rows differs from that of the block.
        """
        data = drop_spaces(lines.data, self._rules) if self._shape.quotes else lines.data
        data, placeholder = _hide_lone_returns(data)
        if data.startswith("\ufeff".encode()):
            data = b"\n" + data  # or pyarrow would drop it as a byte order mark
        parts = list(self._parts(data, names, len(lines.ends)))
        if sum(len(part.rows) + len(part.malformed) for part in parts) != len(lines.ends):
            raise AssertionError(
                f"{len(lines.ends)} rows from row {lines.numbers[0]} on were "
                f"parsed as {sum(len(part.rows) + len(part.malformed) for part in parts)}"
            )
        rows, columns = _merge_parts(parts)
        if placeholder is not None:
            columns = [pc.replace_substring(column, placeholder, "\r") for column in columns]
        blank = self._blank(lines, rows, columns)
        if blank.any():
            columns = [column.filter(pa.array(~blank)) for column in columns]
            rows = rows[~blank]
        value_parser = self._cells
        texts = [
            value_parser.read_text(name, column)
            for name, column in zip(names, columns, strict=True)
        ]
        raw = lines.rows() if any(part.malformed for part in parts) else []
        bad = [
            lines.bad_row(
                row,
                f"expected {count_of(len(self._names), 'column')}, got {count}"
                + (_CR_INSIDE if b"\r" in raw[row] else ""),
            )
            for part in parts
            for row, count in part.malformed
        ]
        return Rows(
            columns=pa.record_batch(texts, names=names),
            numbers=lines.numbers[rows],
            files=lines.files_of(rows),
            bad=in_order([*lines.bad, *bad]),
            blank=int(blank.sum()),
        )

    def _parts(self, data: bytes, names: list[str], count: int) -> Iterator[_Part]:
        """Yield the rows of a block, grouped by their number of columns."""
        nothing = [pa.array([], pa.string())] * len(names)
        if not count:
            yield _Part(rows=np.zeros(0, np.int64), columns=nothing)
            return
        others: list[pyarrow.csv.InvalidRow] = []
        table = self._table(data, names, self._surplus, others)
        if others and not self._surplus and others[0].actual_columns > len(self._names):
            surplus = others[0].actual_columns - len(self._names)
            fewer: list[pyarrow.csv.InvalidRow] = []
            again = self._table(data, names, surplus, fewer)
            if len(fewer) < len(others):  # most rows have surplus columns
                table, others, self._surplus = again, fewer, surplus
        rows = np.delete(np.arange(count), [row.number - 1 for row in others])
        yield self._drop_surplus_columns(rows, table, names, self._surplus)
        by_count = collections.defaultdict(list)
        for row in others:
            by_count[row.actual_columns].append(row)
        for columns, several in by_count.items():
            rows = np.array([row.number - 1 for row in several])
            if columns < len(self._names):
                malformed = [(row, columns) for row in rows.tolist()]
                yield _Part(rows=rows[:0], columns=nothing, malformed=malformed)
                continue
            surplus = columns - len(self._names)
            text = "".join(f"{row.text}\n" for row in several).encode()
            yield self._drop_surplus_columns(
                rows, self._table(text, names, surplus), names, surplus
            )

    def _drop_surplus_columns(
        self, rows: IntArray, table: pa.Table, names: list[str], surplus: int
    ) -> _Part:
        """Return rows without surplus columns. Rows with values in these are malformed."""
        columns = [_combine(table[name]) for name in names]
        has_surplus = np.zeros(len(rows), np.bool_)
        for name in table.column_names[len(names) :]:
            trailing = pc.match_substring_regex(_combine(table[name]), _IS_TRAILING)
            has_surplus |= ~np.asarray(trailing.fill_null(True))
        if not has_surplus.any():
            return _Part(rows=rows, columns=columns)
        count = len(self._names) + surplus
        return _Part(
            rows=rows[~has_surplus],
            columns=[column.filter(pa.array(~has_surplus)) for column in columns],
            malformed=[(row, count) for row in rows[has_surplus].tolist()],
        )

    def _blank(self, lines: LineBlock, rows: IntArray, columns: list[pa.Array]) -> Mask:
        """Return the mask of rows that hold only delimiters, bool[n]. columns: some of theirs."""
        empty = np.ones(len(rows), np.bool_)
        for column in columns:
            empty &= np.asarray(column.is_null())
        width = len(self._names)
        if width < 2:  # a delimiter would then be a value
            return np.zeros(len(rows), np.bool_)
        nothing = self._delimiter * (width - 1)
        starts = np.append(0, lines.ends[:-1])
        for at in np.flatnonzero(empty).tolist():
            row = lines.data[starts[rows[at]] : lines.ends[rows[at]]].rstrip(b"\r\n")
            rest = row.removeprefix(nothing)
            trailing = rest.startswith(self._delimiter) and not rest.strip(TRAILING)
            empty[at] = row.startswith(nothing) and (not rest or trailing)
        return empty

    def _table(
        self,
        data: bytes,
        names: list[str],
        surplus: int,
        others: list[pyarrow.csv.InvalidRow] | None = None,
    ) -> pa.Table:
        """Parse the named columns and the surplus ones as text.

        Rows with another number of columns are appended to `others`.
        """

        def on_invalid(row: pyarrow.csv.InvalidRow) -> str:
            if others is None:
                return "error"
            others.append(row)
            return "skip"

        unnamed = [f"{_UNNAMED}{number}" for number in range(surplus)]
        return pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=[*self._names, *unnamed],
                block_size=len(data) + 1,  # the block must be parsed as one
                use_threads=False,  # needed for row numbers
            ),
            parse_options=parse_options(self._shape, on_invalid),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=[*names, *unnamed],
                column_types=dict.fromkeys([*names, *unnamed], pa.string()),
                check_utf8=False,
                strings_can_be_null=True,
                null_values=[""],
            ),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    """Some rows of a block.

    rows: their indices in the block, ascending. columns: their values. malformed: (index, number of
    columns) of rows with a wrong number of columns.
    """

    rows: IntArray
    columns: list[pa.Array]
    malformed: Sequence[tuple[int, int]] = ()


def _merge_parts(parts: list[_Part]) -> tuple[IntArray, list[pa.Array]]:
    """Return the rows and the columns of all parts, in the order of the block."""
    if len(parts) == 1:
        return parts[0].rows, parts[0].columns
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows)
    columns = zip(*(part.columns for part in parts), strict=True)
    return rows[order], [pa.concat_arrays(each).take(pa.array(order)) for each in columns]


def _hide_lone_returns(data: bytes) -> tuple[bytes, str | None]:
    """Replace CRs that end no row. Returns the data and the placeholder, None if there is none."""
    if b"\r" not in data or data.count(b"\r") == data.count(b"\r\n"):
        return data, None
    pairs = itertools.permutations(_NONCHARACTERS, 2)
    placeholder = next(one + other for one, other in pairs if (one + other).encode() not in data)
    return _LONE_RETURN.sub(placeholder.encode(), data), placeholder


def _combine(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
