"""Histograms by first bits, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.statistics import bit_histogram
from recordmill.transforms.statistics.bit_histogram import (
    FirstBits,
    bounds_of,
    prefixes_of,
)
from recordmill.transforms.statistics.histogram_table import HistogramTable
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


def fine(values: np.ndarray) -> FirstBits:
    return HistogramTable.of_ranges(count_equal(values, np.array([0, len(values)]))).column(0)


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
