"""Source of text rows: a document per row of a table."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model.chat import TURNS_FIELD
from recordmill.transforms.model.source import Parts
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.model.usual_columns import PATHS, quoted
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.column_types import ColumnType, ColumnTypes
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
from recordmill.transforms.sources.rows.values.record_rows import RecordRows

_TEXTS = ("text", "sentence", "message", "body", "content", "document", "review", "comment", "sms",
          "tweet", "description", "title", "comment_text")  # fmt: skip
_KEYS = re.compile(r"(.*[_ ])?(id|ids|uuid|guid|key|index)", re.IGNORECASE)
_PROBED = 3  # values that may all be names of files
_LONGEST = 1024  # characters of the name of a file
_NAMES = ": text reads texts from tables, not the files that tables name"


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
            )
            note = Note("text-column", f"{text} as {file}{_NAMES}")
            return dataclasses.replace(layout, notes=(*layout.notes, note))
        holds = ""
        if file is not None:
            holds = f"holds names of files, such as {file}{_NAMES}"
        elif main.lower() in PATHS:
            holds = f"is named like a column of paths{_NAMES}"
        elif _KEYS.fullmatch(main):
            holds = "is named like a column of keys"
        if holds:
            raise ConfigError(
                f"found no column of texts in {self.input}: the column {main!r} {holds}; put the"
                f" texts into a column, or pass a folder with the text files of each class in a"
                f" folder CLASS; if {main!r} holds the texts to read, pass"
                f" {option_name('text_column', main)}"
            )
        return layout

    def _named_file(self, parts: Parts, column: str) -> str | None:
        """Return the first value of a column if its first values are paths of local files.

        Paths are relative to the folder of the table, or to an input.
        """
        sections = (one for part in parts for one in iter_sections(part[:1]))
        first = next(sections, None)
        if first is None:
            return None
        file, section, _ = first
        table = Location.parse(file.path)
        roots = [one.root.root for one in self.row_input.laid_out]
        folders = [one.local_path for one in (table.parent, *roots) if one.is_local]
        wanted = pa.schema([pa.field(column, pa.string())])
        with as_run_error(file):
            rows = next(iter(self.row_input.open(file).read(section, wanted, (column,))), None)
        values = [] if rows is None else rows.columns[column].drop_null()[:_PROBED].to_pylist()
        texts = [value for value in values if isinstance(value, str)]
        if texts and all(any(_is_file(one, text) for one in folders) for text in texts):
            return texts[0]
        return None

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
