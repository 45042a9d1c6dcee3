"""The shape of an input: the unit that is a record, and the location of its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Payload = Literal["self", "named", "held", "placed", "values", "document"]

# Nouns for inputs, by payload.
NOUNS: Mapping[Payload, str] = {
    "self": "files in folders",
    "named": "listings of files",
    "held": "tables that hold files",
    "placed": "TFRecord files",
    "values": "files of rows",
    "document": "text files",
}


class Shape(NamedTuple):
    """Shape of an input.

    Attributes:
      rows: Unit of the input that is a record.
      payload: Location of the data of a record. self: the file itself. named: a file that a row
        names. held: a value in a row. placed: a range of a TFRecord file. values: the values of a
        row. document: a text file.
      column: Column with the files of a table that holds files, or with the paths of text files.
    """

    rows: Literal["file", "table", "record"]
    payload: Payload
    column: str | None = None

    def __str__(self) -> str:
        return NOUNS[self.payload] + (f" in column {self.column!r}" if self.column else "")
