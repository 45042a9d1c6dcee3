"""Distances between the distributions of two sets of records, per column, from their statistics.

The distance is the larger of two: tensorflow_metadata's `infinity_norm`, the largest difference
between the relative frequencies of a category, or of one of ten buckets of numbers, each of which
holds a tenth of the reference; and the difference between the fractions of records without a value.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.format.split_names import TRAIN
from recordmill.profile.statistics_file import ALL_EXAMPLES, ColumnView, SliceView

Floats = npt.NDArray[np.float64]
Kind = Literal["skew", "drift"]

_BUCKETS = 10
_TOLERANCE = 1e-9
_CHANCE = 0.01  # probability that samples of the same records differ by more than `noise`
_TINY = float(np.finfo(np.float64).tiny)  # the smallest normal number


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distance:
    """Distance of a column from the same column of a reference. All its numbers are finite.

    kind: "skew" between splits, "drift" between datasets.
    reference, records: names of the compared slices.
    infinity_norm: 0 to 1; None if one of the two has no values.
    jensen_shannon: divergence in bits, 0 to 1; None, too, if the statistics list no text.
    where: the value or bucket with the largest difference; "missing" without a norm.
    shares: fractions of values in `where`: (of the reference, of the records).
    missing: fractions of records without the column: (of the reference, of the records).
    unlisted: upper bound of the difference in the share of a value that the statistics do not list:
      a rare or long text, or an infinity if there are both.
    noise: (of `infinity_norm`, of the missing values): differences up to which two samples of the
      same records differ by chance, see `noise_of`.
    """

    kind: Kind
    column: str
    reference: str
    records: str
    infinity_norm: float | None
    jensen_shannon: float | None
    where: str
    shares: tuple[float, float]
    missing: tuple[float, float]
    unlisted: float = 0.0
    noise: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        norms = (self.infinity_norm, self.jensen_shannon)
        numbers = [*self.shares, *self.missing, *self.noise, self.unlisted]
        numbers += [n for n in norms if n is not None]
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"expected finite distances of column {self.column!r}, got {numbers}")

    @property
    def missing_difference(self) -> float:
        """The difference between the fractions of records without a value, 0 to 1."""
        return abs(self.missing[0] - self.missing[1])

    @property
    def is_of_values(self) -> bool:
        """True if the distance is that of the values, false if it is that of missing values."""
        return self.infinity_norm is not None and self.infinity_norm >= self.missing_difference

    @property
    def distance(self) -> float:
        """The larger one of the distances of the values and of the missing values."""
        return max(self.infinity_norm or 0.0, self.missing_difference)

    @property
    def is_noise(self) -> bool:
        """True if two samples of the same records may differ as much by chance."""
        of_values, of_missing = self.noise
        return (self.infinity_norm or 0.0) <= of_values and self.missing_difference <= of_missing

    def to_json(self) -> dict[str, Any]:
        """Return the distance as plain data."""
        return {**dataclasses.asdict(self), "distance": self.distance}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of two sets of records.

    distances: per column, the largest first.
    other: (column, reason) for columns that cannot be compared.
    nothing: the reason why no column was compared; "" if some were.
    """

    distances: tuple[Distance, ...] = ()
    other: tuple[tuple[str, str], ...] = ()
    nothing: str = ""

    @property
    def beyond_noise(self) -> tuple[Distance, ...]:
        """The distances that are larger than chance explains, for tables and reports."""
        return tuple(one for one in self.distances if not one.is_noise)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "distances": [one.to_json() for one in self.distances],
            "other": [{"column": column, "why": why} for column, why in self.other],
            "not_compared": self.nothing or None,
        }


