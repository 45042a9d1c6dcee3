"""Source of text rows: a document per row of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model.source import Parts
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.row_file import Rows
from recordmill.transforms.sources.rows.column_roles import quoted
from recordmill.transforms.sources.rows.label_types import rows_out_of_range, with_target
from recordmill.transforms.sources.rows.record_columns import (
    TEXT,
    TEXT_FIELDS,
    InvalidRows,
    empty_as_null,
    is_null,
    is_only_space,
)
from recordmill.transforms.sources.rows.record_layout import RowLayout
from recordmill.transforms.sources.rows.record_rows import RecordRows

_TEXTS = ("text", "sentence", "message", "body", "content", "document", "review", "comment", "sms",
          "tweet", "description", "title")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRows(RecordRows):
    """Lists the sections of files of rows and reads documents from them.

    text_column: by default a column with a usual name (text, sentence, message, ...), or else the
      only column without another role.
    text_columns: columns of texts, if a record has several; they keep their names.
    """

    _leading_fields: ClassVar[tuple[pa.Field, ...]] = TEXT_FIELDS

    text_column: str | None = None
    text_columns: tuple[str, ...] = ()

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> RowLayout:
        """Return the layout of the documents, as in `RecordRows`."""
        layout = super().layout(parts, keep, facts=facts)
        if not self.text_columns:
            return layout
        fields = list(layout.columns)
        place = fields.index(TEXT_FIELDS[-1])
        fields[place : place + 1] = [pa.field(n, pa.string(), False) for n in self.text_columns]
        return dataclasses.replace(layout, columns=pa.schema(fields))

    def _roles(self, names: Sequence[str]) -> ColumnRoles:
        if self.text_columns:
            requested = self._requested_roles(others=self.text_columns)
            roles = self._find_roles(names, requested, ())
            return with_target(roles, self.label_type, where=str(self.input))
        requested = self._requested_roles(self.text_column)
        roles = self._find_roles(names, requested, _TEXTS)
        if roles.main is not None:
            return with_target(roles, self.label_type, where=str(self.input))
        remaining = roles.user_columns(names)
        if len(remaining) != 1:
            raise ConfigError(
                f"found no column of texts in {self.input}: expected one of the names"
                f" {', '.join(_TEXTS)}; it has {quoted(names)}; name the column with"
                f" {option_name('text_column')}"
            )
        roles = dataclasses.replace(roles, main=remaining[0])
        return with_target(roles, self.label_type, where=str(self.input))

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

    def _source_columns(
        self, rows: Rows, roles: ColumnRoles, files: Sequence[str]
    ) -> tuple[list[pa.Array], list[InvalidRows]]:
        del files
        texts = []
        faults: list[InvalidRows] = []
        for name in self.text_columns or (str(roles.main),):
            text = empty_as_null(rows.columns[name])
            texts.append(text)
            faults += _blank_rows(rows, text, name)
        if roles.target is not None:
            faults.append(rows_out_of_range(rows, roles.target))
        return texts, faults


def _blank_rows(rows: Rows, text: pa.Array, name: str) -> list[InvalidRows]:
    """Return the rows without a text in a column."""

    def no_text(row: int) -> RejectCause:
        return RejectCause(Reason.EMPTY, f"row {rows.numbers[row]}: no text in column {name!r}")

    def blank(row: int) -> RejectCause:
        detail = f"row {rows.numbers[row]}: only white space in column {name!r}"
        return RejectCause(Reason.EMPTY, detail)

    return [
        InvalidRows(is_null(text), no_text),
        InvalidRows(np.asarray(is_only_space(text)), blank),
    ]
