"""Splits by hash, and the arithmetic of exact ones."""

import collections
import fractions as exact
import math

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.transforms import AssignSplits, RunSpec
from recordmill.transforms.model import batch
from recordmill.transforms.model.splits import apportion, assign
from tests.beam_results import results

THREE = {"train": 0.8, "validation": 0.15, "test": 0.05}
WORDS = st.text(max_size=4)


def records(keys, *, groups=None, splits=None):
    columns = {batch.KEY: pa.array(keys, pa.string())}
    if groups is not None:
        columns[batch.GROUP] = pa.array(groups, pa.string())
    if splits is not None:
        columns[batch.SPLIT] = pa.array(splits, pa.string())
    return pa.RecordBatch.from_pydict(columns)


def splits_of(rows):
    return dict(zip(rows[batch.KEY].to_pylist(), rows[batch.SPLIT].to_pylist(), strict=True))


@st.composite
def parted(draw):
    """{name: fraction} that sums to 1, as a user types it: with two decimals."""
    ends = sorted(draw(st.sets(st.integers(1, 99), max_size=4)))
    parts = np.diff([0, *ends, 100]).tolist()
    return {f"s{i}": part / 100 for i, part in enumerate(parts)}


def test_counts_are_near_the_fractions():
    count = 50_000
    rows = assign(records([f"{i}.jpg" for i in range(count)]), fractions=THREE, seed=1)
    found = collections.Counter(rows[batch.SPLIT].to_pylist())
    for name, fraction in THREE.items():
        deviation = math.sqrt(count * fraction * (1 - fraction))
        assert abs(found[name] - count * fraction) < 4 * deviation, name


def test_the_seed_decides():
    keys = records([str(i) for i in range(200)])
    first, other = (splits_of(assign(keys, fractions=THREE, seed=seed)) for seed in (1, 2))
    assert first != other


@given(st.lists(WORDS, unique=True, max_size=20), st.lists(WORDS, unique=True), parted())
def test_data_added_later_moves_no_old_record(old, new, fractions):
    before = splits_of(assign(records(old), fractions=fractions, seed=5))
    after = splits_of(assign(records([*new, *old][::-1]), fractions=fractions, seed=5))
    assert before.items() <= after.items()


@given(st.lists(st.sampled_from("abcdefgh"), max_size=30), parted())
def test_groups_never_part(groups, fractions):
    keys = [f"{i}" for i in range(len(groups))]
    rows = assign(records(keys, groups=groups), fractions=fractions, seed=5)
    found = set(zip(groups, rows[batch.SPLIT].to_pylist(), strict=True))
    assert len(found) == len(set(groups))


@given(st.lists(st.none() | st.sampled_from(["test", "holdout"]), max_size=20))
def test_given_splits_are_respected(given_splits):
    keys = [str(i) for i in range(len(given_splits))]
    by_hash = splits_of(assign(records(keys), fractions=THREE, seed=5))
    found = splits_of(assign(records(keys, splits=given_splits), fractions=THREE, seed=5))
    assert found == {key: own or by_hash[key] for key, own in zip(keys, given_splits, strict=True)}


def test_rows_that_are_split_already_are_not_hashed():
    rows = records(["a", "b"], splits=["test", "train"])
    assert assign(rows, fractions=THREE, seed=1) is rows


def test_an_empty_batch_stays_empty():
    assert assign(records([]), fractions=THREE, seed=0)[batch.SPLIT].to_pylist() == []


@pytest.mark.parametrize(
    "fractions", [{"a": 1.0}, {"a": 1.0, "b": 1e-12}, {"a": 0.5, "b": 0.5 + 1e-10, "c": 1e-10}]
)
def test_sums_that_round_up_to_one(fractions):
    found = assign(records([str(i) for i in range(50)]), fractions=fractions, seed=0)
    assert set(found[batch.SPLIT].to_pylist()) <= {"a", "b"}


@given(st.integers(0, 10**9), parted())
def test_parts_are_by_largest_remainder(total, fractions):
    parts = apportion(total, fractions)
    assert sum(parts) == total
    shares = [total * exact.Fraction(round(f * 100), 100) for f in fractions.values()]
    assert all(
        math.floor(share) <= part <= math.ceil(share)
        for part, share in zip(parts, shares, strict=True)
    )
    remainders = [share - math.floor(share) for share in shares]
    up = [r for part, share, r in zip(parts, shares, remainders, strict=True) if part > share]
    down = [r for part, share, r in zip(parts, shares, remainders, strict=True) if part < share]
    assert not up or not down or min(up) >= max(down)


@pytest.mark.parametrize(
    ("total", "fractions", "parts"),
    [
        (10, THREE, [8, 2, 0]),  # 8, 1.5, 0.5: the tie goes to the earlier split
        (1, {"a": 0.5, "b": 0.5}, [1, 0]),
        (0, THREE, [0, 0, 0]),
        (3, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, [1, 1, 1]),
        (10**12, {"a": 0.5, "b": 0.5 + 1e-10}, [499_999_999_950, 500_000_000_050]),
    ],
)
def test_apportion(total, fractions, parts):
    assert apportion(total, fractions) == parts


@given(st.integers(0, 10**12), st.lists(st.floats(1e-6, 1), min_size=1, max_size=6))
def test_parts_sum_up_whatever_the_rounding(total, weights):
    fractions = {str(i): weight / math.fsum(weights) for i, weight in enumerate(weights)}
    assume(abs(math.fsum(fractions.values()) - 1) < 1e-9)
    parts = apportion(total, fractions)
    assert sum(parts) == total
    assert min(parts) >= 0


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ({"a": 0.5, "b": 0.4}, "that sum to 1"),
        ({"a": math.nan, "b": 0.4}, "above 0"),
        ({"a": 1.5, "b": -0.5}, "above 0"),
        ({}, "that sum to 1"),
    ],
)
def test_fractions_that_cannot_be(fractions, message):
    with pytest.raises(ConfigError, match=message):
        RunSpec(splits=fractions)


def test_batches_in_memory_in_a_custom_pipeline():
    keys = [str(i) for i in range(100)]
    found = results(
        lambda pipeline: {
            "rows": pipeline
            | beam.Create([records(keys[:30]), batch.with_hash(records(keys[30:]))])
            | AssignSplits(THREE, seed=9)
        },
        checks=True,
    )["rows"]
    assert {k: v for rows in found for k, v in splits_of(rows).items()} == splits_of(
        assign(records(keys), fractions=THREE, seed=9)
    )
