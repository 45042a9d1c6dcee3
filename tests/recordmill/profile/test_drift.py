"""How far records are apart, against shares that are counted one by one."""

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.profile import drift
from recordmill.profile.statistics_file import ALL_EXAMPLES, parse
from recordmill.transforms.model import batch
from recordmill.transforms.statistics.dataset_statistics import Statistics
from recordmill.transforms.statistics.statistics_proto import to_bytes


def slices_of(**splits):
    """The statistics of {split: {column: values}}, as they are read back from their file."""
    parts = []
    for split, columns in splits.items():
        arrays = {name: values if isinstance(values, pa.Array) else pa.array(values)
                  for name, values in columns.items()}  # fmt: skip
        size = len(next(iter(arrays.values())))
        ours = {batch.SPLIT: pa.repeat(split, size), batch.LABEL: pa.nulls(size, pa.string())}
        rows = pa.RecordBatch.from_pydict(ours | arrays)
        parts.append(Statistics.of(rows, arrays))
    return parse(to_bytes(Statistics.sum(parts)))


def only(comparison):
    (one,) = comparison.distances
    return one


def test_categories_are_compared_by_their_shares():
    train, test = ["a"] * 60 + ["b"] * 40, ["a"] * 10 + ["b"] * 6 + ["c"] * 4
    found = only(drift.skew(slices_of(train={"x": train}, test={"x": test})))
    assert (found.column, found.records, found.kind) == ("x", "test", "skew")
    assert found.infinity_norm == pytest.approx(0.2)
    assert found.where == "c"
    assert found.shares == pytest.approx((0, 0.2))
    one, two = np.array([0.6, 0.4, 0]), np.array([0.5, 0.3, 0.2])
    middle = (one + two) / 2
    parts = [np.sum(p[p > 0] * np.log2(p[p > 0] / middle[p > 0])) for p in (one, two)]
    assert found.jensen_shannon == pytest.approx(sum(parts) / 2)


def test_numbers_are_compared_over_tenths_of_the_reference():
    generator = np.random.default_rng(0)
    train, test = generator.normal(size=50_000), generator.normal(0.5, 2, size=20_000)
    found = only(drift.skew(slices_of(train={"x": train}, test={"x": test})))
    edges = np.quantile(train, np.arange(11) / 10)
    shares = [np.bincount(np.searchsorted(edges, x), minlength=12) / len(x) for x in (train, test)]
    expected = np.abs(shares[0] - shares[1])
    assert found.infinity_norm == pytest.approx(expected.max(), abs=0.02)


def test_small_integers_are_compared_exactly():
    train, test = [0] * 50 + [1] * 30 + [7] * 20, [0] * 10 + [1] * 6 + [200] * 4
    found = only(drift.skew(slices_of(train={"x": train}, test={"x": test})))
    assert found.infinity_norm == pytest.approx(0.2)


def test_what_stays_the_same_has_no_distance():
    values = {"x": np.random.default_rng(0).lognormal(size=1000), "c": ["a", "b"] * 500}
    found = drift.skew(slices_of(train=values, test=values))
    assert [one.infinity_norm for one in found.distances] == [0, 0]
    assert [one.jensen_shannon for one in found.distances] == [0, 0]


def test_a_constant_that_moves_is_far_away():
    found = only(drift.skew(slices_of(train={"x": [5.0] * 9}, test={"x": [6.0] * 9})))
    assert found.infinity_norm == 1
    assert found.jensen_shannon == pytest.approx(1)


def test_values_that_are_not_finite_count():
    nan, inf = float("nan"), float("inf")
    train = pa.array([1.0, 2.0, 3.0, 4.0])
    test = pa.array([1.0, 2.0, nan, inf], from_pandas=False)
    found = only(drift.skew(slices_of(train={"x": train}, test={"x": test})))
    assert found.infinity_norm == pytest.approx(0.25)


def test_missing_values_are_a_distance_of_their_own():
    train, test = [1, 2, None, None], [1, 2, 1, 2]
    found = only(drift.skew(slices_of(train={"x": train}, test={"x": test})))
    assert found.missing == (0.5, 0)
    assert found.infinity_norm == 0
    assert found.distance == found.to_json()["distance"] == 0.5


def test_the_largest_of_the_distances_comes_first():
    train = {"x": [1, 2] * 50, "y": ["a"] * 50 + ["b"] * 50}
    test = {"x": [1, 2] * 20 + [None] * 60, "y": ["a"] * 60 + ["b"] * 40}
    found = drift.skew(slices_of(train=train, test=test)).distances
    assert [(one.column, one.distance) for one in found] == [
        ("x", pytest.approx(0.6)), ("y", pytest.approx(0.1))
    ]  # fmt: skip


