"""Parquet and Arrow files, which declare the types of their columns."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from recordmill.errors import ConfigError, Reason
from recordmill.format.parquet_footer import check_footer
from recordmill.option_names import option_name
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.columnar.arrow_checks import (
    Expansion,
    check_names,
    validate,
)
from recordmill.transforms.sources.row_formats.reading.row_file import (
    BadRow,
    FileSection,
    Origin,
    QuoteAnomalies,
    Rows,
)
from recordmill.transforms.sources.row_formats.reading.row_format import UTF8
from recordmill.transforms.sources.row_formats.values.column_types import ColumnType, ColumnTypes
from recordmill.transforms.sources.row_formats.values.equal_floats import equal_floats
from recordmill.transforms.sources.row_formats.values.nested import flat_schema, flatten
from recordmill.transforms.sources.row_formats.values.text_columns import (
    as_text,
    decode_dictionary,
    is_binary,
    is_file,
    transcoded,
    valid_text,
    value_type,
)
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser

_MAGIC = b"ARROW1"  # of an Arrow file; a stream has no magic
_FEATHER_1 = b"FEA1"
_MOST_ROWS = 1 << 15  # per byte: a valid file, compressed or not, has fewer


@dataclasses.dataclass
class ColumnarFile:
    """Base of files that declare the types of their columns."""

    origin: Origin
    value_parser: ValueParser
    max_row_bytes: int
    encoding: str = UTF8
    quote_anomalies: QuoteAnomalies = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def arrow_schema(self) -> pa.Schema:
        """The declared columns, with the metadata of the file.

        Raises:
          ConfigError: a name is not UTF-8.
        """
        schema = self._schema()
        with self.origin.parsing():
            check_names(schema)
        return schema

    def header(self) -> ColumnTypes | None:
        schema = self._flat_schema()
        if len(set(schema.names)) < len(schema.names):
            raise ConfigError(
                f"{self.origin.place} has duplicate column names: {', '.join(schema.names)}"
            )
        if self.encoding != UTF8 and not any(_holds_bytes(field.type) for field in schema):
            raise ConfigError(
                f"{option_name('encoding')} applies to text and to columns of bytes, and"
                f" {self.origin.place} has none: leave it out, because other columns declare their"
                " texts as UTF-8"
            )
        return {
            field.name: ColumnType((value_type(field.type),), field.nullable) for field in schema
        }

    def column_types(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        """Return the declared types, nullable only if a row has no value."""
        column_types = self.header() or {}
        chosen = column_types.keys() if names is None else {*names}
        found = {
            name: kind._replace(nullable=False)
            for name, kind in column_types.items()
            if name in chosen
        }
        for part in self._flat_parts(section, list(found)):
            for name, kind in found.items():
                if kind.types == (pa.float64(),) and kind.equal is None:
                    kind = kind._replace(equal=equal_floats(decode_dictionary(part[name])))
                    found[name] = kind
                if kind.nullable:
                    continue
                values = decode_dictionary(part[name])
                if self.value_parser.mask_missing(name, values).null_count:
                    found[name] = kind._replace(nullable=True)
                elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                    missing_as = self.value_parser.missing_as(name, values)
                    found[name] = kind._replace(missing_as=kind.missing_as | missing_as)
        return found

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        number = section.row
        for part in self._flat_parts(section, wanted.names):
            part, sizes = self._without_large_rows(part)
            with self.origin.parsing():
                arrays = [self._convert(part[field.name], field, text) for field in wanted]
                # Columns declared as not null stay so: their features are never absent.
                columns, bad = valid_text(pa.record_batch(arrays, schema=wanted))
            numbers = number + np.flatnonzero(sizes <= self.max_row_bytes)
            rejected = [
                BadRow(int(numbers[row]), Reason.BAD_VALUE, self._no_text(name, part[name].type))
                for row, name in bad.items()
            ]
            for row in np.flatnonzero(sizes > self.max_row_bytes).tolist():
                why = f"{sizes[row]} bytes, more than --max-row-bytes {self.max_row_bytes}"
                rejected.append(BadRow(number + row, Reason.TOO_LARGE, why))
            kept = np.delete(numbers, [*bad])
            yield Rows(columns=columns, numbers=kept, bad=sorted(rejected))
            number += len(sizes)

    def _no_text(self, name: str, kind: pa.DataType) -> str:
        """Return why a value of a column cannot be read as text."""
        why = f"not {self.encoding.upper()}: expected text in column {name!r}"
        if _holds_bytes(kind):
            why += ", which holds bytes"
            why += " (--encoding names their encoding)" if self.encoding == UTF8 else ""
        if is_file(kind):
            why += "; recordmill images, video, audio and arrays read files of other kinds"
        return why

    def _convert(self, column: pa.Array, field: pa.Field, text: Collection[str]) -> pa.Array:
        if field.name in text:
            if self.encoding != UTF8 and _holds_bytes(column.type):
                column = transcoded(column, self.encoding)
            return as_text(column, field.name)
        column = decode_dictionary(column)
        if column.type == field.type:
            return column
        is_text = field.type == pa.string()
        return as_text(column, field.name) if is_text else column.cast(field.type)

    def _without_large_rows(
        self, rows: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """Return the rows of up to `max_row_bytes`, and the bytes of all rows, int64[n].

        Only the values of a batch that is larger are measured.
        """
        sizes = np.zeros(len(rows), np.int64)
        if rows.nbytes > self.max_row_bytes:
            sizes += [rows.slice(row, 1).nbytes for row in range(len(rows))]
            rows = rows.filter(pa.array(sizes <= self.max_row_bytes))
        return rows, sizes

    def _flat_schema(self) -> pa.Schema:
        """Return the columns, with values inside of structs as columns. Raises ConfigError."""
        try:
            return flat_schema(self.arrow_schema)
        except ValueError as error:
            raise ConfigError(f"{self.origin.place}: {error}") from error

    def _flat_parts(self, section: FileSection, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of a section, some of which may be inside of structs."""
        if not any("." in name for name in names):
            yield from self._parts(section, names)
            return
        wanted = {*names}
        tops = [
            field.name
            for field in self.arrow_schema
            if not wanted.isdisjoint(flat_schema([field]).names)
        ]
        for part in self._parts(section, tops):
            yield flatten(part).select(list(names))

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
            wanted = None if list(names) == file.schema_arrow.names else names
            each = max((self._row_bytes(file, group, names) for group in groups), default=1)
            expansion = Expansion(sum(map(_stored_bytes, found)), self.origin.place)
            for rows in file.iter_batches(
                batch_size=int(min(max(limits.BATCH_BYTES / max(each, 1), 1), limits.PART_ROWS)),
                row_groups=groups,
                columns=wanted,
                use_threads=False,
            ):
                expansion.add(rows.nbytes)
                yield rows

    def _row_bytes(self, file: Any, group: int, names: Sequence[str]) -> float:
        """Return the bytes of a row of a group, with the longest values of its dictionaries.

        Raises:
          ConfigError: they are more than a row may have.
        """
        found = file.metadata.row_group(group)
        count = max(found.num_rows, 1)
        stored: float = found.total_byte_size / count
        if stored > self.max_row_bytes:
            raise ConfigError(
                f"{self.origin.place}: the rows of row group {group} have {int(stored)} bytes each,"
                f" more than {option_name('max_row_bytes', self.max_row_bytes)}"
            )
        columns = [found.column(n) for n in range(found.num_columns)]
        tops = {*names}
        repeated = {
            one.path_in_schema: one.num_values / count
            for one in columns
            if one.physical_type == "BYTE_ARRAY"
            and one.has_dictionary_page
            and one.path_in_schema.partition(".")[0] in tops
        }
        if not repeated or not found.num_rows:
            return stored
        with self._opened(dictionaries=tuple(repeated)) as other:
            return max(stored, _longest(other, group, repeated))

    @contextlib.contextmanager
    def _opened(self, *, dictionaries: Sequence[str] = ()) -> Iterator[Any]:
        """Open the file. dictionaries: columns to read as dictionaries."""
        with self.origin.parsing(), self.origin.open() as file:
            check_footer(file)
            try:
                # With a buffer, column chunks are read in pieces instead of as a whole.
                opened = pyarrow.parquet.ParquetFile(
                    file,
                    buffer_size=1 << 20,
                    pre_buffer=False,
                    read_dictionary=list(dictionaries),
                    page_checksum_verification=True,
                    coerce_int96_timestamp_unit="us",  # nanoseconds would wrap after 2262
                )
            except UnicodeDecodeError as error:  # it decodes the names of columns
                raise pa.ArrowInvalid("the name of a column is not UTF-8: rename it") from error
            yield opened


