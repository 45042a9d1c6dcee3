"""Layout of records that are read from files of rows, and the columns that a source adds."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.input_facts import ColumnRoles, InputFacts
from recordmill.option_names import option_name
from recordmill.transforms.model.source import Layout, ListingPart
from recordmill.transforms.model.usual_columns import OF_FLAGS
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.values.sample_times import (
    time_mismatch,
    times_of,
)
from recordmill.transforms.sources.row_formats.values.text_columns import as_text
from recordmill.transforms.sources.row_formats.values.value_parsing import (
    ValueParser,
    type_mismatch,
)
from recordmill.transforms.sources.row_formats.where.conditions import RowFilter
from recordmill.transforms.sources.rows.columns.flag_columns import FlagColumns
from recordmill.transforms.sources.rows.columns.path_columns import (
    path_values,
    without_contradictions,
)
from recordmill.transforms.sources.rows.columns.record_columns import (
    InvalidRows,
    SystemColumns,
    keys_of,
)
from recordmill.transforms.sources.rows.reading.row_cache import RowCache


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowLayout(Layout):
    """Layout of the records, and how to read them from the files.

    Attributes:
      roles: Roles of the columns of the files.
      written: Types of the user columns in the files.
      label_lists: Column of lists of labels, or of 0 and 1, in the files, if there is one.
      flags: Columns of 0 and 1, one per class, if the classes come from them.
      row_filter: Filter of --where.
      kept: Cache of the rows that were read to infer the layout, if any.
      class_names: {number as text: class}; None if labels are the classes.
      from_path: Columns that are in the names of folders, as KEY=VALUE, and not in the files.
      in_both: Columns that are in the names of folders and in the files.
      from_listing: {column: system column of the listing} of the columns with facts in paths.
      held_in: Column with the files of the rows, if rows hold files.
      typed: Columns with a role that are read with the types of the files, not as text.
      made: Columns with a role that the source makes of others.
      time_formats: {column: format of its times, as for strptime}.
    """

    roles: ColumnRoles
    written: pa.Schema
    label_lists: pa.Field | None = None
    flags: FlagColumns | None = None
    row_filter: RowFilter | None = None
    kept: RowCache | None = None
    class_names: Mapping[str, str] | None = None
    from_path: tuple[str, ...] = ()
    in_both: tuple[str, ...] = ()
    from_listing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    held_in: str | None = None
    typed: tuple[pa.Field, ...] = ()
    made: tuple[str, ...] = ()
    time_formats: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def read_names(self) -> set[str]:
        """Return the names of the columns to read as text."""
        typed = {field.name for field in self.typed}
        typed |= set() if self.label_lists is None else {self.label_lists.name}
        made = (OF_FLAGS, *self.made)
        return self.roles.named().difference(self.from_path, self.from_listing, typed, made)

    def more_fields(self, named: Collection[str]) -> list[pa.Field]:
        """Return the fields to read beside `written` and the columns `named`, read as text."""
        lists = [] if self.label_lists is None else [self.label_lists]
        compared = () if self.row_filter is None else self.row_filter.fields
        lists = [*lists, *self.typed]
        read = {*named, *self.written.names, *(field.name for field in lists)}
        read.update(self.from_path, self.from_listing)  # they are not in the files
        return [*lists, *(field for field in compared if field.name not in read)]


class Attached(NamedTuple):
    """Columns that a source adds to rows, and the rows that it rejects.

    Attributes:
      columns: Columns between the system columns and the user columns.
      faults: Invalid rows, which are checked after a missing key.
      unkeyed: Invalid rows that are checked before a missing key.
      keys: Keys if no column has them, string[n]; by default FILE#ROW.
      splits: Splits if lists give them, string[n].
    """

    columns: Sequence[pa.Array] = ()
    faults: Sequence[InvalidRows] = ()
    unkeyed: Sequence[InvalidRows] = ()
    keys: pa.Array | None = None
    splits: pa.Array | None = None


class References(abc.ABC):
    """Base of the references that the rows of one scan make.

    Attributes:
      content: Returns a hash of the bytes that a path refers to, for `RepeatedRows`; None to
        compare paths.
    """

    content: Callable[[str], int] | None = None

    def see(self, rows: Rows, file: File) -> None:
        """Record facts of rows before any of them is left out or rejected."""
        del rows, file

    @abc.abstractmethod
    def attach(self, rows: Rows, layout: RowLayout, file: File, system: SystemColumns) -> Attached:
        """Return the references of rows, as `RowSteps._attach`."""

    def keys(self, rows: Rows, roles: ColumnRoles, file: File) -> pa.Array:
        """Return the keys of rows, string[n]; null if a row has none."""
        del file
        return keys_of(rows, roles)

    def advice(self) -> str:
        """Return advice for the error if no row can be used, with its semicolon; or ""."""
        return ""

    @abc.abstractmethod
    def end(self) -> ListingPart:
        """Return notes and facts on all references, after the last row."""


def split_source_of_rows(inputs: Inputs, roles: ColumnRoles, facts: InputFacts) -> str | None:
    """Return the part of the input that names the splits of rows, for messages; None without one.

    Args:
      inputs: Paths of the input.
      roles: Roles of the columns.
      facts: Facts in the paths of the files.

    Raises:
      ConfigError: Both a column and --input name splits, the column is missing, or only folders
        below the top ones have names of splits.
    """
    if roles.split is None:
        if facts.split_problem is not None:
            raise ConfigError(facts.split_problem)
        return facts.split_source
    if any(one.split for one in inputs.paths):
        raise ConfigError(
            f"both {facts.split_source} and the column {roles.split!r} give the split: pass"
            f" {option_name('split_from')} none to ignore the column, or leave the split out of"
            f" {option_name('input')}"
        )
    return f"the column {roles.split!r}"


def written_field(field: pa.Field, header: ColumnTypes, column_types: ColumnTypes) -> pa.Field:
    """Return the field to read for a user column: text if its type is not the inferred one."""
    found = column_types[field.name].field(field.name)
    is_text = not header[field.name].types and found.type != field.type
    return pa.field(field.name, pa.string()) if is_text else found


def with_path_columns(
    rows: Rows, layout: RowLayout, files: Sequence[File], listed: Sequence[Mapping[str, Any]]
) -> Rows:
    """Return rows with the columns that paths give, as text.

    Args:
      rows: Rows of a file, or of several small files.
      layout: Layout of the records.
      files: The files, as in `Rows.files`.
      listed: Row of the listing for the section of each file.
    """
    values = path_values(layout.from_path, [file.key for file in files])
    for name, column in layout.from_listing.items():
        values[name] = [one[column] for one in listed]
    columns = rows.columns
    for name, of_files in values.items():
        columns = columns.append_column(name, rows.of_files(of_files))
    return dataclasses.replace(rows, columns=columns)


def typed_rows(rows: Rows, layout: RowLayout, parser: ValueParser, files: Sequence[File]) -> Rows:
    """Return rows with nulls for missing values, and user columns cast to their types.

    Rows that contradict the names of their folders become bad. Arguments: as `with_path_columns`.
    """
    columns: dict[str, pa.Array] = {}
    misfits: dict[int, str] = {}
    of_paths = {*layout.from_path, *layout.from_listing}.intersection(layout.columns.names)
    written = {*layout.written.names, *of_paths}
    for name in rows.columns.schema.names:
        column = parser.mask_missing(name, rows.columns[name])
        if (time_format := layout.time_formats.get(name)) is not None:
            column = _cast_times(name, column, time_format, layout, misfits)
        elif name in written:
            column = _cast(name, column, layout.columns.field(name).type, parser, misfits)
        columns[name] = column
    typed = rows.replace(pa.RecordBatch.from_pydict(columns), misfits)
    of_folders = path_values(layout.in_both, [file.key for file in files])
    return without_contradictions(typed, of_folders, parser)


def _cast_times(
    name: str, column: pa.Array, time_format: str, layout: RowLayout, misfits: dict[int, str]
) -> pa.Array:
    """Return texts of a format as times; `misfits` gets {row: message} of other texts."""
    texts = as_text(column, name)
    times = times_of(texts, time_format, layout.columns.field(name).type)
    unfit = np.asarray(times.is_null()) & np.asarray(texts.is_valid())
    for row in np.flatnonzero(unfit).tolist():
        misfits.setdefault(row, time_mismatch(name, texts[row].as_py(), time_format))
    return times


def _cast(
    name: str, column: pa.Array, kind: pa.DataType, parser: ValueParser, misfits: dict[int, str]
) -> pa.Array:
    """Return a column as another type. misfits: gets the problems of rows whose value has none."""
    if column.type == kind:
        return column
    values, unfit = parser.cast_or_null(column, kind)
    for row in np.flatnonzero(unfit).tolist():
        misfits.setdefault(row, type_mismatch(name, kind, column[row].as_py()))
    return parser.mask_missing(name, values)
