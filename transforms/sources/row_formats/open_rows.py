"""Opening of files of rows: CSV, TSV, JSON lines, lines, Parquet, Arrow, Avro, TFRecord.

A row that cannot be parsed is rejected by its number; a file that cannot be parsed raises
ConfigError. Text files declare no types: a column gets the narrowest type that holds all its values
(int64, float64, bool, else string), inferred from all rows, because a type inferred from the first
rows might not hold a later one. An empty CSV field is null. `NA` is text, and so is `007`, because
a number would lose its zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from recordmill.transforms.sources.row_formats.columnar.columnar import ArrowFile, ParquetFile
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection, Origin, RowFile
from recordmill.transforms.sources.row_formats.reading.row_format import FileFormat
from recordmill.transforms.sources.row_formats.text.delimited import DelimitedFile
from recordmill.transforms.sources.row_formats.text.json_lines import JsonLines, PlainLines
from recordmill.transforms.sources.row_formats.values.column_types import (
    ColumnType,
    ColumnTypes,
    unify,
)


def open_rows(origin: Origin, file_format: FileFormat) -> RowFile:
    """Return a reader of a file. Reads nothing yet."""
    values = (file_format.value_parser, file_format.max_row_bytes)
    match file_format.format:
        case "jsonl":
            return JsonLines(origin, file_format)
        case "lines":
            return PlainLines(origin, file_format)
        case "parquet":
            return ParquetFile(origin, *values, file_format.encoding)
        case "arrow":
            return ArrowFile(origin, *values, file_format.encoding)
        case "avro":
            from recordmill.transforms.sources.row_formats.columnar.avro import AvroFile

            return AvroFile(origin, *values, file_format.encoding)
        case "tfrecord":
            from recordmill.transforms.sources.row_formats.tfrecords.tfrecord_file import (
                TfrecordFile,
            )

            return TfrecordFile(origin, file_format.max_row_bytes, file_format.value_parser)
        case _:
            return DelimitedFile(origin, file_format)


def infer_types(
    file: RowFile, sections: Iterable[FileSection], names: Collection[str] | None = None
) -> ColumnTypes:
    """Infer the types of the named columns, or of all, from the rows of all sections."""
    return unify(file.column_types(section, names) for section in sections)


def wanted_columns(
    text: Iterable[str], others: Iterable[str], column_types: ColumnTypes
) -> pa.Schema:
    """Return the schema to read: the columns of `text` as strings, others with their types."""
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in text),
            *(column_types.get(name, ColumnType()).field(name) for name in others),
        ]
    )
