"""Conversion of rows to records: system columns, user columns, and rejects of invalid rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, Reject
from recordmill.format.label_texts import join_labels
from recordmill.format.split_names import canonical_split, mapped_split
from recordmill.job.input_facts import ColumnRoles
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.encoders.time_zones import beyond_microseconds
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import FIELD, distinct_labels, split_labels
from recordmill.transforms.model.label_spelling import respell
from recordmill.transforms.model.ragged import list_array
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.model.user_columns import is_list, user_feature
from recordmill.transforms.model.usual_columns import column_named
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.folders.number_labels import beyond_float32
from recordmill.transforms.sources.folders.references import (
    LINE_BREAK,
    label_problem,
    no_label,
)
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.text_columns import as_text, lists_with_nulls

SYSTEM_COLUMNS = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT)
TEXT = "text"  # column of the records that holds the document
SYSTEM_FIELDS = tuple(pa.field(name, pa.string()) for name in SYSTEM_COLUMNS)
TEXT_FIELDS = (*SYSTEM_FIELDS, pa.field(TEXT, pa.string(), False))

ONLY_SPACE = RejectCause(Reason.EMPTY, "only white space")

BEYOND = "since 1970 is a time beyond those that int64 microseconds hold"

Mask = npt.NDArray[np.bool_]


class SystemColumns(NamedTuple):
    """System columns of n rows, string[n] each. A column without source is all null.

    labels: list<string>[n], all labels of each row, if it may have several.
    """

    key: pa.Array
    label: pa.Array
    group: pa.Array
    split: pa.Array
    labels: pa.ListArray | None = None

    @property
    def lists(self) -> list[pa.Array]:
        """The column of `label_fields`, if there is one."""
        return [] if self.labels is None else [self.labels]


class InvalidRows(NamedTuple):
    """Rows to reject.

    rows: bool[n]. why: returns the problem of a row, given its index. named: whether to report them
    by their key, instead of FILE#ROW.
    """

    rows: Mask
    why: Callable[[int], RejectCause]
    named: bool = True


def invalid_rows(
    rows: Rows,
    mask: Mask,
    why: Callable[[int], str],
    reason: Reason = Reason.BAD_VALUE,
    *,
    named: bool = True,
) -> InvalidRows:
    """Return rows to reject with a detail that begins with the number of the row.

    mask: bool[n]. why: returns the rest of the detail of a row. named: as in `InvalidRows`.
    """
    return InvalidRows(
        mask, lambda row: RejectCause(reason, f"row {rows.numbers[row]}: {why(row)}"), named
    )


def system_columns(rows: Rows, roles: ColumnRoles) -> SystemColumns:
    """Return the system columns of rows. Empty text becomes null, and so does a blank label."""
    nulls = pa.nulls(len(rows.columns), pa.string())
    label, group, split = (
        nulls if name is None else empty_as_null(rows.columns[name])
        for name in (roles.label, roles.group, roles.split)
    )
    renames = dict(roles.renames)
    label = respell(label, renames)
    labels = _several_labels(rows, roles, renames)
    if labels is not None:
        label = join_labels(labels)
    elif pc.any(blank := is_only_space(label)).as_py():
        label = pc.if_else(blank, None, label)
    key = keys_of(rows, roles) if roles.keys else nulls
    return SystemColumns(key, label, group, _splits(split, dict(roles.split_map)), labels)


def keys_of(rows: Rows, roles: ColumnRoles) -> pa.Array:
    """Return the values of the key columns, joined: string[n], null if one is missing."""
    return join_keys([empty_as_null(rows.columns[name]) for name in roles.keys])


def label_fields(roles: ColumnRoles) -> list[pa.Field]:
    """Return the field of the labels of rows that may have several."""
    return [FIELD] if roles.labels is not None or roles.separator is not None else []


def _several_labels(
    rows: Rows, roles: ColumnRoles, renames: Mapping[str, str | None]
) -> pa.ListArray | None:
    """Return the labels of rows, as in `label_lists`; None if each has one at most."""
    if roles.labels is not None:
        column = rows.columns[roles.labels]
        counts = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
        items = respell(as_text(pc.list_flatten(column), roles.labels), renames)
        return distinct_labels(list_array(items, offsets_of(counts)))
    if roles.label is not None and roles.separator is not None:
        lists = split_labels(rows.columns[roles.label], roles.separator)
        if not renames:
            return lists
        edges = np.asarray(lists.offsets).astype(np.int64)
        return distinct_labels(list_array(respell(lists.flatten(), renames), edges))
    return None


def join_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Join the key columns of rows with commas: string[n], null if a value is missing.

    If there are several, commas and backslashes in values get a backslash, so that no two rows of
    different values have the same key.
    """
    if len(columns) == 1:
        return columns[0]
    escaped = (
        pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), ",", "\\,")
        for column in columns
    )
    return pc.binary_join_element_wise(*escaped, ",")


