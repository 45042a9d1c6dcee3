"""Labels of rows with a column of 0 and 1 for each class, or with a list of 0 and 1."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.notes import Note, count_of
from recordmill.option_checks import list_text
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import edges_of
from recordmill.transforms.model.usual_columns import OF_FLAGS, quoted
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.column_types import ColumnType, ColumnTypes
from recordmill.transforms.sources.row_formats.values.text_columns import as_text

LISTS: tuple[pa.DataType, ...] = (pa.list_(pa.string()),)
_ONE_OR_LISTS = (pa.string(), *LISTS)
_FLAGS = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}
_MISSING, _INVALID = -1, -2
_LEAST = 2  # columns of 0 and 1 that may be classes
_SHOWN = 40  # characters of a value in a message

Flags = npt.NDArray[np.int8]


class FlagColumns(NamedTuple):
    """The columns of 0 and 1, one per class, or a column of lists with a value for each class.

    Attributes:
      names: Names of the columns.
      lists: The column of lists, if it is one.
      size: Length of the lists.
    """

    names: tuple[str, ...]
    lists: pa.Field | None = None
    size: int = 0

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes: those of the columns, or the places in lists, from 0."""
        return self.names if self.lists is None else tuple(map(str, range(self.size)))

    @property
    def schema(self) -> pa.Schema:
        """The columns to read."""
        texts = (pa.field(name, pa.string()) for name in self.names)
        return pa.schema(texts if self.lists is None else [self.lists])

    @property
    def text(self) -> set[str]:
        """The columns to read as text."""
        return {*self.names} if self.lists is None else set()

    def flags(self, columns: Sequence[pa.Array]) -> Flags:
        """Return the values of the columns, int8[rows, classes], as `flags_of`."""
        if self.lists is None:
            return flags_of(columns)
        (lists,) = columns
        counts = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
        found = np.full((len(lists), self.size), _INVALID, np.int8)
        found[np.asarray(lists.is_null())] = _MISSING
        fits = np.asarray(lists.is_valid()) & (counts == self.size)
        items = flags_of([as_text(pc.list_flatten(lists), self.names[0])])[:, 0]
        found[fits] = items[np.repeat(fits, counts)].reshape(-1, self.size)
        return found


def flags_of(columns: Sequence[pa.Array]) -> Flags:
    """Return the values of columns of text, int8[rows, columns]: 0, 1, or a code below 0."""
    found = np.empty((len(columns[0]), len(columns)), np.int8)
    for number, column in enumerate(columns):
        codes, texts = batch.encode(column)
        flags = [_FLAGS.get(text.strip().lower(), _INVALID) for text in texts.to_pylist()]
        found[:, number] = np.array([*flags, _MISSING], np.int8)[codes]
    return found


def type_of_flags(flags: Flags) -> ColumnType:
    """Return the type of labels that values give: texts if each row has one class, else lists.

    Rows without any value, and with invalid ones, do not count.
    """
    known = (flags != _MISSING).any(axis=1) & (flags != _INVALID).all(axis=1)
    if not known.any():
        return ColumnType()
    one_each = bool(((flags == 1).sum(axis=1)[known] == 1).all())
    return ColumnType(_ONE_OR_LISTS if one_each else LISTS)


def names_of_flags(flags: Sequence[str]) -> Mapping[str, str]:
    """Return {number as text: class}, in the order of the columns."""
    return {str(number): name for number, name in enumerate(flags)}


def with_flag_labels(rows: Rows, columns: FlagColumns, *, several: bool) -> Rows:
    """Return rows with the column `OF_FLAGS`: a class, or a list of classes; without invalid rows.

    The value is null if all columns of a row are. A missing value beside others counts as 0.
    """
    names = columns.classes
    flags = columns.flags([rows.columns[name] for name in columns.names])
    wrong = _invalid_values(rows, columns, flags)
    unknown = (flags == _MISSING).all(axis=1)
    at, places = np.nonzero(flags == 1)
    classes = pa.array(names, pa.string()).take(pa.array(places))
    if several:
        edges = pa.array(edges_of(at, len(flags)).astype(np.int32))
        labels = pa.ListArray.from_arrays(edges, classes, mask=pa.array(unknown))
    else:
        counts = np.bincount(at, minlength=len(flags))
        for row in np.flatnonzero((counts != 1) & ~unknown).tolist():
            wrong.setdefault(row, f"expected one 1 in {quoted(columns.names)}, got {counts[row]}")
        firsts = np.searchsorted(at, np.arange(len(flags)))
        labels = classes.take(pa.array(firsts, mask=counts == 0))
    return rows.replace(batch.set_column(rows.columns, OF_FLAGS, labels), wrong)


def _invalid_values(rows: Rows, columns: FlagColumns, flags: Flags) -> dict[int, str]:
    """Return {row: message} of the rows with other values than 0 and 1."""
    wrong: dict[int, str] = {}
    what = "0 or 1"
    if columns.lists is not None:
        what = f"a list of {columns.size} values of 0 and 1, as in the first row"
    for row, at in zip(*np.nonzero(flags == _INVALID), strict=True):
        name = columns.names[at if columns.lists is None else 0]
        value = str(rows.columns[name][int(row)].as_py())
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        why = f"column {name!r}: expected {what}, because it is one of --label-columns,"
        wrong.setdefault(int(row), f"{why} got {shown!r}")
    return wrong


def flag_notes(found: ColumnType, columns: FlagColumns) -> Mapping[str, Note]:
    """Return a note, by its topic, if each row has exactly one class. found: type of the labels."""
    if found.types != _ONE_OR_LISTS:
        return {}
    where = f"of the columns {quoted(columns.names)}"
    if columns.lists is not None:
        where = f"value in the lists of the column {columns.names[0]!r}"
    text = f"exactly one {where} is 1 in every row, so each record has one"
    return {OF_FLAGS: Note("label-columns", f"{text} class, not a list of classes")}


def unused_flags(names: Sequence[str], column_types: ColumnTypes) -> Mapping[str, Note]:
    """Return a note, by its topic, if columns may be classes. names: of the user columns."""
    found = [name for name in names if pa.bool_() in column_types[name].types]
    if len(found) < _LEAST:
        return {}
    text = (
        f"there is no label column, and {count_of(len(found), 'column')} hold only 0 and 1: if they"
        f" are classes, {OF_FLAGS} {shlex.quote(list_text(found))} takes the classes of a record"
        " from them"
    )
    return {OF_FLAGS: Note("label-columns", text)}
