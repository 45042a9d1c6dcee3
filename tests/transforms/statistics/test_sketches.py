"""Sketches are exact while they are small, near beyond that, and never depend on an order."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.model import batch
from recordmill.transforms.statistics.sketches import KEPT, Distinct, TopValues

WORDS = st.lists(st.text("abc", max_size=3), max_size=60)


def top(words, most=4):
    counts = dict(sorted(Counter(words).items()))
    values = pa.array(list(counts), pa.string())
    return TopValues.of(values, np.array(list(counts.values()), np.int64), most=most)


def ranked(found):
    values, counts = found.ranked()
    return list(zip(values.to_pylist(), counts.tolist(), strict=True))


def told(found):
    return found.levels.tolist(), found.values.to_pylist(), found.counts.tolist(), found.complete


@pytest.mark.parametrize("count", [0, 1, KEPT - 1])
def test_few_different_values_are_counted_exactly(count):
    hashes = batch.mix(np.arange(count).astype(np.uint64), 0)
    assert Distinct.of(np.concatenate([hashes, hashes[::-1]])).count == count


@pytest.mark.parametrize("different", [1, KEPT - 1, KEPT, KEPT + 1, 5000, 60_000])
def test_the_smallest_hashes_are_kept_however_often_they_come(different):
    generator = np.random.default_rng(different)
    hashes = generator.choice(generator.integers(0, 2**64, different, np.uint64), 30_000)
    hashes[:3] = 0, 2**64 - 1, 2**64 - 1
    for some in (hashes, hashes[: 2 * KEPT], hashes[: 2 * KEPT + 1], hashes[:1], hashes >> 20):
        assert Distinct.of(some).hashes.tolist() == sorted(set(some.tolist()))[:KEPT]


@pytest.mark.parametrize("count", [KEPT, 5000, 300_000])
def test_many_different_values_are_counted_to_a_tenth(count):
    hashes = batch.mix(np.arange(count).astype(np.uint64), 7)
    parts = np.array_split(np.concatenate([hashes, hashes[: count // 2]]), 7)
    found = Distinct.sum(Distinct.of(part) for part in parts)
    assert abs(found.count - count) < count / 10
    assert np.array_equal(found.hashes, Distinct.of(hashes).hashes)


@given(WORDS, WORDS, WORDS)
def test_the_order_of_adding_up_does_not_matter(one, two, three):
    parts = [top(words) for words in (one, two, three)]
    whole = told(TopValues.sum(parts))
    assert told(TopValues.sum(parts[::-1])) == whole
    assert told(TopValues.sum([TopValues.sum(parts[:2]), parts[2]])) == whole
    assert told(TopValues.sum([parts[0], TopValues.sum(parts[1:])])) == whole


@given(WORDS, WORDS)
def test_few_values_come_with_their_counts(one, two):
    found = TopValues.sum([top(one, most=100), top(two, most=100)])
    counts = Counter([*one, *two])
    assert found.complete
    assert ranked(found) == sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def test_of_many_values_the_frequent_ones_are_nearly_exact():
    generator = np.random.default_rng(0)
    words = (generator.zipf(1.3, 200_000) % 50_000).astype(str).tolist()
    words += [f"once {number}" for number in range(50_000)]
    generator.shuffle(words)
    found = TopValues.sum(
        [top(words[at : at + 10_000], most=256) for at in range(0, len(words), 10_000)]
    )
    assert not found.complete
    assert len(found.counts) <= 11 * 256
    exact = Counter(words)
    counts = dict(ranked(found))
    for word, count in exact.most_common(50):
        assert count - len(words) / 1024 <= counts.get(word, 0) <= count
    assert [word for word, _ in ranked(found)[:10]] == [word for word, _ in exact.most_common(10)]


def test_memory_is_bounded_where_every_part_has_frequent_values_of_its_own():
    parts = [top([f"user {part} {n}" for n in range(100)] * 5 + ["all"] * 300, most=64)
             for part in range(50)]  # fmt: skip
    found = TopValues.sum(parts)
    assert len(found.counts) <= 11 * 64
    assert ranked(found)[0] == ("all", 15_000)
