"""The index beside a shard: a parquet row per record, in the shard's order.

key: the record's name. label: its class as text. copy: 0 for the record itself, 1.. for an
oversampled copy. group: only where groups were given. offset, length: of the whole TFRecord frame,
in bytes; for gzip in the uncompressed stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from recordmill.storage.files import Location


class IndexDamagedError(ValueError):
    """The file is no index."""


def schema(*, groups: bool) -> pa.Schema:
    """The columns of an index."""
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
    """An index as parquet, with a checksum per page: nothing else guards the keys."""
    sink = pa.BufferOutputStream()
    # Keys and offsets come once each: to look for those that come again takes longer than to write.
    again = [name for name in table.column_names if name not in ("key", "offset")]
    # Statistics would stand where no checksum guards them, and nobody asks for the least of keys.
    pq.write_table(
        table,
        sink,
        write_page_checksum=True,
        use_dictionary=again,
        column_encoding={"offset": "DELTA_BINARY_PACKED"},  # half of the file
        write_statistics=False,
    )
    return bytes(sink.getvalue())


def read_index(location: Location, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Reads an index, or the columns of it that are named and there.

    Raises:
      IndexDamagedError: if it is not parquet, or its columns are not those of an index.
      StorageError: if the storage refuses.
    """
    with location.open_input() as stream:
        try:
            # No threads: one that lets go of the stream as Python ends would end it with SIGABRT.
            file = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
            found = file.schema_arrow
            expected = schema(groups="group" in found.names)
            if found.names != expected.names or found.types != expected.types:
                raise IndexDamagedError(
                    f"expected the columns {_columns(expected)}; got {_columns(found)}"
                )
            table = file.read(columns=columns, use_threads=False)
            table.validate(full=True)
        # What pyarrow raises for content that is broken.
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise IndexDamagedError(
                f"it cannot be read as parquet ({type(error).__name__})"
            ) from error
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and name not in ("label", "group"):
            raise IndexDamagedError(f"its column {name} has nulls")
    return table


def _columns(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)
