"""Counts of rows in CSV and TSV whose quotes may be data, and the note on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recordmill.notes import Note, count_of
from recordmill.transforms.sources.row_formats.row_boundaries import Block, IntArray

ESCAPE = "--escape '\\'"  # the option for quotes that are escaped by backslashes

QuoteAnomalies = dict[str, tuple[int, int]]  # {kind of rows: (their number, the first row)}
_SPACED = "a quote after a space at the beginning of a value"


def count_anomalies(anomalies: QuoteAnomalies, block: Block, numbers: IntArray) -> None:
    """Count the rows of a block whose quotes may be data.

    Args:
      anomalies: Counts to which those of the block are added.
      block: The rows.
      numbers: Numbers of the rows in the file, int64[n].
    """
    for kind, rows in (
        ("a value that spans lines", block.spanning),
        ("text after a closing quote", block.trailing),
        (_SPACED, block.spaced),
    ):
        if len(rows):
            count, first = anomalies.get(kind, (0, int(numbers[rows[0]])))
            anomalies[kind] = count + len(rows), first


def quote_notes(files: Sequence[tuple[str, QuoteAnomalies]]) -> Mapping[str, Note]:
    """Return {topic: note} on the quotes of files, empty if none may be data.

    Args:
      files: (name of a file, its counts).
    """
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for file, anomalies in files:
        for kind, (count, row) in anomalies.items():
            counts[kind] = counts.get(kind, 0) + count
            first.setdefault(kind, f"{file}#{row}")
    if not counts:
        return {}
    shown = "; ".join(
        f"{count_of(count, 'row')} with {kind}, the first is {first[kind]}"
        for kind, count in counts.items()
    )
    more = "; --trim strips spaces before quotes" if _SPACED in counts else ""
    text = f"quotes may be data: {shown}: --quoting off reads quotes as data{more}"
    return {"quotes": Note("quotes", text)}
