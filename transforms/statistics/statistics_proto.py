"""Statistics as DatasetFeatureStatisticsList of tensorflow_metadata, which TFDV and Facets display.

Source: tensorflow_metadata/proto/v0/statistics.proto, and the output of TFDV's generators.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from recordmill.profile.statistics_file import ALL_EXAMPLES, FINE_HISTOGRAM
from recordmill.transforms.statistics.bit_histogram import FirstBits
from recordmill.transforms.statistics.column_statistics import ColumnStatistics, NumberStatistics
from recordmill.transforms.statistics.dataset_statistics import SliceStatistics, Statistics

_BUCKETS = 10
_FINE_BUCKETS = 128
_TOP = 20  # values
_RANKED = 1000


def to_bytes(statistics: Statistics) -> bytes:
    """Return the serialized message, which is deterministic; without records it is empty."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    contents: list[bytes] = []
    for name, one, fine in _slices(statistics):
        # Messages of one slice each: their concatenation is the message of all of them.
        message = statistics_pb2.DatasetFeatureStatisticsList()
        dataset = message.datasets.add(name=name, num_examples=one.records)
        for column, found in sorted(one.columns.items()):
            _add_feature(dataset, column, found, records=one.records, fine=fine)
        contents.append(message.SerializeToString(deterministic=True))
    return b"".join(contents)


def _slices(statistics: Statistics) -> Iterator[tuple[str, SliceStatistics, bool]]:
    """Yield (name, statistics, fine) of all splits together, of each split, and of each class.

    fine: a histogram for comparisons with other datasets is added.
    """
    if not statistics.cells:
        return
    yield ALL_EXAMPLES, statistics.whole(), True
    slices = statistics.slices
    for key in sorted(slices, key=lambda key: (key.label or "", key.split)):
        yield key.name, slices[key], key.label is None


def _add_feature(
    dataset: Any, name: str, found: ColumnStatistics, *, records: int, fine: bool
) -> None:
    feature = dataset.features.add(name=name)
    feature.type = {"int": 0, "float": 1, "string": 2, "bytes": 3}[found.type]
    if found.numbers is not None:
        _fill_numbers(feature, found, found.numbers, fine=fine)
        common = feature.num_stats.common_stats
    elif found.type == "string":
        _fill_texts(feature.string_stats, found)
        common = feature.string_stats.common_stats
    else:
        _fill_bytes(feature.bytes_stats, found)
        common = feature.bytes_stats.common_stats
    common.num_non_missing = found.records
    common.num_missing = records - found.records
    common.tot_num_values = found.values
    if found.records:
        common.min_num_values = found.fewest or 0
        common.max_num_values = found.largest or 0
        common.avg_num_values = found.values / found.records


def _fill_numbers(
    feature: Any, found: ColumnStatistics, numbers: NumberStatistics, *, fine: bool
) -> None:
    """Fill in mean, deviation, median and histograms, which are of the finite values."""
    stats = feature.num_stats
    stats.num_zeros = numbers.zeros
    feature.custom_stats.add(name="num_unique", num=found.distinct.count)
    if numbers.below + numbers.above:
        feature.custom_stats.add(name="num_infinite", num=numbers.below + numbers.above)
    bits = numbers.bits
    if numbers.least is not None and numbers.most is not None:
        least, most = float(numbers.least), float(numbers.most)
        stats.mean, stats.std_dev = numbers.moments.mean, numbers.moments.deviation
        inner = bits.quantiles(_BUCKETS)
        stats.median = min(max(inner[_BUCKETS // 2 - 1], least), most)
        stats.min, stats.max = least, most
        standard = stats.histograms.add(type=0, num_nan=numbers.nans)
        for low, high, count in _equal_widths(bits, least, most):
            standard.buckets.add(low_value=low, high_value=high, sample_count=count)
        quantiles = stats.histograms.add(type=1, num_nan=numbers.nans)
        edges = [min(max(edge, least), most) for edge in (least, *inner, most)]
        share = numbers.moments.count / _BUCKETS
        for low, high in itertools.pairwise(edges):
            quantiles.buckets.add(low_value=low, high_value=high, sample_count=share)
    if numbers.below:
        stats.min = -np.inf
    if numbers.above:
        stats.max = np.inf
    if fine:
        histogram = feature.custom_stats.add(name=FINE_HISTOGRAM).histogram
        histogram.num_nan = numbers.nans
        for low, high, held in bits.with_bins(_FINE_BUCKETS).joined(_FINE_BUCKETS):
            histogram.buckets.add(low_value=low, high_value=high, sample_count=held)


def _equal_widths(
    bits: FirstBits, least: float, most: float
) -> Iterator[tuple[float, float, float]]:
    """Yield (lower bound, upper bound, estimated count) of buckets of equal width."""
    if least == most or not math.isfinite(most - least):
        yield least, most, float(bits.total)
        return
    edges = least + (most - least) * (np.arange(_BUCKETS + 1) / _BUCKETS)
    edges[-1] = most
    places, held = bits.cumulative()
    # Values with the same first bits are assumed to be evenly spread.
    below = np.interp(edges, np.clip(places, least, most), held)
    below[0], below[-1] = 0, bits.total  # the extremes are values themselves
    counts = np.diff(below)
    for (low, high), count in zip(itertools.pairwise(edges.tolist()), counts.tolist(), strict=True):
        yield low, high, count


def _fill_texts(stats: Any, found: ColumnStatistics) -> None:
    stats.unique = found.distinct.count
    if found.lengths is not None and found.values:
        stats.avg_length = found.lengths.total / found.values
    if found.top is None:
        return
    values, counts = found.top.ranked()
    pairs = zip(values.slice(0, _RANKED).to_pylist(), counts[:_RANKED].tolist(), strict=True)
    for rank, (value, count) in enumerate(pairs):
        if rank < _TOP:
            stats.top_values.add(value=value, frequency=count)
        stats.rank_histogram.buckets.add(
            low_rank=rank, high_rank=rank, label=value, sample_count=count
        )


def _fill_bytes(stats: Any, found: ColumnStatistics) -> None:
    stats.unique = found.distinct.count
    if found.lengths is not None and found.values:
        stats.avg_num_bytes = found.lengths.total / found.values
        stats.min_num_bytes = found.lengths.least or 0
        stats.max_num_bytes = found.lengths.most or 0
        stats.max_num_bytes_int = found.lengths.most or 0
