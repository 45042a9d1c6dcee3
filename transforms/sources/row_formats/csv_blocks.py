"""Blocks of CSV and TSV, parsed by pyarrow; rows that end in separators too many are set right.

Rows are counted where they are cut, and again here: none gets lost, or merged with another one.
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

from recordmill.errors import Reason
from recordmill.transforms.sources.row_formats.row_boundaries import IntArray
from recordmill.transforms.sources.row_formats.row_format import Shape
from recordmill.transforms.sources.row_formats.rows import BadRow, Rows
from recordmill.transforms.sources.row_formats.text_files import LineBlock
from recordmill.transforms.sources.row_formats.value_parsing import Cells, Mask

# CR ends a row for pyarrow. One that does not stand before LF, or at the end, is data.
_LONE_RETURN = re.compile(b"\r(?!\r*\n|\r*\\Z)")
# What programs leave behind a row: separators, their own and those of others.
STRAY = b",;\t| "
_IS_STRAY = rf"^[{STRAY.decode()}]*$"
_UNNAMED = "\0"  # what names of columns begin with that have none
# No text has these: Unicode keeps them for the inside of programs.
_NO_CHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


def parse_options(shape: Shape, on_invalid: object = None) -> pyarrow.csv.ParseOptions:
    """How pyarrow reads a row."""
    return pyarrow.csv.ParseOptions(
        delimiter=shape.delimiter.decode(),
        quote_char='"' if shape.quotes else False,
        newlines_in_values=shape.quotes,
        invalid_row_handler=on_invalid,
    )


class CsvBlocks:
    """Parses block after block of a file with these columns."""

    def __init__(self, names: Sequence[str], shape: Shape) -> None:
        self._names = list(names)
        self._shape = shape
        self._cells: Cells = shape.cells
        self._delimiter = shape.delimiter
        self._surplus = 0  # columns without name that rows have; nothing stands in them

    def parse(self, lines: LineBlock, names: list[str]) -> Rows:
        """Rows with some of the columns, as they are written: strings, null where nothing is.

        Raises AssertionError where there are not as many as were cut.
        """
        data, stand_in = _hide_lone_returns(lines.data)
        if data.startswith("\ufeff".encode()):
            data = b"\n" + data  # where it begins a block it would be taken for a byte order mark
        parts = list(self._parts(data, names, len(lines.ends)))
        if sum(len(part.rows) + len(part.spoilt) for part in parts) != len(lines.ends):
            raise AssertionError(
                f"{len(lines.ends)} rows from row {lines.numbers[0]} on were "
                f"parsed as {sum(len(part.rows) + len(part.spoilt) for part in parts)}"
            )
        rows, columns = _put_together(parts)
        if stand_in is not None:
            columns = [pc.replace_substring(column, stand_in, "\r") for column in columns]
        blank = self._blank(lines, rows, columns)
        if blank.any():
            columns = [column.filter(pa.array(~blank)) for column in columns]
            rows = rows[~blank]
        cells = self._cells
        texts = [cells.texts(name, column) for name, column in zip(names, columns, strict=True)]
        bad = [
            BadRow(
                int(lines.numbers[row]),
                Reason.BAD_VALUE,
                f"{count} columns, expected {len(self._names)}",
            )
            for part in parts
            for row, count in part.spoilt
        ]
        return Rows(
            columns=pa.record_batch(texts, names=names),
            numbers=lines.numbers[rows],
            bad=sorted([*lines.bad, *bad]),
            blank=int(blank.sum()),
        )

    def _parts(self, data: bytes, names: list[str], count: int) -> Iterator[_Part]:
        """Rows by how many columns they have."""
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
            if len(fewer) < len(others):  # it is what rows have here
                table, others, self._surplus = again, fewer, surplus
        rows = np.delete(np.arange(count), [row.number - 1 for row in others])
        yield self._without_surplus(rows, table, names, self._surplus)
        by_count = collections.defaultdict(list)
        for row in others:
            by_count[row.actual_columns].append(row)
        for columns, several in by_count.items():
            rows = np.array([row.number - 1 for row in several])
            if columns < len(self._names):
                spoilt = [(row, columns) for row in rows.tolist()]
                yield _Part(rows=rows[:0], columns=nothing, spoilt=spoilt)
                continue
            surplus = columns - len(self._names)
            text = "".join(f"{row.text}\n" for row in several).encode()
            yield self._without_surplus(rows, self._table(text, names, surplus), names, surplus)

    def _without_surplus(
        self, rows: IntArray, table: pa.Table, names: list[str], surplus: int
    ) -> _Part:
        """Rows with nothing but separators behind their columns."""
        columns = [_whole(table[name]) for name in names]
        filled = np.zeros(len(rows), np.bool_)
        for name in table.column_names[len(names) :]:
            stray = pc.match_substring_regex(_whole(table[name]), _IS_STRAY)
            filled |= ~np.asarray(stray.fill_null(True))
        if not filled.any():
            return _Part(rows=rows, columns=columns)
        count = len(self._names) + surplus
        return _Part(
            rows=rows[~filled],
            columns=[column.filter(pa.array(~filled)) for column in columns],
            spoilt=[(row, count) for row in rows[filled].tolist()],
        )

    def _blank(self, lines: LineBlock, rows: IntArray, columns: list[pa.Array]) -> Mask:
        """Rows of separators alone: bool[n]. columns: some of theirs."""
        empty = np.ones(len(rows), np.bool_)
        for column in columns:
            empty &= np.asarray(column.is_null())
        width = len(self._names)
        if width < 2:  # then a separator is a value
            return np.zeros(len(rows), np.bool_)
        nothing = self._delimiter * (width - 1)
        starts = np.append(0, lines.ends[:-1])
        for at in np.flatnonzero(empty).tolist():
            row = lines.data[starts[rows[at]] : lines.ends[rows[at]]].rstrip(b"\r\n")
            rest = row.removeprefix(nothing)
            stray = rest.startswith(self._delimiter) and not rest.strip(STRAY)
            empty[at] = row.startswith(nothing) and (not rest or stray)
        return empty

    def _table(
        self,
        data: bytes,
        names: list[str],
        surplus: int,
        others: list[pyarrow.csv.InvalidRow] | None = None,
    ) -> pa.Table:
        """Columns as they are written, then those without name; `others` gets the rows that have
        more columns, or fewer.
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
                block_size=len(data) + 1,  # a block that ends inside a row is an error
                use_threads=False,  # then rows have numbers
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
    """Rows of a block by their place in it, ascending, and the columns that are wanted.

    spoilt: rows with another number of columns, and that number.
    """

    rows: IntArray
    columns: list[pa.Array]
    spoilt: Sequence[tuple[int, int]] = ()


def _put_together(parts: list[_Part]) -> tuple[IntArray, list[pa.Array]]:
    """The rows of all parts and their columns, in the order of the block."""
    if len(parts) == 1:
        return parts[0].rows, parts[0].columns
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows)
    columns = zip(*(part.columns for part in parts), strict=True)
    return rows[order], [pa.concat_arrays(each).take(pa.array(order)) for each in columns]


def _hide_lone_returns(data: bytes) -> tuple[bytes, str | None]:
    """Puts what is not in the data in the place of CRs that end no row."""
    if b"\r" not in data or data.count(b"\r") == data.count(b"\r\n"):
        return data, None
    pairs = itertools.permutations(_NO_CHARACTERS, 2)
    stand_in = next(one + other for one, other in pairs if (one + other).encode() not in data)
    return _LONE_RETURN.sub(stand_in.encode(), data), stand_in


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
