"""Statistics of records, read back through tensorflow_metadata, against NumPy and plain Python."""

import csv
import datetime
import itertools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import statistics_pb2

from recordmill.transforms.model import batch
from recordmill.transforms.statistics.dataset_statistics import CLASSES, Statistics, columns_of
from recordmill.transforms.statistics.statistics_proto import to_bytes
from tests.paths import IMBALANCED

TYPES = statistics_pb2.FeatureNameStatistics


def rows_of(columns, *, splits=None, labels=None):
    arrays = {n: c if isinstance(c, pa.Array) else pa.array(c) for n, c in columns.items()}
    size = len(next(iter(arrays.values())))
    ours = {
        batch.KEY: pa.array([str(row) for row in range(size)]),
        batch.SPLIT: pa.array(splits or ["train"] * size, pa.string()),
        batch.LABEL: pa.array(labels or [None] * size, pa.string()),
    }
    return pa.RecordBatch.from_pydict(ours | arrays)


def count(rows, *, labelled=None):
    if labelled is None:
        labelled = rows[batch.LABEL].null_count < len(rows)
    return Statistics.of(rows, columns_of(rows, None, labelled=labelled))


def read(*parts):
    """{slice: {feature: its message}}, and the records of each slice."""
    message = statistics_pb2.DatasetFeatureStatisticsList.FromString(
        to_bytes(Statistics.sum(parts))
    )
    slices = {d.name: {f.name: f for f in d.features} for d in message.datasets}
    return slices, {d.name: d.num_examples for d in message.datasets}


def whole(*parts):
    return read(*parts)[0]["All Examples"]


@pytest.fixture(scope="module")
def imbalanced():
    with IMBALANCED.open() as file:
        found = list(csv.reader(file))
    names = ["area", "grey", "gradient", "noise", "contrast", "moment"]
    values = np.array([[float(cell) for cell in row[:6]] for row in found])
    labels = [row[6] for row in found]
    splits = [("train", "train", "test")[n % 3] for n in range(len(found))]
    rows = rows_of(dict(zip(names, values.T, strict=True)), splits=splits, labels=labels)
    parts = [count(rows.slice(at, 1000)) for at in range(0, len(rows), 1000)]
    return names, values, np.array(labels), np.array(splits), read(*parts)


def test_numbers_of_a_table_with_a_rare_class(imbalanced):
    names, values, labels, splits, (slices, records) = imbalanced
    classes = set(labels.tolist())
    expected = {"All Examples": np.ones(len(labels), bool)}
    for split in ("train", "test"):
        expected[split] = splits == split
        expected |= {f"{split}/label={c}": (splits == split) & (labels == c) for c in classes}
    assert set(slices) == set(expected)
    for name, mask in expected.items():
        assert records[name] == mask.sum()
        for column, place in zip(names, itertools.count(), strict=False):
            some = values[mask, place]
            stats = slices[name][column].num_stats
            assert stats.common_stats.num_non_missing == len(some)
            assert stats.common_stats.num_missing == 0
            assert stats.common_stats.tot_num_values == len(some)
            assert stats.mean == pytest.approx(math.fsum(some) / len(some), rel=1e-12)
            assert stats.std_dev == pytest.approx(some.std(), rel=1e-9)
            assert (stats.min, stats.max) == (some.min(), some.max())
            assert stats.num_zeros == (some == 0).sum()
            exact = np.quantile(some, 0.5, method="inverted_cdf")
            assert stats.median == pytest.approx(exact, rel=1 / 128)
            _check_histograms(stats, some)


