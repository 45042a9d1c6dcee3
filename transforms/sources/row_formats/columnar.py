"""Parquet and Arrow files, which declare the types of their columns."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from recordmill.errors import ConfigError, Reason
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.column_types import ColumnType, ColumnTypes
from recordmill.transforms.sources.row_formats.row_file import (
    BadRow,
    FileSection,
    Origin,
    QuoteAnomalies,
    Rows,
)
from recordmill.transforms.sources.row_formats.text_columns import (
    as_text,
    decode_dictionary,
    valid_text,
)
from recordmill.transforms.sources.row_formats.value_parsing import ValueParser

_MAGIC = b"ARROW1"  # of an Arrow file; a stream has no magic
_FEATHER_1 = b"FEA1"


@dataclasses.dataclass
class ColumnarFile:
    """Base of files that declare the types of their columns."""

    origin: Origin
    value_parser: ValueParser
    quote_anomalies: QuoteAnomalies = dataclasses.field(default_factory=QuoteAnomalies)

    def header(self) -> ColumnTypes | None:
        schema = self._schema()
        if len(set(schema.names)) < len(schema.names):
            raise ConfigError(
                f"{self.origin.place} has duplicate column names: {', '.join(schema.names)}"
            )
        return {
            field.name: ColumnType((_value_type(field.type),), field.nullable) for field in schema
        }

    def column_types(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        """Return the declared types, nullable only if a row has no value."""
        column_types = self.header() or {}
        found = {
            name: kind for name, kind in column_types.items() if names is None or name in names
        }
        absent: set[str] = set()
        for part in self._parts(section, list(found)):
            for name in found.keys() - absent:
                if self.value_parser.mask_missing(name, decode_dictionary(part[name])).null_count:
                    absent.add(name)
        return {name: kind._replace(nullable=name in absent) for name, kind in found.items()}

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        number = section.row
        for part in self._parts(section, wanted.names):
            with self.origin.parsing():
                arrays = [_convert(part[field.name], field, text) for field in wanted]
                # Columns declared as not null stay so: their features are never absent.
                columns, bad = valid_text(pa.record_batch(arrays, schema=wanted))
            numbers = np.arange(number, number + len(part))
            rejected = [BadRow(int(n), Reason.BAD_VALUE, "not UTF-8") for n in numbers[bad]]
            yield Rows(columns=columns, numbers=numbers[~bad], bad=rejected)
            number += len(part)

    def _schema(self) -> pa.Schema:
        raise NotImplementedError

    def _parts(self, section: FileSection, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class ParquetFile(ColumnarFile):
    """Parquet file. A section is a range of row groups."""

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        with self._opened() as file:
            groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        yield from group_units([(g.num_rows, g.total_byte_size) for g in groups], size)

    def _schema(self) -> pa.Schema:
        with self._opened() as file:
            return file.schema_arrow

    def _parts(self, section: FileSection, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._opened() as file:
            groups = range(section.start, section.end)
            found = [file.metadata.row_group(group) for group in groups]
            each = sum(g.total_byte_size for g in found) / max(sum(g.num_rows for g in found), 1)
            yield from file.iter_batches(
                batch_size=int(min(max(limits.BATCH_BYTES / max(each, 1), 1), limits.BATCH_ROWS)),
                row_groups=groups,
                columns=None if list(names) == file.schema_arrow.names else names,
                use_threads=False,
            )

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        with self.origin.parsing(), self.origin.open() as file:
            # With a buffer, column chunks are read in pieces instead of as a whole.
            yield pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)


class ArrowFile(ColumnarFile):
    """Arrow IPC file. A section is a range of record batches; a stream is one section."""

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        total = self.origin.size or 0
        with self._opened(narrow=True) as reader:
            if isinstance(reader, pa.RecordBatchStreamReader):
                yield FileSection(0, 1, 1, total)
                return
            count = reader.num_record_batches
            batches = [(reader.get_batch(n).num_rows, total // count) for n in range(count)]
        yield from group_units(batches, size)

    def _schema(self) -> pa.Schema:
        with self._opened() as reader:
            return reader.schema

    def _parts(self, section: FileSection, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._opened() as reader:
            if isinstance(reader, pa.RecordBatchStreamReader):
                found: Any = reader
            else:
                found = (reader.get_batch(n) for n in range(section.start, section.end))
            for rows in found:
                yield from split_rows(rows.select(list(names)))

    @contextlib.contextmanager
    def _opened(self, *, narrow: bool = False) -> Iterator[Any]:
        """Open the file. narrow: read just one column, of a primitive type if possible."""
        with self.origin.parsing(), self.origin.open() as file:
            magic = file.read(len(_MAGIC))
            file.seek(0)
            if magic.startswith(_FEATHER_1):
                raise ConfigError(
                    f"{self.origin.place} is Feather version 1: write it as version 2"
                )
            if magic != _MAGIC:
                yield pa.ipc.open_stream(file)
                return
            reader = pa.ipc.open_file(file)
            if narrow:
                column_types = reader.schema.types
                numbers = [n for n, kind in enumerate(column_types) if pa.types.is_primitive(kind)]
                options = pa.ipc.IpcReadOptions(included_fields=[*numbers, 0][:1])
                reader = pa.ipc.open_file(file, options=options)
            yield reader


def split_rows(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows into parts of up to `BATCH_ROWS` rows and `BATCH_BYTES`, but at least one row."""
    if len(rows) > 1 and (len(rows) > limits.BATCH_ROWS or rows.nbytes > limits.BATCH_BYTES):
        half = len(rows) // 2
        yield from split_rows(rows.slice(0, half))
        yield from split_rows(rows.slice(half))
    elif len(rows):
        yield rows


def group_units(units: Sequence[tuple[int, int]], size: int) -> Iterator[FileSection]:
    """Group units of (rows, bytes) into sections of about `size` bytes each."""
    start, row, rows, taken = 0, 1, 0, 0
    for unit, (count, weight) in enumerate(units):
        if unit > start and (taken + weight > size or rows + count > limits.BATCH_ROWS):
            yield FileSection(start, unit, row, taken)
            start, row, rows, taken = unit, row + rows, 0, 0
        rows, taken = rows + count, taken + weight
    if rows:
        yield FileSection(start, len(units), row, taken)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _convert(column: pa.Array, field: pa.Field, text: Collection[str]) -> pa.Array:
    if field.name in text:
        return as_text(column, field.name)
    column = decode_dictionary(column)
    if column.type == field.type:
        return column
    return as_text(column, field.name) if field.type == pa.string() else column.cast(field.type)