def is_only_space(texts: pa.Array) -> pa.BooleanArray:
    """Return whether each text is white space alone, bool[n]; false for a null."""
    return pc.utf8_is_space(texts).fill_null(False)


def user_field(field: pa.Field) -> pa.Field:
    """Return the field of a user column in records.

    Raises:
      ConfigError: no feature can be made of its type.
    """
    user_feature(field)
    # Rows with a null in a column of fixed-size lists are rejected, see `lists_with_nulls`.
    always = pa.types.is_fixed_size_list(field.type)
    return field.remove_metadata().with_nullable(field.nullable and not always)


def build_records(
    rows: Rows,
    system: SystemColumns,
    roles: ColumnRoles,
    *,
    source_columns: Sequence[pa.Array] = (),
    schema: pa.Schema,
    unkeyed: Sequence[InvalidRows] = (),
    faults: Sequence[InvalidRows] = (),
    files: Sequence[str],
    reject_unlabelled: bool,
    check_numbers: bool = True,
) -> ListingPart:
    """Return the records and the rejects of rows.

    Args:
      rows: rows of a file, or of several small files.
      system: their system columns.
      roles: of the columns of the file.
      source_columns: columns between system and user columns.
      schema: of the records.
      unkeyed: invalid rows of the source that are checked before a missing key.
      faults: invalid rows of the source that are checked after a missing key.
      files: keys of the files, as in `Rows.files`.
      reject_unlabelled: whether to reject rows without label if there is a label column.
      check_numbers: whether to reject rows with numbers that float32 cannot hold; otherwise only
        those in lists.
    """
    user_columns = schema.names[len(SYSTEM_COLUMNS) + len(source_columns) :]
    found = [
        *unkeyed,
        _rows_without_key(rows, system, roles),
        *faults,
        *_label_faults(rows, system, roles, reject_unlabelled=reject_unlabelled),
        *_list_faults(rows, user_columns),
        *_large_numbers(rows, user_columns, only_lists=not check_numbers),
        *_distant_times(rows, user_columns),
    ]
    bad, rejects = _collect_rejects(rows, found, keys=system.key, files=files)
    arrays = [*system[:4], *source_columns, *(rows.columns[name] for name in user_columns)]
    return ListingPart(rows=_select(pa.record_batch(arrays, schema=schema), bad), rejects=rejects)


def _rows_without_key(rows: Rows, system: SystemColumns, roles: ColumnRoles) -> InvalidRows:
    """Return the rows without value in the key column."""

    def why(row: int) -> str:
        name = next(name for name in roles.keys if not rows.columns[name][row].as_py())
        return f"no key in column {name!r}"

    return invalid_rows(rows, is_null(system.key), why, named=False)


def _label_faults(
    rows: Rows, system: SystemColumns, roles: ColumnRoles, *, reject_unlabelled: bool
) -> list[InvalidRows]:
    """Return the rows without label, if these are rejected, and those with an invalid label."""

    def missing(row: int) -> RejectCause:
        where = column_named(str(roles.classes))
        return no_label(f"one in {where}, row {rows.numbers[row]}")

    def invalid(row: int) -> str:
        return str(label_problem(system.label[row].as_py()))

    faults = [invalid_rows(rows, _has_line_break(system.label), invalid)]
    if roles.classes is not None and reject_unlabelled:
        # Columns of 0 alone say that a row has none of the classes.
        unknown = rows.columns[roles.labels] if roles.flags and roles.labels else system.label
        faults.insert(0, InvalidRows(is_null(unknown), missing))
    return faults


def _list_faults(rows: Rows, user_columns: Sequence[str]) -> list[InvalidRows]:
    """Return the rows with a null in a list."""
    return [
        invalid_rows(
            rows,
            lists_with_nulls(rows.columns[name]),
            functools.partial(
                "a null inside the list in column {!r}, which an Example cannot hold: replace the"
                " null, or remove the row".format,
                name,
            ),
        )
        for name in user_columns
        if is_list(rows.columns[name].type)
    ]


