"""Statistics as DatasetFeatureStatisticsList of tensorflow_metadata, which TFDV and Facets display.

Source: tensorflow_metadata/proto/v0/statistics.proto, and the output of TFDV's generators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from recordmill.profile.statistics_file import ALL_EXAMPLES
from recordmill.transforms.statistics.column_statistics import ColumnStatistics
from recordmill.transforms.statistics.dataset_statistics import SliceStatistics, Statistics
from recordmill.transforms.statistics.number_messages import fill_numbers
from recordmill.transforms.statistics.number_table import NumberTable

_TOP = 20  # values
_DATASETS = b"\n"  # tag of the field of the list of datasets: number 1, of a length
_RANKED = 1000


def to_bytes(statistics: Statistics) -> bytes:
    """Return the serialized message, which is deterministic; without records it is empty."""
    return join_messages([slice_messages(statistics)])


class SliceMessage(NamedTuple):
    """A DatasetFeatureStatistics in two parts: its name and number of records, and its features."""

    head: bytes
    features: bytes


def join_messages(groups: Sequence[Sequence[SliceMessage]]) -> bytes:
    """Return the serialized message of all columns.

    groups: the messages of each group of columns; groups are in the order of their names.
    """
    contents = []
    for several in zip(*groups, strict=True):
        dataset = several[0].head + b"".join(one.features for one in several)
        contents += [_DATASETS, _varint(len(dataset)), dataset]
    return b"".join(contents)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def slice_messages(statistics: Statistics) -> list[SliceMessage]:
    """Return a message for each slice; without records there is none."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    contents = []
    for name, one, fine in _slices(statistics):
        head = statistics_pb2.DatasetFeatureStatistics(name=name, num_examples=one.records)
        dataset = statistics_pb2.DatasetFeatureStatistics()
        features = {column: dataset.features.add(name=column) for column in sorted(one.names)}
        for names, table in one.numbers.items():
            _fill_tables([features[column] for column in names], table, one.records, fine=fine)
        for column, found in one.texts.items():
            _fill_feature(features[column], found, records=one.records)
        parts = (part.SerializeToString(deterministic=True) for part in (head, dataset))
        contents.append(SliceMessage(*parts))
    return contents


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


def _fill_tables(features: Sequence[Any], table: NumberTable, records: int, *, fine: bool) -> None:
    fill_numbers(features, table, fine=fine)
    counts = (table.records, table.values, table.fewest, table.largest)
    for feature, *of_column in zip(features, *(one.tolist() for one in counts), strict=True):
        feature.type = 1 if table.is_float else 0
        _fill_common(feature.num_stats.common_stats, records, *of_column)


def _fill_feature(feature: Any, found: ColumnStatistics, *, records: int) -> None:
    if found.type == "string":
        feature.type = 2
        _fill_texts(feature.string_stats, found)
        common = feature.string_stats.common_stats
    else:
        feature.type = 3
        _fill_bytes(feature.bytes_stats, found)
        common = feature.bytes_stats.common_stats
    fewest, largest = found.fewest or 0, found.largest or 0
    _fill_common(common, records, found.records, found.values, fewest, largest)


def _fill_common(
    common: Any, all_records: int, records: int, values: int, fewest: int, largest: int
) -> None:
    common.num_non_missing = records
    common.num_missing = all_records - records
    common.tot_num_values = values
    if records:
        common.min_num_values = fewest
        common.max_num_values = largest
        common.avg_num_values = values / records


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
