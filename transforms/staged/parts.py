"""Parts of rows in staging: reading them by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.staging import Staging
from recordmill.transforms.model import batch
from recordmill.transforms.model.file_ranges import with_ranges
from recordmill.transforms.staged.arrow_files import read_arrow

_COLUMNS = "columns.arrow"


def read_part(
    name: str, *, staging: Staging, columns: Sequence[str] | None = None, keys: bool = True
) -> pa.RecordBatch:
    """Read a part by its name.

    columns: names of the columns to read, if the part has them; None reads all.
    keys: whether `__key__` and `__unit__` have all their values. Without them, keys that follow
      from the content of rows are null, and `__unit__` may be missing if it equals `__hash__`.
    """
    wanted = None
    if columns is not None:
        wanted = {*columns}
        if not keys or batch.KEY in wanted:  # the content gives the key
            wanted.add(batch.CONTENT)
    rows = read_arrow(staging.place(name), wanted)
    return with_all_keys(rows, columns) if keys else rows


def with_all_keys(rows: pa.RecordBatch, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Complete the keys of rows that `read_part` has read with `keys=False`."""
    names = rows.schema.names
    if batch.KEY in names and batch.CONTENT in names and rows[batch.KEY].null_count:
        rows = batch.with_keys(rows)
        if batch.UNIT not in names and (columns is None or batch.UNIT in columns):
            rows = rows.append_column(batch.UNIT, rows[batch.HASH])
    if columns is not None and batch.CONTENT in names and batch.CONTENT not in columns:
        rows = rows.drop_columns([batch.CONTENT])
    return rows


def joined_columns(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of all batches of a custom pipeline; nullable if those of a batch are.

    Raises:
      ConfigError: their names or types differ.
    """
    found = {_described(schema): schema for schema in schemas}
    one, *others = sorted(found)
    for other in others:
        unlike = ConfigError(f"expected batches of the same columns, got\n{one}\nand\n{other}")
        if found[one].names != found[other].names:
            raise unlike
        try:
            found[one] = pa.unify_schemas([found[one], found[other]])
        except pa.ArrowException as error:
            raise unlike from error
    return found[one]


def _described(schema: pa.Schema) -> str:
    nulls = {True: "", False: " not null"}
    return ", ".join(f"{field.name}: {field.type}{nulls[field.nullable]}" for field in schema)


def write_columns(columns: pa.Schema, staging: Staging) -> None:
    """Write the joined columns of a custom pipeline into staging."""
    staging.place(_COLUMNS).write_bytes(columns.serialize().to_pybytes())


def read_columns(staging: Staging) -> pa.Schema:
    """Return the columns that `write_columns` has written."""
    return pa.ipc.read_schema(pa.py_buffer(staging.place(_COLUMNS).read_bytes()))


def with_staged_paths(rows: pa.RecordBatch, staging: Staging) -> pa.RecordBatch:
    """Set `__path__` of rows whose data is in a staged file (`__data__`); others are unchanged.

    Staged rows hold only the name of that file, so that staging can be reached by another path. If
    they have an offset in it, `__path__` is a reference to that range (`members.Member`).
    """
    if batch.DATA not in rows.schema.names:
        return rows
    names = rows[batch.DATA].dictionary_encode()
    found = [staging.place(name).spelling for name in names.dictionary.to_pylist()]
    paths = pa.array(found, pa.string()).take(names.indices)
    if batch.OFFSET in rows.schema.names:
        return with_ranges(rows, paths)
    return batch.set_column(rows, batch.PATH, paths)
