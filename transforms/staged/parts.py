"""Parts of rows in staging: reading them by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.staging import Staging
from recordmill.transforms.model import batch
from recordmill.transforms.model.file_ranges import with_ranges
from recordmill.transforms.model.user_columns import is_list, user_fields
from recordmill.transforms.staged.arrow_files import read_arrow
from recordmill.transforms.staged.value_batches import layout_of_values

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


def observed_columns(rows: pa.RecordBatch) -> pa.Schema:
    """Return the columns of a batch of a custom pipeline.

    Those of a source are as it declares them; others of the user are nullable if they hold a null.
    """
    if layout_of_values(rows.schema) is not None:
        return rows.schema
    users = {field.name for field in user_fields(rows.schema)}
    return pa.schema(
        field.with_nullable(field.name not in users or rows[field.name].null_count > 0)
        for field in rows.schema
    )


def joined_columns(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return columns that hold the values of all batches of a custom pipeline, sorted by name.

    A column is nullable if that of a batch is, or if a batch lacks it. One without values is of
    strings.

    Raises:
      ConfigError: a column has types in two batches that no type can hold together, or some batches
        have keys and others have none.
    """
    found = list(schemas)
    fields = []
    for name in sorted({name for schema in found for name in schema.names}):
        several = [schema.field(name) for schema in found if name in schema.names]
        is_in_all = len(several) == len(found)
        if name == batch.CONTENT and not is_in_all:
            raise ConfigError(f"expected a column {batch.KEY} in all batches or in none")
        nullable = not is_in_all or any(field.nullable for field in several)
        kind = _joined_type(name, several)
        if pa.types.is_null(kind):
            kind = pa.string()
        elif kind == pa.list_(pa.null()):
            kind = pa.list_(pa.string())
        fields.append(several[0].with_type(kind).with_nullable(nullable))
    return pa.schema(fields, metadata=found[0].metadata if found else None)


def _joined_type(name: str, fields: Sequence[pa.Field]) -> pa.DataType:
    kinds = sorted({field.type for field in fields}, key=str)
    joined = kinds[0]
    for kind in kinds[1:]:
        try:
            joined = _wider_type(joined, kind)
        except pa.ArrowException as error:
            raise ConfigError(
                f"column {name!r}: expected values of one type in all batches, got {joined} and"
                f" {kind}: convert them to one type"
            ) from error
    return joined


def _wider_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the narrowest type that holds both; a value beside lists is a list of one value."""
    one, other = (
        kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other)
    )
    if is_list(one) != is_list(other) and pa.null() not in (one, other):
        one, other = (kind if is_list(kind) else pa.list_(kind) for kind in (one, other))
    schemas = [pa.schema([("x", one)]), pa.schema([("x", other)])]
    return pa.unify_schemas(schemas, promote_options="permissive").field("x").type


def with_columns(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return rows of a custom pipeline with the user's columns that all batches have together.

    columns: from `joined_columns`.

    Raises:
      ConfigError: a value does not fit into the type of its column.
    """
    names = {field.name for field in user_fields(rows.schema)}
    fields = user_fields(columns)
    arrays = [
        _as_type(field.name, rows[field.name], field.type)
        if field.name in names
        else pa.nulls(len(rows), field.type)
        for field in fields
    ]
    rows = rows.drop_columns(list(names))
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *arrays],
        schema=pa.schema([*rows.schema, *fields], metadata=rows.schema.metadata),
    )


def _as_type(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if is_list(kind) and not is_list(column.type) and not pa.types.is_null(column.type):
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        missing = column.is_null() if column.null_count else None
        offsets = pa.array(np.arange(len(column) + 1, dtype=np.int32))
        column = pa.ListArray.from_arrays(offsets, column, mask=missing)
    lossy = pa.types.is_floating(kind.value_type if is_list(kind) else kind)
    try:
        return column.cast(kind, safe=not lossy)
    except pa.ArrowException as error:
        raise ConfigError(f"column {name!r}: {error}: convert its values to one type") from error


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
