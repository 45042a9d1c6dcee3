"""Resolves the rows of a listing to references to the files that they name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason
from recordmill.job.input_facts import ColumnRoles
from recordmill.storage.redaction import redact_uri
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.files.file_stat import FileStat, RejectCause
from recordmill.transforms.sources.files.path_rules import normal_path
from recordmill.transforms.sources.files.references import COLUMNS, ROW, Unlabelled
from recordmill.transforms.sources.row_formats.row_file import Rows
from recordmill.transforms.sources.rows.number_columns import invalid_numbers
from recordmill.transforms.sources.rows.path_stats import StatCache
from recordmill.transforms.sources.rows.record_columns import (
    InvalidRows,
    build_records,
    keys_of,
    label_fields,
    system_columns,
    user_field,
)
from recordmill.transforms.sources.rows.weights import weight_field

_NO_PATH = RejectCause(Reason.BAD_VALUE, "no path")
_NOTHING = FileStat("", 0, 0)


def listed_keys(rows: Rows, roles: ColumnRoles) -> pa.Array:
    """Return the key of each row, string[n]; null where there is none."""
    if roles.key is not None:
        return keys_of(rows, roles)
    paths = rows.columns[roles.main].dictionary_encode()
    names = [normal_path(path) if path else None for path in paths.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(paths.indices)


def resolve_files(
    rows: Rows,
    *,
    roles: ColumnRoles,
    user_columns: Sequence[str],
    stats: StatCache,
    file: str,
    unlabelled: Unlabelled,
) -> ListingPart:
    """Return a reference or a reject for every row. Each distinct path is queried once."""
    columns = rows.columns
    paths = columns[roles.main].dictionary_encode()
    distinct = [*paths.dictionary.to_pylist(), ""]
    at = paths.indices.fill_null(len(distinct) - 1)  # int32[n], indices into `distinct`
    found = [_NO_PATH if not d else f for d, f in zip(distinct, stats.stat(distinct), strict=True)]
    files = [item if isinstance(item, FileStat) else _NOTHING for item in found]
    system = system_columns(rows, roles)
    if roles.key is None:
        keys = [normal_path(path) for path in distinct]
        # Rejected paths may hold secrets, and go to rejects.jsonl.
        keys = [key if one.size else redact_uri(key) for key, one in zip(keys, files, strict=True)]
        key = pa.array(keys, pa.string()).take(at)
        system = system._replace(key=key)
    path, size, mtime = (
        pa.array([item[n] for item in files], COLUMNS.field(name).type).take(at)
        for n, name in enumerate((batch.PATH, batch.SIZE, batch.MTIME))
    )

    def no_path(row: int) -> RejectCause:
        detail = f"row {rows.numbers[row]}: no path in column {roles.main!r}"
        return RejectCause(Reason.BAD_VALUE, detail)

    def path_problem(row: int) -> RejectCause:
        problem = found[at[row].as_py()]
        assert isinstance(problem, RejectCause)
        return problem

    pathless = np.array([item is _NO_PATH for item in found])[at.to_numpy()]
    unusable = np.array([isinstance(item, RejectCause) for item in found])[at.to_numpy()]
    fields = {name: user_field(columns.schema.field(name)) for name in user_columns}
    if roles.target is not None and unlabelled == "reject":
        fields[roles.target] = fields[roles.target].with_nullable(False)
    if roles.weight is not None:
        fields[roles.weight] = weight_field(fields[roles.weight], where=file)
    return build_records(
        rows,
        system,
        roles,
        source_columns=[path, size, mtime, pa.array(rows.numbers, pa.int64()), *system.lists],
        schema=pa.schema(
            [*COLUMNS, pa.field(ROW, pa.int64()), *label_fields(roles), *fields.values()]
        ),
        unkeyed=[InvalidRows(pathless, no_path, named=False)],
        faults=[
            InvalidRows(unusable, path_problem),
            *invalid_numbers(rows, roles, unlabelled=unlabelled),
        ],
        files=[file],
        reject_unlabelled=unlabelled == "reject",
    )
