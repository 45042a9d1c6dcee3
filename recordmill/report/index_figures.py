"""Sizes of all records, from the indexes: bytes, and width, height and aspect of images."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.format.manifest import Manifest
from recordmill.format.split_indexes import split_indexes
from recordmill.format.split_names import in_order
from recordmill.report.charts import BinnedCounts
from recordmill.storage.files import Location

_PER_OCTAVE = 4  # bins between a size and its double
_OCTAVES = 48
_FINER = 32  # bins between an aspect ratio and its double
_LEAST = 2.0**-8  # smaller aspect ratios are in the first bin
_BINS = 32  # of a histogram
ASPECT = "aspect"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeFigure:
    """The distribution of one size over all records, copies included.

    name: `length`, `width`, `height`, or `aspect` (width / height).
    smallest, largest: (value, split, record number).
    histogram: at most 32 bins of equal width on a logarithmic axis; None if all values are equal.
    """

    name: str
    smallest: tuple[float, str, int]
    largest: tuple[float, str, int]
    mean: float
    histogram: BinnedCounts | None


class _Collected:
    def __init__(self, *, per_octave: int = _PER_OCTAVE, least: float = 1.0) -> None:
        self.counts: dict[str, npt.NDArray[np.int64]] = {}
        self.total, self.records = 0.0, 0
        self.smallest: tuple[float, str, int] = (0, "", 0)
        self.largest = self.smallest
        self._per_octave, self._least = per_octave, least

    def add(self, split: str, first: int, values: npt.NDArray[Any]) -> None:
        low, high = (
            (values[at].item(), split, first + at)
            for at in (int(values.argmin()), int(values.argmax()))
        )
        some, counts = values, None
        if values.dtype.kind == "i" and low[0] >= 0 and high[0] <= len(values):
            counts = np.bincount(values)
            some = np.flatnonzero(counts)
            counts = counts[some]
        size = _OCTAVES * self._per_octave
        octaves = np.log2(np.maximum(some / self._least, 1)) * self._per_octave
        bins = np.bincount(np.minimum(octaves.astype(np.int64), size - 1), counts, size)
        self.counts[split] = self.counts.get(split, 0) + bins.astype(np.int64)
        if not self.records or low[0] < self.smallest[0]:
            self.smallest = low
        if not self.records or high[0] > self.largest[0]:
            self.largest = high
        self.total += values.sum().item()
        self.records += len(values)

    def figure(self, name: str) -> SizeFigure:
        histogram = None
        if self.smallest[0] < self.largest[0]:
            used = np.flatnonzero(sum(self.counts.values()))
            low, high = int(used[0]), int(used[-1]) + 1
            joined = -(-(high - low) // _BINS)
            high = low + -(-(high - low) // joined) * joined
            histogram = BinnedCounts(
                low=self._least * 2 ** (low / self._per_octave),
                high=self._least * 2 ** (high / self._per_octave),
                counts={
                    split: np.pad(counts, (0, joined))[low:high].reshape(-1, joined).sum(axis=1)
                    for split, counts in self.counts.items()
                },
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
    collected[ASPECT] = _Collected(per_octave=_FINER, least=_LEAST)
    for split in in_order(manifest.splits):
        info = manifest.splits[split]
        columns = ["length", "width", "height"]
        for first, index in split_indexes(dataset, split, info, columns=columns):
            values: dict[str, npt.NDArray[Any]] = {
                name: index[name].to_numpy().astype(np.int64, copy=False)
                for name in index.column_names
                if len(index) and not index[name].null_count
            }
            if {"width", "height"} <= values.keys():
                values[ASPECT] = values["width"] / np.maximum(values["height"], 1)
            for name, some in values.items():
                collected[name].add(split, first, some)
    return [one.figure(name) for name, one in collected.items() if one.records]
