"""Distances between the distributions of two sets of records, per column, from their statistics.

The distance is the larger of two: tensorflow_metadata's `infinity_norm`, the largest difference
between the relative frequencies of a category, or of one of ten buckets of numbers, each of which
holds a tenth of the reference; and the difference between the fractions of records without a value.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from recordmill.format.split_names import TRAIN
from recordmill.profile.statistics_file import ALL_EXAMPLES, ColumnView, SliceView

Floats = npt.NDArray[np.float64]
Kind = Literal["skew", "drift"]

_BUCKETS = 10
_TOLERANCE = 1e-9
_TINY = float(np.finfo(np.float64).tiny)  # the boundaries of 0's bucket are closer to 0 than this


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distance:
    """Distance of a column from the same column of a reference.

    kind: "skew" between splits, "drift" between datasets.
    reference, records: names of the compared slices.
    infinity_norm: 0 to 1; 0 if one of the two has no values.
    jensen_shannon: divergence in bits, 0 to 1.
    where: the value or bucket with the largest difference; "missing" if one of the two has no
      values.
    shares: fractions of values in `where`: (of the reference, of the records).
    missing: fractions of records without the column: (of the reference, of the records).
    """

    kind: Kind
    column: str
    reference: str
    records: str
    infinity_norm: float
    jensen_shannon: float
    where: str
    shares: tuple[float, float]
    missing: tuple[float, float]

    @property
    def missing_difference(self) -> float:
        """The difference between the fractions of records without a value, 0 to 1."""
        return abs(self.missing[0] - self.missing[1])

    @property
    def distance(self) -> float:
        """The larger one of the distances of the values and of the missing values."""
        return max(self.infinity_norm, self.missing_difference)

    def to_json(self) -> dict[str, Any]:
        """Return the distance as plain data."""
        return {**dataclasses.asdict(self), "distance": self.distance}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of two sets of records.

    distances: per column, the largest first.
    other: (column, reason) for columns that cannot be compared.
    """

    distances: tuple[Distance, ...] = ()
    other: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "distances": [one.to_json() for one in self.distances],
            "other": [{"column": column, "why": why} for column, why in self.other],
        }


def skew(slices: Mapping[str, SliceView]) -> Comparison:
    """Compare every split with train, or with the first split by name if there is no train."""
    splits = sorted(name for name in slices if name != ALL_EXAMPLES)
    if len(splits) < 2:
        return Comparison()
    reference = TRAIN if TRAIN in splits else splits[0]
    found = [
        compare(slices, slices, kind="skew", reference=reference, records=name)
        for name in splits
        if name != reference
    ]
    return Comparison(distances=_largest_first(d for one in found for d in one.distances))


def drift(before: Mapping[str, SliceView], now: Mapping[str, SliceView]) -> Comparison:
    """Compare a dataset with an earlier one, all splits together."""
    if ALL_EXAMPLES not in before or ALL_EXAMPLES not in now:
        return Comparison()
    return compare(before, now, kind="drift", reference=ALL_EXAMPLES, records=ALL_EXAMPLES)


def compare(
    before: Mapping[str, SliceView],
    now: Mapping[str, SliceView],
    *,
    kind: Kind,
    reference: str,
    records: str,
) -> Comparison:
    """Compare the columns of a slice (`records` of `now`) with a reference (of `before`)."""
    ones, twos = before[reference].columns, now[records].columns
    distances, other = [], []
    for name in sorted({*ones, *twos}):
        if name not in twos:
            other.append((name, "no longer exists"))
        elif name not in ones:
            other.append((name, "is new"))
        else:
            one_view, two_view = ones[name], twos[name]
            missing = _missing(one_view), _missing(two_view)
            shares = _shares(one_view, two_view)
            if shares is None and bool(one_view.values) != bool(two_view.values):
                shares = ["missing"], np.array(missing[:1]), np.array(missing[1:])
                norm, divergence = 0.0, 0.0
            if shares is None:
                other.append((name, _reason(one_view, two_view)))
                continue
            names, one, two = shares
            most = int(np.argmax(np.abs(one - two)))
            if one_view.values and two_view.values:
                norm = float(abs(one[most] - two[most]))
                divergence = _jensen_shannon(*_with_others(one, two))
            distances.append(
                Distance(
                    kind=kind,
                    column=name,
                    reference=reference,
                    records=records,
                    infinity_norm=norm,
                    jensen_shannon=divergence,
                    where=names[most],
                    shares=(float(one[most]), float(two[most])),
                    missing=missing,
                )
            )
    return Comparison(distances=_largest_first(distances), other=tuple(other))


