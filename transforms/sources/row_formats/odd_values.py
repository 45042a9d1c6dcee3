"""Values that make a column of numbers or dates text: the first one, and its form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE = 64  # values that are checked before the whole column
MOST = 0.9  # fraction of numbers, dates or lists from which on other values are odd
_PERCENT = r"^[+-]?[\d.,]+ ?%$"
_DATES = (r"^\d{4}-\d\d?-\d\d?", r"^\d\d?/\d\d?/\d{2,4}", r"^\d\d?\.\d\d?\.\d{2,4}", r"^\d{8}$")
_OTHER_DATES = r"^(\d\d?[./-]\d\d?[./-]\d{4}|\d{4}[./]\d\d?[./]\d\d?)($|[ T])"
_CURRENCY = r"^[+-]?[$€£¥] ?[\d.,]+$|^[+-]?[\d.,]+ ?[$€£¥]$"
_SPACES = ("[ \u00a0\u2009\u202f]", "['\u2019]")  # between thousands, beside the comma or the point
_DIGIT = r"^[+-]?[$€£¥]? ?[.,]?\d"  # begins numbers and dates
_NAMES = {",": "commas", ".": "points"}
_SHOWN = 40  # characters of a value in a message


class OddValue(NamedTuple):
    """The first value that makes a column text.

    why: words for its form. row: its number in the file. every: whether no value is a number or a
    date as it should be, so that to declare the type would reject all of them.
    """

    value: str
    why: str
    row: int
    file: str = ""
    every: bool = False

    def describe(self, name: str) -> str:
        """Return why a column is text."""
        shown = self.value if len(self.value) <= _SHOWN else f"{self.value[:_SHOWN]}..."
        why = f"{self.why}, such as {shown!r}" if self.why else repr(shown)
        return f"column {name!r} is text because of {why} in {self.file}#{self.row}"


def odd_value(column: pa.Array, decimal: str) -> tuple[int, str, bool] | None:
    """Return (index, words for its form, whether all are odd) of the first odd value, or None.

    column: string[n], a column that was read as text. decimal: the decimal separator.
    """
    other = "," if decimal == "." else "."
    number = rf"^[+-]?(\d+[{decimal}]?\d*|[{decimal}]\d+)([eE][+-]?\d+)?$"
    grouped = _grouped(other, decimal)
    forms = (number, *(rf"^[+-]?{form}$" for form in (grouped, _fraction(other, decimal))))
    some = column.drop_null().slice(0, _SAMPLE)
    if not len(some) or pc.mean(pc.match_substring_regex(some, _DIGIT)).as_py() < MOST / 2:
        return None
    present = np.asarray(column.is_valid())
    count = int(present.sum())
    plain, thousands, swapped, percent, currency = (
        _matches(column, form) for form in (*forms, _PERCENT, _CURRENCY)
    )
    if (plain | thousands | swapped | percent | currency).sum() >= MOST * count:
        odd = np.flatnonzero(present & ~plain)
        every = not plain.any()
        if not len(odd):
            return None  # such as '007'
        # 1,234 alone may be either; beside 12,5 its comma is a decimal one.
        decimals = np.flatnonzero(swapped & ~thousands)
        at = int(decimals[0] if len(decimals) else odd[0])
        for words, fits in (
            ("thousands separators", thousands[at]),
            (f"decimal {_NAMES[other]}, which --decimal {other} reads", swapped[at]),
            ("percent signs", percent[at]),
            ("currency signs", currency[at]),
        ):
            if fits:
                return at, words, every
        return at, "", every
    dates = np.array([_matches(column, form) for form in _DATES])  # bool[forms, n]
    if dates.any(axis=0).sum() >= MOST * count:
        first = dates[:, int(np.flatnonzero(dates.any(axis=0))[0])]
        others = np.flatnonzero(dates[~first].any(axis=0) & ~dates[first].any(axis=0))
        if len(others):
            return int(others[0]), "dates in different formats", False
    foreign = np.flatnonzero(_matches(column, _OTHER_DATES))
    if len(foreign) >= MOST * count:
        every = not _matches(column, _DATES[0]).any()
        return int(foreign[0]), "dates in another form than 2026-01-31", every
    return None


def _grouped(separator: str, decimal: str) -> str:
    """Return the pattern of a number without sign that has one kind of thousands separators."""
    groups = "|".join(rf"({one}\d{{3}})+" for one in (f"[{separator}]", *_SPACES))
    return rf"\d{{1,3}}({groups})([{decimal}]\d+)?"


def _fraction(other: str, decimal: str) -> str:
    """Return the pattern of a number without sign that has the other decimal separator."""
    return rf"(\d*|{_grouped(decimal, other)})[{other}]\d+"


def _matches(column: pa.Array, form: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(pc.match_substring_regex(column, form).fill_null(False))
