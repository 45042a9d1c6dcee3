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

from recordmill.transforms.sources.row_formats.column_types import ColumnType, ColumnTypes, unify
from recordmill.transforms.sources.row_formats.columnar import ArrowFile, ParquetFile
from recordmill.transforms.sources.row_formats.delimited import DelimitedFile
from recordmill.transforms.sources.row_formats.json_lines import JsonLines, PlainLines
from recordmill.transforms.sources.row_formats.row_file import FileSection, Origin, RowFile
from recordmill.transforms.sources.row_formats.row_format import FileFormat


def open_rows(origin: Origin, file_format: FileFormat) -> RowFile:
    """The file; nothing is read yet."""
    match file_format.format:
        case "jsonl":
            return JsonLines(origin, file_format)
        case "lines":
            return PlainLines(origin, file_format)
        case "parquet":
            return ParquetFile(origin, file_format.value_parser)
        case "arrow":
            return ArrowFile(origin, file_format.value_parser)
        case "avro":
            from recordmill.transforms.sources.row_formats.avro import AvroFile

            return AvroFile(origin, file_format.value_parser)
        case _:
            return DelimitedFile(origin, file_format)


def infer_types(
    file: RowFile, sections: Iterable[FileSection], names: Collection[str] | None = None
) -> ColumnTypes:
    """What the rows of all sections say of the columns named, or of all."""
    return unify(file.column_types(section, names) for section in sections)


def wanted_columns(
    text: Iterable[str], others: Iterable[str], column_types: ColumnTypes
) -> pa.Schema:
    """The schema to read: those of `text` as strings, the others as what they are."""
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in text),
            *(column_types.get(name, ColumnType()).field(name) for name in others),
        ]
    )
