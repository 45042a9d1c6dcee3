"""Source of text rows: a document per row of a table."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.chat import TURNS_FIELD
from recordmill.transforms.model.source import Parts
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.model.usual_columns import PATHS, quoted
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.folders import may_be
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection, RowFile, Rows
from recordmill.transforms.sources.row_formats.reading.row_format import compression_of
from recordmill.transforms.sources.row_formats.values.column_types import ColumnType, ColumnTypes
from recordmill.transforms.sources.row_formats.values.nested import columns_of
from recordmill.transforms.sources.rows.columns.conversations import (
    USUAL_CHATS,
    read_conversations,
)
from recordmill.transforms.sources.rows.columns.record_columns import (
    TEXT,
    TEXT_FIELDS,
    InvalidRows,
    empty_as_null,
    invalid_rows,
    is_null,
    is_only_space,
)
from recordmill.transforms.sources.rows.columns.row_options import UsualNames
from recordmill.transforms.sources.rows.reading.record_layout import Attached, RowLayout
from recordmill.transforms.sources.rows.reading.row_sections import as_run_error, iter_sections
from recordmill.transforms.sources.rows.values.documents import NOT_TEXTS
from recordmill.transforms.sources.rows.values.record_rows import RecordRows

_TEXTS = ("text", "sentence", "message", "body", "content", "document", "review", "comment", "sms",
          "tweet", "description", "title", "comment_text")  # fmt: skip
_KEYS = re.compile(r"(.*[_ ])?(id|ids|uuid|guid|key|index)", re.IGNORECASE)
_PROBED = 100  # first values of a column that are checked for names of files
_LONGEST = 1024  # characters of the name of a file
_NAMED = 4  # files in a message
_BEGINNING = 1 << 16  # first bytes of a table that are checked for paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRows(RecordRows):
    """Lists the sections of files of rows and reads documents from them.

    text_column: by default a column with a usual name (text, sentence, message, ...), or else the
      only column without another role.
    text_columns: columns of texts, if a record has several; they keep their names.
    chat_column: column of conversations, instead of texts.
    chat_tokens: special tokens that conversations must not hold.
    """

    text_column: str | None = None
    text_columns: tuple[str, ...] = ()
    chat_column: str | None = None
    chat_tokens: tuple[str, ...] = ()

    def _record_fields(self, roles: ColumnRoles, column_types: ColumnTypes) -> list[pa.Field]:
        *system, text = TEXT_FIELDS
        texts = [text.with_name(name) for name in self.text_columns] or [text]
        turns = [] if self.chat_column is None else [TURNS_FIELD]
        return [*system, *texts, *turns, *self._place_fields(roles)]

    @property
    def _usual(self) -> UsualNames:
        return UsualNames(_TEXTS, alone=True)

    @property
    def _main_column(self) -> str | None:
        return self.chat_column or self.text_column

    @property
    def _consumed_columns(self) -> tuple[str, ...]:
        return self.text_columns

    def _roles(self, names: Sequence[str], of_path: Collection[str] = ()) -> ColumnRoles:
        roles = super()._roles(names, of_path)
        if self.text_columns:
            return dataclasses.replace(roles, main=None)
        if roles.main is None:
            chat = next((name for name in names if name.lower() in USUAL_CHATS), None)
            paths = _column_of(PATHS, [*roles.user_columns(names)]) if chat is None else None
            if paths is not None and paths not in of_path:
                return dataclasses.replace(roles, main=paths)  # `layout` names the option
            also = "" if chat is None else f", or with {option_name('chat_column', chat)}"
            raise ConfigError(
                f"found no column of texts in {self.input}: expected one of the names"
                f" {', '.join(_TEXTS)}; it has {quoted(names)}; name the column with"
                f" {option_name('text_column')}{also}"
            )
        return roles

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> RowLayout:
        """Return the layout of the records, as `RowSteps.layout`.

        Raises:
          ConfigError: a column is missing or unsupported, or the column that no option names holds
            names of files or keys instead of texts.
        """
        layout = super().layout(parts, keep, facts=facts)
        main = layout.roles.main
        if main is None or self.chat_column is not None or main in layout.from_path:
            return layout
        file = self._named_file(parts, main)
        if self.text_column is not None:
            if file is None:
                return layout
            text = (
                f"the texts are the values of the column {main!r}, which are names of files, such"
                f" as {file}: --path-column {shlex.quote(main)} instead of --text-column reads the"
                " files"
            )
            note = Note("text-column", text)
            return dataclasses.replace(layout, notes=(*layout.notes, note))
        holds = ""
        if file is None and main.lower() in _TEXTS:
            unread = self._unread_files(parts, layout)
            return dataclasses.replace(layout, notes=(*layout.notes, *unread))
        if file is not None:
            holds = (
                f"holds names of files, such as {file}: {self._listings(parts, main)} reads these"
                " files"
            )
        elif main.lower() in PATHS:
            holds = (
                f"is named like a column of paths, and it does not hold names of text files beside"
                f" the table: {option_name('input_root')} names the folder of the files"
            )
        elif _KEYS.fullmatch(main):
            template = option_name("path_template", f"'{{{main}}}.txt'")
            holds = (
                f"is named like a column of keys: if the keys name files, {template} reads these"
                " files"
            )
        if holds:
            others = [name for name in layout.written.names if name not in layout.from_path]
            text = f"found no column of texts in {self.input}: the column {main!r} {holds}; if "
            if others:
                text += f"another column ({quoted(others)}) holds the texts, name it with"
                raise ConfigError(f"{text} {option_name('text_column')}")
            raise ConfigError(
                f"{text}{main!r} holds the texts to read, pass {option_name('text_column', main)}"
            )
        return layout

    def _listings(self, parts: Parts, column: str) -> str:
        """Return the options that read the files named in a column."""
        roots = [one.root for one in self.row_input.laid_out]
        given = option_name("path_column", column)
        if all(root.file for root in roots):
            return given
        splits: dict[File, str | None] = {}
        for part in parts:
            for file, _, listed in iter_sections(part):
                splits.setdefault(file, listed[batch.SPLIT])
        inputs = []
        for file, split in itertools.islice(splits.items(), _NAMED):
            path = file.path
            if len(roots) == 1 and roots[0].is_folder:
                path = f"{roots[0].given.path.rstrip('/')}/{file.key}"
            value = path if split is None else f"{split}={path}"
            inputs.append(f"{option_name('input')} {shlex.quote(value)}")
        inputs += ["..."] if len(splits) > _NAMED else []
        usual = column.lower() in PATHS and not any(compression_of(file.key) for file in splits)
        return " ".join(inputs if usual else [*inputs, given])

    def _unread_files(self, parts: Parts, layout: RowLayout) -> Iterator[Note]:
        """Yield a note on a column of paths of text files, which are not read."""
        paths = [name for name in layout.columns.names if name.lower() in PATHS]
        for name in paths[:1]:
            file = self._named_file(parts, name)
            if file is not None and may_be(file, NOT_TEXTS):
                text = (
                    f"the texts are the values of the column {layout.roles.main!r}; the column"
                    f" {name!r} names text files, such as {file}, which --path-column"
                    f" {shlex.quote(name)} reads instead"
                )
                yield Note("text-column", text)

    def _named_file(self, parts: Parts, column: str) -> str | None:
        """Return the first path in a column if most of its first values are paths of local files.

        Paths are relative to the folder of the table, or to an input.
        """
        sections = (one for part in parts for one in iter_sections(part[:1]))
        first = next(sections, None)
        if first is None:
            return None
        file, section, _ = first
        roots = [one.root.root for one in self.row_input.laid_out]
        with as_run_error(file):
            opened = self.row_input.open(file)
            return _first_path(opened, section, column, [Location.parse(file.path).parent, *roots])

    def _typed_columns(self, found: ColumnTypes) -> tuple[pa.Field, ...]:
        if self.chat_column is None:
            return ()
        kind = found.get(self.chat_column, ColumnType()).field("").type
        # Conversations in texts are JSON, also those of JSON lines, which declare no types.
        return (pa.field(self.chat_column, kind if is_list(kind) else pa.string()),)

    def _check_types(self, roles: ColumnRoles, column_types: ColumnTypes) -> None:
        kind = column_types[str(roles.main)].field("").type if roles.main else pa.string()
        if self.chat_column is None and is_list(kind):
            raise ConfigError(
                f"the column {roles.main!r} of {self.input} holds lists, not texts: if these are"
                f" conversations, name it with {option_name('chat_column', roles.main)}, otherwise"
                f" name the column of texts with {option_name('text_column')}"
            )

    def _user_fields(
        self, user_columns: Sequence[str], column_types: ColumnTypes, roles: ColumnRoles
    ) -> list[pa.Field]:
        reserved = [name for name in self.text_columns if name.startswith("__")]
        if reserved:
            raise ConfigError(
                f"{option_name('text_columns', reserved[0])}: starts with two underscores, which is"
                " reserved for system columns: rename it"
            )
        if TEXT in user_columns and not self.text_columns:
            raise ConfigError(
                f"{self.input} has a column {TEXT!r} beside the text column {roles.main!r}, but the"
                f" text feature has that name: drop it with {option_name('drop_columns', TEXT)}, or"
                " rename it"
            )
        return super()._user_fields(user_columns, column_types, roles)

    def _attach(self, rows: Rows, layout: RowLayout, files: Sequence[File]) -> Attached:
        del files
        if self.chat_column is not None:
            columns, fault = read_conversations(rows, self.chat_column, self.chat_tokens)
            return Attached(columns, [fault])
        names = self.text_columns or (str(layout.roles.main),)
        texts = [empty_as_null(rows.columns[name]) for name in names]
        faults = (_blank_rows(rows, text, name) for name, text in zip(names, texts, strict=True))
        return Attached(texts, [*itertools.chain.from_iterable(faults)])


def column_of_paths(file: RowFile, folder: Location, others: Collection[str]) -> str | None:
    """Return the column with the paths of text files; None without one, or beside texts.

    The column has a usual name of paths, most of its first values are paths of text files, and no
    column has a usual name of texts.

    Args:
      file: The table.
      folder: Folder that the paths are relative to.
      others: Columns with another role, and columns to ignore, by names or patterns.
    """
    try:
        section = next(iter(file.sections(_BEGINNING)), None)
        if section is None:
            return None
        names = [*(file.header() or file.column_types(section, None))]
    except ConfigError:
        return None  # the source of rows reports the error
    left = [name for name in names if not columns_of(others, [name])]
    column = _column_of(PATHS, left)
    if column is None or _column_of(_TEXTS, left) is not None:
        return None
    path = _first_path(file, section, column, [folder])
    return None if path is None or not may_be(path, NOT_TEXTS) else column


def _column_of(usual: Iterable[str], names: Sequence[str]) -> str | None:
    """Return the column with the first usual name that occurs, None without any."""
    by_name = {name.lower(): name for name in reversed(names)}
    return next((by_name[name] for name in usual if name in by_name), None)


def _first_path(
    file: RowFile, section: FileSection, column: str, folders: Iterable[Location]
) -> str | None:
    """Return the first path of a file in a column if most of its first values are such paths.

    Args:
      file: A table.
      section: Its first section.
      column: The column.
      folders: Folders that paths may be relative to.
    """
    wanted = pa.schema([pa.field(column, pa.string())])
    rows = next(iter(file.read(section, wanted, (column,))), None)
    values = [] if rows is None else rows.columns[column].drop_null()[:_PROBED].to_pylist()
    texts = [value for value in values if isinstance(value, str)]
    places = [one.local_path for one in folders if one.is_local]
    found = [text for text in texts if any(_is_file(one, text) for one in places)]
    return found[0] if 2 * len(found) > len(texts) else None


def _is_file(folder: str, name: str) -> bool:
    """Return whether a text is the name of a file in a folder, or an absolute path."""
    if not name.strip() or len(name) > _LONGEST or "\n" in name or "\0" in name:
        return False
    return os.path.isfile(os.path.join(folder, name.strip().replace("\\", "/")))


def _blank_rows(rows: Rows, text: pa.Array, name: str) -> list[InvalidRows]:
    """Return the rows without a text in a column."""

    return [
        invalid_rows(rows, is_null(text), lambda row: f"no text in column {name!r}", Reason.EMPTY),
        invalid_rows(
            rows,
            np.asarray(is_only_space(text)),
            lambda row: f"only white space in column {name!r}",
            Reason.EMPTY,
        ),
    ]
