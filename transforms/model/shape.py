"""The shape of an input: what a record is in it, and where the data of the record is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Payload = Literal["self", "named", "held", "placed", "values", "document"]

# Nouns for inputs, by where the data of a record is.
NOUNS: Mapping[Payload, str] = {
    "self": "files in folders",
    "named": "listings (CSV, TSV, JSONL, Parquet)",
    "held": "tables that hold files",
    "placed": "TFRecord files",
    "values": "files of rows",
    "document": "text files",
}


class Shape(NamedTuple):
    """Shape of an input.

    Attributes:
      rows: What a record is in the input.
      payload: Where its data is: the file itself; a file that a row names; in a row, or at a place
        in a TFRecord file; the values of a row; or a document.
      column: Column of tables that hold files.
    """

    rows: Literal["file", "table", "record"]
    payload: Payload
    column: str | None = None

    def __str__(self) -> str:
        return NOUNS[self.payload] + (f" in column {self.column!r}" if self.column else "")
