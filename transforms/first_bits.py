"""Histograms of numbers by their first bits: as fine for small numbers as for large ones, bounded,
and the same in whatever order they are added up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_KEPT_BITS = 19  # of a float64: sign, exponent, and 7 bits behind the point
_REST = 64 - _KEPT_BITS
_MOST = np.finfo(np.float64).max
_NARROW = 1 << 14  # between the first and the last prefix: then counting needs no sorting


def prefixes_of(values: Floats) -> Ints:
    """Numbers in the order of the values: their first bits, of those below 0 negative."""
    bits = np.abs(values).view(np.int64) >> _REST
    return np.where(values < 0, -bits, bits)


def value_of(prefix: int) -> float:
    """The number nearest to 0 that begins so."""
    bits = np.array(abs(prefix) << _REST, np.int64)
    return float(np.copysign(bits.view(np.float64), prefix))


def bounds_of(prefixes: Ints) -> tuple[Floats, Floats]:
    """Between which numbers begin so, the lesser first: float64[n] each."""
    inner, outer = (
        np.copysign((np.abs(one) << _REST).view(np.float64), one)
        for one in (prefixes, prefixes + np.where(prefixes < 0, -1, 1))
    )
    low, high = np.where(prefixes < 0, (outer, inner), (inner, outer))
    return np.maximum(np.where(prefixes == 0, -outer, low), -_MOST), np.minimum(high, _MOST)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FirstBits:
    """How many values there are of each prefix.

    prefixes: int64[m], ascending. counts: int64[m], none of them 0.
    """

    prefixes: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, values: Floats) -> FirstBits:
        """Of finite float64[n]."""
        return _counted(prefixes_of(values), None)

    @classmethod
    def of_counts(cls, counts: Mapping[int, int]) -> FirstBits:
        """Of how often each prefix comes."""
        ordered = sorted(prefix for prefix, count in counts.items() if count)
        found = [counts[prefix] for prefix in ordered]
        return cls(prefixes=np.array(ordered, np.int64), counts=np.array(found, np.int64))

    @classmethod
    def sum(cls, several: Iterable[FirstBits]) -> FirstBits:
        """Adds histograms up."""
        parts = list(several)
        if len(parts) == 1:
            return parts[0]
        return _counted(
            np.concatenate([part.prefixes for part in parts] or [np.zeros(0, np.int64)]),
            np.concatenate([part.counts for part in parts] or [np.zeros(0, np.int64)]),
        )

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def quantiles(self, parts: int) -> Iterator[float]:
        """What divides the values into equal parts, to 1 in 128 of itself; of no values nothing."""
        ends = np.cumsum(self.counts)
        for part in range(1, parts) if len(ends) else ():
            # The first of which so many are at most as large; in integers: nothing is rounded.
            place = np.searchsorted(ends * parts, part * int(ends[-1]))
            yield value_of(int(self.prefixes[place]))

    def joined(self, parts: int) -> Iterator[tuple[float, float, int]]:
        """(least, most, values) of neighbours that together hold one of so many parts of all values
        or more, in order; of one prefix where there are few.
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
        """How many values are less than a place, float64[2 m] each: where each prefix begins and
        ends.
        """
        places = np.stack(bounds_of(self.prefixes), axis=1).ravel()
        ends = np.cumsum(self.counts)
        held = np.stack([ends - self.counts, ends], axis=1).ravel().astype(np.float64)
        return places, held


def _counted(prefixes: Ints, weights: Ints | None) -> FirstBits:
    """Of prefixes in any order, each as often as its weight says, or once."""
    if not len(prefixes):
        return FirstBits()
    least = int(prefixes.min())
    if int(prefixes.max()) - least < _NARROW:
        if weights is None:
            counts = np.bincount(prefixes - least)
        else:
            counts = np.zeros(int(prefixes.max()) - least + 1, np.int64)
            np.add.at(counts, prefixes - least, weights)
        there = np.flatnonzero(counts)
        return FirstBits(prefixes=there + least, counts=counts[there])
    order = None if weights is None else np.argsort(prefixes, kind="stable")
    ordered = np.sort(prefixes) if order is None else prefixes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    if weights is None:
        counts = np.diff(np.append(starts, len(ordered)))
    else:
        counts = np.add.reduceat(weights[order], starts)
    return FirstBits(prefixes=ordered[starts], counts=counts)
