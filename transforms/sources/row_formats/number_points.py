"""Points in numbers of text: whether they look decimal, or separate thousands."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SAMPLE = 40  # values of a block that are looked at
_LEAST = 3  # numbers such as 2.033 that a column needs
_GROUPED = {one: re.compile(rf"[+-]?[1-9]\d{{0,2}}{re.escape(one)}\d{{3}}") for one in ".,"}
_PLAIN = re.compile(r"[+-]?\d{1,3}")
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)


class PointUse(NamedTuple):
    """Evidence from a sample of numbers on the use of their decimal separator.

    grouped: number of values such as 2.033. value, row, file: the first of them. plain: whether a
    value below 1000 has no point. decimal: whether a value shows that points do not separate
    thousands, such as 2.5, 0.125 or 1000.
    """

    grouped: int = 0
    value: str = ""
    row: int = 0
    file: str = ""
    plain: bool = False
    decimal: bool = False

    def plus(self, other: PointUse) -> PointUse:
        """Add the evidence from later rows."""
        first = self if self.grouped else other
        return first._replace(
            grouped=self.grouped + other.grouped,
            plain=self.plain or other.plain,
            decimal=self.decimal or other.decimal,
        )

    def describe(self, name: str) -> str:
        """Return the first half of a note."""
        mark = "commas" if "," in self.value else "points"
        return (
            f"column {name!r} has numbers such as {self.value!r} in {self.file}#{self.row}, in"
            f" which {mark} are read as decimal {mark}, but may separate thousands, because each is"
            " before exactly three digits"
        )

    def groups_thousands(self, *, commas: bool) -> bool:
        """Return whether points seem to separate thousands.

        Numbers that are all such as 2.033 may have been written with three decimals. commas:
        whether other columns have decimal commas.
        """
        return not self.decimal and self.grouped >= _LEAST and (self.plain or commas)


def point_use(
    texts: pa.Array, numbers: pa.Array, rows: npt.NDArray[np.int64], decimal: str
) -> PointUse:
    """Return the evidence from a sample of the values of a block.

    texts: string[n]. numbers: int64[n] or float64[n], their values. rows: int64[n], their row
    numbers. decimal: the decimal separator.
    """
    step = -(-len(texts) // _SAMPLE) or 1
    if pa.types.is_integer(numbers.type):
        some = np.abs(np.asarray(numbers[::step].drop_null()))
        return PointUse(plain=len(some) > 0, decimal=bool((some >= 1000).any()))
    grouped = plain = 0
    first = -1
    for number, text in enumerate(texts[::step].to_pylist()):
        if text is None:
            continue
        if _GROUPED[decimal].fullmatch(text):
            first = number if grouped == 0 else first
            grouped += 1
        elif _PLAIN.fullmatch(text):
            plain += 1
        elif not _NAN.fullmatch(text):
            return PointUse(decimal=True)
    if not grouped:
        return PointUse(plain=plain > 0)
    at = first * step
    return PointUse(grouped, texts[at].as_py(), int(rows[at]), plain=plain > 0)
