"""Rows of a file as records: the columns that are ours, those of the user's, and what is wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, Reject
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import ListingPart
from recordmill.transforms.model.user_columns import is_list, user_feature
from recordmill.transforms.sources.files.file_stat import Problem
from recordmill.transforms.sources.files.references import (
    LINE_BREAK,
    broken_label,
    known_split,
    no_label,
)
from recordmill.transforms.sources.row_formats.rows import Rows
from recordmill.transforms.sources.row_formats.text_columns import null_inside
from recordmill.transforms.sources.rows.column_roles import Roles

OURS = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT)
TEXT = "text"  # the user's column that holds the document, whatever its name was
OURS_FIELDS = tuple(pa.field(name, pa.string()) for name in OURS)
TEXT_FIELDS = (*OURS_FIELDS, pa.field(TEXT, pa.string(), False))

Mask = npt.NDArray[np.bool_]


class Ours(NamedTuple):
    """string[n] each; all null without such a column."""

    key: pa.Array
    label: pa.Array
    group: pa.Array
    split: pa.Array


class InvalidRows(NamedTuple):
    """Rows that are no records. why: of a row, by its index. named: whether they have a key."""

    rows: Mask
    why: Callable[[int], Problem]
    named: bool = True


def our_columns(rows: Rows, roles: Roles) -> Ours:
    """The columns of these roles; empty text is null."""
    nulls = pa.nulls(len(rows.columns), pa.string())
    key, label, group, split = (
        nulls if name is None else filled(rows.columns[name])
        for name in (roles.key, roles.label, roles.group, roles.split)
    )
    return Ours(key, label, group, _splits(split))


def carried(field: pa.Field) -> pa.Field:
    """A user's column as it goes on. Raises ConfigError where it cannot."""
    user_feature(field)
    # Of lists of a fixed size no row that is kept has a null, see `null_inside`.
    always = pa.types.is_fixed_size_list(field.type)
    return field.remove_metadata().with_nullable(field.nullable and not always)


def lay_out(
    rows: Rows,
    ours: Ours,
    roles: Roles,
    *,
    own: Sequence[pa.Array] = (),
    schema: pa.Schema,
    nameless: Sequence[InvalidRows] = (),
    faults: Sequence[InvalidRows] = (),
    file: str,
    reject_unlabelled: bool,
) -> ListingPart:
    """Records and rejects of rows.

    own: the columns between ours and the user's. schema: of all. nameless, faults: what is wrong
    with rows, beside what is the same for all inputs; the first come before a missing key.
    """
    users = schema.names[len(OURS) + len(own) :]
    found = [
        *nameless,
        _keyless(rows, ours, roles),
        *faults,
        *_faults_of_labels(rows, ours, roles, reject_unlabelled=reject_unlabelled),
        *_faults_of_lists(rows, users),
    ]
    bad, rejects = _sort_out(rows, found, keys=ours.key, file=file)
    arrays = [*ours, *own, *(rows.columns[name] for name in users)]
    return ListingPart(rows=_keep(pa.record_batch(arrays, schema=schema), bad), rejects=rejects)


def _keyless(rows: Rows, ours: Ours, roles: Roles) -> InvalidRows:
    """Rows without key where a column should have it."""

    def why(row: int) -> Problem:
        return Problem(Reason.BAD_VALUE, f"row {rows.numbers[row]}: no key in column {roles.key!r}")

    return InvalidRows(is_null(ours.key), why, named=False)


def _faults_of_labels(
    rows: Rows, ours: Ours, roles: Roles, *, reject_unlabelled: bool
) -> list[InvalidRows]:
    """Rows without label where there should be one, and with one that cannot be."""

    def missing(row: int) -> Problem:
        return no_label(f"one in column {roles.label!r}, row {rows.numbers[row]}")

    def broken(row: int) -> Problem:
        why = broken_label(ours.label[row].as_py())
        return Problem(Reason.BAD_VALUE, f"row {rows.numbers[row]}: {why}")

    faults = [InvalidRows(_has_line_break(ours.label), broken)]
    if roles.label is not None and reject_unlabelled:
        faults.insert(0, InvalidRows(is_null(ours.label), missing))
    return faults


def _faults_of_lists(rows: Rows, users: Sequence[str]) -> list[InvalidRows]:
    """Rows with a list that has a null inside."""
    return [
        InvalidRows(null_inside(rows.columns[name]), functools.partial(_hole, rows, name))
        for name in users
        if is_list(rows.columns[name].type)
    ]


def _hole(rows: Rows, name: str, row: int) -> Problem:
    return Problem(
        Reason.BAD_VALUE,
        f"row {rows.numbers[row]}: a null inside the list in column {name!r}, which an Example "
        "cannot hold: fill it, or leave the row out",
    )


def _sort_out(
    rows: Rows, faults: Sequence[InvalidRows], *, keys: pa.Array, file: str
) -> tuple[Mask, list[Reject]]:
    """Which rows have a fault, bool[n], and the rejects: of those, and of what was no row at all.

    faults: the first that a row has is told. keys: string[n].
    """
    rejects = no_rows(rows, file)
    bad = np.logical_or.reduce([np.zeros(len(rows.columns), np.bool_), *(f.rows for f in faults)])
    for row in np.flatnonzero(bad).tolist():
        fault = next(fault for fault in faults if fault.rows[row])
        key = keys[row].as_py() if fault.named else f"{file}#{rows.numbers[row]}"
        rejects.append(Reject(key, "read", *fault.why(row)))
    return bad, rejects


def no_rows(rows: Rows, file: str) -> list[Reject]:
    """The rejects of what was no row at all."""
    return [
        Reject(f"{file}#{number}", "read", reason, f"row {number}: {why}")
        for number, reason, why in rows.bad
    ]


def filled(column: pa.Array) -> pa.Array:
    """Empty text as null."""
    empty = pc.equal(column, "")
    return pc.if_else(empty, None, column) if pc.any(empty).as_py() else column


def _keep(rows: pa.RecordBatch, bad: Mask) -> pa.RecordBatch | None:
    """The rows that are not bad, None if there are none."""
    if bad.all():
        return None
    return rows.filter(pa.array(~bad)) if bad.any() else rows


def is_null(column: pa.Array) -> Mask:
    """bool[n]."""
    mask: Mask = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def _has_line_break(column: pa.Array) -> Mask:
    """Which texts have one, bool[n]; a null has not."""
    codes, texts = batch.encode(column)
    broken = [LINE_BREAK.search(text) is not None for text in texts.to_pylist()]
    return np.array([*broken, False], np.bool_)[codes]


def _splits(column: pa.Array) -> pa.Array:
    """The usual names of splits as train, validation and test; others as they are."""
    encoded = column.dictionary_encode()
    names = [known_split(name) or name for name in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)
