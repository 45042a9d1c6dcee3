"""Means and deviations without rounding, against fractions and NumPy."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.statistics.moments import Moments, digits, from_digits

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def of(values):
    return Moments.of(np.array(values, np.float64))


@given(values=st.lists(FINITE, max_size=50))
def test_sums_are_exact(values):
    moments = of(values)
    exact = [Fraction(value) for value in values]
    assert moments.count == len(values)
    assert Fraction(moments.total, 1 << 1074) == sum(exact)
    assert Fraction(moments.squares, 1 << 2148) == sum(one * one for one in exact)


@given(values=st.lists(FINITE, max_size=50), cuts=st.lists(st.integers(0, 50), max_size=5))
def test_parts_add_up_to_the_same_in_any_order(values, cuts):
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    parts = [of(values[a:b]) for a, b in itertools.pairwise(edges)]
    assert sum(parts, Moments()) == sum(reversed(parts), Moments()) == of(values)


@pytest.mark.parametrize("value", [2 - 2**-52, 1 - 2**-19 - 2**-53])
def test_many_values_of_full_precision(value):
    """More than are summed at once, with mantissas that leave no bit free; the first digit of one
    is even, that of the other odd.
    """
    count = 300_001
    moments = Moments.of(np.full(count, value))
    assert Fraction(moments.total, 1 << 1074) == count * Fraction(value)
    assert Fraction(moments.squares, 1 << 2148) == count * Fraction(value) ** 2
    assert moments.deviation == 0


@pytest.mark.parametrize("offset", [0, 1e9])
def test_mean_and_deviation_are_those_of_numpy(offset):
    """NumPy goes twice over the values, so that a large mean does no harm there."""
    values = np.random.default_rng(0).normal(3, 2, 10_000) + offset
    moments = Moments.of(values)
    assert math.isclose(moments.mean, values.mean(), rel_tol=1e-14)
    assert math.isclose(moments.deviation, values.std(), rel_tol=1e-9)


def test_of_nothing_there_is_none():
    assert math.isnan(of([]).mean)
    assert math.isnan(of([]).deviation)


@given(numbers=st.lists(st.integers(-(2**2200), 2**2200), max_size=5))
def test_digits_of_several_integers_are_those_of_their_sum(numbers):
    found = [one for number in numbers for one in digits(number)]
    assert from_digits(found) == sum(numbers)
    assert all(0 < abs(digit) < 1 << 32 for _, digit in found)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 5e-324])
def test_deviations_whose_square_no_float_holds(scale):
    assert Moments.of(np.array([scale, -scale])).deviation == scale
