"""The index of a shard: a Parquet file with a row per record, in the shard's order.

Columns of every index:
  key: string, the record's unique name.
  label: string, its class; null without one. Of a record that may have several, the class under
    which it was balanced: the one of its labels that the fewest records hold.
  copy: int32, 0 for the record itself, 1 and up for its oversampled copies.
  offset, length: int64, of the record's whole TFRecord frame, in bytes (for gzip in the
    uncompressed stream).

Columns of some:
  labels: list of strings, all classes of a record that may have several, sorted by UTF-8.
  group: string, null without one; if records have groups.
  source: string, FILE#ROW of the row that it was made of, or ARCHIVE#OFFSET of its file; if keys
    are not names of places.
  content: fixed_size_binary(16), a hash of its content (docs/duplicates.md), equal for records of
    equal content, whatever their keys and labels; null if it was not hashed.
  width, height: int32, of its image as written, in pixels.

Readers ignore columns that they do not know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recordmill.errors import DamageError
from recordmill.format.file_info import FileInfo, stream_info, why_changed
from recordmill.format.parquet_footer import check_footer
from recordmill.storage.files import Location


class IndexDamagedError(DamageError):
    """A file that is not a valid index."""


_FIELDS = (
    pa.field("key", pa.string()),
    pa.field("label", pa.string()),
    pa.field("labels", pa.list_(pa.string())),
    pa.field("copy", pa.int32()),
    pa.field("group", pa.string()),
    pa.field("source", pa.string()),
    pa.field("content", pa.binary(16)),
    pa.field("width", pa.int32()),
    pa.field("height", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("length", pa.int64()),
)
REQUIRED = ("key", "label", "copy", "offset", "length")
_WITHOUT_NULLS = ("key", "copy", "offset", "length")
_DISTINCT = ("key", "source", "content", "offset")
_HEADERS = 1 << 20  # bytes of the headers of pages and columns in an index, and of its footer
_LEAVES = {"labels": "labels.list.element"}  # path of the values of a column of lists
_ROWS = 1 << 16  # rows that `read_rows` decodes at once, at most
_BUFFER = 1 << 16  # bytes of a column that `read_rows` reads at once


def schema(optional: Collection[str] = ()) -> pa.Schema:
    """Return the columns of an index, in order. optional: names of those that not all have."""
    names = {*REQUIRED, *optional}
    return pa.schema([field for field in _FIELDS if field.name in names])


def index_bytes(table: pa.Table, *, hashed_keys: bool = False) -> pa.Buffer:
    """Return an index as Parquet, as `index_writer` writes it. hashed_keys: as there."""
    # A buffer that grows is copied again and again. Snappy adds up to a sixth; pages that are not
    # used take no memory.
    data = pa.allocate_buffer(table.nbytes * 5 // 4 + _HEADERS)
    sink = pa.FixedSizeBufferWriter(data)
    with index_writer(sink, table.schema, hashed_keys=hashed_keys) as writer:
        writer.write_table(table)
    return data.slice(0, sink.tell())


def index_writer(sink: Any, schema: pa.Schema, *, hashed_keys: bool = False) -> pq.ParquetWriter:
    """Return a writer of an index, with a checksum per page, which readers verify.

    Each table that it writes becomes a row group. hashed_keys: whether keys are hashes.
    """
    hashes = {"content", "key"} if hashed_keys else {"content"}  # snappy saves little of them
    # Where values hardly repeat, building a dictionary would take longer than writing them.
    repeated = [_LEAVES.get(name, name) for name in schema.names if name not in _DISTINCT]
    # No statistics: page checksums do not cover them, and no reader needs them.
    return pq.ParquetWriter(
        sink,
        schema,
        write_page_checksum=True,
        compression={name: "NONE" if name in hashes else "SNAPPY" for name in schema.names},
        use_dictionary=repeated,
        column_encoding={"offset": "DELTA_BINARY_PACKED"},  # halves the file
        write_statistics=False,
    )


def column_names(location: Location) -> tuple[str, ...]:
    """Return the names of the known columns of an index.

    Raises:
      IndexDamagedError: the file is not Parquet.
      StorageError: the file cannot be read.
    """
    with location.open_input() as stream:
        try:
            check_footer(stream)
            found = pq.read_schema(stream).names
        except (pa.ArrowException, OSError) as error:
            raise IndexDamagedError(
                f"{location}: it cannot be read as Parquet ({type(error).__name__})"
            ) from error
    return tuple(schema(found).names)


def read_index(
    location: Location,
    *,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
    records: int | None = None,
    stated: FileInfo | None = None,
) -> pa.Table:
    """Read the known columns of an index, or some; names that it does not have are ignored.

    dictionaries: columns to read as dictionaries, in a sixth of the time if values repeat.
    records: the number of rows that it must have, if that is known. A few bytes can stand for
      millions of rows, so the number in the footer is checked before any is read.
    stated: the size and the hash in the manifest. They are compared before anything is parsed,
      because the checksums of pages do not cover the footer, which has the names of columns.

    Raises:
      IndexDamagedError: the file is not Parquet, or its rows or columns are not those of the index.
      StorageError: the file cannot be read.
    """
    with _opened(location, records=records, dictionaries=dictionaries, stated=stated) as (
        file,
        known,
    ):
        table = file.read(columns=known if columns is None else columns, use_threads=False)
        table.validate(full=True)
    return _without_nulls(table)


def read_rows(
    location: Location,
    rows: Sequence[int],
    *,
    columns: Sequence[str],
    dictionaries: Sequence[str] = (),
    records: int,
) -> pa.Table:
    """Read columns of some rows of an index. Pages after the last of these rows are not read.

    rows: ascending numbers of rows, at least one. dictionaries: as for `read_index`.

    Raises as `read_index`.
    """
    wanted = np.asarray(rows, np.int64)
    found, first = [], 0
    with _opened(location, records=records, dictionaries=dictionaries, buffer_size=_BUFFER) as (
        file,
        _,
    ):
        at_once = min(rows[-1] + 1, _ROWS)
        for batch in file.iter_batches(at_once, columns=columns, use_threads=False):
            inside = wanted[(wanted >= first) & (wanted < first + len(batch))]
            if len(inside):
                found.append(batch.take(pa.array(inside - first)))
            first += len(batch)
            if first > rows[-1]:
                break
        table = pa.Table.from_batches(found)
        table.validate(full=True)
    return _without_nulls(table)


@contextlib.contextmanager
def _opened(
    location: Location,
    *,
    records: int | None,
    dictionaries: Sequence[str] = (),
    buffer_size: int = 0,
    stated: FileInfo | None = None,
) -> Iterator[tuple[pq.ParquetFile, list[str]]]:
    """Open an index; yield the file and the names of its known columns.

    dictionaries: columns that are read as dictionaries. Raises as `read_index`.
    """
    with location.open_input() as stream:
        if stated is not None:
            changed = why_changed(stream_info(stream), stated)
            if changed is not None:
                raise IndexDamagedError(changed)
        try:
            check_footer(stream)
            metadata = pq.read_metadata(stream)
            # No threads: one that releases the stream while Python exits would abort the process.
            file = pq.ParquetFile(
                stream,
                metadata=metadata,
                page_checksum_verification=True,
                pre_buffer=False,
                read_dictionary=[name for name in dictionaries if name in metadata.schema.names],
                buffer_size=buffer_size,
            )
            rows = file.metadata.num_rows
            if records is not None and rows != records:
                raise IndexDamagedError(f"has {rows} rows, the manifest says {records} records")
            found = _plain(file.schema_arrow, dictionaries)
            expected = schema(found.names)
            known = pa.schema([field for field in found if field.name in expected.names])
            if known.names != expected.names or known.types != expected.types:
                raise IndexDamagedError(
                    f"expected the columns {_columns(expected)}; got {_columns(found)}"
                )
            yield file, known.names
        # pyarrow raises these for invalid content.
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise IndexDamagedError(
                f"it cannot be read as Parquet ({type(error).__name__})"
            ) from error


def _plain(found: pa.Schema, dictionaries: Collection[str]) -> pa.Schema:
    """Return a schema with the types of the values of dictionaries."""
    return pa.schema(
        [
            field.with_type(field.type.value_type)
            if field.name in dictionaries and pa.types.is_dictionary(field.type)
            else field
            for field in found
        ]
    )


def _without_nulls(table: pa.Table) -> pa.Table:
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and name in _WITHOUT_NULLS:
            raise IndexDamagedError(f"its column {name} has nulls")
    return table


def _columns(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)