def _largest_first(distances: Iterable[Distance]) -> tuple[Distance, ...]:
    return tuple(sorted(distances, key=lambda d: (-d.distance, d.column, d.records)))


def _missing(column: ColumnView) -> float:
    records = column.records + column.missing
    return column.missing / records if records else 0.0


def _reason(before: ColumnView, now: ColumnView) -> str:
    """Return why two columns cannot be compared."""
    if not before.values or not now.values:
        return "has no values"
    if (before.categories is None) != (now.categories is None):
        return "has numbers in one of the two and texts in the other"
    return "holds bytes"


def _shares(before: ColumnView, now: ColumnView) -> tuple[list[str], Floats, Floats] | None:
    """Return (names, shares before, shares now) of categories or buckets.

    Returns None if the columns cannot be compared.
    """
    if not before.values or not now.values:
        return None
    if before.categories is not None and now.categories is not None:
        names = sorted({*before.categories, *now.categories})
        pairs = [(before.categories.get(n, 0.0), now.categories.get(n, 0.0)) for n in names]
        if not names:
            return None
        counts = np.array(pairs).T
        return names, counts[0] / before.values, counts[1] / now.values
    if before.buckets is None or now.buckets is None:
        return None
    edges = _edges(before)
    odd = sorted({*before.odd, *now.odd})
    names = [*_bucket_names(edges), *odd]
    one, two = (
        np.array([*np.diff(_held_below(view, edges)), *(view.odd.get(n, 0.0) for n in odd)])
        for view in (before, now)
    )
    return names, one / before.values, two / now.values


def _edges(reference: ColumnView) -> list[float]:
    """Return boundaries of buckets that hold a tenth of the reference each, with -inf and inf."""
    edges: list[float] = []
    buckets = reference.buckets or ()
    total = sum(held for _, _, held in buckets)
    least, held = None, 0.0
    for low, high, count in buckets:
        least = low if least is None else least
        held += count
        if held * _BUCKETS >= total:
            edges += [least, high]
            least, held = None, 0.0
    if least is not None:
        edges += [least, buckets[-1][1]]
    return [-math.inf, *sorted(set(edges)), math.inf]


def _held_below(column: ColumnView, edges: list[float]) -> Floats:
    """Return the number of values below each edge; buckets are assumed to be filled evenly."""
    places, held = [], [0.0]
    for low, high, count in column.buckets or ():
        places += [low, high]
        held += [held[-1] + count, held[-1] + count]
    if not places:
        return np.zeros(len(edges))
    return np.interp(edges, places, held[:-1])


def _bucket_names(edges: list[float]) -> Iterator[str]:
    for low, high in itertools.pairwise(0.0 if abs(x) < _TINY else x for x in edges):
        if low == -math.inf:
            yield f"below {high:.4g}"
        elif high == math.inf:
            yield f"{low:.4g} and above"
        else:
            yield f"{low:.4g} to {high:.4g}"


def _with_others(one: Floats, two: Floats) -> tuple[Floats, Floats]:
    """Return shares that sum to 1: categories that are not in both lists become one category."""
    rests = 1 - one.sum(), 1 - two.sum()
    if max(rests) < _TOLERANCE:
        return one, two
    known = (one > 0) & (two > 0)
    return (
        np.append(one[known], 1 - one[known].sum()),
        np.append(two[known], 1 - two[known].sum()),
    )


def _jensen_shannon(one: Floats, two: Floats) -> float:
    """Return the Jensen-Shannon divergence of two distributions, in bits."""
    middle = (one + two) / 2
    total = 0.0
    for part in (one, two):
        there = part > 0
        total += float(np.sum(part[there] * np.log2(part[there] / middle[there])))
    return min(max(total / 2, 0.0), 1.0)
