"""Tables of texts as an input: a row per document, in CSV, TSV, JSON lines, Parquet, Arrow or plain
lines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.files import Location
from transforms import batch
from transforms.kind import Layout, Listed
from transforms.sources.columns import as_text
from transforms.sources.record_columns import (
    TEXT,
    TEXT_FIELDS,
    Fault,
    carried,
    faults_of_labels,
    faults_of_lists,
    filled,
    is_null,
    keep,
    keyless,
    our_columns,
    sort_out,
)
from transforms.sources.references import Unlabelled, check_unlabelled
from transforms.sources.roles import Roles, find_roles, quoted
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
from transforms.sources.stats import Problem

_TEXTS = ("text", "sentence", "message", "body", "content", "document", "review", "comment", "sms",
          "tweet", "description", "title")  # fmt: skip
_LABELS = ("label", "class", "category", "target")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowLayout(Layout):
    """With what `read` needs to know: which column of the files is what."""

    roles: Roles


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRows:
    """Lists the sections of files of rows; reads documents out of them.

    input: a file, a pattern (`*`, `?`, `[...]`, `**` for folders) or a folder; a path or URI.
    text_column: text, sentence, message, body and the like are found by themselves, and whatever
      single column is left beside the others.
    label_column, split_column: 'label', 'class', 'category' or 'target', and 'split', are found by
      themselves; where top folders are named as splits, they are the split.
    key_column: unique names of the records; FILE#ROW unless given.
    drop_columns: columns to leave out, as if there were none of that name.
    unlabelled: what becomes of rows without label where there is a label column.
    """

    input: str
    format: RowFormat = RowFormat()  # noqa: RUF009, it is frozen
    text_column: str | None = None
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

        Where there are columns beside the text, all rows are read for their types.
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
        if TEXT in users:
            raise ConfigError(
                f"{self.input} has a column {TEXT!r} beside {roles.main!r}, and the text is to "
                f"have that name: leave it out with --drop-columns {TEXT}, or rename it"
            )
        if "" in kinds:
            self._notes["unnamed"] = (
                "a column without name, as pandas writes its index, is left out"
            )
        if declared and not all(kinds[name].types for name in users):
            kinds |= learn_columns(parts, self._rows, users)
        return RowLayout(
            columns=pa.schema([*TEXT_FIELDS, *(carried(kinds[n].field(n)) for n in users)]),
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

    def _roles(self, names: Sequence[str]) -> Roles:
        asked = Roles(
            main=self.text_column,
            label=self.label_column,
            split=self.split_column,
            group=self.group_column,
            key=self.key_column,
            dropped=self.drop_columns,
        )
        roles = find_roles(names, asked, where=self.input, mains=_TEXTS, labels=_LABELS)
        if roles.main is not None:
            return roles
        left = roles.users(names)
        if len(left) != 1:
            raise ConfigError(
                f"no column of texts found in {self.input}: expected one named "
                f"{', '.join(_TEXTS)}; it has {quoted(names)}; say which with --text-column"
            )
        return dataclasses.replace(roles, main=left[0])

    def _read(self, sections: pa.RecordBatch, layout: RowLayout) -> Iterator[Listed]:
        named = layout.roles.named()
        users = list(layout.columns)[len(TEXT_FIELDS) :]
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
        text = filled(rows.columns[roles.main])

        def no_text(row: int) -> Problem:
            detail = f"row {rows.numbers[row]}: no text in column {roles.main!r}"
            return Problem(Reason.EMPTY, detail)

        users = layout.columns.names[len(TEXT_FIELDS) :]
        faults = [
            keyless(rows, ours, roles),
            Fault(is_null(text), no_text),
            *faults_of_labels(rows, ours, roles, reject_unlabelled=self.unlabelled == "reject"),
            *faults_of_lists(rows, users),
        ]
        bad, rejects = sort_out(rows, faults, keys=ours.key, file=file)
        arrays = [*ours, text, *(rows.columns[name] for name in users)]
        records = pa.record_batch(arrays, schema=layout.columns)
        return Listed(rows=keep(records, bad), rejects=rejects)
