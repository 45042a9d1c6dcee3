"""Values as a file of text has them, and as what they are: numbers, bools, times, or nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.sources.row_formats.column_types import NARROW, ColumnType

Mask = npt.NDArray[np.bool_]

_INTEGER = r"^[+-]?\d+$"
_SHOWN = 40  # characters of a value that is wrong
_FEW = 64  # values that mostly show whether all are of a kind
_PLUS, _MINUS, _ZERO, _NINE = b"+-09"
_HEX = np.frombuffer(b"xX", np.uint8)  # behind a zero, what Arrow reads as hexadecimal
_NO_NUMBER = "?"  # what stands in none


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cells:
    """How the values of a table are written.

    decimal: what stands before the decimals of a number. missing: (column, or none for all; how it
    says that there is nothing). trim: whether spaces around a value are no part of it.
    """

    decimal: str = "."
    missing: tuple[tuple[str | None, str], ...] = ()
    trim: bool = False

    def texts(self, name: str, column: pa.Array) -> pa.Array:
        """A column as it is written, null where there is nothing: string[n]."""
        if self.trim:
            column = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.equal(column, ""), None, column)
        spellings = self._spellings(name)
        if not spellings:
            return column
        missing = pc.is_in(column, value_set=pa.array(spellings, pa.string()))
        return pc.if_else(missing, None, column)

    def kind(self, name: str, column: pa.Array) -> ColumnType:
        """What such texts can be."""
        return self.typed(name, column)[0]

    def typed(self, name: str, column: pa.Array) -> tuple[ColumnType, pa.Array]:
        """What such texts can be, and the values as the best of it."""
        if column.null_count == len(column):
            return ColumnType(nullable=len(column) > 0), column
        nullable = column.null_count > 0
        cast = {kind: _cast(self._plain(column, kind), kind) for kind in NARROW}
        kinds = [kind for kind, values in cast.items() if values is not None]
        # A number would lose the zeros of '007', and the last digits of a very large integer.
        if kinds and (_padded(column) or (pa.int64() not in kinds and _are_integers(column))):
            kinds = []
        values = cast[kinds[0]] if kinds else column
        if kinds:
            nullable = self.without_missing(name, values).null_count > 0
        return ColumnType((*kinds, pa.string()), nullable), values

    def cast(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """Values as those of a type. Raises pa.ArrowInvalid where one is none."""
        return self._plain(column, kind).cast(kind)

    def fit(self, column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
        """Values as those of a type, and which are none, bool[n]: these come as null."""
        column = self._plain(column, kind)
        try:
            return column.cast(kind), np.zeros(len(column), np.bool_)
        except pa.ArrowInvalid:
            pass
        coded = column.dictionary_encode()
        values = coded.dictionary
        fits = [_cast(values.slice(row, 1), kind) is not None for row in range(len(values))]
        unfit = pc.invert(pa.array(fits, pa.bool_()).take(coded.indices)).fill_null(False)
        mask: Mask = np.asarray(unfit)
        return pc.if_else(unfit, None, column).cast(kind), mask

    def without_missing(self, name: str, column: pa.Array) -> pa.Array:
        """Null where a value says that there is nothing: a NaN, a spelling, a number however it is
        written.
        """
        if pa.types.is_floating(column.type):
            is_nan = pc.is_nan(column)
            if pc.any(is_nan).as_py():
                column = pc.if_else(is_nan, None, column)
        elif not pa.types.is_integer(column.type) and column.type != pa.string():
            return column
        spellings = self._spellings(name)
        if not spellings:
            return column
        spelled, unfit = self.fit(pa.array(spellings, pa.string()), column.type)
        spelled = spelled.filter(pa.array(~unfit))
        if not len(spelled):
            return column
        return pc.if_else(pc.is_in(column, value_set=spelled), None, column)

    def _spellings(self, name: str) -> list[str]:
        return [spelling for column, spelling in self.missing if column in (None, name)]

    def _plain(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """Numbers with a point."""
        numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        if self.decimal == "." or not numeric or column.type != pa.string():
            return column
        # What has a point is no number here: it stands for thousands, or the option is wrong.
        without = pc.replace_substring(column, ".", _NO_NUMBER)
        return pc.replace_substring(without, self.decimal, ".")


def misfit(name: str, kind: pa.DataType, value: object) -> str:
    """What is wrong with a value that is not of its column's type."""
    shown = repr(value)
    if isinstance(value, str) and len(value) > _SHOWN:
        shown = repr(f"{value[:_SHOWN]}...")
    return f"column {name!r}: expected {_noun(kind)}, got {shown}"


def _noun(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "an integer (of 64 bits)"
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
    """The values as a type; None where one does not fit it.

    Few are tried first: Arrow tells of each that does not fit, which takes longer than to cast it.
    """
    try:
        column.slice(0, _FEW).cast(kind)
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None


def _are_integers(column: pa.Array) -> bool:
    """Whether all texts are, however large."""
    some_then_all = (column.slice(0, _FEW), column)
    return all(pc.all(pc.match_substring_regex(c, _INTEGER)).as_py() for c in some_then_all)


def _padded(column: pa.Array) -> bool:
    """Whether a text begins with a zero before another digit, or an x, perhaps behind a sign."""
    column = column.drop_null()
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    text = np.append(np.frombuffer(data or b"", np.uint8), np.zeros(3, np.uint8))
    first = text[edges[:-1]]
    at = edges[:-1] + ((first == _PLUS) | (first == _MINUS))
    following = text[at + 1]
    digit = (following >= _ZERO) & (following <= _NINE) | np.isin(following, _HEX)
    return bool((digit & (at + 1 < edges[1:]) & (text[at] == _ZERO)).any())
