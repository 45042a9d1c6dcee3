"""Histograms of many columns, against those of each column and against NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.statistics import bit_histogram
from recordmill.transforms.statistics.bit_histogram import MOST_BINS, FirstBits
from recordmill.transforms.statistics.histogram_table import Buckets, HistogramTable
from recordmill.transforms.statistics.ranges import count_equal, edges_of

FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30)
COLUMNS = st.lists(FLOATS, min_size=1, max_size=5)


def table_of(*columns: np.ndarray) -> HistogramTable:
    values = np.concatenate([np.asarray(one, np.float64) for one in columns])
    return HistogramTable.of_ranges(count_equal(values, edges_of([len(one) for one in columns])))


def same(one: HistogramTable, other: HistogramTable) -> bool:
    names = ("prefixes", "counts", "edges")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def buckets_of(buckets: Buckets, column: int) -> list[tuple[float, float, float]]:
    own = slice(*buckets.edges[column : column + 2])
    return list(zip(buckets.low[own], buckets.high[own], buckets.held[own], strict=True))


@given(COLUMNS, st.integers(0, 30), st.integers(1, 9))
def test_a_sum_is_that_of_all_values_and_of_each_column_alone(columns, cut, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_histogram, "MOST_BINS", most)
        parts = [table_of(*(one[:cut] for one in columns)), table_of(*(c[cut:] for c in columns))]
        total = HistogramTable.sum(parts)
        assert same(total, table_of(*columns))
        assert same(total, HistogramTable.sum(parts[::-1]))
        for number in range(len(columns)):
            one = FirstBits.sum(part.column(number) for part in parts)
            assert np.array_equal(one.prefixes, total.column(number).prefixes)
            assert np.array_equal(one.counts, total.column(number).counts)


@given(COLUMNS)
def test_columns_are_taken_and_joined(columns):
    table = table_of(*columns)
    order = np.arange(len(columns))[::-1]
    assert same(table.take(order), table_of(*columns[::-1]))
    assert same(HistogramTable.concat([table_of(one) for one in columns]), table)
    assert table.totals.tolist() == [len(one) for one in columns]


@given(COLUMNS, st.integers(1, 20))
def test_neighbours_that_are_joined_hold_all_values(columns, parts):
    joined = table_of(*columns).joined(parts)
    for number, values in enumerate(columns):
        buckets = buckets_of(joined, number)
        assert sum(held for _, _, held in buckets) == len(values)
        assert len(buckets) <= parts + 1
        for one, other in itertools.pairwise(buckets):
            assert one[0] <= one[1] <= other[0] <= other[1]
            assert one[2] * parts >= len(values) or len({*values}) <= parts


@given(COLUMNS, st.integers(1, 60))
def test_few_bits_leave_enough_bins(columns, number):
    table = table_of(*columns)
    fewer = table.with_bins(number)
    assert fewer.totals.tolist() == table.totals.tolist()
    for place in range(len(columns)):
        bins, one = len(table.column(place).prefixes), fewer.column(place)
        assert len(one.prefixes) >= min(number, bins)
        if bins and one.dropped < bit_histogram.REST:
            assert len(one.shortened(1).prefixes) < min(number, bins)


def test_small_integers_are_told_apart():
    table = table_of(np.arange(-256, 257), np.arange(3))
    assert np.diff(table.edges).tolist() == [513, 3]
    places, held = np.stack(table.bounds(), axis=1), table.held()
    assert np.interp([-300, 0.5, 3], places[:513].ravel(), held[:513].ravel()).tolist() == [
        0,
        257,
        259,
    ]
    assert held[513:].ravel().tolist() == [0, 1, 1, 2, 2, 3]


def test_quantiles_are_those_of_each_column():
    rng = np.random.default_rng(0)
    far = rng.normal(size=4 * MOST_BINS) * np.repeat([1e-9, 1, 1e12, -1e30], MOST_BINS)
    exact = np.repeat(rng.normal(size=MOST_BINS), 3)
    found = table_of(exact, [], far).quantiles(8)
    shares = np.arange(1, 8) / 8
    assert found[0].tolist() == np.quantile(exact, shares, method="inverted_cdf").tolist()
    expected = np.quantile(far, shares, method="inverted_cdf")
    np.testing.assert_allclose(found[2], expected, rtol=1 / 128)


@pytest.mark.parametrize("offset", [0, 41, -1e9])
def test_ranks_of_quantiles_of_narrow_columns(offset):
    values = np.sort(offset + np.random.default_rng(0).normal(0, 0.1, 100_000))
    total = HistogramTable.sum([table_of(part) for part in np.array_split(values, 7)])
    below = np.searchsorted(values, total.quantiles(10)[0]) / len(values)
    np.testing.assert_allclose(below, np.arange(1, 10) / 10, atol=0.001)
