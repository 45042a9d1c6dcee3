"""References to ranges of files that hold the bytes of rows (`members.Member`, method `staged`)."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.storage.members import Member
from recordmill.storage.storage_errors import raise_storage_errors
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart

# Columns of rows whose bytes are in a staged file.
RANGES = pa.schema(
    [
        pa.field(batch.DATA, pa.string()),
        pa.field(batch.OFFSET, pa.int64()),
        pa.field(batch.LENGTH, pa.int64()),
        pa.field(batch.CHECK, pa.uint64()),
    ]
)


def with_ranges(rows: pa.RecordBatch, files: pa.Array) -> pa.RecordBatch:
    """Set `__path__` of rows to references to their ranges of files; rows without a range keep it.

    files: string[n], paths of the files.
    """
    columns = (rows[name].to_pylist() for name in (batch.OFFSET, batch.LENGTH, batch.CHECK))
    found = [
        None
        if offset is None
        else Member(path, 0, offset, length, length, "staged", check, "").reference
        for path, offset, length, check in zip(files.to_pylist(), *columns, strict=True)
    ]
    paths = pc.coalesce(pa.array(found, pa.string()), rows[batch.PATH])
    return batch.set_column(rows, batch.PATH, paths)


def without_paths(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without the references that `with_ranges` has set."""
    paths = pc.if_else(rows[batch.OFFSET].is_valid(), None, rows[batch.PATH])
    return batch.set_column(rows, batch.PATH, paths)


@contextlib.contextmanager
def with_temporary_ranges(listed: ListingPart) -> Iterator[pa.RecordBatch | None]:
    """Yield the rows of a part with references to its data, which open until the context ends.

    The data is in a temporary file without a name, so that nothing stays if the process ends.
    """
    if listed.rows is None or listed.data is None:
        yield listed.rows
        return
    with tempfile.TemporaryFile() as file:
        with raise_storage_errors("write", "a temporary file"):
            file.write(listed.data)
            file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        yield with_ranges(listed.rows, pa.repeat(path, len(listed.rows)))