def _stored_bytes(group: Any) -> int:
    """Return the compressed bytes of a row group."""
    return sum(group.column(n).total_compressed_size for n in range(group.num_columns))


def _longest(file: Any, group: int, values: Mapping[str, float]) -> float:
    """Return the bytes of a row of the longest values in the dictionaries of columns.

    values: {path of a column: its values per row}.
    """
    tops = list(dict.fromkeys(path.partition(".")[0] for path in values))
    first = next(
        file.iter_batches(batch_size=1, row_groups=[group], columns=tops, use_threads=False)
    )
    longest = 0.0
    for path, count in values.items():
        column = first[path.partition(".")[0]]
        while pa.types.is_list(column.type):
            column = column.values
        if pa.types.is_dictionary(column.type) and len(column.dictionary):
            longest += count * pc.max(pc.binary_length(column.dictionary)).as_py()
    return longest


class ArrowFile(ColumnarFile):
    """Arrow IPC file. A section is a range of record batches; a stream is one section."""

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        total = self.origin.size or 0
        with self._opened(narrow=True) as reader:
            if isinstance(reader, pa.RecordBatchStreamReader):
                yield FileSection(0, 1, 1, total)
                return
            count = reader.num_record_batches
            batches = [(self._rows(reader, n), total // count) for n in range(count)]
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
            expansion = Expansion(self.origin.size or 0, self.origin.place)
            for rows in found:
                wanted = rows.select(list(names))
                validate(wanted)
                expansion.add(wanted.nbytes)
                yield from split_rows(wanted)

    def _rows(self, reader: Any, number: int) -> int:
        """Return the rows of a batch. Raises ConfigError if the file cannot hold so many."""
        rows: int = reader.get_batch(number).num_rows
        most = (self.origin.size or 0) * _MOST_ROWS
        if self.origin.size is not None and rows > most:
            raise ConfigError(f"{self.origin.place}: {rows} rows in {self.origin.size} bytes")
        return rows

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
    """Split rows into parts of up to `PART_ROWS` rows and `BATCH_BYTES`, but at least one row."""
    if len(rows) > 1 and (len(rows) > limits.PART_ROWS or rows.nbytes > limits.BATCH_BYTES):
        half = len(rows) // 2
        yield from split_rows(rows.slice(0, half))
        yield from split_rows(rows.slice(half))
    elif len(rows):
        yield rows


def group_units(units: Sequence[tuple[int, int]], size: int) -> Iterator[FileSection]:
    """Group units of (rows, bytes) into sections of about `size` bytes each."""
    start, row, rows, taken = 0, 1, 0, 0
    for unit, (count, weight) in enumerate(units):
        if unit > start and (taken + weight > size or rows + count > limits.PART_ROWS):
            yield FileSection(start, unit, row, taken)
            start, row, rows, taken = unit, row + rows, 0, 0
        rows, taken = rows + count, taken + weight
    if rows:
        yield FileSection(start, len(units), row, taken)


def _holds_bytes(kind: pa.DataType) -> bool:
    """Return whether a column holds bytes, or structs with the content of files."""
    kind = value_type(kind)
    return is_binary(kind) or is_file(kind)