def _check_histograms(stats, some):
    standard, quantiles = stats.histograms
    assert standard.type == statistics_pb2.Histogram.STANDARD
    assert quantiles.type == statistics_pb2.Histogram.QUANTILES
    assert standard.buckets[0].low_value == some.min()
    assert standard.buckets[-1].high_value == some.max()
    counts = [bucket.sample_count for bucket in standard.buckets]
    assert sum(counts) == pytest.approx(len(some))
    if len(counts) == 10:
        exact, _ = np.histogram(some, 10)
        # Values of the same first bits may fall on both sides of an edge.
        assert np.abs(np.cumsum(counts) - np.cumsum(exact)).max() <= 0.03 * len(some) + 2
    edges = [bucket.high_value for bucket in quantiles.buckets]
    exact = np.quantile(some, np.arange(1, 11) / 10, method="inverted_cdf")
    np.testing.assert_allclose(edges, exact, rtol=1 / 128)


def test_classes_are_a_column(imbalanced):
    *_, labels, _, (slices, _) = imbalanced
    stats = slices["All Examples"]["label"].string_stats
    assert stats.unique == 2
    found = {bucket.label: bucket.sample_count for bucket in stats.rank_histogram.buckets}
    assert found == Counter(labels.tolist())
    assert [top.value for top in stats.top_values] == ["'-1'", "'1'"]


COLUMNS = {
    "number": st.one_of(st.none(), st.floats(width=64)),
    "whole": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "text": st.one_of(st.none(), st.text(max_size=3)),
    "list": st.one_of(st.none(), st.lists(st.floats(width=32), max_size=3)),
}
KINDS = {
    "number": pa.float64(),
    "whole": pa.int64(),
    "text": pa.string(),
    "list": pa.list_(pa.float64()),
}
RECORDS = st.lists(
    st.tuples(
        *COLUMNS.values(), st.sampled_from(["train", "test"]), st.sampled_from([None, "a", "b"])
    ),
    min_size=3,
    max_size=30,
)


def rows_of_records(records):
    columns = {
        name: pa.array([record[place] for record in records], KINDS[name])
        for place, name in enumerate(COLUMNS)
    }
    return rows_of(columns, splits=[r[4] for r in records], labels=[r[5] for r in records])


@pytest.mark.long
@given(RECORDS)
def test_a_slice_is_counted_as_it_were_without_others(records):
    found, _ = read(count(rows_of_records(records), labelled=True))
    slices = {"All Examples": records}
    for record in records:
        split, label = record[4:]
        slices.setdefault(split, []).append(record)
        if label is not None:
            slices.setdefault(f"{split}/label={label}", []).append(record)
    assert set(found) == set(slices)
    for name, own in slices.items():
        alone, _ = read(count(rows_of_records(own), labelled=True))
        assert alone[name] == found[name]


@pytest.mark.long
@given(RECORDS, st.integers(1, 29), st.integers(1, 29))
def test_the_file_is_the_same_in_whatever_order_parts_are_added_up(records, one, two):
    rows = rows_of_records(records)
    first, second = sorted((one % len(rows), two % len(rows)))
    ranges = [(0, first), (first, second), (second, len(rows))]
    parts = [
        Statistics.of(part, columns_of(part, None, labelled=True))
        for part in (rows.slice(a, b - a) for a, b in ranges if a < b)
    ]
    expected = to_bytes(Statistics.sum(parts))
    for order in itertools.permutations(parts):
        nested = Statistics.sum([order[0], Statistics.sum(order[1:])])
        assert to_bytes(nested) == expected


def test_texts():
    texts = ["a", "bb", None, "ü", "a", "x" * 300]
    (one,) = whole(count(rows_of({"t": texts}))).values()
    stats = one.string_stats
    assert one.type == TYPES.STRING
    assert stats.unique == 4
    assert stats.common_stats.num_missing == 1
    assert stats.avg_length == pytest.approx((1 + 2 + 2 + 1 + 300) / 5)
    ranked = [(bucket.label, bucket.sample_count) for bucket in stats.rank_histogram.buckets]
    assert ranked == [("a", 2), ("bb", 1), ("ü", 1)], "what is longer than 256 bytes is not ranked"


def test_bytes():
    (one,) = whole(count(rows_of({"b": pa.array([b"\xff", b"123", b"\xff"])}))).values()
    stats = one.bytes_stats
    assert one.type == TYPES.BYTES
    assert (stats.unique, stats.min_num_bytes, stats.max_num_bytes) == (2, 1, 3)
    assert stats.avg_num_bytes == pytest.approx(5 / 3)


