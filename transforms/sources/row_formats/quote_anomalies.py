"""Quotes in CSV and TSV that may be data, or may be unclosed: their counts, and notes on them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np

from recordmill.notes import Note
from recordmill.transforms.sources.row_formats.row_boundaries import Block, IntArray

ESCAPE = "--escape '\\'"  # the option for quotes that are escaped by backslashes


@dataclasses.dataclass(kw_only=True)
class QuoteAnomalies:
    """Counts of rows with quotes that may be data, and the number of the first such row.

    unclosed: rows that may hold several rows, because of an unclosed quote. Of the other ones,
    spanning: rows with a value that spans lines. trailing: rows with text after a closing quote.
    escaped: of these, rows with a backslash before the closing quote.
    spaced: rows with a quote that would open a value without the spaces before it.
    enclosed: rows with a value in quotes, which are read as data. doubled: of these, rows with two
    quotes for one inside. plain: rows without such a value, beside them.
    longest: number of the largest row that spans lines. lines: number of its lines.
    """

    spanning: int = 0
    first_spanning: int = 0
    trailing: int = 0
    first_trailing: int = 0
    escaped: int = 0
    spaced: int = 0
    first_spaced: int = 0
    enclosed: int = 0
    first_enclosed: int = 0
    doubled: int = 0
    plain: int = 0
    unclosed: int = 0
    first_unclosed: int = 0
    longest: int = 0
    lines: int = 0

    def count(self, block: Block, numbers: IntArray) -> None:
        """Count the anomalies of a block. numbers: of its rows, int64[n]."""
        unclosed = block.rows_at(block.unclosed)
        spanning, trailing = block.spanning, block.trailing
        if len(unclosed):
            spanning, trailing = (np.setdiff1d(rows, unclosed) for rows in (spanning, trailing))
        self._add("spanning", numbers[spanning])
        self._add("trailing", numbers[trailing])
        self._add("unclosed", numbers[unclosed])
        self._add("spaced", numbers[block.spaced])
        self.escaped += len(block.escaped)
        if len(spanning):
            starts, ends = np.append(0, block.ends[:-1])[spanning], block.ends[spanning]
            largest = int(np.argmax(ends - starts))
            lines = block.data[starts[largest] : ends[largest]].count(b"\n")
            if lines > self.lines:
                self.lines, self.longest = lines, int(numbers[spanning[largest]])

    def count_enclosed(self, block: Block, numbers: IntArray, delimiter: bytes) -> None:
        """Count the values in quotes of a block in which quotes are data."""
        if not _may_enclose(block.data, delimiter):
            return
        edge = re.escape(delimiter)
        value = rb'(?:^|%b)"((?:[^"\r\n]|"")*)"(?=%b|\r?$)' % (edge, edge)
        found = [(one.start(1), b'""' in one[1]) for one in re.finditer(value, block.data, re.M)]
        rows = np.searchsorted(block.ends, np.array([at for at, _ in found], np.int64), "right")
        enclosed = np.unique(rows)
        self._add("enclosed", numbers[enclosed])
        self.doubled += len(np.unique(rows[np.array([two for _, two in found], np.bool_)]))
        self.plain += len(block.ends) - len(enclosed) if found else 0

    def _add(self, what: str, rows: IntArray) -> None:
        if len(rows):
            if not getattr(self, what):
                setattr(self, f"first_{what}", int(rows[0]))
            setattr(self, what, getattr(self, what) + len(rows))


def _may_enclose(data: bytes, delimiter: bytes) -> bool:
    """Return whether a value may begin with a quote."""
    if b'"' not in data:
        return False
    content = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(content == ord('"'))  # a tenth of the time of a search for two bytes
    before = content[quotes[quotes > 0] - 1]
    return bool(quotes[0] == 0 or np.isin(before, [ord("\n"), delimiter[-1]]).any())


def quote_notes(anomalies: Sequence[tuple[str, QuoteAnomalies]]) -> Mapping[str, Note]:
    """Return notes on the quotes of files, by topic. anomalies: (name of the file, its counts)."""
    notes = {}
    for what, is_odd, advice in (
        ("spanning", "a value that spans lines", "if quotes are data there, pass --quoting off"),
        (
            "trailing",
            "text after a closing quote",
            "quotes were dropped; if they are data, pass --quoting off",
        ),
        (
            "spaced",
            "a quote after a space at the beginning of a value",
            "the quotes are part of the value; if they enclose it, pass --trim",
        ),
        (
            "enclosed",
            "a value in quotes",
            "the quotes are part of the value; if they enclose it, pass --quoting on",
        ),
        (
            "unclosed",
            "lines that may be rows, joined by an unclosed quote",
            "they were read as one row each, as --quoting on says; if quotes are data there, pass"
            " --quoting off",
        ),
    ):
        files = [(file, one) for file, one in anomalies if getattr(one, what)]
        # A value may begin and end with quotes that are data.
        few = all(not one.doubled and one.enclosed < 9 * one.plain for _, one in files)
        if not files or (what == "enclosed" and few):
            continue
        count = sum(getattr(one, what) for _, one in files)
        text = (
            f"rows with {is_odd}: {count}, the first is"
            f" {files[0][0]}#{getattr(files[0][1], f'first_{what}')}"
        )
        if what == "spanning" and count > 1:
            file, most = max(files, key=lambda one: one[1].lines)
            text += f", the longest, of {most.lines:,} lines, is {file}#{most.longest}"
        if what == "trailing" and 2 * sum(one.escaped for _, one in files) > count:
            advice = f"quotes were dropped, but backslashes precede them: pass {ESCAPE}"
        notes[what] = Note("quotes", f"{text}; {advice}")
    return notes
