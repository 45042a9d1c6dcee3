"""The index of a shard: a Parquet file with a row per record, in the shard's order.

Columns: key, the record's unique name; label, its class as text; copy, 0 for the record itself and
1 and up for its oversampled copies; group, only if records have groups; offset and length, of the
record's whole TFRecord frame, in bytes (for gzip in the uncompressed stream).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from recordmill.storage.files import Location


class IndexDamagedError(ValueError):
    """A file that is not a valid index."""


def schema(*, groups: bool) -> pa.Schema:
    """Return the columns of an index."""
    fields = [
        pa.field("key", pa.string()),
        pa.field("label", pa.string()),
        pa.field("copy", pa.int32()),
        *([pa.field("group", pa.string())] if groups else []),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
    ]
    return pa.schema(fields)


def index_bytes(table: pa.Table) -> bytes:
    """Return an index as Parquet, with a checksum per page, which readers verify."""
    sink = pa.BufferOutputStream()
    # Keys and offsets never repeat: building a dictionary would take longer than writing them.
    repeated = [name for name in table.column_names if name not in ("key", "offset")]
    # No statistics: page checksums do not cover them, and no reader needs them.
    pq.write_table(
        table,
        sink,
        write_page_checksum=True,
        use_dictionary=repeated,
        column_encoding={"offset": "DELTA_BINARY_PACKED"},  # halves the file
        write_statistics=False,
    )
    return bytes(sink.getvalue())


def read_index(location: Location, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read an index, or some of its columns; names that it does not have are ignored.

    Raises:
      IndexDamagedError: the file is not Parquet, or its columns are not those of an index.
      StorageError: the file cannot be read.
    """
    with location.open_input() as stream:
        try:
            # No threads: one that releases the stream while Python exits would abort the process.
            file = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
            found = file.schema_arrow
            expected = schema(groups="group" in found.names)
            if found.names != expected.names or found.types != expected.types:
                raise IndexDamagedError(
                    f"expected the columns {_columns(expected)}; got {_columns(found)}"
                )
            table = file.read(columns=columns, use_threads=False)
            table.validate(full=True)
        # pyarrow raises these for invalid content.
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise IndexDamagedError(
                f"it cannot be read as Parquet ({type(error).__name__})"
            ) from error
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and name not in ("label", "group"):
            raise IndexDamagedError(f"its column {name} has nulls")
    return table


def _columns(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)
