"""Sizes of all records, from the indexes: bytes, width and height."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from recordmill.format.manifest import Manifest
from recordmill.format.split_indexes import split_indexes
from recordmill.format.split_names import in_order
from recordmill.report.charts import BinnedCounts
from recordmill.storage.files import Location

_PER_OCTAVE = 4  # bins between a size and its double
_OCTAVES = 48


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeFigure:
    """The distribution of one size over all records, copies included.

    name: `length`, `width` or `height`. smallest, largest: (value, split, record number).
    histogram: bins of equal width on a logarithmic axis; None if all values are equal.
    """

    name: str
    smallest: tuple[int, str, int]
    largest: tuple[int, str, int]
    mean: float
    histogram: BinnedCounts | None


class _Collected:
    def __init__(self) -> None:
        self.counts: dict[str, npt.NDArray[np.int64]] = {}
        self.total = self.records = 0
        self.smallest = self.largest = (0, "", 0)

    def add(self, split: str, first: int, values: npt.NDArray[np.int64]) -> None:
        octaves = np.log2(np.maximum(values, 1)) * _PER_OCTAVE
        size = _OCTAVES * _PER_OCTAVE
        bins = np.bincount(np.minimum(octaves.astype(np.int64), size - 1), minlength=size)
        self.counts[split] = self.counts.get(split, 0) + bins
        low, high = (
            (int(values[at]), split, first + at)
            for at in (int(values.argmin()), int(values.argmax()))
        )
        if not self.records or low[0] < self.smallest[0]:
            self.smallest = low
        if not self.records or high[0] > self.largest[0]:
            self.largest = high
        self.total += int(values.sum())
        self.records += len(values)

    def figure(self, name: str) -> SizeFigure:
        histogram = None
        if self.smallest[0] < self.largest[0]:
            used = np.flatnonzero(sum(self.counts.values()))
            low, high = int(used[0]), int(used[-1]) + 1
            histogram = BinnedCounts(
                low=2 ** (low / _PER_OCTAVE),
                high=2 ** (high / _PER_OCTAVE),
                counts={split: counts[low:high] for split, counts in self.counts.items()},
            )
        return SizeFigure(
            name=name,
            smallest=self.smallest,
            largest=self.largest,
            mean=self.total / self.records,
            histogram=histogram,
        )


def sizes(dataset: Location, manifest: Manifest) -> list[SizeFigure]:
    """Return the sizes that the indexes hold, without those that no record has.

    Raises:
      IndexDamagedError, StorageError: an index cannot be read.
    """
    collected = {name: _Collected() for name in ("length", "width", "height")}
    for split in in_order(manifest.splits):
        info = manifest.splits[split]
        for first, index in split_indexes(dataset, split, info, columns=list(collected)):
            for name in index.column_names:
                column = index[name].drop_null()
                if len(column) == len(index) > 0:
                    collected[name].add(split, first, column.to_numpy().astype(np.int64))
    return [one.figure(name) for name, one in collected.items() if one.records]
