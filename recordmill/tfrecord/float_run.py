"""Neighbouring features of one float each, encoded as one field.

A field per feature costs some calls of NumPy, which for thousands of features and few rows take
longer than the copying.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from recordmill.tfrecord.flat_arrays import Bytes, Ints
from recordmill.tfrecord.row_assembly import RowField, fixed_width_field

MIN_FEATURES = 64  # with fewer, fields of their own let rows share their checksums

_SIZE = 4  # bytes of a float


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatRun:
    """Features that have one float in every row.

    prefixes: the bytes before each feature's value.
    values: float32[n] per feature.
    """

    prefixes: tuple[bytes, ...]
    values: Sequence[npt.NDArray[np.float32]]

    def rows(self, start: int, stop: int) -> RowField:
        """Return the field of the rows start..stop."""
        row, places = _template(self.prefixes)
        rows = np.empty((stop - start, len(row)), np.uint8)
        rows[:] = row
        values = np.stack([one[start:stop] for one in self.values], axis=1)
        rows[:, places] = values.view(np.uint8)
        return fixed_width_field(rows)


@functools.lru_cache(maxsize=8)
def _template(prefixes: tuple[bytes, ...]) -> tuple[Bytes, Ints]:
    """Return a row with values of 0, uint8[width], and the place of each byte of the values."""
    row = np.frombuffer(b"".join(prefix + bytes(_SIZE) for prefix in prefixes), np.uint8)
    stops = np.cumsum([len(prefix) + _SIZE for prefix in prefixes])
    return row, (stops[:, None] + np.arange(-_SIZE, 0)).ravel()
