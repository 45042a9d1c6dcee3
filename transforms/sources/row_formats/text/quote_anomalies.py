"""Counts of rows in CSV and TSV whose quotes may be data, and the note on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from recordmill.notes import Note, count_of
from recordmill.transforms.sources.row_formats.reading.row_file import QuoteAnomalies
from recordmill.transforms.sources.row_formats.text.row_boundaries import Block, IntArray

ESCAPE = "--escape '\\'"  # the option for quotes that are escaped by backslashes

_SPACED = "a quote after a space at the beginning of a value"
# Rows of files in which quotes are data.
_ENCLOSED, _DOUBLED, _PLAIN = "a value in quotes", "two quotes for one", "no value in quotes"


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
        _add(anomalies, kind, numbers[rows])


def count_enclosed(
    anomalies: QuoteAnomalies, block: Block, numbers: IntArray, delimiter: bytes
) -> None:
    """Count the rows with a value in quotes of a block in which quotes are data.

    Args:
      anomalies: Counts to which those of the block are added.
      block: The rows.
      numbers: Numbers of the rows in the file, int64[n].
      delimiter: Delimiter of the values.
    """
    if not _may_enclose(block.data, delimiter):
        return
    edge = re.escape(delimiter)
    value = rb'(?:^|%b)"((?:[^"\r\n]|"")*)"(?=%b|\r?$)' % (edge, edge)
    found = [(one.start(1), b'""' in one[1]) for one in re.finditer(value, block.data, re.M)]
    if not found:
        return
    at = np.array([start for start, _ in found], np.int64)
    rows = np.searchsorted(block.ends, at, "right")
    enclosed = np.unique(rows)
    _add(anomalies, _ENCLOSED, numbers[enclosed])
    _add(anomalies, _DOUBLED, numbers[np.unique(rows[[two for _, two in found]])])
    _add(anomalies, _PLAIN, np.delete(numbers[: len(block.ends)], enclosed))


def _add(anomalies: QuoteAnomalies, kind: str, rows: IntArray) -> None:
    if len(rows):
        count, first = anomalies.get(kind, (0, int(rows[0])))
        anomalies[kind] = count + len(rows), first


def _may_enclose(data: bytes, delimiter: bytes) -> bool:
    """Return whether a value may begin with a quote."""
    if b'"' not in data:
        return False
    content = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(content == ord('"'))  # a tenth of the time of a search for two bytes
    before = content[quotes[quotes > 0] - 1]
    return bool(quotes[0] == 0 or np.isin(before, [ord("\n"), delimiter[-1]]).any())


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
    notes = _enclosed_notes(counts, first)
    counts = {kind: n for kind, n in counts.items() if kind not in (_ENCLOSED, _DOUBLED, _PLAIN)}
    if not counts:
        return notes
    shown = "; ".join(
        f"{count_of(count, 'row')} with {kind}, the first is {first[kind]}"
        for kind, count in counts.items()
    )
    more = "; --trim strips spaces before quotes" if _SPACED in counts else ""
    text = f"quotes may be data: {shown}: --quoting off reads quotes as data{more}"
    return {**notes, "quotes": Note("quotes", text)}


def _enclosed_notes(counts: Mapping[str, int], first: Mapping[str, str]) -> Mapping[str, Note]:
    """Return a note if most rows have values in quotes, or their quotes are doubled."""
    enclosed = counts.get(_ENCLOSED, 0)
    # A value may begin and end with quotes that are data.
    if not enclosed or (_DOUBLED not in counts and enclosed < 9 * counts.get(_PLAIN, 0)):
        return {}
    text = (
        f"{count_of(enclosed, 'row')} with a value in quotes, the first is {first[_ENCLOSED]}; the"
        " quotes are part of the value: --quoting on takes them off"
    )
    return {"enclosed": Note("quotes", text)}
