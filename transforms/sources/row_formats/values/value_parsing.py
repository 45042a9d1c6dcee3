"""Parsing of text values to numbers, bools and times, with detection of missing values."""

from __future__ import annotations

import contextlib
import dataclasses
import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.option_checks import types_option
from recordmill.transforms.model.usual_columns import column_named
from recordmill.transforms.sources.row_formats.values.column_types import NARROW, ColumnType
from recordmill.transforms.sources.row_formats.values.iso_times import arrow_times
from recordmill.transforms.sources.row_formats.values.nested import columns_of

Mask = npt.NDArray[np.bool_]

_INTEGER = r"^[+-]?\d+$"
_NUMBER_PATTERNS = {
    pa.int64(): _INTEGER,
    pa.float64(): r"^[+-]?((?i:nan)|(\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?)$",
}
DECIMAL_HINT = "; --decimal , reads decimal commas"
_DECIMAL_COMMA = r"[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?"
_ZONED = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}(:[0-9.:]*)? ?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)"
_LONG = 64  # bytes; of a longer text it is not checked whether it means a missing number
_SHOWN = 40  # characters of an invalid value in a message
_SAMPLE = 64  # values that are tried before a whole column
_PLUS, _MINUS, _ZERO = b"+-0"
_AFTER_ZERO = np.zeros(256, np.bool_)  # bytes that make a leading zero significant
_AFTER_ZERO[list(b"0123456789xX")] = True  # after 0x, Arrow reads a hexadecimal number
_NO_NUMBER = "?"  # makes a text no number


