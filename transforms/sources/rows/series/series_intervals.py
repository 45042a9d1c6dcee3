"""Classes of the rows of series by intervals of time."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.options.durations import shown_time
from recordmill.transforms.model import batch
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.windowing.time_survey import Ints

INTERVALS = pa.schema(
    [("series", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]
)


class _Lookup(NamedTuple):
    """Intervals of a series that do not overlap, ascending. labels: codes of their classes."""

    starts: Ints
    ends: Ints
    labels: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeriesIntervals:
    """Classes of the rows of series, by intervals that include both ends.

    content: an Arrow IPC stream of intervals that do not overlap, sorted by series and start, with
      times in microseconds since 1970. outside: class of the rows outside of all intervals; None
      for no class.
    """

    content: bytes
    outside: str | None = None

    @property
    def sha256(self) -> str:
        """Hash of the intervals, in hex."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def series(self) -> tuple[str, ...]:
        """Names of the series, sorted."""
        return tuple(_parsed(self.content).lookups)

    @property
    def classes(self) -> tuple[tuple[str, str], ...]:
        """Each class, sorted, and its first interval for messages."""
        found: dict[str, str] = {}
        for one in batch.from_bytes(self.content).to_pylist():
            first, last = shown_time(one["start"]), shown_time(one["end"])
            found.setdefault(one["label"], f"{first} to {last} of series {one['series']!r}")
        return tuple(sorted(found.items()))

    def classes_of(self, series: pa.Array, times: pa.Array) -> pa.StringArray:
        """Return the class of each row: string[n], null for none.

        series: string[n], their series. times: int64[n], microseconds since 1970.
        """
        codes, names = batch.encode(series)
        moments = np.asarray(times)
        found = np.full(len(codes), 0 if self.outside is not None else -1)
        parsed = _parsed(self.content)
        for code, name in enumerate(names.to_pylist()):
            if (known := parsed.lookups.get(name)) is None:
                continue
            rows = np.flatnonzero(codes == code)
            at = np.searchsorted(known.starts, moments[rows], side="right") - 1
            inside = (at >= 0) & (moments[rows] <= known.ends[at])
            found[rows[inside]] = known.labels[at[inside]]
        classes = string_array([self.outside or "", *parsed.labels])
        return classes.take(pa.array(found, mask=found < 0))


class _Parsed(NamedTuple):
    """Intervals by series, and the classes, of which the codes begin with 1."""

    lookups: Mapping[str, _Lookup]
    labels: tuple[str, ...]


@functools.lru_cache(maxsize=2)  # every part of the rows needs them
def _parsed(content: bytes) -> _Parsed:
    intervals = batch.from_bytes(content)
    names = intervals["series"].to_pylist()
    codes, labels = batch.encode(intervals["label"])
    codes = codes + 1
    starts, ends = np.asarray(intervals["start"]), np.asarray(intervals["end"])
    edges = [n for n, name in enumerate(names) if n == 0 or names[n - 1] != name]
    lookups = {
        names[first]: _Lookup(starts[first:end], ends[first:end], codes[first:end])
        for first, end in zip(edges, [*edges[1:], len(names)], strict=True)
    }
    return _Parsed(lookups, tuple(labels.to_pylist()))
