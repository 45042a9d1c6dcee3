"""Series that have windows in one split only, although splits divide series by time."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from recordmill.format.split_names import in_order
from recordmill.notes import Note
from recordmill.transforms.model import batch
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.windowing.window_layout import OF_SERIES

_NAMED = 3  # series of each split in the note


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitCoverage:
    """Series by the splits of their windows.

    series: number of series with a window. single: {split: number of series that have windows in
    this split only}. named: {split: the first of these by name}.
    """

    series: int = 0
    single: Mapping[str, int] = dataclasses.field(default_factory=dict)
    named: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    @classmethod
    def sum(cls, parts: Iterable[SplitCoverage]) -> SplitCoverage:
        """Add up parts that have no series in common."""
        series, single = 0, Counter[str]()
        named: dict[str, list[str]] = {}
        for part in parts:
            series += part.series
            single.update(part.single)
            for split, names in part.named.items():
                named[split] = sorted([*named.get(split, ()), *names])[:_NAMED]
        return cls(series=series, single=dict(single), named=named)

    def notes(self, options: WindowOptions) -> Iterator[Note]:
        """Yield a note if a series has windows in one split only."""
        count = sum(self.single.values())
        if not count:
            return
        shown = [
            f"{self.single[split]:,} in {split} ({', '.join(map(repr, self.named[split]))}"
            f"{', ...' if self.single[split] > len(self.named[split]) else ''})"
            for split in in_order(self.single)
        ]
        yield Note(
            "one-split",
            f"{count:,} of {self.series:,} series {'has' if count == 1 else 'have'} windows in one"
            f" split only: {', '.join(shown)}; {_ADVICE[options.split_by]}",
        )


_ADVICE = {
    "time": "--split-by time divides all series at the same times, --split-by series-time each"
    " series by its own time",
    "series-time": "they are too short for a window in each split, or have gaps: lower --window",
}


class SplitCounter:
    """Collects the splits in which each series has windows."""

    def __init__(self) -> None:
        self._splits: dict[str, str | None] = {}  # None for a series in several splits

    def add(self, windows: pa.RecordBatch) -> None:
        """Add windows."""
        if not len(windows):
            return
        series, names = batch.encode(windows[OF_SERIES])
        codes, splits = batch.encode(windows[batch.SPLIT])
        pairs = np.unique(np.stack([series, codes]), axis=1).T.tolist()
        for at, code in pairs:
            name, split = names[at].as_py(), splits[code].as_py()
            self._splits[name] = split if self._splits.get(name, split) == split else None

    def coverage(self) -> SplitCoverage:
        """Return the series by the splits of their windows."""
        named: dict[str, list[str]] = {}
        for name, split in self._splits.items():
            if split is not None:
                named.setdefault(split, []).append(name)
        return SplitCoverage(
            series=len(self._splits),
            single={split: len(names) for split, names in named.items()},
            named={split: sorted(names)[:_NAMED] for split, names in named.items()},
        )
