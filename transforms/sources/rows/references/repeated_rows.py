"""References that have the same key: equal rows count once, others are conflicts.

A first pass reads only the keys, and finds repeated ones by their hashes. Rows with these keys,
which are few, are held back until the end of the listing, when all of them are known.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import MASK_COLUMNS, OBJECT_MASK_COLUMNS
from recordmill.transforms.model.source import ListingPart

Conflicts = Literal["reject", "first", "error"]
REPEATED = "repeated row"  # filter reason of rows that are equal to an earlier one
CONFLICTS = "conflicts"  # the option that leaves out later rows

# Columns that do not make rows differ; the last four locate what is staged, of clips too.
NOT_COMPARED = (
    *(batch.PLACE, batch.SIZE, batch.MTIME),
    *(batch.DATA, batch.OFFSET, batch.LENGTH, "__starts__"),
)
_REFERENCES = (batch.PATH, *MASK_COLUMNS.names, *OBJECT_MASK_COLUMNS.names)
_SYSTEM = {
    batch.LABEL: "label", batch.SPLIT: "split", batch.GROUP: "group", batch.PATH: "path",
    batch.CONTENT: "content", batch.CHECK: "content",
}  # fmt: skip
_REMEDY = "--conflicts first keeps the first row, and the values of the others are lost"
# Columns of which an image often has several values.
_CAPTIONS = frozenset(("caption", "captions", "comment", "sentence"))
_CORNERS = frozenset(("xmin", "x1", "x_min"))
_MOST_HELD = 100_000  # rows
_MOST_SHOWN = 60  # characters of a value in a message


class _HeldRow(NamedTuple):
    """A row with its name for messages, and its columns to compare."""

    name: str
    row: pa.RecordBatch
    compared: pa.RecordBatch


class RepeatedRows:
    """Holds back rows whose identity repeats, and decides on them at the end of a listing.

    Args:
      hashes: Hashes of the identities that repeat, ascending.
      conflicts: Treatment of rows that differ.
      inputs: The input, for messages.
      annotations: Options that read a table as annotations of its images, if they can.
      content: Returns a hash of the bytes that the path of a row refers to; by default, paths are
        compared. A row for which it raises RecordError is a reject, named by its place.
    """

    def __init__(
        self,
        hashes: batch.UInt64Array,
        *,
        conflicts: Conflicts | None,
        inputs: str,
        annotations: str | None = None,
        content: Callable[[str], int] | None = None,
    ) -> None:
        self._hashes = hashes
        self._conflicts = conflicts
        self._inputs = inputs
        self._annotations = annotations
        self._content = content
        self._held: dict[str, list[_HeldRow]] = {}
        self._count = 0
        self._rejects: list[Reject] = []

    def hold(self, rows: pa.RecordBatch, identities: pa.Array) -> pa.RecordBatch:
        """Return the rows whose identity does not repeat.

        Args:
          rows: Rows with the column `__place__`, for messages.
          identities: Identities of the rows, string[n].

        Raises:
          ConfigError: Too many rows repeat.
        """
        if not len(self._hashes):
            return rows
        repeated = np.isin(batch.hash_strings(identities), self._hashes)
        for at in np.flatnonzero(repeated).tolist():
            held = self._describe(rows.slice(at, 1))
            if held is not None:
                self._held.setdefault(identities[at].as_py(), []).append(held)
        self._count += int(repeated.sum())
        if self._count > _MOST_HELD:
            groups = (same for same in self._held.values() if len(same) > 1)
            such = "".join(
                f", as {one.name} and {other.name} do"
                for one, other, *_ in itertools.islice(groups, 1)
            )
            raise ConfigError(
                f"more than {_MOST_HELD:,} rows of {self._inputs} repeat a key{such}: name a column"
                f" of unique values with {option_name('key_column')}, or remove the repeated rows"
            )
        return rows.filter(pa.array(~repeated))

    def _describe(self, row: pa.RecordBatch) -> _HeldRow | None:
        name = batch.place_names(row[batch.PLACE])[0].as_py()
        if self._content is None:
            return _HeldRow(name, row, row)
        try:
            hashed = pa.array([self._content(row[batch.PATH][0].as_py())], pa.uint64())
        except RecordError as error:
            self._rejects.append(Reject(name, "read", error.reason, error.detail))
            return None
        compared = row.drop_columns([one for one in _REFERENCES if one in row.schema.names])
        return _HeldRow(name, row, batch.set_column(compared, batch.CHECK, hashed))

    def decide(self) -> Iterator[ListingPart]:
        """Yield the rows that were held back and are kept, the rejects and the filtered rows.

        Raises:
          ConfigError: rows with the same key differ, and conflicts are errors.
        """
        if self._rejects:
            yield ListingPart(rows=None, rejects=self._rejects)
        for same in self._held.values():
            distinct: list[_HeldRow] = []
            for one in same:
                if not any(
                    differing_column(one.compared, other.compared) is None for other in distinct
                ):
                    distinct.append(one)
            filtered = {REPEATED: len(same) - len(distinct)}
            rejects: list[Reject] = []
            if len(distinct) > 1 and self._conflicts == "error":
                raise ConfigError(self._conflict(distinct[1], distinct[0]))
            if len(distinct) > 1 and self._conflicts == "reject":
                first, second, *_ = distinct
                others = [second, *(first for _ in distinct[1:])]
                rejects = [
                    Reject(_key_of(one), "read", Reason.BAD_VALUE, self._conflict(one, other))
                    for one, other in zip(distinct, others, strict=True)
                ]
                distinct = []
            elif len(distinct) > 1:
                filtered[CONFLICTS] = len(distinct) - 1
            kept = distinct[0].row if distinct else None
            there = {reason: count for reason, count in filtered.items() if count}
            yield ListingPart(rows=kept, rejects=rejects, filtered=there)

    def _conflict(self, one: _HeldRow, other: _HeldRow) -> str:
        text = conflict_text(one.compared, other.compared, one.name, other.name)
        columns = {name.lower() for name in one.row.schema.names}
        boxes = not columns.isdisjoint(_CORNERS)
        if self._annotations is None or (not boxes and columns.isdisjoint(_CAPTIONS)):
            return text
        noun = "boxes" if boxes else "captions"
        return f"{text}; {self._annotations} reads all {noun} of an image into one record"


def conflict_text(one: pa.RecordBatch, other: pa.RecordBatch, name: str, other_name: str) -> str:
    """Return the sentence on two rows that have the same key and differ.

    one, other: a row each. name, other_name: names of the rows for the message.
    """
    found = differing_column(one, other)
    if found is None:  # such as 0.0 and -0.0
        return f"{name} has the same key as {other_name}, but its content differs"
    shown = f"the {_SYSTEM[found]}" if found in _SYSTEM else f"the column {found!r}"
    mine, theirs = (row[found][0].as_py() for row in (one, other))
    if found in (batch.CONTENT, batch.CHECK):
        return f"{name} has the same key as {other_name}, but {shown} differs; {_REMEDY}"
    return (
        f"{name} has the same key as {other_name}, but {shown} differs: {_short(mine)} and"
        f" {_short(theirs)}; {_REMEDY}"
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _key_of(held: _HeldRow) -> str:
    key: str = held.row[batch.KEY][0].as_py()
    return key


def differing_column(one: pa.RecordBatch, other: pa.RecordBatch) -> str | None:
    """Return the first column in which two rows differ, None if they are equal."""
    names: list[str] = one.schema.names
    for name in names:
        if name == batch.PATH:
            paths = {os.path.normpath(row[name][0].as_py() or "") for row in (one, other)}
            if len(paths) > 1:
                return name
        elif name not in NOT_COMPARED and not _equal(one[name], other[name]):
            return name
    return None


def _equal(one: pa.Array, other: pa.Array) -> bool:
    return one.equals(other) or (
        pa.types.is_floating(one.type)
        and bool(pc.all(pc.is_nan(one)).as_py())
        and bool(pc.all(pc.is_nan(other)).as_py())
    )