def _large_numbers(
    rows: Rows, user_columns: Sequence[str], *, only_lists: bool
) -> list[InvalidRows]:
    """Return the rows with a number, or a number in a list, that float32 cannot hold."""
    faults = []
    for name in user_columns:
        column = rows.columns[name]
        listed = is_list(column.type)
        values = pc.list_flatten(column) if listed else column
        if not pa.types.is_floating(values.type) or (only_lists and not listed):
            continue
        large = np.flatnonzero(beyond_float32(pc.if_else(pc.is_nan(values), 0, values)))
        if len(large):
            places = np.asarray(pc.list_parent_indices(column))[large] if listed else large
            numbers = dict(zip(places.tolist(), np.asarray(values)[large].tolist(), strict=True))
            mask = np.zeros(len(column), np.bool_)
            mask[places] = True
            why = functools.partial(_too_large, name, numbers)
            faults.append(invalid_rows(rows, mask, why))
    return faults


def _too_large(name: str, numbers: Mapping[int, float], row: int) -> str:
    return f"{column_named(name)}: {numbers[row]:g} is not a finite float32"


def _distant_times(rows: Rows, user_columns: Sequence[str]) -> list[InvalidRows]:
    """Return the rows with a time that microseconds since 1970 cannot hold."""

    def why(name: str, row: int) -> str:
        number = rows.columns[name].cast(pa.int64())[row]
        return f"column {name!r}: {number} {rows.columns[name].type.unit} {BEYOND}"

    times = [name for name in user_columns if pa.types.is_timestamp(rows.columns[name].type)]
    return [
        invalid_rows(rows, beyond_microseconds(rows.columns[name]), functools.partial(why, name))
        for name in times
        if rows.columns[name].type.unit in ("s", "ms")
    ]


def _collect_rejects(
    rows: Rows, faults: Sequence[InvalidRows], *, keys: pa.Array, files: Sequence[str]
) -> tuple[Mask, list[Reject]]:
    """Return the mask of invalid rows, bool[n], and the rejects, with those of unreadable rows.

    faults: the first fault of a row is reported. keys: string[n].
    """
    rejects = unreadable_rejects(rows, files)
    bad = np.logical_or.reduce([np.zeros(len(rows.columns), np.bool_), *(f.rows for f in faults)])
    for row in np.flatnonzero(bad).tolist():
        fault = next(fault for fault in faults if fault.rows[row])
        place = f"{files[rows.file_of(row)]}#{rows.numbers[row]}"
        key = keys[row].as_py() if fault.named else place
        rejects.append(Reject(key, "read", *fault.why(row)))
    return bad, rejects


def unreadable_rejects(rows: Rows, files: Sequence[str]) -> list[Reject]:
    """Return the rejects of the rows that could not be parsed. files: as for `build_records`."""
    return [
        Reject(f"{files[file]}#{number}", "read", reason, f"row {number}: {why}")
        for number, reason, why, file in rows.bad
    ]


def empty_as_null(column: pa.Array) -> pa.Array:
    """Return a column with nulls instead of empty text."""
    empty = pc.equal(column, "")
    return pc.if_else(empty, None, column) if pc.any(empty).as_py() else column


def _select(rows: pa.RecordBatch, bad: Mask) -> pa.RecordBatch | None:
    """Return the rows that are not bad, None if all are bad."""
    if bad.all():
        return None
    return rows.filter(pa.array(~bad)) if bad.any() else rows


def is_null(column: pa.Array) -> Mask:
    """Return the mask of nulls, bool[n]."""
    mask: Mask = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def _has_line_break(column: pa.Array) -> Mask:
    """Return the mask of texts with a line break, bool[n]; false for null."""
    codes, texts = batch.encode(column)
    found = [LINE_BREAK.search(text) is not None for text in texts.to_pylist()]
    return np.array([*found, False], np.bool_)[codes]


def _splits(column: pa.Array, split_map: Mapping[str, str]) -> pa.Array:
    """Return the splits of values, with the usual names as train, validation and test."""
    encoded = column.dictionary_encode()
    names = [
        mapped_split(name, split_map) if split_map else canonical_split(name) or name
        for name in encoded.dictionary.to_pylist()
    ]
    return pa.array(names, pa.string()).take(encoded.indices)
