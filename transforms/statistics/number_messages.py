"""Statistics of columns of numbers as FeatureNameStatistics of tensorflow_metadata.

Histograms of thousands of columns have millions of buckets. They are computed and serialized for
many columns at once; the messages merge the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from recordmill.profile.statistics_file import FINE_HISTOGRAM
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.statistics.bit_histogram import Floats
from recordmill.transforms.statistics.histogram_table import Buckets, HistogramTable
from recordmill.transforms.statistics.number_table import NumberTable
from recordmill.transforms.statistics.ranges import Ints, pieces

_BUCKETS = 10
_FINE_BUCKETS = 128
_BINS = 1 << 20  # bins of histograms at once, which bounds the memory used
_DOUBLE = 9  # bytes of a double with its tag


def fill_numbers(features: Sequence[Any], table: NumberTable, *, fine: bool) -> None:
    """Fill in all but the common statistics of columns; those of numbers are of finite values.

    features: a message per column. fine: add a histogram for comparisons with other datasets.
    """
    for columns in _blocks(table.bits.edges):
        _fill_block(features[columns[0] : columns[-1] + 1], table.take(columns), fine=fine)


def _blocks(edges: Ints) -> Iterator[Ints]:
    """Yield consecutive columns of at most _BINS bins, if possible."""
    blocks = np.maximum(edges[1:] - 1, 0) // _BINS
    yield from np.split(np.arange(len(blocks)), np.flatnonzero(np.diff(blocks)) + 1)


def _fill_block(features: Sequence[Any], table: NumberTable, *, fine: bool) -> None:
    is_filled = table.finite > 0
    least = np.where(is_filled, table.least, 0).astype(np.float64)
    most = np.where(is_filled, table.most, 0).astype(np.float64)
    edges = np.column_stack([least, table.bits.quantiles(_BUCKETS), most])
    edges = np.minimum(np.maximum(edges, least[:, None]), most[:, None])
    several = zip(
        features,
        table.moments(),
        table.distinct(),
        zip(
            *(a.tolist() for a in (table.zeros, table.nans, table.below, table.above)), strict=True
        ),
        zip(least.tolist(), most.tolist(), edges[:, _BUCKETS // 2].tolist(), strict=True),
        _messages(_equal_widths(table.bits, least, most)),
        _messages(_equal_counts(edges, table.finite)),
        strict=True,
    )
    for feature, moments, distinct, counts, (low, high, median), widths, quantiles in several:
        zeros, nans, below, above = counts
        stats = feature.num_stats
        stats.num_zeros = zeros
        feature.custom_stats.add(name="num_unique", num=distinct.count)
        if below + above:
            feature.custom_stats.add(name="num_infinite", num=below + above)
        if moments.count:
            stats.mean, stats.std_dev = moments.mean, moments.deviation
            stats.min, stats.median, stats.max = low, median, high
            stats.histograms.add(type=0, num_nan=nans).MergeFromString(widths)
            stats.histograms.add(type=1, num_nan=nans).MergeFromString(quantiles)
        if below:
            stats.min = -np.inf
        if above:
            stats.max = np.inf
    if fine:
        buckets = table.bits.with_bins(_FINE_BUCKETS).joined(_FINE_BUCKETS)
        several = zip(features, table.nans.tolist(), _messages(buckets), strict=True)
        for feature, nans, message in several:
            histogram = feature.custom_stats.add(name=FINE_HISTOGRAM).histogram
            histogram.num_nan = nans
            histogram.MergeFromString(message)


def _equal_counts(edges: Floats, totals: Ints) -> Buckets:
    """Return the buckets between quantiles, float64[n, _BUCKETS + 1], of each column."""
    shares = np.repeat(totals / _BUCKETS, _BUCKETS)
    columns = np.arange(len(totals) + 1) * _BUCKETS
    return Buckets(edges[:, :-1].ravel(), edges[:, 1:].ravel(), shares, columns)


def _equal_widths(bits: HistogramTable, least: Floats, most: Floats) -> Buckets:
    """Return buckets of equal width with estimated counts, of each column."""
    with np.errstate(over="ignore"):
        widths = most - least
    is_spread = (widths > 0) & np.isfinite(widths)
    widths = np.where(is_spread, widths, 0)
    edges = least[:, None] + widths[:, None] * (np.arange(_BUCKETS + 1) / _BUCKETS)
    edges[:, -1] = most
    # Values with the same first bits are assumed to be evenly spread.
    limits = bits.repeat(least)[:, None], bits.repeat(most)[:, None]
    places = np.clip(np.stack(bits.bounds(), axis=1), *limits)
    held = bits.held()
    below = np.zeros((len(least), _BUCKETS + 1))
    for column in np.flatnonzero(is_spread).tolist():
        own = slice(bits.edges[column], bits.edges[column + 1])
        below[column] = _interpolate(edges[column], places[own].ravel(), held[own].ravel())
    below[:, 0], below[:, -1] = 0, bits.totals  # the extremes are values themselves
    counts = np.diff(below)
    # A column that cannot be divided has one bucket of all values.
    edges[~is_spread, 1] = most[~is_spread]
    counts[~is_spread, 0] = bits.totals[~is_spread]
    is_used = np.ones(counts.shape, np.bool_)
    is_used[~is_spread, 1:] = False
    columns = offsets_of(is_used.sum(axis=1))
    return Buckets(edges[:, :-1][is_used], edges[:, 1:][is_used], counts[is_used], columns)


def _interpolate(edges: Floats, places: Floats, held: Floats) -> Floats:
    """Return the number of values below each edge, by the numbers below ascending places."""
    below: Floats = np.interp(edges, places, held)
    # The bin of 0 is so narrow that its slope is infinite; an edge inside is taken as its end.
    odd = np.flatnonzero(~np.isfinite(below))
    if len(odd):
        below[odd] = held[np.searchsorted(places, edges[odd])]
    return below


def _messages(buckets: Buckets) -> list[bytes]:
    """Return the buckets of each column as the serialized field `buckets` of a Histogram.

    Its tag is that of field 3, a message, and the tags of a bucket are those of its fields 1, 2 and
    4, doubles; a 0 is left out.
    """
    fields = np.empty((len(buckets.low), 2 + 3 * _DOUBLE), np.uint8)
    is_used = np.ones(fields.shape, np.bool_)
    for number, (tag, values) in enumerate(
        zip((0x09, 0x11, 0x21), (buckets.low, buckets.high, buckets.held), strict=True)
    ):
        start = 2 + number * _DOUBLE
        fields[:, start] = tag
        values = np.ascontiguousarray(values, "<f8")
        fields[:, start + 1 : start + _DOUBLE] = values.view(np.uint8).reshape(-1, 8)
        is_used[:, start : start + _DOUBLE] = (values.view(np.uint64) != 0)[:, None]
    sizes = is_used.sum(axis=1)
    fields[:, 0], fields[:, 1] = 0x1A, sizes - 2
    ends = offsets_of(sizes)[buckets.edges]
    return [one.tobytes() for one in pieces(fields[is_used], ends)]
