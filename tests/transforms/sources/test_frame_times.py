"""Tests of the times of frames, which files may store wrong."""

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.sources.video.frame_times import frame_length, usable_times

CENTURY = 100 * 366 * 86_400
UNITS = st.integers(1, 2**31 - 1).map(lambda below: Fraction(1, below))
STORED = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20).map(sorted)


@given(STORED, UNITS)
def test_times_become_usable(stored, unit):
    times = np.array(stored, np.int64)
    found = usable_times(times, unit)
    assert found.dtype == np.int64
    assert len(found) == len(times)
    steps = [after - before for before, after in itertools.pairwise(found.tolist())]
    assert all(step >= 0 for step in steps)
    assert sum(steps) * unit <= CENTURY
    if (stored[-1] - stored[0]) * unit <= CENTURY:
        np.testing.assert_array_equal(found, times)
    else:
        assert len(set(steps)) == 1


def test_one_impossible_time_keeps_the_distance_of_the_others():
    for wrong in (-(2**63), 2**63 - 1):
        times = np.array(sorted([0, 40, 80, 120, wrong]), np.int64)
        assert usable_times(times, Fraction(1, 1000)).tolist() == [0, 40, 80, 120, 160]


@given(st.integers(-(2**63), 2**63 - 1), st.fractions(0, 2**31, max_denominator=2**31), UNITS)
def test_a_frame_is_shown_for_a_usable_time(duration, rate, unit):
    assert 1 <= frame_length(duration, rate, unit) <= max(CENTURY / unit, 1)


def test_a_frame_is_shown_as_long_as_its_packet_or_the_frame_rate_says():
    assert frame_length(50, Fraction(25), Fraction(1, 1000)) == 50
    for duration in (0, -5, 2**62):
        assert frame_length(duration, Fraction(25), Fraction(1, 1000)) == 40
        assert frame_length(duration, Fraction(0), Fraction(1, 1000)) == 1
