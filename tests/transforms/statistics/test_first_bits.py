"""Histograms by first bits, against NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.statistics import bit_histogram
from recordmill.transforms.statistics.bit_histogram import (
    MOST_BINS,
    FirstBits,
    bounds_of,
    prefixes_of,
)
from recordmill.transforms.statistics.ranges import count_equal

FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=50)


def same(one: FirstBits, other: FirstBits) -> bool:
    return np.array_equal(one.prefixes, other.prefixes) and np.array_equal(one.counts, other.counts)


@given(FLOATS, st.integers(0, 50))
def test_a_sum_is_that_of_all_values(values, cut):
    values = np.array(values, np.float64)
    parts = [FirstBits.of(values[cut:]), FirstBits.of(values[:cut])]
    assert same(FirstBits.sum(parts), FirstBits.of(values))
    assert same(FirstBits.sum(parts[::-1]), FirstBits.of(values))


@given(FLOATS)
def test_every_value_is_within_the_bounds_of_its_prefix(values):
    values = np.array(values, np.float64)
    low, high = bounds_of(prefixes_of(values))
    assert ((low <= values) & (values <= high)).all()
    assert (high - low <= np.maximum(np.abs(values) / 64, 1e-300)).all()


@given(FLOATS.filter(len), st.integers(1, 20))
def test_neighbours_that_are_joined_hold_all_values(values, parts):
    bits = FirstBits.of(np.array(values, np.float64))
    joined = list(bits.joined(parts))
    assert sum(held for _, _, held in joined) == len(values)
    assert len(joined) <= parts + 1
    for one, other in itertools.pairwise(joined):
        assert one[0] < one[1] <= other[0]


def test_small_integers_are_told_apart():
    values = np.arange(-256, 257).astype(np.float64)
    bits = FirstBits.of(values)
    assert len(bits.prefixes) == 513
    places, held = bits.cumulative()
    assert np.interp([-300, 0.5, 3], places, held).tolist() == [0, 257, 259]


def test_quantiles_of_far_and_near_numbers():
    values = np.random.default_rng(0).normal(size=5000) * np.repeat([1e-9, 1, 1e12, -1e30], 1250)
    exact = np.quantile(values, np.arange(1, 8) / 8, method="inverted_cdf")
    np.testing.assert_allclose(list(FirstBits.of(values).quantiles(8)), exact, rtol=1 / 128)


def fine(values: np.ndarray) -> FirstBits:
    return FirstBits.of_ranges(count_equal(values, np.array([0, len(values)])))[0]


@given(FLOATS, st.integers(0, 50), st.integers(1, 9))
def test_a_finer_histogram_does_not_depend_on_the_parts(values, cut, most):
    values = np.array(values, np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_histogram, "MOST_BINS", most)
        whole, parts = fine(values), [fine(values[cut:]), fine(values[:cut])]
        for total in (FirstBits.sum(parts), FirstBits.sum(parts[::-1])):
            assert same(total, whole)
            assert total.dropped == whole.dropped or not len(values)
        assert len(whole.prefixes) <= most or whole.dropped == bit_histogram.REST
        if whole.dropped > 0:
            assert len({*prefixes_of(values, whole.dropped - 1).tolist()}) > most


@given(FLOATS.filter(len), st.integers(1, 60))
def test_few_bits_leave_enough_bins(values, number):
    bits = fine(np.array(values, np.float64))
    fewer = bits.with_bins(number)
    assert len(fewer.prefixes) >= min(number, len(bits.prefixes))
    assert fewer.total == len(values)
    if fewer.dropped < bit_histogram.REST:
        assert len(fewer.shortened(1).prefixes) < min(number, len(bits.prefixes))


def test_as_many_values_as_there_are_bins_are_exact():
    values = np.random.default_rng(0).normal(size=MOST_BINS)
    exact = np.quantile(values, np.arange(1, 10) / 10, method="inverted_cdf")
    assert fine(np.repeat(values, 3)).quantiles(10) == exact.tolist()


@pytest.mark.parametrize("offset", [0, 41, -1e9])
def test_ranks_of_quantiles_of_narrow_columns(offset):
    values = np.sort(offset + np.random.default_rng(0).normal(0, 0.1, 100_000))
    found = FirstBits.sum([fine(part) for part in np.array_split(values, 7)]).quantiles(10)
    below = np.searchsorted(values, found) / len(values)
    np.testing.assert_allclose(below, np.arange(1, 10) / 10, atol=0.001)
