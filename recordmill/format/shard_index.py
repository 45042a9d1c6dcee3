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
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recordmill.errors import DamageError
from recordmill.format.file_info import FileInfo, stream_info, why_changed
from recordmill.format.file_names import INDEX
from recordmill.format.parquet_footer import ParquetBoundsError, open_parquet, plain_texts
from recordmill.format.typed_json import MAX_COUNT
from recordmill.storage.files import Location
from recordmill.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, MAX_PAYLOAD_BYTES


class IndexDamagedError(DamageError):
    """A file that is not a valid index. what: the damage, without the name of the file."""

    def __init__(self, what: str, file: str | None = None) -> None:
        super().__init__(what if file is None else f"{file}: {what}")
        self.what = what


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
_MAX_FRAME = HEADER_BYTES + MAX_PAYLOAD_BYTES + FOOTER_BYTES
_RANGES = {
    "copy": (0, 2**31 - 1),
    "width": (0, 2**31 - 1),
    "height": (0, 2**31 - 1),
    "offset": (0, MAX_COUNT),
    "length": (HEADER_BYTES + FOOTER_BYTES, _MAX_FRAME),
}
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
      IndexDamagedError: the file is not an index.
      StorageError: the file cannot be read.
    """
    with _opened(location, records=None) as (_, _, known):
        return tuple(known)


def read_index(
    location: Location,
    *,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
    records: int | None = None,
    stated: FileInfo | None = None,
    frames: int | None = None,
) -> pa.Table:
    """Read the known columns of an index, or some; names that it does not have are ignored.

    dictionaries: columns to read as dictionaries, in a sixth of the time if values repeat.
    records: the number of rows that it must have, if that is known. A few bytes can stand for
      millions of rows, so the number in the footer is checked before any is read.
    stated: the size and the hash in the manifest. They are compared before anything is parsed,
      because the checksums of pages do not cover the footer, which has the names of columns.
    frames: bytes of the frames of the shard, which the rows have to cover one after the other.

    Raises:
      IndexDamagedError: the file is not Parquet, or its rows or columns are not those of the index.
      StorageError: the file cannot be read.
    """
    with _opened(location, records=records, dictionaries=dictionaries, stated=stated) as (
        file,
        size,
        known,
    ):
        table = file.read(columns=known if columns is None else columns, use_threads=False)
        return _checked(table, size, dictionaries, frames=frames)


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
        size,
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
        return _checked(pa.Table.from_batches(found), size, dictionaries)


@contextlib.contextmanager
def _opened(
    location: Location,
    *,
    records: int | None,
    dictionaries: Sequence[str] = (),
    buffer_size: int = 0,
    stated: FileInfo | None = None,
) -> Iterator[tuple[pq.ParquetFile, int, list[str]]]:
    """Open an index; yield the file, its size in bytes, and the names of its known columns.

    dictionaries: columns that are read as dictionaries. Raises as `read_index`.
    """
    with location.open_input() as stream:
        try:
            if stated is not None:
                changed = why_changed(stream_info(stream), stated)
                if changed is not None:
                    raise IndexDamagedError(changed)
            file, size = open_parquet(stream, dictionaries=dictionaries, buffer_size=buffer_size)
            rows = file.metadata.num_rows
            if records is not None and rows != records:
                raise IndexDamagedError(f"has {rows} rows, the manifest says {records} records")
            found = _plain(file.schema_arrow)
            expected = schema(found.names)
            known = pa.schema([field for field in found if field.name in expected.names])
            if known.names != expected.names or known.types != expected.types:
                raise IndexDamagedError(
                    f"expected the columns {_columns(expected)}; got {_columns(found)}"
                )
            yield file, size, known.names
        except IndexDamagedError as error:
            raise IndexDamagedError(error.what, f"{INDEX}/{location.name}") from error
        except ParquetBoundsError as error:
            raise IndexDamagedError(str(error), f"{INDEX}/{location.name}") from error
        # pyarrow raises these for invalid content.
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            what = f"it cannot be read as Parquet ({type(error).__name__})"
            raise IndexDamagedError(what, f"{INDEX}/{location.name}") from error


def _plain(found: pa.Schema) -> pa.Schema:
    """Return a schema with the types of the values of dictionaries."""
    fields = []
    for field in found:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
            kind = pa.list_(kind.value_type.value_type)
        fields.append(field.with_type(kind))
    return pa.schema(fields)


def _checked(
    table: pa.Table,
    size: int,
    dictionaries: Collection[str],
    *,
    frames: int | None = None,
) -> pa.Table:
    """Return columns of an index after checking their values.

    size: of the file in bytes. frames: as for `read_index`.

    Raises:
      IndexDamagedError: a value is null or out of range.
      ArrowException, ParquetBoundsError: a value is invalid, or texts take too much memory.
    """
    table.validate(full=True)
    table = plain_texts(table, size, dictionaries)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and name in _WITHOUT_NULLS:
            raise IndexDamagedError(f"its column {name} has nulls")
        if name in _RANGES and len(column):
            least, most = _RANGES[name]
            found = pc.min_max(column).as_py()
            if found["min"] is not None and not least <= found["min"] <= found["max"] <= most:
                raise IndexDamagedError(
                    f"expected the column {name} to hold {least} to {most}, got {found['min']} to"
                    f" {found['max']}"
                )
    if frames is not None:
        starts, lengths = (np.asarray(table[name]) for name in ("offset", "length"))
        ends = np.cumsum(lengths)
        if (ends - lengths != starts).any():
            raise IndexDamagedError("its records are not contiguous")
        if len(ends) and ends[-1] != frames:
            raise IndexDamagedError(
                f"its records end at byte {ends[-1]}, but the shard has {frames} bytes"
            )
    return table


def _columns(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)
