"""Tables as an input: a row per record, in CSV, TSV, JSON lines, Parquet, Arrow or Avro."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Layout, ListingPart
from recordmill.transforms.sources.files.references import Unlabelled, check_unlabelled
from recordmill.transforms.sources.row_formats.column_types import (
    ColumnType,
    ColumnTypes,
    as_nullable,
    has_nan,
)
from recordmill.transforms.sources.row_formats.row_files import wanted_columns
from recordmill.transforms.sources.row_formats.row_format import RowFormat
from recordmill.transforms.sources.row_formats.rows import Rows
from recordmill.transforms.sources.row_formats.text_columns import as_text
from recordmill.transforms.sources.row_formats.value_parsing import misfit
from recordmill.transforms.sources.rows.column_roles import Roles, quoted
from recordmill.transforms.sources.rows.kept_rows import Keep
from recordmill.transforms.sources.rows.record_columns import (
    OURS_FIELDS,
    InvalidRows,
    carried,
    lay_out,
    our_columns,
)
from recordmill.transforms.sources.rows.row_inputs import RowInput
from recordmill.transforms.sources.rows.row_tables import (
    learn_columns,
    list_sections,
    numbered_keys,
    read_header,
    reading,
    regroup,
    sections_of,
)

DELIMITERS = ";\t|,"  # that columns usually have between them
BLANK = "blank"  # rows of separators alone
LABELS = ("label", "class", "category", "target")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowLayout(Layout):
    """With what `read` needs to know: which column of the files is what, and the types that the
    user's have there. kept: where rows are that were read to learn it.
    """

    roles: Roles
    written: pa.Schema
    kept: Keep | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordRows:
    """Lists the sections of files of rows; reads records out of them.

    input: a file, a pattern (`*`, `?`, `[...]`, `**` for folders) or a folder; a path or URI.
    label_column, split_column: 'label', 'class', 'category' or 'target', and 'split', are found by
      themselves; where top folders are named as splits, they are the split.
    key_column: unique names of the records; FILE#ROW unless given.
    drop_columns: columns to leave out, as if there were none of that name.
    unlabelled: what becomes of rows without label where there is a label column.
    """

    input: str
    format: RowFormat = RowFormat()  # noqa: RUF009, it is frozen
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    key_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    unlabelled: Unlabelled = "reject"
    _notes: dict[str, str] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        Location.parse(self.input)

    @property
    def unique_keys(self) -> bool:
        return self.key_column is None

    @property
    def notes(self) -> tuple[str, ...]:
        """What `scan` and `layout` have seen that the user should know."""
        return tuple(self._notes.values())

    def scan(self) -> Iterator[ListingPart]:
        """Raises ConfigError for an input that cannot be understood, or has no row."""
        return list_sections(self._rows, self._notes)

    def layout(self, parts: Iterable[pa.RecordBatch], keep: Location | None = None) -> RowLayout:
        """Raises ConfigError for columns that are not there, or differ between files.

        Where there are columns of the user's, all rows are read for their types.
        """
        header = read_header(self._rows)
        kinds = learn_columns(parts, self._rows, None) if header is None else header
        if not kinds:
            raise ConfigError(f"no line of {self.input} is a JSON object with a value in it")
        self._refuse_delimiter(list(kinds))
        self._refuse_missing(kinds)
        roles = self._roles(list(kinds))
        for name in sorted(roles.named()) if header is not None else ():
            as_text(pa.array([], kinds[name].field(name).type), name)
        users = roles.users(list(kinds))
        if "" in kinds:
            self._notes["unnamed"] = (
                "a column without name, as pandas writes its index, is left out"
            )
        kept = None
        if keep is not None and self._learns_presence:
            kept = Keep(keep, frozenset(roles.named()))
        if header is not None:
            kinds = kinds | self._looked_up(header, [*users, *self._looked_at(roles)], parts, kept)
        fields = self._users_fields(users, kinds, roles)
        return RowLayout(
            columns=pa.schema([*self._first_fields, *fields]),
            labelled=roles.label is not None,
            grouped=roles.group is not None,
            presplit=roles.split is not None or self._rows.has_splits(),
            roles=roles,
            written=pa.schema([_written(field, header or kinds, kinds) for field in fields]),
            kept=kept,
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Raises ChangedInputError for a file that is not what was listed."""
        assert isinstance(layout, RowLayout)
        return regroup(self._read(sections, layout))

    @property
    def _rows(self) -> RowInput:
        return RowInput(input=self.input, format=self.format)

    @property
    def _first_fields(self) -> tuple[pa.Field, ...]:
        """The columns before the user's."""
        return OURS_FIELDS

    def _roles(self, names: Sequence[str]) -> Roles:
        raise NotImplementedError

    @property
    def _declared(self) -> Mapping[str, pa.DataType]:
        """What the user says that columns are."""
        return {}

    @property
    def _learns_presence(self) -> bool:
        """Whether a column that has a value in every row is one that always has one: then all of
        the user's columns are looked at in all rows.
        """
        return False

    def _looked_at(self, roles: Roles) -> list[str]:
        """Columns, beside the user's, of which the types have to be known."""
        del roles
        return []

    def _users_fields(
        self, users: Sequence[str], kinds: ColumnTypes, roles: Roles
    ) -> list[pa.Field]:
        """The user's columns, as they go on. Raises ConfigError."""
        del roles
        return [self._field(name, kinds[name]) for name in users]

    def _refuse_delimiter(self, names: Sequence[str]) -> None:
        """Raises ConfigError for a single column that looks like several."""
        found = [one for one in DELIMITERS if one in names[0]] if len(names) == 1 else []
        if found and not self.format.columns:
            shown = "tab" if found[0] == "\t" else repr(found[0])
            raise ConfigError(
                f"{self.input} has one column, {names[0]!r}: if it is several, say --delimiter"
                f" {shown}; if not, give it a name without {shown}"
            )

    def _refuse_missing(self, names: Collection[str]) -> None:
        """Raises ConfigError where nothing is spelled in a column that is not there."""
        for name, spelling in self.format.cells.missing:
            if name is not None and name not in names:
                raise ConfigError(
                    f"--missing {name}={spelling}: no column {name!r} in {self.input}"
                    f"{did_you_mean(name, names)}: it has {quoted(names)}"
                )

    def _field(self, name: str, kind: ColumnType) -> pa.Field:
        field = kind.field(name)
        declared = self._declared.get(name)
        if declared is None:
            return carried(field)
        try:
            pa.array([], field.type).cast(declared)
        except pa.ArrowNotImplementedError as error:
            raise ConfigError(
                f"--types {name}: the column is of {field.type} in {self.input}, of which none"
                f" becomes {declared}: leave it out"
            ) from error
        return carried(field.with_type(declared))

    def _looked_up(
        self,
        header: ColumnTypes,
        names: Sequence[str],
        parts: Iterable[pa.RecordBatch],
        keep: Keep | None,
    ) -> ColumnTypes:
        """What columns are, beyond what the header says."""
        if self._learns_presence:
            return learn_columns(parts, self._rows, names, keep)
        if not all(header[name].types for name in names):
            return as_nullable(learn_columns(parts, self._rows, names, keep))
        some = self.format.missing  # a NaN is nothing in any case
        return as_nullable({n: header[n] for n in names if some or has_nan(header[n])})

    def _own_columns(
        self, rows: Rows, roles: Roles, file: str
    ) -> tuple[list[pa.Array], list[InvalidRows]]:
        """The columns between ours and the user's, and what is wrong with them."""
        del rows, roles, file
        return [], []

    def _asked(self, main: str | None = None, others: Sequence[str] = ()) -> Roles:
        return Roles(
            main=main,
            others=tuple(others),
            label=self.label_column,
            split=self.split_column,
            group=self.group_column,
            key=self.key_column,
            dropped=self.drop_columns,
        )

    def _read(self, sections: pa.RecordBatch, layout: RowLayout) -> Iterator[ListingPart]:
        named = layout.roles.named()
        wanted = pa.schema([*wanted_columns(sorted(named), (), {}), *layout.written])
        kept = None if layout.kept is None else layout.kept.take(sections, wanted)
        for number, (file, section, listed) in enumerate(sections_of(sections)):
            with reading(file):
                found: Iterable[Rows] = (
                    self._rows.open(file).read(section, wanted, named)
                    if kept is None
                    else kept[number]
                )
                for rows in found:
                    typed = self._typed(rows, layout)
                    yield self._records(typed, layout, file=file.key, split=listed[batch.SPLIT])
        if layout.kept is not None:
            layout.kept.forget(sections)

    def _typed(self, rows: Rows, layout: RowLayout) -> Rows:
        """With null where there is nothing, and the user's columns of their types."""
        cells = self.format.cells
        columns: dict[str, pa.Array] = {}
        wrong: dict[int, str] = {}
        for name in rows.columns.schema.names:
            column = cells.without_missing(name, rows.columns[name])
            if name in layout.written.names:
                kind = layout.columns.field(name).type
                if column.type != kind:
                    values, unfit = cells.fit(column, kind)
                    for row in np.flatnonzero(unfit).tolist():
                        wrong.setdefault(row, misfit(name, kind, column[row].as_py()))
                    column = cells.without_missing(name, values)
            columns[name] = column
        return rows.replace(pa.RecordBatch.from_pydict(columns), wrong)

    def _records(
        self, rows: Rows, layout: RowLayout, *, file: str, split: str | None
    ) -> ListingPart:
        roles = layout.roles
        ours = our_columns(rows, roles)
        if roles.key is None:
            ours = ours._replace(key=numbered_keys(file, rows.numbers))
        if roles.split is None:
            ours = ours._replace(split=pa.repeat(pa.scalar(split, pa.string()), len(rows.columns)))
        own, faults = self._own_columns(rows, roles, file)
        listed = lay_out(
            rows,
            ours,
            roles,
            own=own,
            schema=layout.columns,
            faults=faults,
            file=file,
            reject_unlabelled=self.unlabelled == "reject",
        )
        return dataclasses.replace(listed, filtered={BLANK: rows.blank} if rows.blank else {})


def _written(field: pa.Field, header: ColumnTypes, kinds: ColumnTypes) -> pa.Field:
    """A user's column as it is read: as text, where a file of text has it as another type."""
    found = kinds[field.name].field(field.name)
    is_text = not header[field.name].types and found.type != field.type
    return pa.field(field.name, pa.string()) if is_text else found
