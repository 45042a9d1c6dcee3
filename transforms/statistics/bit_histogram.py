"""Histograms of floats by their first bits.

The relative width of bins is the same for small and large numbers, their number is bounded, and the
result does not depend on the order in which parts are added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from recordmill.transforms.statistics.ranges import Counted, Ints, add_equal, count_equal

Floats = npt.NDArray[np.float64]

KEPT_BITS = 19  # of a float64, at least: sign, exponent and 7 bits of the mantissa
REST = 64 - KEPT_BITS
MOST_BINS = 8192  # of a histogram that keeps more bits
_MOST = np.finfo(np.float64).max


def keys_of(values: Floats) -> Ints:
    """Return int64[n] in the order of finite numbers; the same key for 0.0 and -0.0."""
    bits = values.view(np.int64)
    minus = bits >> 63  # -1 below 0
    keys: Ints = ((bits & np.iinfo(np.int64).max) ^ minus) - minus
    return keys


def prefixes_of(values: Floats, dropped: int = REST) -> Ints:
    """Return the first bits of numbers as integers in the order of the values; negative below 0.

    dropped: number of last bits that are left out.
    """
    return shorten(keys_of(values), dropped)


def values_of(prefixes: Ints, dropped: int | Ints = REST) -> Floats:
    """Return the number nearest to 0 of each prefix: float64[n]."""
    sizes = (np.abs(prefixes) << dropped).view(np.float64)
    return np.where(prefixes < 0, -sizes, sizes)


def bounds_of(prefixes: Ints, dropped: int | Ints = REST) -> tuple[Floats, Floats]:
    """Return the lower and upper bound of the numbers of each prefix: float64[n] each."""
    inner = values_of(prefixes, dropped)
    outer = values_of(prefixes + np.where(prefixes < 0, -1, 1), dropped)
    low, high = np.where(prefixes < 0, (outer, inner), (inner, outer))
    return np.maximum(np.where(prefixes == 0, -outer, low), -_MOST), np.minimum(high, _MOST)


def shorten(prefixes: Ints, bits: int | Ints) -> Ints:
    """Return prefixes without their last bits."""
    return np.where(prefixes < 0, -(-prefixes >> bits), prefixes >> bits)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FirstBits:
    """Histogram of values by prefix.

    prefixes: int64[m], ascending.
    counts: int64[m], all positive.
    dropped: number of last bits that prefixes leave out, from 0 to REST. If it is less than REST,
      it is the least for which there are at most MOST_BINS prefixes. As values are added, it only
      grows, so it does not depend on their order.
    """

    prefixes: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    dropped: int = REST

    @classmethod
    def of(cls, values: Floats) -> FirstBits:
        """Count finite float64[n] by KEPT_BITS bits."""
        counted = count_equal(values, np.array([0, len(values)]))
        prefixes, counts, _ = add_equal(counted._replace(values=prefixes_of(counted.values)))
        return cls(prefixes=prefixes, counts=counts)

    @classmethod
    def of_counts(cls, counts: Mapping[int, int]) -> FirstBits:
        """Build the histogram from {prefix of KEPT_BITS bits: count}."""
        ordered = sorted(prefix for prefix, count in counts.items() if count)
        found = [counts[prefix] for prefix in ordered]
        return cls(prefixes=np.array(ordered, np.int64), counts=np.array(found, np.int64))

    @classmethod
    def sum(cls, several: Iterable[FirstBits]) -> FirstBits:
        """Add histograms; the result drops as many bits as any of them, or more."""
        parts = [part for part in several if len(part.prefixes)]
        if len(parts) < 2:
            return parts[0] if parts else cls()
        dropped = max(part.dropped for part in parts)
        prefixes = np.concatenate(
            [shorten(part.prefixes, dropped - part.dropped) for part in parts]
        )
        order = np.argsort(prefixes, kind="stable")  # fast for runs that are sorted
        counts = np.concatenate([part.counts for part in parts])[order]
        found = add_equal(Counted(prefixes[order], counts, np.array([0, len(order)])))
        return limit(cls(prefixes=found.values, counts=found.counts, dropped=dropped))

    def shortened(self, bits: int) -> FirstBits:
        """Return the histogram of prefixes without their last bits."""
        if not bits:
            return self
        prefixes = self.prefixes >> bits
        negative = int(np.searchsorted(self.prefixes, 0))
        prefixes[:negative] = -(-self.prefixes[:negative] >> bits)
        found = add_equal(Counted(prefixes, self.counts, np.array([0, len(prefixes)])))
        return FirstBits(prefixes=found.values, counts=found.counts, dropped=self.dropped + bits)

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())


def limit(found: FirstBits) -> FirstBits:
    """Return the histogram with fewer bits if it has too many prefixes."""
    # Some of the prefixes show quickly how many bits have to go at least.
    for step in (max(len(found.prefixes) // (2 * MOST_BINS), 1), 1):
        at_most = REST - found.dropped
        if len(found.prefixes) <= MOST_BINS or not at_most:
            break
        few = np.flatnonzero(_bins_left(found.prefixes[::step], at_most) <= MOST_BINS)
        found = found.shortened(int(few[0]) if len(few) else at_most)
    return found


def _bins_left(prefixes: Ints, at_most: int) -> Ints:
    """Return how many ascending prefixes differ without their last 0 to `at_most` bits, int64[]."""
    counts = np.bincount(differing_bits(prefixes, at_most), minlength=at_most + 2)
    return 1 + np.cumsum(counts[::-1])[::-1][1:]


def differing_bits(prefixes: Ints, at_most: int | Ints) -> Ints:
    """Return the number of last bits, up to at_most + 1, that m neighbours differ in: int64[m - 1].

    at_most: one number, or one per pair.
    """
    sizes = np.abs(prefixes)
    one, other = sizes[:-1], sizes[1:]
    crosses_0 = (prefixes[:-1] < 0) & (prefixes[1:] > 0)
    differing = np.minimum(np.where(crosses_0, one | other, one ^ other), 1 << at_most)
    return np.frexp(differing.astype(np.float64))[1].astype(np.int64)