def test_lists():
    lists = pa.array([[1, 2], [], None, [2, 2, 5]], pa.list_(pa.int64()))
    (one,) = whole(count(rows_of({"l": lists}))).values()
    common = one.num_stats.common_stats
    assert (common.num_non_missing, common.num_missing, common.tot_num_values) == (3, 1, 5)
    assert (common.min_num_values, common.max_num_values) == (0, 3)
    assert common.avg_num_values == pytest.approx(5 / 3)
    assert (one.num_stats.min, one.num_stats.max, one.num_stats.median) == (1, 5, 2)
    assert {custom.name: custom.num for custom in one.custom_stats}["num_unique"] == 3


def test_lists_of_one_length_with_a_null_one():
    kind = pa.list_(pa.float32(), 2)
    lists = pa.array([[1, 2], None, [3, 4]], kind)
    (one,) = whole(count(rows_of({"l": lists}))).values()
    assert one.num_stats.common_stats.tot_num_values == 4
    assert one.num_stats.mean == 2.5


def test_what_is_not_finite_is_counted_beside_the_rest():
    nan, inf = math.nan, math.inf
    values = pa.array([1.0, nan, inf, -inf, inf, 3.0], from_pandas=False)
    (one,) = whole(count(rows_of({"x": values}))).values()
    stats = one.num_stats
    assert (stats.mean, stats.std_dev) == (2, 1)
    assert (stats.min, stats.max) == (-inf, inf)
    assert {histogram.num_nan for histogram in stats.histograms} == {1}
    customs = {custom.name: custom.num for custom in one.custom_stats}
    assert customs["num_infinite"] == 3
    assert customs["num_unique"] == 5


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.int64(), pa.list_(pa.int64())])
def test_a_column_without_a_value(kind):
    (one,) = whole(count(rows_of({"x": pa.nulls(7, kind)}))).values()
    stats = getattr(one, one.WhichOneof("stats"))
    assert stats.common_stats.num_missing == 7
    assert stats.common_stats.num_non_missing == stats.common_stats.tot_num_values == 0


def test_times_are_counted_as_examples_hold_them():
    day, moment = datetime.date(1970, 1, 11), datetime.datetime(1970, 1, 1, 0, 0, 2)
    columns = {
        "day": pa.array([day]),
        "milliseconds": pa.array([moment], pa.timestamp("ms")),
        "true": pa.array([True]),
    }
    found = whole(count(rows_of(columns)))
    assert {name: one.num_stats.max for name, one in found.items()} == {
        "day": 10,
        "milliseconds": 2_000_000,
        "true": 1,
    }
    assert {one.type for one in found.values()} == {TYPES.INT}


def test_large_integers_are_counted():
    values = [2**63 - 1, -(2**63), 2**53 + 1]
    (one,) = whole(count(rows_of({"x": pa.array(values, pa.int64())}))).values()
    assert one.num_stats.mean == pytest.approx(sum(values) / 3)
    customs = {custom.name: custom.num for custom in one.custom_stats}
    assert customs["num_unique"] == 3


@pytest.mark.parametrize("classes", [CLASSES, CLASSES + 1])
def test_many_classes_are_not_counted_one_by_one(classes):
    labels = [f"c{number}" for number in range(classes)] * 2
    rows = rows_of({"x": list(range(len(labels)))}, labels=labels)
    halves = [count(rows.slice(0, classes // 2)), count(rows.slice(classes // 2))]
    slices, _ = read(*halves)
    assert len(slices) == (2 + classes if classes == CLASSES else 2)
    assert slices["train"]["label"].string_stats.unique == classes


def test_of_no_record_there_is_nothing():
    message = statistics_pb2.DatasetFeatureStatisticsList.FromString(to_bytes(Statistics.sum([])))
    assert len(message.datasets) == 0
