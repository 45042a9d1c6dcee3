"""Histograms by first bits, against NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.statistics.bit_histogram import FirstBits, bounds_of, prefixes_of

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


@pytest.mark.parametrize(
    ("values", "parts", "expected"),
    [
        ([0, 1], 2, [1]),
        ([0, 1, 2, 3], 4, [1, 2, 3]),
        ([5, 6, 7], 3, [6, 7]),
        ([-3, -2, -1, 0], 2, [-1]),
        ([0, 1, 1, 1], 2, [1]),
        ([0, 0, 0, 1], 2, [1]),
        ([-1.5, 0.5], 2, [0.5]),
        ([0, 1, 2], 9, [1, 2]),
        ([7, 7], 3, []),
        ([], 3, []),
        ([1, 2], 1, []),
    ],
)
def test_boundaries_part_values_as_equally_as_they_can(values, parts, expected):
    for sign in (1, -1):
        signed = np.sort(sign * np.array(values, np.float64))
        found = FirstBits.of(signed).boundaries(parts)
        above = [min(value for value in signed if value >= one) for one in found]
        if sign > 0:
            assert above == expected
        assert len(found) == len(expected)
        sizes = np.bincount(np.searchsorted(found, signed, side="right"), minlength=1)
        assert sizes.min() > 0 or not len(signed)


@given(st.lists(st.integers(-256, 256), min_size=1), st.integers(1, 9))
def test_no_boundaries_part_integers_more_equally(values, parts):
    found = FirstBits.of(np.array(values, np.float64)).boundaries(parts)
    below = [sum(value < one for value in values) for one in found]
    possible = [sum(value < one for value in values) for one in {*values}]
    for part in range(1, parts):
        wanted = part * len(values) / parts
        others = [abs(count - wanted) for count in possible if count]
        assert not others or min(abs(count - wanted) for count in below) == min(others)


def test_quantiles_of_far_and_near_numbers():
    values = np.random.default_rng(0).normal(size=5000) * np.repeat([1e-9, 1, 1e12, -1e30], 1250)
    exact = np.quantile(values, np.arange(1, 8) / 8, method="inverted_cdf")
    np.testing.assert_allclose(list(FirstBits.of(values).quantiles(8)), exact, rtol=1 / 128)
