"""The last window of each series, for --last-window."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from recordmill.transforms.model import batch, limits
from recordmill.transforms.windowing.time_survey import Ints
from recordmill.transforms.windowing.window_layout import OF_SERIES


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowedRows:
    """Windows, and `used`: number of input rows that are in them and in no earlier window."""

    windows: pa.RecordBatch
    used: int = 0


class LastWindows:
    """The last window of each series and split so far; windows come in the order of time."""

    def __init__(self) -> None:
        self._windows: pa.RecordBatch | None = None
        self._used = np.zeros(0, np.int64)

    def add(self, windows: pa.RecordBatch, used: Ints) -> None:
        """Add later windows, one per series and split. used: number of input rows of each."""
        if self._windows is not None:
            windows = batch.concat([self._windows, windows])
            used = np.concatenate([self._used, used])
            of = pa.table([windows[OF_SERIES], windows[batch.SPLIT]], ["series", "split"])
            of = of.append_column("row", pa.array(np.arange(len(windows))))
            last = of.group_by(["series", "split"]).aggregate([("row", "max")])["row_max"]
            kept = np.sort(np.asarray(last))
            windows, used = windows.take(pa.array(kept)), used[kept]
        self._windows, self._used = windows, used

    def all(self) -> Iterator[WindowedRows]:
        """Yield the windows."""
        if self._windows is None:
            return
        count = len(self._windows)
        each = max(self._windows.nbytes // count, 1)
        size = max(min(limits.WINDOW_BYTES // each, limits.PART_ROWS), 1)
        for start in range(0, count, size):
            used = int(self._used[start : start + size].sum())
            yield WindowedRows(windows=self._windows.slice(start, size), used=used)
