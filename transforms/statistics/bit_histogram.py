"""Histograms of floats by their first bits.

The relative width of bins is the same for small and large numbers, their number is bounded, and the
result does not depend on the order in which parts are added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from recordmill.transforms.statistics.ranges import Counted, Ints, add_equal, count_equal, pieces

Floats = npt.NDArray[np.float64]
Prefixes = npt.NDArray[np.int32]

_KEPT_BITS = 19  # of a float64: sign, exponent and 7 bits of the mantissa
REST = 64 - _KEPT_BITS
_MOST = np.finfo(np.float64).max


def prefixes_of(values: Floats) -> Prefixes:
    """Return the first bits of numbers as integers in the order of the values; negative below 0."""
    bits = values.view(np.int64)
    minus = bits >> 63  # -1 below 0
    bits = (bits & np.iinfo(np.int64).max) >> REST
    bits ^= minus
    bits -= minus
    return bits.astype(np.int32)


def values_of(prefixes: Prefixes) -> Floats:
    """Return the number nearest to 0 of each prefix: float64[n]."""
    bits = np.abs(prefixes).astype(np.int64) << REST
    found: Floats = np.copysign(bits.view(np.float64), prefixes)
    return found


def _least_of(prefixes: Prefixes) -> Floats:
    """Return the least number of each prefix, float64[n].

    For the prefix 0 it is 0, although small negative numbers share it.
    """
    below_0 = np.nextafter(values_of(prefixes - 1), np.inf)
    return np.where(prefixes < 0, below_0, values_of(prefixes))


def bounds_of(prefixes: Prefixes) -> tuple[Floats, Floats]:
    """Return the lower and upper bound of the numbers of each prefix: float64[n] each."""
    inner, outer = values_of(prefixes), values_of(prefixes + np.where(prefixes < 0, -1, 1))
    low, high = np.where(prefixes < 0, (outer, inner), (inner, outer))
    return np.maximum(np.where(prefixes == 0, -outer, low), -_MOST), np.minimum(high, _MOST)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FirstBits:
    """Histogram of values by prefix.

    prefixes: int32[m], ascending.
    counts: int64[m], all positive.
    """

    prefixes: Prefixes = dataclasses.field(default_factory=lambda: np.zeros(0, np.int32))
    counts: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, values: Floats) -> FirstBits:
        """Count finite float64[n]."""
        return cls.of_ranges(count_equal(values, np.array([0, len(values)])))[0]

    @classmethod
    def of_ranges(cls, different: Counted) -> list[FirstBits]:
        """Return a histogram per range of finite float64.

        different: counts of the distinct values of each range.
        """
        return _histograms(different._replace(values=prefixes_of(different.values)))

    @classmethod
    def of_counts(cls, counts: Mapping[int, int]) -> FirstBits:
        """Build the histogram from {prefix: count}."""
        ordered = sorted(prefix for prefix, count in counts.items() if count)
        found = [counts[prefix] for prefix in ordered]
        return cls(prefixes=np.array(ordered, np.int32), counts=np.array(found, np.int64))

    @classmethod
    def sum(cls, several: Iterable[FirstBits]) -> FirstBits:
        """Add histograms."""
        parts = [part for part in several if len(part.prefixes)]
        if len(parts) < 2:
            return parts[0] if parts else cls()
        prefixes = np.concatenate([part.prefixes for part in parts])
        order = np.argsort(prefixes, kind="stable")  # fast for runs that are sorted
        counts = np.concatenate([part.counts for part in parts])[order]
        return _histograms(Counted(prefixes[order], counts, np.array([0, len(order)])))[0]

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    def quantiles(self, parts: int) -> list[float]:
        """Return the parts - 1 quantiles, with a relative error of at most 1/128.

        Empty without values.
        """
        if not len(self.counts):
            return []
        ends = np.cumsum(self.counts)
        # The least prefix whose cumulative count reaches the quantile; integers are exact.
        places = np.searchsorted(ends * parts, np.arange(1, parts) * ends[-1])
        found: list[float] = values_of(self.prefixes[places]).tolist()
        return found

    def boundaries(self, parts: int) -> list[float]:
        """Return ascending boundaries of buckets with counts as equal as possible.

        A boundary is the least value of the bucket above it, with a relative error of at most
        1/128. There are fewer than parts - 1 boundaries if many values are equal.
        """
        below = np.cumsum(self.counts)[:-1] * parts  # values below each prefix but the first
        if not len(below):
            return []
        total = self.total
        places = {int(np.abs(below - part * total).argmin()) + 1 for part in range(1, parts)}
        found: list[float] = _least_of(self.prefixes[sorted(places)]).tolist()
        return found

    def joined(self, parts: int) -> Iterator[tuple[float, float, int]]:
        """Yield (lower bound, upper bound, count) of joined neighbouring prefixes, in order.

        Each has at least 1/parts of all values, except the last. If there are no more than `parts`
        prefixes, they are not joined.
        """
        first, held = 0, 0
        last = len(self.prefixes) - 1
        few = len(self.prefixes) <= parts
        total = self.total
        lows, highs = (bounds.tolist() for bounds in bounds_of(self.prefixes))
        for place, count in enumerate(self.counts.tolist()):
            held += count
            if few or held * parts >= total or place == last:
                yield lows[first], highs[place], held
                first, held = place + 1, 0

    def cumulative(self) -> tuple[Floats, Floats]:
        """Return places, float64[2 m], and the number of values below each of them, float64[2 m].

        Places are the bounds of every prefix.
        """
        places = np.stack(bounds_of(self.prefixes), axis=1).ravel()
        ends = np.cumsum(self.counts)
        held = np.stack([ends - self.counts, ends], axis=1).ravel().astype(np.float64)
        return places, held


def _histograms(counted: Counted) -> list[FirstBits]:
    """Return a histogram per range of ascending prefixes, adding the counts of equal ones."""
    _, _, edges = found = add_equal(counted)
    several = zip(pieces(found.values, edges), pieces(found.counts, edges), strict=True)
    return [FirstBits(prefixes=prefixes, counts=counts) for prefixes, counts in several]
