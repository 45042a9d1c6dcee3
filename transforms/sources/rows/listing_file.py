"""Opening of a listing, and the checks of its columns and rows as a whole."""

from __future__ import annotations

import collections
import dataclasses
import re
import shlex
from collections.abc import Collection, Sequence

import numpy as np

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.job.input_facts import ColumnRoles
from recordmill.notes import Note, most_frequent
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.condition_syntax import parse_condition
from recordmill.transforms.sources.row_formats.conditions import RowFilter
from recordmill.transforms.sources.row_formats.open_rows import infer_types, open_rows
from recordmill.transforms.sources.row_formats.row_file import (
    Origin,
    RowFile,
    Rows,
    TypeInferringFile,
)
from recordmill.transforms.sources.row_formats.row_format import RowFormat, format_of
from recordmill.transforms.sources.row_formats.value_parsing import ValueParser

# Names of columns of times in a file, without their unit.
_STARTS = ("start", "begin", "onset", "offset", "from")
_ENDS = ("end", "stop", "offset", "to")
_DURATIONS = ("duration", "dur", "length")
_SUFFIX = re.compile(r"[ _-]*(time|sec|secs|seconds|s|ms|msec|milliseconds)$")
_QUOTED = re.compile(r"'[^']*'")
_CAUSES = 3  # different causes in a message
_LOOKED_AT = 100  # rejects of a part that are searched for different causes
_FORMATS = ("csv", "tsv", "jsonl", "parquet")


def open_listing(place: Location, row_format: RowFormat) -> RowFile:
    """Open a listing. Raises ConfigError if its extension is not that of a listing."""
    is_text = format_of(place.name) == "lines" and row_format.delimiter is None
    if RowFormat().recognizes(place.name) and not is_text:
        file_format = row_format.resolve(place.path, way_out="")
        if file_format.format in _FORMATS and file_format.compression in (None, "gz"):
            return open_rows(Origin(place=place, noun="listing"), file_format)
    raise ConfigError(
        "expected a listing in .csv, .tsv, .jsonl (each also .gz), .parquet, or in .txt with"
        f" {option_name('delimiter')}, got {place}"
    )


def listing_filter(text: str, file: RowFile, column_types: ColumnTypes) -> RowFilter:
    """Return the filter of --where. column_types: of all columns, some without types.

    Raises:
      ConfigError: it is not a condition, or does not fit the columns.
    """
    names = [name for name in parse_condition(text).columns if name in column_types]
    open_types = [name for name in names if not column_types[name].types]
    if open_types:
        column_types = {**column_types, **infer_types(file, file.sections(), open_types)}
    types = {name: found.field(name).type for name, found in column_types.items() if name}
    return RowFilter.of(text, types, where="the listing")


def label_spelling(file: RowFile, roles: ColumnRoles, decimal: str) -> LabelSpelling:
    """Return the spelling of the labels of a listing; it is empty if the labels have a type."""
    spelling = LabelSpelling(decimal=decimal, separator=roles.separator)
    if roles.label is None or not isinstance(file, TypeInferringFile):
        return spelling
    for section in file.sections():
        for _, rows in file.typed_rows(section, (), {roles.label}):
            spelling = spelling.add(rows.columns[roles.label])
            if spelling.of_words:
                return spelling
    return spelling


def with_missing(rows: Rows, parser: ValueParser, names: Collection[str]) -> Rows:
    """Return rows with nulls for the values of --missing in the named columns."""
    if not parser.missing:
        return rows
    columns = rows.columns
    for name in names:
        columns = batch.set_column(columns, name, parser.mask_missing(name, columns[name]))
    return dataclasses.replace(rows, columns=columns)


def segment_notes(names: Sequence[str], place: Location) -> list[Note]:
    """Return a note if columns are named like the start and end (or duration) of segments."""
    by_stem: dict[str, str] = {}
    for name in names:
        by_stem.setdefault(_SUFFIX.sub("", name.strip().lower()), name)
    start = next((by_stem[stem] for stem in _STARTS if stem in by_stem), None)
    for option, stems in (("end", _ENDS), ("duration", _DURATIONS)):
        found = next((by_stem[stem] for stem in stems if by_stem.get(stem, start) != start), None)
        if start is not None and found is not None:
            text = (
                f"whole files are read, but the columns {start!r} and {found!r} of {place.name} may"
                f" be segments: --start-column {shlex.quote(start)} --{option}-column"
                f" {shlex.quote(found)} reads them"
            )
            return [Note("segments", text)]
    return []


def check_unnamed(rows: Rows, place: Location) -> None:
    """Raise ConfigError for a column without name, unless it is empty or only counts rows.

    pandas writes its index, which counts rows from 0, as such a column.
    """
    if "" not in rows.columns.schema.names:
        return
    column = rows.columns[""]
    counts = np.asarray(rows.numbers) - 1
    if column.null_count < len(column) and column.to_pylist() != counts.tolist():
        raise ConfigError(
            f"a column of {place} has no name, but holds more than row numbers: name it, or "
            "remove it (pandas writes its index without name, unless index=False)"
        )


class RejectedRows:
    """Rejected rows of a listing, for the error if no row can be used."""

    def __init__(self) -> None:
        self._counts: collections.Counter[Reason] = collections.Counter()
        self._firsts: dict[Reason, Reject] = {}
        self._causes: dict[str, Reject] = {}  # by detail without names in quotes
        self._may_be_elsewhere = False

    def add(self, rejects: Sequence[Reject]) -> None:
        """Count further rows."""
        self._counts.update(reject.reason for reject in rejects)
        self._firsts = {reject.reason: reject for reject in rejects[::-1]} | self._firsts
        for reject in rejects[:_LOOKED_AT]:
            self._may_be_elsewhere |= _may_be_elsewhere(reject)
            if len(self._causes) < _CAUSES:
                self._causes.setdefault(_cause(reject), reject)

    def no_rows(self, place: Location, root: Location, *, given: bool, filtered: int) -> str:
        """Return the message for a listing without a usable row.

        root: folder of relative paths. given: `root` is that of --input-root. filtered: number of
          rows that --where left out.
        """
        if not self._counts:
            if filtered:
                return f"--where leaves out all {filtered} rows of {place}: relax it"
            return f"the listing {place} has no rows"
        by_count = most_frequent(self._counts)
        first = self._firsts[by_count[0][0]]
        examples = list({_cause(first): first, **self._causes}.values())[:_CAUSES]
        reasons = ", ".join(f"{n} {reason}" for reason, n in by_count)
        which = "the first" if len(examples) == 1 else "the first of each cause"
        shown = "; ".join(f"{one.key}: {one.detail}" for one in examples)
        message = f"no row of {place} can be used ({reasons}); {which}: {shown}"
        if not self._may_be_elsewhere:
            return message
        message += "; relative paths were resolved in "
        if given:
            message += f"--input-root {root}: name the folder or archive that they are relative to"
        else:
            message += f"{root}: if they are relative to another folder, or to an archive, name it"
            message += " with --input-root"
        return message


def _cause(reject: Reject) -> str:
    return _QUOTED.sub("", reject.detail)


def _may_be_elsewhere(reject: Reject) -> bool:
    """Return whether another folder may have the file: the path is relative, and not odd."""
    if reject.reason is not Reason.MISSING or reject.key.startswith("/") or "://" in reject.key:
        return False
    return ", but " not in reject.detail and "its path" not in reject.detail
