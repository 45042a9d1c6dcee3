"""Layouts of rows that hold files, and of the records that are made of these files."""

from __future__ import annotations

import dataclasses
from typing import Self

import pyarrow as pa

from recordmill.transforms.sources.rows.record_layout import RowLayout


@dataclasses.dataclass(frozen=True, kw_only=True)
class MediaLayout(RowLayout):
    """Layout of rows that hold files."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableLayout(RowLayout):
    """Layout of records that are made of the files in rows, such as clips.

    table: layout of the rows.
    """

    table: MediaLayout

    @classmethod
    def of(
        cls, table: MediaLayout, *, columns: pa.Schema, grouped: bool, labelled: bool | None = None
    ) -> Self:
        """Return the layout of records with these columns. labelled: by default as the rows."""
        return cls(
            columns=columns,
            labelled=table.labelled if labelled is None else labelled,
            grouped=grouped,
            split_source=table.split_source,
            roles=table.roles,
            written=table.written,
            of_values=table.of_values,
            notes=table.notes,
            table=table,
        )