def without_nan(column: pa.Array) -> pa.Array:
    """Return floating numbers with null, the missing value, instead of NaN."""
    is_nan = pc.is_nan(column)
    return pc.if_else(is_nan, None, column) if pc.any(is_nan).as_py() else column


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueParser:
    """Parses the values of a table.

    decimal: the decimal separator. missing: (column or None for all columns, spelling of a missing
    value) pairs. trim: whether to strip spaces around a value.
    """

    decimal: str = "."
    missing: tuple[tuple[str | None, str], ...] = ()
    trim: bool = False

    def read_text(self, name: str, column: pa.Array) -> pa.Array:
        """Return a column of text with nulls for missing values, string[n]."""
        if self.trim:
            column = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.equal(column, ""), None, column)
        spellings = self.spellings(name)
        if not spellings:
            return column
        missing = pc.is_in(column, value_set=pa.array(spellings, pa.string()))
        return pc.if_else(missing, None, column)

    def infer_type(self, name: str, column: pa.Array) -> ColumnType:
        """Return the types that hold all values of a column of text."""
        return self.infer(name, column)[0]

    def infer(self, name: str, column: pa.Array) -> tuple[ColumnType, pa.Array]:
        """Return the types that hold all values of a column of text, and the parsed values.

        Values are parsed with the first, narrowest type.
        """
        if column.null_count == len(column):
            return ColumnType(nullable=len(column) > 0), column
        nullable = column.null_count > 0
        cast = {kind: _cast(self._normalize_decimal(column, kind), kind) for kind in NARROW}
        column_types = [kind for kind, values in cast.items() if values is not None]
        # A number would lose the zeros of '007' and the last digits of a very large integer.
        if column_types and (
            _has_leading_zero(column) or (pa.int64() not in column_types and _are_integers(column))
        ):
            column_types = []
        values = cast[column_types[0]] if column_types else column
        if column_types:
            nullable = self.mask_missing(name, values).null_count > 0
        missing_as = frozenset() if column_types else self.missing_as(name, column)
        return ColumnType((*column_types, pa.string()), nullable, missing_as=missing_as), values

    def missing_as(self, name: str, column: pa.Array) -> frozenset[pa.DataType]:
        """Return the types of numbers as which a text of a column is a missing value."""
        spelled = bool(self.spellings(name))
        is_short = pc.less_equal(pc.binary_length(column), _LONG if spelled else len("-nan"))
        texts = column.filter(is_short).unique().cast(pa.string())
        found = set()
        for kind, pattern in _NUMBER_PATTERNS.items():
            numbers = self._normalize_decimal(texts, kind)
            numbers = numbers.filter(pc.match_substring_regex(numbers, pattern))
            values, unfit = self.cast_or_null(numbers, kind)
            if self.mask_missing(name, values).null_count > np.count_nonzero(unfit):
                found.add(kind)
        return frozenset(found)

    def cast(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """Parse values as a type. Raises pa.ArrowInvalid for an invalid value."""
        return self._normalize_decimal(column, kind).cast(kind)

    def cast_or_null(self, column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
        """Parse values as a type. Returns them, null if invalid, and the invalid mask, bool[n]."""
        if pa.types.is_integer(column.type) and pa.types.is_floating(kind):
            # Large integers are rounded, as those of text are.
            return column.cast(kind, safe=False), np.zeros(len(column), np.bool_)
        column = self._normalize_decimal(column, kind)
        try:
            return column.cast(kind), np.zeros(len(column), np.bool_)
        except pa.ArrowInvalid:
            pass
        if pa.types.is_timestamp(kind) and pa.types.is_string(column.type):
            column = arrow_times(column)
            with contextlib.suppress(pa.ArrowInvalid):
                return column.cast(kind), np.zeros(len(column), np.bool_)
        coded = column.dictionary_encode()
        values = coded.dictionary
        fits = [_cast(values.slice(row, 1), kind) is not None for row in range(len(values))]
        unfit = pc.invert(pa.array(fits, pa.bool_()).take(coded.indices)).fill_null(False)
        mask: Mask = np.asarray(unfit)
        return pc.if_else(unfit, None, column).cast(kind), mask

    def mask_missing(self, name: str, column: pa.Array) -> pa.Array:
        """Return a column with nulls for missing values: NaN, and the spellings of `missing`.

        A spelling that is a number matches all numbers of equal value.
        """
        if pa.types.is_floating(column.type):
            column = without_nan(column)
        elif not pa.types.is_integer(column.type) and column.type != pa.string():
            return column
        spellings = self.spellings(name)
        if not spellings:
            return column
        spelled, unfit = self.cast_or_null(pa.array(spellings, pa.string()), column.type)
        spelled = spelled.filter(pa.array(~unfit))
        if not len(spelled):
            return column
        return pc.if_else(pc.is_in(column, value_set=spelled), None, column)

    def spellings(self, name: str) -> list[str]:
        """Return the spellings of missing values of a column."""
        return [
            spelling
            for column, spelling in self.missing
            if column in (None, name) or ("*" in str(column) and columns_of([str(column)], [name]))
        ]

    def _normalize_decimal(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """Return a column of text with numbers that have a decimal point."""
        numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        if self.decimal == "." or not numeric or column.type != pa.string():
            return column
        # A point is no decimal separator here, so a text with one must not parse as a number.
        without = pc.replace_substring(column, ".", _NO_NUMBER)
        return pc.replace_substring(without, self.decimal, ".")


def type_mismatch(name: str, kind: pa.DataType, value: object) -> str:
    """Return the message for a value that does not have the type of its column."""
    message = f"{column_named(name)}: {value_mismatch(kind, value)}{decimal_hint(value)}"
    if pa.types.is_timestamp(kind) and kind.tz is None and _is_zoned(value):
        message += (
            ", which has an offset from UTC: convert times to UTC, without an offset, in the input,"
            f" or keep them as text with {types_option(name, 'string')}"
        )
    return message


def decimal_hint(value: object) -> str:
    """Return advice for a text that is a number with a decimal comma, else an empty text."""
    is_number = isinstance(value, str) and re.fullmatch(_DECIMAL_COMMA, value.strip())
    return DECIMAL_HINT if is_number else ""


def _is_zoned(value: object) -> bool:
    """Return whether a value is a text of a time with an offset from UTC, such as +02:00 or Z."""
    return isinstance(value, str) and re.fullmatch(_ZONED, value.strip()) is not None


def with_points(column: pa.Array, decimal: str) -> pa.Array:
    """Return a column of text in which numbers with a decimal comma have a point."""
    if decimal == ".":
        return column
    is_number = pc.match_substring_regex(column, f"^{_DECIMAL_COMMA}$")
    return pc.if_else(is_number, pc.replace_substring(column, ",", "."), column)


def value_mismatch(kind: pa.DataType, value: object) -> str:
    """Return the message for a value of another type than expected."""
    shown = repr(value)
    if isinstance(value, str) and len(value) > _SHOWN:
        shown = repr(f"{value[:_SHOWN]}...")
    return f"expected {_describe_type(kind)}, got {shown}"


def _describe_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "a 64-bit integer"
    if pa.types.is_floating(kind):
        return "a number"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_string(kind):
        return "text in UTF-8"
    if pa.types.is_date(kind):
        return "a date such as 2026-01-31"
    return "a time such as 2026-01-31 18:00"


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Cast a column, or return None if a value is invalid.

    A sample is cast first, because a failing cast of a whole column is slow in Arrow.
    """
    try:
        column.slice(0, _SAMPLE).cast(kind)
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None


def _are_integers(column: pa.Array) -> bool:
    """Return whether all texts are integers of any size."""
    some_then_all = (column.slice(0, _SAMPLE), column)
    return all(pc.all(pc.match_substring_regex(c, _INTEGER)).as_py() for c in some_then_all)


def _has_leading_zero(column: pa.Array) -> bool:
    """Return whether a text begins with an optional sign, a zero, and a digit or an x."""
    column = column.drop_null()
    _, offsets, data = column.buffers()
    if not data:
        return False
    edges = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    text = np.frombuffer(data, np.uint8)
    # Indices beyond the buffer are clipped; the comparison with `edges` leaves those texts out.
    first = text.take(edges[:-1], mode="clip")  # `[]` takes twice as long
    at = edges[:-1] + ((first == _PLUS) | (first == _MINUS))
    second = _AFTER_ZERO.take(text.take(at + 1, mode="clip"))
    zeros = np.flatnonzero((text.take(at, mode="clip") == _ZERO) & second)
    return bool((at[zeros] + 1 < edges[1:][zeros]).any())
