"""Tables as an input: a row per record, in CSV, TSV, JSON lines, Parquet, Arrow or Avro."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.files import Location
from transforms import batch
from transforms.kind import Layout, Listed
from transforms.sources.column_kinds import Kinds, as_nullable
from transforms.sources.columns import as_text
from transforms.sources.record_columns import (
    OURS_FIELDS,
    Fault,
    carried,
    faults_of_labels,
    faults_of_lists,
    keep,
    keyless,
    our_columns,
    sort_out,
)
from transforms.sources.references import Unlabelled, check_unlabelled
from transforms.sources.roles import Roles
from transforms.sources.row_files import wanted_columns
from transforms.sources.row_format import RowFormat
from transforms.sources.row_inputs import RowInput
from transforms.sources.row_tables import (
    learn_columns,
    list_sections,
    numbered_keys,
    read_header,
    reading,
    regroup,
    sections_of,
)
from transforms.sources.rows import Rows

BLANK = "blank"  # rows of separators alone
LABELS = ("label", "class", "category", "target")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowLayout(Layout):
    """With what `read` needs to know: which column of the files is what."""

    roles: Roles


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

    def scan(self) -> Iterator[Listed]:
        """Raises ConfigError for an input that cannot be understood, or has no row."""
        return list_sections(self._rows, self._notes)

    def layout(self, parts: Iterable[pa.RecordBatch]) -> RowLayout:
        """Raises ConfigError for columns that are not there, or differ between files.

        Where there are columns of the user's, all rows are read for their types.
        """
        kinds = read_header(self._rows)
        declared = kinds is not None
        if kinds is None:
            kinds = learn_columns(parts, self._rows, None)
            if not kinds:
                raise ConfigError(f"no line of {self.input} is a JSON object with a value in it")
        roles = self._roles(list(kinds))
        for name in sorted(roles.named()) if declared else ():
            as_text(pa.array([], kinds[name].field(name).type), name)
        users = roles.users(list(kinds))
        if "" in kinds:
            self._notes["unnamed"] = (
                "a column without name, as pandas writes its index, is left out"
            )
        looked_at = [*users, *self._looked_at(roles)]
        if declared and not all(kinds[name].types for name in looked_at):
            learned = learn_columns(parts, self._rows, looked_at)
            kinds |= learned if self._learns_presence else as_nullable(learned)
        return RowLayout(
            columns=pa.schema([*self._first_fields, *self._users_fields(users, kinds, roles)]),
            labelled=roles.label is not None,
            grouped=roles.group is not None,
            presplit=roles.split is not None or self._rows.has_splits(),
            roles=roles,
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[Listed]:
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
    def _learns_presence(self) -> bool:
        """Whether a column of text that has a value in every row is one that always has one."""
        return False

    def _looked_at(self, roles: Roles) -> list[str]:
        """Columns, beside the user's, of which the types have to be known."""
        del roles
        return []

    def _users_fields(self, users: Sequence[str], kinds: Kinds, roles: Roles) -> list[pa.Field]:
        """The user's columns, as they go on. Raises ConfigError."""
        del roles
        return [carried(kinds[name].field(name)) for name in users]

    def _first_columns(self, rows: Rows, roles: Roles) -> tuple[list[pa.Array], list[Fault]]:
        """The columns between ours and the user's, and what is wrong with them."""
        del rows, roles
        return [], []

    def _asked(self, main: str | None = None) -> Roles:
        return Roles(
            main=main,
            label=self.label_column,
            split=self.split_column,
            group=self.group_column,
            key=self.key_column,
            dropped=self.drop_columns,
        )

    def _read(self, sections: pa.RecordBatch, layout: RowLayout) -> Iterator[Listed]:
        named = layout.roles.named()
        users = list(layout.columns)[len(self._first_fields) :]
        wanted = pa.schema([*wanted_columns(sorted(named), (), {}), *users])
        for file, section, listed in sections_of(sections):
            with reading(file):
                for rows in self._rows.open(file).read(section, wanted, named):
                    yield self._records(rows, layout, file=file.key, split=listed[batch.SPLIT])

    def _records(self, rows: Rows, layout: RowLayout, *, file: str, split: str | None) -> Listed:
        roles = layout.roles
        ours = our_columns(rows, roles)
        if roles.key is None:
            ours = ours._replace(key=numbered_keys(file, rows.numbers))
        if roles.split is None:
            ours = ours._replace(split=pa.repeat(pa.scalar(split, pa.string()), len(rows.columns)))
        first, faults = self._first_columns(rows, roles)
        users = layout.columns.names[len(self._first_fields) :]
        faults = [
            keyless(rows, ours, roles),
            *faults,
            *faults_of_labels(rows, ours, roles, reject_unlabelled=self.unlabelled == "reject"),
            *faults_of_lists(rows, users),
        ]
        bad, rejects = sort_out(rows, faults, keys=ours.key, file=file)
        arrays = [*ours, *first, *(rows.columns[name] for name in users)]
        records = pa.record_batch(arrays, schema=layout.columns)
        filtered = {BLANK: rows.blank} if rows.blank else {}
        return Listed(rows=keep(records, bad), rejects=rejects, filtered=filtered)
