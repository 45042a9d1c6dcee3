"""Values as a file of text has them, and as what they are: numbers, bools, times, or nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.sources.column_kinds import NARROW, Kind

Mask = npt.NDArray[np.bool_]

_PADDED = r"^[+-]?0\d"
_INTEGER = r"^[+-]?\d+$"
_SHOWN = 40  # characters of a value that is wrong


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

    def kind(self, name: str, column: pa.Array) -> Kind:
        """What such texts can be."""
        if column.null_count == len(column):
            return Kind(nullable=len(column) > 0)
        nullable = column.null_count > 0
        # A number would lose the zeros of '007', and the last digits of a very large integer.
        if pc.any(pc.match_substring_regex(column, _PADDED)).as_py():
            return Kind((pa.string(),), nullable)
        kinds = [kind for kind in NARROW if _casts(self._plain(column, kind), kind)]
        if pa.int64() not in kinds and pc.all(pc.match_substring_regex(column, _INTEGER)).as_py():
            kinds = []
        if kinds:
            values = self.without_missing(name, self.cast(column, kinds[0]))
            nullable = values.null_count > 0
        return Kind((*kinds, pa.string()), nullable)

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
        fits = [_casts(values.slice(row, 1), kind) for row in range(len(values))]
        unfit = pc.invert(pa.array(fits, pa.bool_()).take(coded.indices)).fill_null(False)
        mask: Mask = np.asarray(unfit)
        return pc.if_else(unfit, None, column).cast(kind), mask

    def without_missing(self, name: str, column: pa.Array) -> pa.Array:
        """Null where a value says that there is nothing: a NaN, a spelling, a number however it is
        written.
        """
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        elif not pa.types.is_integer(column.type) and column.type != pa.string():
            return column
        spelled, unfit = self.fit(pa.array(self._spellings(name), pa.string()), column.type)
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
        pointed = pc.match_substring(column, ".")
        return pc.if_else(pointed, column, pc.replace_substring(column, self.decimal, "."))


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
    return (
        "a date such as 2026-01-31" if pa.types.is_date(kind) else "a time such as 2026-01-31 18:00"
    )


def _casts(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
