"""Values as a file of text has them, and as what they are: numbers, bools, times, or nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.sources.column_kinds import NARROW, Kind

Mask = npt.NDArray[np.bool_]

_INTEGER = r"^[+-]?\d+$"
_FEW = 64  # values that mostly show whether all are of a kind
_PLUS, _MINUS, _ZERO, _NINE = b"+-09"


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
        cast = {kind: _cast(self._plain(column, kind), kind) for kind in NARROW}
        kinds = [kind for kind, values in cast.items() if values is not None]
        # A number would lose the zeros of '007', and the last digits of a very large integer.
        if kinds and (_padded(column) or (pa.int64() not in kinds and _are_integers(column))):
            kinds = []
        if kinds and kinds[0] != pa.bool_():
            numbers = self.without_missing(name, cast[kinds[0]])
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
    fits = [_cast(values.slice(row, 1), kind) is not None for row in range(len(values))]
    unfit = pc.invert(pa.array(fits, pa.bool_()).take(coded.indices)).fill_null(False)
    mask: Mask = np.asarray(unfit)
    return pc.if_else(unfit, None, column).cast(kind), mask


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
    """Whether a text begins with a zero before another digit, perhaps behind a sign."""
    column = column.drop_null()
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    text = np.append(np.frombuffer(data or b"", np.uint8), np.zeros(3, np.uint8))
    first = text[edges[:-1]]
    at = edges[:-1] + ((first == _PLUS) | (first == _MINUS))
    following = text[at + 1]
    digit = (following >= _ZERO) & (following <= _NINE) & (at + 1 < edges[1:])
    return bool((digit & (text[at] == _ZERO)).any())
