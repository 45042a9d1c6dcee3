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
        if kinds and kinds[0] != pa.bool_():
            numbers, _ = self.typed(name, column, kinds[0])
            nullable = bool(pc.any(numbers.is_null(nan_is_null=True)).as_py())
        return Kind((*kinds, pa.string()), nullable)

    def typed(self, name: str, column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
        """Such texts as values of a type, null where there is nothing; and those that are none,
        bool[n], which come as null.
        """
        values, unfit = fit(self._plain(column, kind), kind)
        return self.without_missing(name, values), unfit

    def without_missing(self, name: str, column: pa.Array) -> pa.Array:
        """Null where a number says that there is nothing, however it is written."""
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return column
        numbers, unfit = fit(self._plain(pa.array(self._spellings(name), pa.string()), kind), kind)
        numbers = numbers.filter(pa.array(~unfit))
        if not len(numbers):
            return column
        return pc.if_else(pc.is_in(column, value_set=numbers), None, column)

    def _spellings(self, name: str) -> list[str]:
        return [spelling for column, spelling in self.missing if column in (None, name)]

    def _plain(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """Numbers with a point."""
        if self.decimal == "." or not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            return column
        # What has a point is no number here: it stands for thousands, or the option is wrong.
        pointed = pc.match_substring(column, ".")
        return pc.if_else(pointed, column, pc.replace_substring(column, self.decimal, "."))


def fit(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """The values as a type, and those that do not fit it, bool[n], which come as null."""
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


def _casts(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