def skew(slices: Mapping[str, SliceView]) -> Comparison:
    """Compare every split with train, or with the first split by name if there is no train."""
    splits = sorted(name for name in slices if name != ALL_EXAMPLES)
    if len(splits) < 2:
        return Comparison(nothing="only one split has records" if splits else "there is no split")
    reference = TRAIN if TRAIN in splits else splits[0]
    found = [
        compare(slices, slices, kind="skew", reference=reference, records=name)
        for name in splits
        if name != reference
    ]
    return Comparison(
        distances=_largest_first(d for one in found for d in one.distances),
        other=tuple(dict.fromkeys(pair for one in found for pair in one.other)),
    )


def drift(before: Mapping[str, SliceView], now: Mapping[str, SliceView]) -> Comparison:
    """Compare a dataset with an earlier one, all splits together."""
    for which, slices in (("the earlier dataset", before), ("this dataset", now)):
        if ALL_EXAMPLES not in slices:
            return Comparison(nothing=f"the statistics of {which} have no {ALL_EXAMPLES!r}")
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
        elif (why := _reason(ones[name], twos[name])) is not None:
            other.append((name, why))
        else:
            one, two = ones[name], twos[name]
            values = _values_distance(one, two) if one.values and two.values else _NO_VALUES
            distances.append(
                Distance(
                    kind=kind,
                    column=name,
                    reference=reference,
                    records=records,
                    missing=(_missing(one), _missing(two)),
                    unlisted=values.unlisted,
                    infinity_norm=values.infinity_norm,
                    jensen_shannon=values.jensen_shannon,
                    where=values.where,
                    shares=values.shares,
                    noise=(values.noise, _noise_of_missing(one, two)),
                )
            )
    return Comparison(distances=_largest_first(distances), other=tuple(other))


def _largest_first(distances: Iterable[Distance]) -> tuple[Distance, ...]:
    return tuple(sorted(distances, key=lambda d: (-d.distance, d.column, d.records)))


def _missing(column: ColumnView) -> float:
    """Return the fraction of records without a value, also where all lists are empty."""
    if not column.values:
        return 1.0
    return column.missing / (column.records + column.missing)


def _reason(before: ColumnView, now: ColumnView) -> str | None:
    """Return why two columns cannot be compared; None if they can."""
    both = (before, now)
    if not all(one.records + one.missing for one in both):
        return "has no statistics"
    if not (before.values and now.values):
        return None  # the fractions of missing values can be compared
    if (before.categories is None) != (now.categories is None):
        return "has numbers in one of the two and texts in the other"
    if before.categories is None and (before.buckets is None or now.buckets is None):
        return "holds bytes"
    if any(one.buckets is not None and not one.has_all_numbers for one in both):
        return "has no histogram of all its values"
    return None


class _ValuesDistance(NamedTuple):
    """The part of a `Distance` that comes from the values."""

    infinity_norm: float | None
    jensen_shannon: float | None
    where: str
    shares: tuple[float, float]
    unlisted: float
    noise: float = 0.0


_NO_VALUES = _ValuesDistance(None, None, "missing", (0.0, 0.0), 0.0)


def noise_of(pooled: Floats, *, sizes: tuple[int, int]) -> float:
    """Return the largest difference of shares that chance alone makes between two samples.

    If samples of n and m records come from the same records, the difference of a share p has the
    variance p (1 - p) (1/n + 1/m). By the normal distribution it exceeds z standard deviations with
    a probability that is divided among the k compared shares (Bonferroni's correction), so that
    the largest of all differences is beyond z times the largest deviation with a probability of at
    most 1 %. One record of the smaller sample is added: shares differ in such steps, and the
    distribution of rare values is far from normal.

    Args:
      pooled: float64[k], shares in both samples together, 0 to 1.
      sizes: Numbers of records n and m. A record with several values counts once, because its
        values may depend on each other.
    """
    if not len(pooled) or not all(sizes):
        return 0.0
    z = statistics.NormalDist().inv_cdf(1 - _CHANCE / (2 * len(pooled)))
    variance = float(np.max(pooled * (1 - pooled))) * (1 / sizes[0] + 1 / sizes[1])
    return z * math.sqrt(max(variance, 0.0)) + 1 / min(sizes)


