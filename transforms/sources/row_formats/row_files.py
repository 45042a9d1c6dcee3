"""Files of rows (CSV, TSV, JSON or plain lines, Parquet, Arrow, Avro), as a whole or by sections.

A row that cannot be understood is told by its number and left out; a file that cannot is a
ConfigError. Text carries no types: for each column they are the narrowest that hold all its values
(int64, float64, bool, else string), found in a pass over all rows, as a type guessed from the first
ones would fail at a later one. An empty CSV field is null; `NA` and the like are text, and so is
`007`, whose zeros a number would lose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from recordmill.transforms.sources.row_formats.column_types import ColumnType, ColumnTypes, join
from recordmill.transforms.sources.row_formats.columnar import ArrowFile, ParquetFile
from recordmill.transforms.sources.row_formats.delimited import Delimited
from recordmill.transforms.sources.row_formats.json_lines import JsonLines, PlainLines
from recordmill.transforms.sources.row_formats.row_format import Shape
from recordmill.transforms.sources.row_formats.rows import FileSection, Origin, RowFile


def open_rows(origin: Origin, shape: Shape) -> RowFile:
    """The file; nothing is read yet."""
    match shape.format:
        case "jsonl":
            return JsonLines(origin, shape)
        case "lines":
            return PlainLines(origin, shape)
        case "parquet":
            return ParquetFile(origin, shape.cells)
        case "arrow":
            return ArrowFile(origin, shape.cells)
        case "avro":
            from recordmill.transforms.sources.row_formats.avro import AvroFile

            return AvroFile(origin, shape.cells)
        case _:
            return Delimited(origin, shape)


def learn_kinds(
    file: RowFile, sections: Iterable[FileSection], names: Collection[str] | None = None
) -> ColumnTypes:
    """What the rows of all sections say of the columns named, or of all."""
    return join(file.kinds(section, names) for section in sections)


def wanted_columns(text: Iterable[str], others: Iterable[str], kinds: ColumnTypes) -> pa.Schema:
    """The schema to read: those of `text` as strings, the others as what they are."""
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in text),
            *(kinds.get(name, ColumnType()).field(name) for name in others),
        ]
    )
