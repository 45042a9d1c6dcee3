"""Classes of the rows of series by intervals of time."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

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
        return tuple(self._lookups)

    def classes_of(self, series: pa.Array, times: pa.Array) -> pa.StringArray:
        """Return the class of each row: string[n], null for none.

        series: string[n], their series. times: int64[n], microseconds since 1970.
        """
        codes, names = batch.encode(series)
        moments = np.asarray(times)
        outside = 0 if self.outside is not None else -1
        found = np.full(len(codes), outside)
        lookups = self._lookups
        for code, name in enumerate(names.to_pylist()):
            if (known := lookups.get(name)) is None:
                continue
            rows = np.flatnonzero(codes == code)
            at = np.searchsorted(known.starts, moments[rows], side="right") - 1
            inside = (at >= 0) & (moments[rows] <= known.ends[at])
            found[rows[inside]] = known.labels[at[inside]]
        return self._classes.take(pa.array(found, mask=found < 0))

    @functools.cached_property
    def _intervals(self) -> pa.RecordBatch:
        return batch.from_bytes(self.content)

    @functools.cached_property
    def _classes(self) -> pa.StringArray:
        """The class of rows outside, and the classes of intervals."""
        labels = self._intervals["label"].unique()
        return pa.concat_arrays([string_array([self.outside or ""]), labels])

    @functools.cached_property
    def _lookups(self) -> Mapping[str, _Lookup]:
        intervals = self._intervals
        names = intervals["series"].to_pylist()
        places = {label: 1 + n for n, label in enumerate(self._classes[1:].to_pylist())}
        labels = np.array([places[label] for label in intervals["label"].to_pylist()], np.int64)
        starts, ends = np.asarray(intervals["start"]), np.asarray(intervals["end"])
        edges = [n for n, name in enumerate(names) if n == 0 or names[n - 1] != name]
        return {
            names[first]: _Lookup(starts[first:end], ends[first:end], labels[first:end])
            for first, end in zip(edges, [*edges[1:], len(names)], strict=True)
        }