def _noise_of_missing(before: ColumnView, now: ColumnView) -> float:
    """Return the noise of the fraction of missing values; 0 if no value is missing."""
    sizes = before.records + before.missing, now.records + now.missing
    missing = _missing(before) * sizes[0] + _missing(now) * sizes[1]
    return noise_of(np.array([missing / sum(sizes)]), sizes=sizes) if missing else 0.0


def _values_distance(before: ColumnView, now: ColumnView) -> _ValuesDistance:
    """Return the distance between the values of two columns that have some."""
    if before.categories is not None and now.categories is not None:
        names = sorted({*before.categories, *now.categories})
        pairs = [(before.categories.get(n, 0.0), now.categories.get(n, 0.0)) for n in names]
        one, two = np.array(pairs, np.float64).reshape(-1, 2).T
    else:
        edges = _edges(before)
        odd = sorted({*before.odd, *now.odd})
        names = [*_bucket_names(edges), *odd]
        one, two = (
            np.array([*np.diff(_held_below(view, edges)), *(view.odd.get(n, 0.0) for n in odd)])
            for view in (before, now)
        )
    unlisted = max(before.unlisted, now.unlisted)
    if not names:
        return _ValuesDistance(0.0, None, "other texts", (0.0, 0.0), unlisted)
    pooled = (one + two) / (before.values + now.values)
    one, two = one / before.values, two / now.values
    most = int(np.argmax(np.abs(one - two)))
    return _ValuesDistance(
        infinity_norm=float(abs(one[most] - two[most])),
        jensen_shannon=_jensen_shannon(*_with_others(one, two)),
        where=names[most],
        shares=(float(one[most]), float(two[most])),
        unlisted=unlisted,
        noise=noise_of(pooled, sizes=(before.records, now.records)),
    )


def _buckets(column: ColumnView) -> list[tuple[float, float, float]]:
    """Return the buckets of a column; subnormal numbers count as 0.

    The bucket of 0 ends at subnormal numbers, which differ between histograms. Its width would be
    so small that shares of it are out of range.
    """
    return [
        (-_TINY, _TINY, held)
        if low > -_TINY and high < _TINY
        else (_without_subnormal(low, -_TINY), _without_subnormal(high, _TINY), held)
        for low, high, held in column.buckets or ()
    ]


def _without_subnormal(edge: float, of_zero: float) -> float:
    if abs(edge) >= _TINY:
        return edge
    return of_zero if edge == 0 else math.copysign(_TINY, edge)


def _edges(reference: ColumnView) -> list[float]:
    """Return boundaries of buckets that hold a tenth of the reference each, with -inf and inf."""
    edges: list[float] = []
    buckets = _buckets(reference)
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
    low, high, held = np.array(_buckets(column), np.float64).reshape(-1, 3).T
    above = np.array(edges)[:, None]
    # Large numbers are halved, because the width of a bucket may be out of range.
    scale = np.where(np.maximum(np.abs(low), np.abs(high)) > 1, 0.5, 1.0)
    starts, widths = low * scale, high * scale - low * scale
    # The values of a bucket without width are at its boundary, so they are not below it.
    parts = (above > low).astype(np.float64)
    np.divide(np.clip(above, low, high) * scale - starts, widths, where=widths > 0, out=parts)
    below: Floats = (parts * held).sum(axis=1)
    return below


def _bucket_names(edges: list[float]) -> Iterator[str]:
    for low, high in itertools.pairwise(0.0 if abs(x) <= _TINY else x for x in edges):
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
        np.append(one[known], max(1 - one[known].sum(), 0.0)),
        np.append(two[known], max(1 - two[known].sum(), 0.0)),
    )


def _jensen_shannon(one: Floats, two: Floats) -> float:
    """Return the Jensen-Shannon divergence of two distributions, in bits."""
    total = 0.0
    for part in (one, two):
        there = part > 0
        total += float(np.sum(part[there] * np.log2(2 * part[there] / (one + two)[there])))
    return min(max(total / 2, 0.0), 1.0)
