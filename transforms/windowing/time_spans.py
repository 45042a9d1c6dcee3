"""When rows are, as far as one has to know to part them: into cells that a worker can hold, and
into splits by time.

A cell holds the rows of some series in a stretch of time. Series meet in buckets, by their names;
each bucket's time is cut where so many rows have gone by.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.transforms.model import batch

TIME = "__time__"  # int64: microseconds since 1970
SERIES = "__series__"  # string: the name of the series

BUCKETS = 64
NAMES = 32  # of series that are known, at most
_SAMPLES = 512  # of a part, about
_STEPS = 32  # distances of neighbours that are counted of a part, the most frequent

Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeSurvey:
    """samples: (bucket, time, weight), int64[n, 3]: some rows, and how many each stands for.
    steps: {microseconds between rows of a series that follow each other in a part: how often};
    where rows stand in no order, the step itself is still the most frequent. series: their names,
    the first few by name.
    """

    samples: Ints = dataclasses.field(default_factory=lambda: np.zeros((0, 3), np.int64))
    steps: Mapping[int, int] = dataclasses.field(default_factory=dict)
    series: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> TimeSurvey:
        """Surveys the rows of one part."""
        if not len(rows):
            return cls()
        codes, names = batch.encode(rows[SERIES])
        times = np.asarray(rows[TIME])
        in_order = np.lexsort([times, codes])
        apart = np.diff(times[in_order])[np.diff(codes[in_order]) == 0]
        values, counts = np.unique(apart[apart > 0], return_counts=True)
        frequent = np.lexsort([values, -counts])[:_STEPS]
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
            steps=dict(zip(values[frequent].tolist(), counts[frequent].tolist(), strict=True)),
            series=tuple(sorted(names.to_pylist())[:NAMES]),
        )

    @classmethod
    def sum(cls, surveys: Iterable[TimeSurvey]) -> TimeSurvey:
        """Adds surveys up; what is made of it does not depend on their order."""
        steps: Counter[int] = Counter()
        samples = [np.zeros((0, 3), np.int64)]
        series: set[str] = set()
        for survey in surveys:
            steps.update(survey.steps)
            samples.append(survey.samples)
            series = {*sorted(series.union(survey.series))[:NAMES]}
        return cls(samples=np.concatenate(samples), steps=steps, series=tuple(sorted(series)))

    @property
    def step(self) -> int | None:
        """The most frequent distance of neighbours, the smallest of several; None without any."""
        return min(self.steps, key=lambda step: (-self.steps[step], step), default=None)

    def starts(self, rows: int, *, step: int | None) -> dict[int, Ints]:
        """{bucket: when its cells begin, but for the first}, of about so many rows each; at whole
        multiples of the step.
        """
        found = {}
        for bucket in np.unique(self.samples[:, 0]).tolist():
            times, ends = self._gone_by(self.samples[self.samples[:, 0] == bucket])
            cells = np.arange(1, int(ends[-1]) // rows + 1) * rows if len(ends) else ends
            starts = times[np.minimum(np.searchsorted(ends, cells, side="right"), len(times) - 1)]
            found[bucket] = np.unique(starts if step is None else starts // step * step)
        return found

    def time_at(self, fraction: float) -> int:
        """When this fraction of all rows has gone by."""
        times, ends = self._gone_by(self.samples)
        return int(times[np.searchsorted(ends, fraction * ends[-1])])

    @staticmethod
    def _gone_by(samples: Ints) -> tuple[Ints, Ints]:
        """Times, ascending, and how many rows are up to the next of them."""
        order = np.lexsort([samples[:, 2], samples[:, 1]])
        return samples[order, 1], np.cumsum(samples[order, 2])


def buckets_of(series: pa.Array) -> Ints:
    """int64[n]: where the rows of these series meet."""
    codes, names = batch.encode(series)
    return batch.scale(batch.hash_strings(names), BUCKETS)[codes]
