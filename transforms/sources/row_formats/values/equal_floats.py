"""Different numbers that become equal as float32, the type of features of numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

_SAMPLE = 512  # rows at the start of a block that are looked at
_MOST = 0.1  # fraction of different values that may become equal to another
_NOISE = 1e-13  # relative difference of numbers that count as equal, as arithmetic rounds


class EqualFloats(NamedTuple):
    """Two different numbers that become equal as float32."""

    one: float
    other: float

    def describe(self, name: str) -> str:
        """Return the first half of a note."""
        return (
            f"different numbers of column {name!r} become equal, because features of numbers are"
            f" float32, such as {_shown(self.one)} and {_shown(self.other)}"
        )


def equal_floats(column: pa.Array) -> EqualFloats | None:
    """Return an example if a tenth of the different values of a sample become equal, or None.

    column: float64[n].
    """
    values = np.asarray(column.slice(0, _SAMPLE).drop_null())
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if (single == values).all():
        return None
    values = np.sort(values[np.isfinite(single)])
    single = values.astype(np.float32)
    differ = np.diff(values) > _NOISE * np.abs(values[1:])
    equal = differ & (single[1:] == single[:-1])
    count = int(equal.sum())
    if not count or count < _MOST * (1 + int(differ.sum())):
        return None
    at = int(np.flatnonzero(equal)[0])
    one, other = values[at : at + 2].tolist()
    return EqualFloats(one, other)


def _shown(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e18 else repr(number)
