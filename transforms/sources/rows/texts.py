"""Tables of texts as an input: a row per document."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.transforms.sources.files.file_stat import Problem
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.rows import Rows
from recordmill.transforms.sources.rows.column_roles import Roles, find_roles, quoted
from recordmill.transforms.sources.rows.record_columns import (
    TEXT,
    TEXT_FIELDS,
    InvalidRows,
    filled,
    is_null,
)
from recordmill.transforms.sources.rows.record_rows import LABELS, RecordRows

_TEXTS = ("text", "sentence", "message", "body", "content", "document", "review", "comment", "sms",
          "tweet", "description", "title")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRows(RecordRows):
    """Lists the sections of files of rows; reads documents out of them.

    text_column: text, sentence, message, body and the like are found by themselves, and whatever
      single column is left beside the others.
    """

    text_column: str | None = None

    @property
    def _first_fields(self) -> tuple[pa.Field, ...]:
        return TEXT_FIELDS

    def _roles(self, names: Sequence[str]) -> Roles:
        asked = self._asked(self.text_column)
        roles = find_roles(names, asked, where=self.input, mains=_TEXTS, labels=LABELS)
        if roles.main is not None:
            return roles
        left = roles.users(names)
        if len(left) != 1:
            raise ConfigError(
                f"no column of texts found in {self.input}: expected one named "
                f"{', '.join(_TEXTS)}; it has {quoted(names)}; say which with --text-column"
            )
        return dataclasses.replace(roles, main=left[0])

    def _users_fields(
        self, users: Sequence[str], kinds: ColumnTypes, roles: Roles
    ) -> list[pa.Field]:
        if TEXT in users:
            raise ConfigError(
                f"{self.input} has a column {TEXT!r} beside {roles.main!r}, and the text is to "
                f"have that name: leave it out with --drop-columns {TEXT}, or rename it"
            )
        return super()._users_fields(users, kinds, roles)

    def _own_columns(
        self, rows: Rows, roles: Roles, file: str
    ) -> tuple[list[pa.Array], list[InvalidRows]]:
        del file
        text = filled(rows.columns[roles.main])

        def no_text(row: int) -> Problem:
            detail = f"row {rows.numbers[row]}: no text in column {roles.main!r}"
            return Problem(Reason.EMPTY, detail)

        return [text], [InvalidRows(is_null(text), no_text)]
