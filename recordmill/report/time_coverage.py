"""Coverage of time by the windows of series, per split."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.manifest import Manifest
from recordmill.format.split_indexes import split_indexes
from recordmill.format.split_names import in_order
from recordmill.storage.files import Location

_STARTS = 100_000  # windows of a split that count, at most
_PARTS = 300  # of the time from the first to the last window; shorter gaps are not shown
_START = "@(?P<start>[^@]+)$"  # in the key of a window
_GAPS = 12  # longest gaps that are listed

Times = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gap:
    """A time in which no window of any split starts. first, end: ISO 8601. duration: as text."""

    first: str
    end: str
    duration: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeCoverage:
    """The times in which windows of each split start.

    first, end: start of the first and of the last window, ISO 8601.
    parts: per split, (left, width) of runs of windows as fractions of the whole time.
    spans: per split, start of its first and of its last window, ISO 8601.
    gaps: the longest, in the order of time.
    """

    first: str
    end: str
    parts: Mapping[str, Sequence[tuple[float, float]]]
    spans: Mapping[str, tuple[str, str]]
    gaps: Sequence[Gap]


def time_coverage(dataset: Location, manifest: Manifest) -> TimeCoverage | None:
    """Return the times of the windows, which are in their keys; None without windows.

    Raises:
      IndexDamagedError, StorageError: an index cannot be read.
    """
    if manifest.command != "sensor":
        return None
    starts = {
        split: np.unique(
            np.concatenate([np.empty(0, np.int64), *_starts(dataset, manifest, split)])
        )
        for split in in_order(manifest.splits)
    }
    starts = {split: some for split, some in starts.items() if len(some)}
    if not starts:
        return None
    together = np.unique(np.concatenate([*starts.values()]))
    first, end = int(together[0]), int(together[-1])
    usual = int(np.median(np.diff(together))) if len(together) > 1 else 1
    joined = max(usual + usual // 2, (end - first) // _PARTS)
    whole = max(end - first + usual, 1)
    runs = _runs(together, joined)
    gaps = [(low + usual, high) for (_, low), (high, _) in itertools.pairwise(runs)]
    longest = sorted(gaps, key=lambda gap: (gap[0] - gap[1], gap[0]))[:_GAPS]
    return TimeCoverage(
        first=iso_time(first),
        end=iso_time(end),
        parts={
            split: [
                ((low - first) / whole, (high - low + usual) / whole)
                for low, high in _runs(some, joined)
            ]
            for split, some in starts.items()
        },
        spans={
            split: (iso_time(int(some[0])), iso_time(int(some[-1])))
            for split, some in starts.items()
        },
        gaps=[
            Gap(first=iso_time(low), end=iso_time(high), duration=_duration(high - low))
            for low, high in sorted(longest)
        ],
    )


def _starts(dataset: Location, manifest: Manifest, split: str) -> Iterator[Times]:
    """Yield the starts of some windows of each shard, evenly chosen, in microseconds."""
    info = manifest.splits[split]
    every = -(-info.records // _STARTS) or 1
    for _, index in split_indexes(dataset, split, info, columns=["key"]):
        keys = index["key"].take(np.arange(0, len(index), every))
        texts = pc.struct_field(pc.extract_regex(keys, _START), "start")
        try:
            times = pc.cast(texts, pa.timestamp("us")).cast(pa.int64()).drop_null()
        except pa.ArrowInvalid:  # keys of another kind
            continue
        yield times.to_numpy()


def _runs(starts: Times, joined: int) -> list[tuple[int, int]]:
    """Return the first and the last start of each run without a distance above `joined`."""
    breaks = np.flatnonzero(np.diff(starts) > joined)
    firsts = starts[np.concatenate([[0], breaks + 1])]
    lasts = starts[np.concatenate([breaks, [len(starts) - 1]])]
    return [*zip(firsts.tolist(), lasts.tolist(), strict=True)]


def iso_time(time: int) -> str:
    """Return a time in microseconds since 1970 as ISO 8601."""
    text = str(np.datetime64(time, "us"))
    return text.removesuffix(".000000").removesuffix(":00").replace("T", " ")


def _duration(microseconds: int) -> str:
    seconds = microseconds / 1e6
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} seconds"
