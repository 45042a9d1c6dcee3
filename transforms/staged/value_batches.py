"""Layout and data of batches in memory that were read from a source.

Both are in the metadata of the schema, which Arrow keeps when rows are filtered or columns are
added. The data is the bytes that rows refer to by offsets, such as the images of a Parquet file.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator

import pyarrow as pa
import xxhash

from recordmill import strict_json
from recordmill.errors import ConfigError
from recordmill.storage.storage_errors import raise_storage_errors
from recordmill.transforms.model import batch
from recordmill.transforms.model.file_ranges import with_ranges
from recordmill.transforms.model.source import Layout

_LAYOUT, _DATA = b"recordmill.layout", b"recordmill.data"


def as_values(
    rows: pa.RecordBatch, layout: Layout | None, data: bytes | bytearray | memoryview | None
) -> pa.RecordBatch:
    """Return rows of a source with their layout and their data.

    Args:
      rows: Rows that were read or listed.
      layout: None if the source declares no types.
      data: As `data` of `ListingPart`.
    """
    metadata = dict(rows.schema.metadata or {})
    if layout is not None:
        facts = {"labelled": layout.labelled, "grouped": layout.grouped}
        text = strict_json.to_text({**facts, "split_source": layout.split_source})
        metadata[_LAYOUT] = text.encode()
    if data is not None:
        metadata[_DATA] = bytes(data)
        name = xxhash.xxh3_128_hexdigest(data)
        rows = batch.set_column(rows, batch.DATA, pa.repeat(name, len(rows)))
    return rows.replace_schema_metadata(metadata or None)


def layout_of_values(rows: pa.Schema) -> Layout | None:
    """Return the layout of rows that a source has read; None for other rows."""
    text = (rows.metadata or {}).get(_LAYOUT)
    return None if text is None else Layout(columns=rows, **json.loads(text))


def data_of_values(rows: pa.RecordBatch) -> bytes | None:
    """Return the bytes that rows refer to by offsets, if there are any.

    Raises:
      ConfigError: Rows of several batches were joined.
    """
    if batch.DATA not in rows.schema.names:
        return None
    data: bytes | None = (rows.schema.metadata or {}).get(_DATA)
    names = rows[batch.DATA].unique().to_pylist()
    if data is None or names not in ([], [xxhash.xxh3_128_hexdigest(data)]):
        raise ConfigError(
            "expected rows of one batch that was read, with the bytes that they refer to, got rows"
            " of several batches: filter batches or add columns, but do not join batches"
        )
    return data


def without_data(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without the data in the metadata of their schema."""
    metadata = dict(rows.schema.metadata or {})
    metadata.pop(_DATA, None)
    return rows.replace_schema_metadata(metadata or None)


@contextlib.contextmanager
def with_data_in_file(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows whose data is in a file until the context ends, for encoder processes."""
    data = data_of_values(rows)
    if data is None:
        yield rows
        return
    with tempfile.NamedTemporaryFile() as file:
        with raise_storage_errors("write", "a temporary file"):
            file.write(data)
            file.flush()
        rows = without_data(rows)
        if batch.OFFSET in rows.schema.names:
            yield with_ranges(rows, pa.repeat(file.name, len(rows)))
        else:
            yield batch.set_column(rows, batch.PATH, pa.repeat(file.name, len(rows)))
