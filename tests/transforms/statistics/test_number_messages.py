"""Statistics messages of columns of numbers, which are written for many columns at once."""

import numpy as np
import pyarrow as pa
import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from recordmill.transforms.statistics import number_messages
from recordmill.transforms.statistics.dataset_statistics import Statistics
from recordmill.transforms.statistics.statistics_proto import to_bytes


def statistics_of(columns):
    size = len(next(iter(columns.values())))
    splits = pa.array(np.resize(["train", "test"], size))
    system = {"__split__": splits, "__label__": pa.nulls(size, pa.string())}
    return Statistics.of(pa.RecordBatch.from_pydict({**system, **columns}), columns)


COLUMNS = {
    "zeros": pa.array([0.0, -0.0, 0.0, 1.0, -1.0, 0.0]),
    "none": pa.array([None] * 6, pa.float64()),
    "one": pa.array([None, None, 3, None, None, None], pa.int64()),
    "odd": pa.array([np.inf, -np.inf, np.nan, 2.5, 1e308, -1e308]),
    "same": pa.array([7, 7, 7, 7, 7, 7]),
    "large": pa.array([2**62, -(2**62), 0, 1, None, 5]),
}


@pytest.mark.parametrize("bins", [1, 3, 1 << 20])
def test_a_message_does_not_depend_on_the_columns_at_once(monkeypatch, bins):
    alone = {}
    for name, column in COLUMNS.items():
        found = statistics_pb2.DatasetFeatureStatisticsList.FromString(
            to_bytes(statistics_of({name: column}))
        )
        alone |= {(one.name, name): one.features[0] for one in found.datasets}
    monkeypatch.setattr(number_messages, "_BINS", bins)
    content = to_bytes(statistics_of(COLUMNS))
    together = statistics_pb2.DatasetFeatureStatisticsList.FromString(content)
    assert together.SerializeToString(deterministic=True) == content
    for one in together.datasets:
        assert [feature.name for feature in one.features] == sorted(COLUMNS)
        for feature in one.features:
            # As bytes, because NaN is not equal to itself.
            expected = alone[one.name, feature.name].SerializeToString(deterministic=True)
            assert feature.SerializeToString(deterministic=True) == expected


def test_histograms_hold_the_finite_values():
    message = statistics_pb2.DatasetFeatureStatisticsList.FromString(
        to_bytes(statistics_of(COLUMNS))
    )
    (whole,) = [one for one in message.datasets if one.name == "All Examples"]
    features = {feature.name: feature for feature in whole.features}
    counts = {"zeros": 6, "none": 0, "one": 1, "odd": 3, "same": 6, "large": 5}
    for name, count in counts.items():
        stats = features[name].num_stats
        assert len(stats.histograms) == (2 if count else 0)
        for histogram in stats.histograms:
            held = [bucket.sample_count for bucket in histogram.buckets]
            assert min(held) >= 0
            assert sum(held) == pytest.approx(count)
        (fine,) = [one for one in features[name].custom_stats if one.name == "fine_histogram"]
        assert sum(bucket.sample_count for bucket in fine.histogram.buckets) == count
    (bucket,) = features["same"].num_stats.histograms[0].buckets
    assert (bucket.low_value, bucket.high_value, bucket.sample_count) == (7, 7, 6)
    assert features["odd"].num_stats.min == -np.inf
    assert features["zeros"].num_stats.num_zeros == 4


def test_parts_may_have_columns_in_another_order():
    backwards = dict(reversed(COLUMNS.items()))
    parts = [statistics_of(COLUMNS), statistics_of(COLUMNS)]
    other = [statistics_of(COLUMNS), statistics_of(backwards)]
    assert to_bytes(Statistics.sum(other)) == to_bytes(Statistics.sum(parts))