def test_a_column_without_any_value_left_is_as_far_as_it_was_full():
    empty = pa.nulls(10, pa.int64())
    found = only(
        drift.drift(slices_of(train={"x": [1] * 8 + [None] * 2}), slices_of(train={"x": empty}))
    )
    assert (found.infinity_norm, found.jensen_shannon, found.where) == (None, None, "missing")
    assert found.distance == pytest.approx(0.8)
    both = only(drift.drift(slices_of(train={"x": empty}), slices_of(train={"x": empty})))
    assert (both.infinity_norm, both.distance) == (None, 0)


def test_datasets_are_compared_as_a_whole_and_columns_that_differ_are_told():
    before = slices_of(train={"a": ["x"] * 10, "gone": [1] * 10, "was": [1] * 10},
                       test={"a": ["y"] * 10, "gone": [1] * 10, "was": [1] * 10})  # fmt: skip
    now = slices_of(train={"a": ["x"] * 20, "new": [1] * 20, "was": ["1"] * 20})
    found = drift.drift(before, now)
    assert only(found).infinity_norm == pytest.approx(0.5)
    assert only(found).records == ALL_EXAMPLES
    assert dict(found.other) == {
        "gone": "no longer exists",
        "new": "is new",
        "was": "has numbers in one of the two and texts in the other",
    }


def test_values_too_many_to_be_known_are_compared_as_far_as_they_are():
    train = [f"id {number}" for number in range(6000)] + ["often"] * 4000
    test = [f"id {number}" for number in range(6000, 6100)] + ["often"] * 100
    found = only(drift.skew(slices_of(train={"x": train}, test={"x": test})))
    counts = [Counter(values)["often"] / len(values) for values in (train, test)]
    assert found.where == "often"
    assert found.infinity_norm == pytest.approx(abs(counts[0] - counts[1]), abs=2 / 1024)
    assert 0 < found.jensen_shannon < 0.1


def test_one_split_has_no_skew():
    found = drift.skew(slices_of(train={"x": [1]}))
    assert found == drift.Comparison(nothing="only one split has records")


def test_the_bucket_of_zero_begins_and_ends_with_zero():
    least = 1.738e-310
    assert list(drift._bucket_names([-math.inf, -least, 14.06, math.inf])) == [
        "below 0",
        "0 to 14.06",
        "14.06 and above",
    ]


# --- Noise --------------------------------------------------------------------------------------


def columns_of(generator, size, *, shift=0.0):
    """Columns of every kind, of which each record is drawn alone; ids are all different."""
    words = generator.choice([f"w{n}" for n in range(50)], size, p=np.arange(1, 51) / 1275)
    numbers = generator.normal(shift, 1, size)
    return {
        "word": words,
        "number": numbers,
        "small": generator.integers(0, 4, size),
        "id": [f"{one}" for one in generator.integers(0, 2**62, size)],
        "gaps": pa.array(numbers, mask=generator.random(size) < 0.1),
        "lists": pa.array([[one] * 3 for one in words]),
    }


@pytest.mark.parametrize("sizes", [(2000, 200), (200, 2000), (500, 500), (3000, 20)])
def test_samples_of_the_same_records_differ_by_noise(sizes):
    """Each of 30 pairs of samples has six columns; the probability is 1 % per column."""
    generator = np.random.default_rng(3)
    loud = 0
    for _ in range(30):
        train, test = (columns_of(generator, size) for size in sizes)
        loud += len(drift.skew(slices_of(train=train, test=test)).beyond_noise)
    assert loud <= 4


def test_other_records_differ_by_more_than_noise():
    generator = np.random.default_rng(4)
    train, test = columns_of(generator, 2000), columns_of(generator, 500, shift=1)
    train["gone"], test["gone"] = [1] * 2000, [1] * 400 + [None] * 100
    train["new"], test["new"] = ["a"] * 2000, ["a"] * 440 + ["b"] * 60
    found = drift.skew(slices_of(train=train, test=test))
    assert {one.column for one in found.beyond_noise} == {"number", "gaps", "gone", "new"}
    assert len(found.distances) == 8
    assert {one["column"] for one in found.to_json()["distances"]} == {*train}
    quiet = {one.column: one for one in found.distances if one.is_noise}
    assert quiet["word"].distance > 0
    assert quiet["word"].to_json()["noise"][0] >= quiet["word"].distance


SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array)
SIZES = st.integers(1, 10**9)


@given(SHARES, SIZES, SIZES)
def test_noise_falls_with_the_sizes_of_both_samples(shares, one, two):
    noise = drift.noise_of(shares, sizes=(one, two))
    assert noise == pytest.approx(drift.noise_of(shares, sizes=(two, one)))
    assert noise >= drift.noise_of(shares, sizes=(one * 2, two)) > 0
    assert noise >= drift.noise_of(shares[:1], sizes=(one, two))
    # Two equal halves: 2.576 standard deviations hold 99 % of a normal distribution.
    half = drift.noise_of(np.array([0.5]), sizes=(one, two))
    assert half == pytest.approx(
        2.5758 * math.sqrt(0.25 * (1 / one + 1 / two)) + 1 / min(one, two), rel=1e-4
    )
