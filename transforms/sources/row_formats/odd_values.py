"""Values that make a column of numbers or dates text: the first one, and its form."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model.placeholders import is_placeholder

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_SAMPLE = 64  # values that are checked before the whole column
MOST = 0.9  # fraction of numbers, dates or lists from which on other values are odd
_PERCENT = r"^[+-]?[\d.,]+ ?%$"
_DATES = (r"^\d{4}-\d\d?-\d\d?", r"^\d\d?/\d\d?/\d{2,4}", r"^\d\d?\.\d\d?\.\d{2,4}", r"^\d{8}$")
_SHORT_DATES = r"^\d{4}-(\d-\d\d?|\d\d-\d)($|[ T])"  # without the zeros of 2026-01-01
_MONTHS = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_OTHER_DATES = (
    r"^(\d\d?[./-]\d\d?[./-]\d{4}|\d{4}[./]\d\d?[./]\d\d?|"
    rf"\d\d?[ .-]+{_MONTHS}[a-z]*[ .,-]+\d{{4}})($|[ ,T])"
)
_OTHER_FORM = "dates in another form than 2026-01-31"
_CURRENCY = r"^[+-]?[$€£¥] ?[\d.,]+$|^[+-]?[\d.,]+ ?[$€£¥]$"
_SPACES = ("[ \u00a0\u2009\u202f]", "['\u2019]")  # between thousands, beside the comma or the point
_MINUS = "\u2212"  # a longer sign than the hyphen
_DIGIT = rf"^\s*[({_MINUS}+-]?[$€£¥]? ?[.,]?\d"  # begins numbers and dates
_ZONED = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_LONG_DATES = r"^\d{4}-\d\d-\d\d($|[ T])"
_DAY = r"^\d{4}-\d\d-\d\d$"
_WITH_UNIT = r"^[+-]?[\d.,]*\d ?(?P<unit>[^\d\s.,:/%$€£¥+-][^\d,]{0,9})$"
_NO_LETTERS = r"^[^\p{L}]*\d[^\p{L}]*$"
_VERSION = r"^\d+(\.\d+){2,}$"  # also IP addresses
_CODE = r"^0\d"
_LONG = r"^[+-]?\d{19,}$"  # digits of integers that int64 may not hold
_FEW = 3  # up to so many different texts among numbers count as spellings of a missing value
_ANSWERS = {
    *("yes", "no", "y", "n", "true", "false", "t", "f", "on", "off"),
    *("ja", "nein", "oui", "non", "wahr", "falsch"),
}
_MISSING_WORDS = ("missing", "unknown")  # stand for a missing value among numbers
_LEAST = 6  # values that a column needs for this
_NAMES = {",": "commas", ".": "points"}
DECIMAL_COMMAS = "decimal commas"  # begins the words for them
BESIDE_BOOLS = "numbers beside true and false"
NOT_LISTS = "values that are not lists"
BEYOND_INT64 = "integers beyond 64 bits"
_SHOWN = 40  # characters of a value in a message


class OddValue(NamedTuple):
    """The first value that makes a column text.

    why: words for its form, which name the option that reads it, if there is one. row: its number
    in the file. every: whether no value is a number or a date as it should be, so that to declare
    the type would reject all of them.
    """

    value: str
    why: str
    row: int
    file: str = ""
    every: bool = False

    @property
    def has_option(self) -> bool:
        """True if an option reads the values as numbers, so that the input can stay as it is."""
        return ", which --" in self.why

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
    number = rf"(\d+[{decimal}]?\d*|[{decimal}]\d+)([eE][+-]?\d+)?"
    forms = (
        rf"^[+-]?{number}$",
        *(rf"^[+-]?{form}$" for form in (_grouped(other, decimal), _fraction(other, decimal))),
        *(_PERCENT, _CURRENCY),
        rf"^(\s+[+-]?{number}\s*|[+-]?{number}\s+)$",
        rf"^({_MINUS}{number}|\({number}\)|{number}-)$",
    )
    some = column.drop_null().slice(0, _SAMPLE)
    if not len(some) or pc.mean(pc.match_substring_regex(some, _DIGIT)).as_py() < MOST / 2:
        return None
    present = np.asarray(column.is_valid())
    count = int(present.sum())
    plain, thousands, swapped, percent, currency, spaced, negative = (
        _matches(column, form) for form in forms
    )
    misspelt = thousands | swapped | percent | currency | spaced | negative
    if (plain | misspelt).sum() >= MOST * count:
        every = not plain.any()
        # Without plain numbers, other texts, such as a unit below the names, are not the cause.
        odd = np.flatnonzero(misspelt if every else present & ~plain)
        if not len(odd):
            return _beyond_int64(column, count)  # None for codes such as '007'
        # 1,234 alone may be either; beside 12,5 its comma is a decimal one.
        decimals = np.flatnonzero(swapped & ~thousands)
        at = int(decimals[0] if len(decimals) else odd[0])
        for words, fits in (
            ("thousands separators", thousands[at]),
            (f"decimal {_NAMES[other]}, which --decimal {other} reads", swapped[at]),
            ("percent signs", percent[at]),
            ("currency signs", currency[at]),
            ("spaces around numbers, which --trim strips", spaced[at]),
            ("another notation of negative numbers", negative[at]),
        ):
            if fits:
                return at, words, every
        others = column.filter(pa.array(present & ~plain)).unique().to_pylist()
        placeholders = None
        if all(map(_is_missing, others)):
            placeholders = few_texts(others, len(odd), count)
        return at, placeholders or "", every
    if (unit := _common_unit(column, count)) is not None:
        return *unit, not plain.any()
    if plain.sum() > count / 2:
        others = column.filter(pa.array(present & ~plain)).unique().to_pylist()
        if (few := few_texts(others, count - int(plain.sum()), count)) is not None:
            return int(np.flatnonzero(present & ~plain)[0]), few, False
    dates = np.array([_matches(column, form) for form in _DATES])  # bool[forms, n]
    if dates.any(axis=0).sum() >= MOST * count:
        first = dates[:, int(np.flatnonzero(dates.any(axis=0))[0])]
        others = np.flatnonzero(dates[~first].any(axis=0) & ~dates[first].any(axis=0))
        if len(others):
            return int(others[0]), "dates in different formats", False
        if len(short := np.flatnonzero(_matches(column, _SHORT_DATES))):
            return int(short[0]), _OTHER_FORM, not _matches(column, _LONG_DATES).any()
        days = _matches(column, _DAY)
        if days.any() and len(timed := np.flatnonzero(dates[0] & ~days)):
            return int(timed[0]), "dates with a time beside dates without one", False
        zoned = np.flatnonzero(_matches(column, _ZONED))
        if len(zoned):
            return int(zoned[0]), "times with a time zone", len(zoned) == count
    foreign = np.flatnonzero(_matches(column, _OTHER_DATES))
    if len(foreign) >= MOST * count:
        every = not _matches(column, _DATES[0]).any()
        return int(foreign[0]), _OTHER_FORM, every
    if plain.sum() > count / 2 and _are_like_numbers(column, plain, count):
        odd = np.flatnonzero(present & ~plain)
        return int(odd[0]), not_numbers(len(odd), count), False
    return None


def _beyond_int64(column: pa.Array, count: int) -> tuple[int, str, bool] | None:
    """Return the first of a few integers that int64 cannot hold, None if no or most values are.

    count: of the values that are not null.
    """
    long = np.flatnonzero(_matches(column, _LONG)).tolist()
    if not long or len(long) > (1 - MOST) * count or _matches(column, _CODE).any():
        return None
    at = next((n for n in long if not is_int64(int(column[n].as_py()))), None)
    return None if at is None else (at, BEYOND_INT64, False)


def is_int64(number: int) -> bool:
    """Return whether int64 can hold a number."""
    return -(2**63) <= number < 2**63


def few_texts(texts: Sequence[str], odd: int, count: int) -> str | None:
    """Describe the few texts among numbers; None for many different texts or too few values.

    Placeholders of missing values may be many.

    odd: number of the values that are texts. count: number of all values.
    """
    if count < _LEAST or (len(texts) > _FEW and not all(map(_is_missing, texts))):
        return None
    words = not_numbers(odd, count)
    if not _ANSWERS.isdisjoint(one.strip().casefold() for one in texts):
        return words
    # After a space, argparse would take -- for the end of the options.
    options = " ".join(
        f"--missing{'=' if one.startswith('--') else ' '}{shlex.quote(one)}" for one in texts
    )
    return f"{words}, which {options} {'reads' if len(texts) == 1 else 'read'} as missing"


def _is_missing(text: str) -> bool:
    """Return whether a text among numbers usually stands for a missing value."""
    return is_placeholder(text) or text.strip().casefold() in _MISSING_WORDS


def not_numbers(odd: int, count: int) -> str:
    """Return words for values among numbers. odd: their number. count: of all values."""
    return f"values that are not numbers ({odd / count:.0%})"


def _are_like_numbers(column: pa.Array, plain: Mask, count: int) -> bool:
    """Return whether the texts among numbers have digits, but no letters, such as 4-18 or <5.

    Texts with letters among numbers are usual: tickets, house numbers. Codes and versions are no
    numbers either. plain: the mask of numbers. count: of the values that are not null.
    """
    if _matches(column, _CODE).any() or count < _LEAST:
        return False
    like = _matches(column, _NO_LETTERS) & ~_matches(column, _VERSION)
    return bool((plain | like).sum() >= MOST * count)


def _common_unit(column: pa.Array, count: int) -> tuple[int, str] | None:
    """Return (index, words) of the first number with the unit that most values have, or None.

    count: of the values that are not null.
    """
    units = pc.struct_field(pc.extract_regex(column, _WITH_UNIT), "unit")
    codes = units.dictionary_encode()
    for most in pc.mode(codes.indices).to_pylist():
        if most["count"] >= MOST * count:
            words = f"the unit {codes.dictionary[most['mode']].as_py()!r} of its values"
            return int(pc.index(codes.indices, most["mode"]).as_py()), words
    return None


def _grouped(separator: str, decimal: str) -> str:
    """Return the pattern of a number without sign that has one kind of thousands separators."""
    groups = "|".join(rf"({one}\d{{3}})+" for one in (f"[{separator}]", *_SPACES))
    return rf"\d{{1,3}}({groups})([{decimal}]\d+)?"


def _fraction(other: str, decimal: str) -> str:
    """Return the pattern of a number without sign that has the other decimal separator."""
    return rf"(\d*|{_grouped(decimal, other)})[{other}]\d+"


def _matches(column: pa.Array, form: str) -> Mask:
    return np.asarray(pc.match_substring_regex(column, form).fill_null(False))
