"""The first value that makes a column of numbers, dates, booleans or lists text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.sources.row_formats.values.iso_times import MONTH

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_SAMPLE = 64  # values that are checked before the whole column
_MOST = 0.9  # fraction of numbers or dates above which other values are odd
_FEW = 3  # up to this many different texts among numbers are odd
_LEAST = 6  # values that a column needs for this
_SHOWN = 40  # characters of a value in a message
_DIGIT = "^\\s*[(\u2212+-]?[$€£¥]? ?[.,]?\\d"  # begins numbers and dates
_DATE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?$"
_LIKE_DATE = (
    r"^(\d{4}[./-]\d\d?[./-]\d\d?|\d\d?[./-]\d\d?[./-]\d{4}|\d\d?/\d\d?/\d\d|"
    rf"\d\d?[ .-]+{MONTH}[ .,-]+\d{{4}})($|[ ,T])"
)
# With thousands separators, another decimal separator, a sign, spaces, a currency or a unit.
_LIKE_NUMBER = (
    "^\\s*[(\u2212+-]?[$€£¥]? ?"
    "(?:\\d{1,3}(?:[.,'\u2019 \u00a0\u2009\u202f]\\d{3})+|\\d*)(?:[.,]?\\d+)(?:[eE][+-]?\\d+)?"
    " ?(?P<unit>[^\\d\\s.,:/+-][^\\d,]{0,9})?[)-]?\\s*$"
)
_NO_LETTERS = r"^[^\p{L}]*\d[^\p{L}]*$"
_VERSION = r"^\d+(\.\d+){2,}$"  # also IP addresses
_CODE = r"^0\d"
_LONG = r"^[+-]?\d{19,}$"  # digits of integers that int64 may not hold
_JSON_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PADDED = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?")
LIST = "list"


class OddValue(NamedTuple):
    """The first value that makes a column text.

    Attributes:
      value: The value as text.
      kind: Type of most values, a name of --types or `LIST`.
      row: Number of its row in the file.
      file: Name of the file.
      every: Whether no value can be read as that type, so that declaring it would reject them all.
      of: Index of the file of the row, as in `Rows.files`.
      padded: Whether it is a number but for the spaces around it, which --trim removes.
    """

    value: str
    kind: str
    row: int
    file: str = ""
    every: bool = False
    of: int = 0
    padded: bool = False

    def describe(self, name: str) -> str:
        """Return why a column is text."""
        shown = self.value if len(self.value) <= _SHOWN else f"{self.value[:_SHOWN]}..."
        return f"column {name!r} is text because of {shown!r} in {self.file}#{self.row}"


def is_padded(value: str) -> bool:
    """Return whether a text is a number but for the spaces around it."""
    bare = value.strip()
    return bare != value and _PADDED.fullmatch(bare) is not None


def odd_text(column: pa.Array, decimal: str) -> tuple[int, str, bool] | None:
    """Return (index, type of most values, whether all are odd) of the first odd value, or None.

    column: string[n], a column that was read as text. decimal: the decimal separator.
    """
    some = column.drop_null().slice(0, _SAMPLE)
    if not len(some) or pc.mean(pc.match_substring_regex(some, _DIGIT)).as_py() < _MOST / 2:
        return None
    present = np.asarray(column.is_valid())
    count = int(present.sum())
    dates = _matches(column, _DATE)
    plain = dates | _matches(column, rf"^[+-]?(\d+[{decimal}]?\d*|[{decimal}]\d+)([eE][+-]?\d+)?$")
    odd = present & ~plain
    if not odd.any():
        at = None if _matches(column, _CODE).any() else _beyond_int64(column, count)
        return None if at is None else (at, "int", False)
    like_dates = dates | _matches(column, _LIKE_DATE)
    like = plain | like_dates | _like_numbers(column)
    if 2 * plain.sum() > count >= _LEAST and not _matches(column, _CODE).any():
        like |= _matches(column, _NO_LETTERS) & ~_matches(column, _VERSION)
    few = 2 * plain.sum() > count >= _LEAST and len(column.filter(pa.array(odd)).unique()) <= _FEW
    if not few and like.sum() < _MOST * count:
        return None
    every = not plain.any()
    at = int(np.flatnonzero(like if every else odd)[0])
    if 2 * like_dates.sum() <= like.sum():
        return at, "float", every
    with_time = _matches(column, r"\d:\d").any()
    return at, "timestamp" if with_time else "date", every


def odd_json(values: Sequence[Any]) -> tuple[int, str] | None:
    """Return (index, type of most values) of the first JSON value of another type than most values.

    None if most are texts, or if all have one type.
    """
    kinds = [_json_kind(value) for value in values]
    counts = Counter(kind for kind in kinds if kind is not None)
    if len(counts) < 2:
        return None
    ((kind, most),) = counts.most_common(1)
    if counts.keys() == {"float", "quoted"}:
        kind = "float"
    elif kind in ("text", "quoted", "large") or 2 * most < counts.total():
        return None
    at = next(n for n, one in enumerate(kinds) if one not in (None, kind))
    return at, "int" if kinds[at] == "large" else kind


def _json_kind(value: Any) -> str | None:
    """Return the type of a JSON value for `odd_json`, None for a missing one."""
    match value:
        case None:
            return None
        case bool():
            return "bool"
        case int():
            return "float" if _is_int64(value) else "large"
        case float():
            return "float"
        case list():
            return LIST
        case str():
            return "quoted" if _JSON_NUMBER.fullmatch(value) else "text"
    return "text"


def _like_numbers(column: pa.Array) -> Mask:
    """Return whether values are numbers in any notation, without a unit or with the usual one."""
    units = pc.struct_field(pc.extract_regex(column, _LIKE_NUMBER), "unit")
    found = pc.value_counts(units.filter(pc.not_equal(units, "")))
    usual = found.sort(order="descending", by="counts").field("values")[:1]
    names = pa.array(["", *usual.to_pylist()], pa.string())
    return np.asarray(pc.is_in(units, value_set=names), bool)


def _beyond_int64(column: pa.Array, count: int) -> int | None:
    """Return the first of a few integers that int64 cannot hold, None if no or most values are.

    count: of the values that are not null.
    """
    long = np.flatnonzero(_matches(column, _LONG)).tolist()
    if len(long) > (1 - _MOST) * count:
        return None
    return next((at for at in long if not _is_int64(int(column[at].as_py()))), None)


def _is_int64(number: int) -> bool:
    """Return whether int64 can hold a number."""
    return -(2**63) <= number < 2**63


def _matches(column: pa.Array, form: str) -> Mask:
    return np.asarray(pc.match_substring_regex(column, form).fill_null(False), bool)
