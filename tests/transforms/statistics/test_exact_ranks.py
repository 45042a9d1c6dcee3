"""Values at ranks, against a sort of all values."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.statistics.bit_histogram import keys_of, prefixes_of
from recordmill.transforms.statistics.exact_ranks import (
    key_range,
    select,
    values_of_keys,
)

FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60)


@given(FLOATS)
def test_keys_are_in_the_order_of_the_values(values):
    values = np.array(values, np.float64)
    keys = keys_of(values)
    np.testing.assert_array_equal(values_of_keys(keys), values)
    np.testing.assert_array_equal(np.sort(values), values_of_keys(np.sort(keys)))
    for key, prefix in zip(keys.tolist(), prefixes_of(values).tolist(), strict=True):
        low, high = key_range(prefix)
        assert low <= key < high


@given(
    keys=st.lists(st.integers(-(2**40), 2**40) | st.integers(-9, 9), min_size=1, max_size=60),
    limit=st.integers(1, 20),
    cut=st.integers(0, 60),
    bounds=st.tuples(st.integers(-(2**40), 2**40), st.integers(-9, 2**41)),
)
def test_values_are_found_among_more_than_are_held_at_a_time(keys, limit, cut, bounds):
    keys = np.array(keys)
    low, high = min(bounds), max(bounds) + 1
    inside = np.sort(keys[(keys >= low) & (keys < high)])
    if not len(inside):
        return
    parts = [(part, np.ones(len(part), np.int64)) for part in (keys[:cut], keys[cut:])]
    found = select(lambda: parts, low=low, high=high, ranks=np.arange(len(inside)), limit=limit)
    np.testing.assert_array_equal(found.keys, inside)
    np.testing.assert_array_equal(found.below, np.searchsorted(inside, inside))
    np.testing.assert_array_equal(found.through, np.searchsorted(inside, inside, side="right"))
    for one, after in zip(inside, found.after, strict=True):
        assert after == min(keys[keys > one], default=np.iinfo(np.int64).max)


def test_no_more_than_the_limit_is_held():
    chance = np.random.default_rng(0)
    parts = [chance.integers(0, 2**30, 1000) for _ in range(50)]
    reads = 0

    def read():
        nonlocal reads
        reads += 1
        yield from ((part, np.ones(1000, np.int64)) for part in parts)

    ranks = np.array([100, 20_000, 49_999])
    found = select(read, low=0, high=2**30, ranks=ranks, limit=2000)
    np.testing.assert_array_equal(found.keys, np.sort(np.concatenate(parts))[ranks])
    assert reads < 8
