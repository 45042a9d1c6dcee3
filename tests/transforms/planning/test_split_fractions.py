"""The test for splits that are far from their fractions, against SciPy's binomial distribution."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recordmill.transforms.planning.split_fractions import is_far_off

RARE = math.erfc(4 / math.sqrt(2))


@given(
    st.integers(1, 10_000),
    st.floats(0.001, 0.999),
    st.floats(-8, 8),
    st.integers(1, 5),
)
def test_it_is_that_of_the_exact_distribution(total, fraction, deviations, splits):
    deviation = math.sqrt(total * fraction * (1 - fraction))
    count = min(max(round(total * fraction + deviations * deviation), 0), total)
    found = is_far_off(count, total, fraction, splits=splits)
    if abs(count - total * fraction) <= 4 * deviation:
        assert not found
        return
    above = count > total * fraction
    distribution = stats.binom(total, fraction)
    tail = distribution.sf(count - 1) if above else distribution.cdf(count)
    if not math.isclose(tail, RARE / 2 / splits, rel_tol=1e-6):
        assert found == (tail < RARE / 2 / splits)


@given(st.integers(1, 200), st.floats(0.001, 0.999))
def test_independent_records_are_hardly_ever_far_off(total, fraction):
    distribution = stats.binom(total, fraction)
    far = [count for count in range(total + 1) if is_far_off(count, total, fraction)]
    assert sum(distribution.pmf(far)) <= RARE


@pytest.mark.parametrize(
    ("count", "total", "fraction", "far"),
    [
        (0, 20_000, 0.1, True),
        (2599, 20_000, 0.1, True),
        (2000, 20_000, 0.1, False),
        (3, 3, 0.1, False),  # more than four deviations, but one of a thousand
        (0, 0, 0.1, False),
        (5, 5, 1.0, False),
        (200_000_000, 10**9, 0.2, False),
        (200_080_000, 10**9, 0.2, True),
    ],
)
def test_examples(count, total, fraction, far):
    assert is_far_off(count, total, fraction) == far


def test_splits_by_hash_are_not_far_off():
    random = np.random.default_rng(1)
    fractions = [0.8, 0.1, 0.1]
    for total in (5, 50, 2000, 50_000):
        for counts in random.multinomial(total, fractions, size=500):
            pairs = zip(counts.tolist(), fractions, strict=True)
            assert not any(is_far_off(count, total, f, splits=3) for count, f in pairs)
