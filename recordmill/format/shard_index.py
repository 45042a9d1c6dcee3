"""The index of a shard: a Parquet file with a row per record, in the shard's order.

Columns of every index:
  key: string, the record's unique name.
  label: string, its class; null without one.
  copy: int32, 0 for the record itself, 1 and up for its oversampled copies.
  offset, length: int64, of the record's whole TFRecord frame, in bytes (for gzip in the
    uncompressed stream).

Columns of some:
  group: string, null without one; if records have groups.
  source: string, FILE#ROW of the row that it was made of; if keys are not names of places.
  content: fixed_size_binary(16), a hash of its content (docs/duplicates.md), equal for records of
    equal content, whatever their keys and labels; null if it was not hashed.
  width, height: int32, of its image as written, in pixels.

Readers ignore columns that they do not know.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from recordmill.errors import DamageError
from recordmill.storage.files import Location


class IndexDamagedError(DamageError):
    """A file that is not a valid index."""


_FIELDS = (
    pa.field("key", pa.string()),
    pa.field("label", pa.string()),
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


def schema(optional: Collection[str] = ()) -> pa.Schema:
    """Return the columns of an index, in order. optional: names of those that not all have."""
    names = {*REQUIRED, *optional}
    return pa.schema([field for field in _FIELDS if field.name in names])


def index_bytes(table: pa.Table, *, hashed_keys: bool = False) -> pa.Buffer:
    """Return an index as Parquet, with a checksum per page, which readers verify.

    hashed_keys: whether keys are hashes, which snappy cannot compress (ADR 43).
    """
    sink = pa.BufferOutputStream()
    # Where values hardly repeat, building a dictionary would take longer than writing them.
    repeated = [name for name in table.column_names if name not in _DISTINCT]
    # No statistics: page checksums do not cover them, and no reader needs them.
    pq.write_table(
        table,
        sink,
        write_page_checksum=True,
        compression={
            name: "NONE" if hashed_keys and name == "key" else "SNAPPY"
            for name in table.column_names
        },
        use_dictionary=repeated,
        column_encoding={"offset": "DELTA_BINARY_PACKED"},  # halves the file
        write_statistics=False,
    )
    return sink.getvalue()


def column_names(location: Location) -> tuple[str, ...]:
    """Return the names of the known columns of an index.

    Raises:
      IndexDamagedError: the file is not Parquet.
      StorageError: the file cannot be read.
    """
    with location.open_input() as stream:
        try:
            found = pq.read_schema(stream).names
        except (pa.ArrowException, OSError) as error:
            raise IndexDamagedError(
                f"{location}: it cannot be read as Parquet ({type(error).__name__})"
            ) from error
    return tuple(schema(found).names)


def read_index(
    location: Location, *, columns: Sequence[str] | None = None, records: int | None = None
) -> pa.Table:
    """Read the known columns of an index, or some; names that it does not have are ignored.

    records: the number of rows that it must have, if that is known. A few bytes can stand for
      millions of rows, so the number in the footer is checked before any is read.

    Raises:
      IndexDamagedError: the file is not Parquet, or its rows or columns are not those of the index.
      StorageError: the file cannot be read.
    """
    with location.open_input() as stream:
        try:
            # No threads: one that releases the stream while Python exits would abort the process.
            file = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
            rows = file.metadata.num_rows
            if records is not None and rows != records:
                raise IndexDamagedError(f"has {rows} rows, the manifest says {records} records")
            found = file.schema_arrow
            expected = schema(found.names)
            known = pa.schema([field for field in found if field.name in expected.names])
            if known.names != expected.names or known.types != expected.types:
                raise IndexDamagedError(
                    f"expected the columns {_columns(expected)}; got {_columns(found)}"
                )
            chosen = known.names if columns is None else columns
            table = file.read(columns=chosen, use_threads=False)
            table.validate(full=True)
        # pyarrow raises these for invalid content.
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise IndexDamagedError(
                f"it cannot be read as Parquet ({type(error).__name__})"
            ) from error
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and name in _WITHOUT_NULLS:
            raise IndexDamagedError(f"its column {name} has nulls")
    return table


def _columns(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)
