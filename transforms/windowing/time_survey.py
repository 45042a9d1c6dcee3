"""Survey of the times of rows, by which they are divided into cells, and into splits by time.

A cell holds the rows of some series in an interval of time, few enough for one worker. Series are
grouped into buckets by a hash of their names. The time of each bucket is divided into intervals
with about the same number of rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.transforms.model import batch, limits

TIME = "__time__"  # int64: microseconds since 1970
SERIES = "__series__"  # string: name of the series

NAMES = 32  # maximum number of names of series that a survey keeps
_SAMPLES = 512  # about the number of sampled times of a part

Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeSurvey:
    """Sampled times of rows, and names of series.

    samples: int64[n, 3], (bucket, time, weight) of some rows; the weight is the number of rows that
      a sample stands for.
    series: names of series, the first `NAMES` in alphabetical order.
    """

    samples: Ints = dataclasses.field(default_factory=lambda: np.zeros((0, 3), np.int64))
    series: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> TimeSurvey:
        """Survey the rows of one part."""
        if not len(rows):
            return cls()
        _, names = batch.encode(rows[SERIES])
        times = np.asarray(rows[TIME])
        buckets = buckets_of(rows[SERIES])
        order = np.lexsort([times, buckets])
        buckets, times = buckets[order], times[order]
        every = max(len(rows) // _SAMPLES, 1)
        taken = np.zeros(len(rows), np.bool_)
        taken[::every] = True
        taken[1:] |= buckets[1:] != buckets[:-1]
        at = np.flatnonzero(taken)
        weights = np.diff(np.append(at, len(rows)))
        return cls(
            samples=np.stack([buckets[at], times[at], weights], axis=1),
            series=tuple(sorted(names.to_pylist())[:NAMES]),
        )

    @classmethod
    def sum(cls, surveys: Iterable[TimeSurvey]) -> TimeSurvey:
        """Add surveys up; the results of the methods do not depend on their order."""
        samples = [np.zeros((0, 3), np.int64)]
        series: set[str] = set()
        for survey in surveys:
            samples.append(survey.samples)
            series = {*sorted(series.union(survey.series))[:NAMES]}
        return cls(samples=np.concatenate(samples), series=tuple(sorted(series)))

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return int(self.samples[:, 2].sum())

    def starts(self, rows: int, *, step: int | None) -> dict[int, Ints]:
        """Return {bucket: int64, times at which its cells begin, without the first}.

        rows: about the number of rows of a cell. step: if given, cells begin at multiples of it.
        """
        found = {}
        for bucket in np.unique(self.samples[:, 0]).tolist():
            times, ends = self._cumulative(self.samples[self.samples[:, 0] == bucket])
            cells = np.arange(1, int(ends[-1]) // rows + 1) * rows if len(ends) else ends
            starts = times[np.minimum(np.searchsorted(ends, cells, side="right"), len(times) - 1)]
            found[bucket] = np.unique(starts if step is None else starts // step * step)
        return found

    def time_at(self, fraction: float) -> int:
        """Return the time before which this fraction of all rows lies, to the nearest row."""
        times, ends = self._cumulative(self.samples)
        at = int(np.searchsorted(ends, round(fraction * int(ends[-1])), side="right"))
        return int(times[min(at, len(times) - 1)])

    @staticmethod
    def _cumulative(samples: Ints) -> tuple[Ints, Ints]:
        """Return ascending times, and the cumulative number of rows up to the next time."""
        order = np.lexsort([samples[:, 2], samples[:, 1]])
        return samples[order, 1], np.cumsum(samples[order, 2])


def buckets_of(series: pa.Array) -> Ints:
    """Return the bucket of each row, given the name of its series: int64[n]."""
    codes, names = batch.encode(series)
    return batch.scale(batch.hash_strings(names), limits.PARTITIONS)[codes]
