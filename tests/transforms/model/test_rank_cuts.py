"""Cuts against the sort they replace."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.model.rank_cuts import (
    BUCKETS,
    Histogram,
    RankCut,
    Threshold,
    boundary_rows,
    thresholds,
    within,
)

# Few distinct ranks, so that they tie; both ends, both sides of a bucket's edge.
RANKS = st.sampled_from([0, 1, 2**56 - 1, 2**56, 2**63, 255 << 56, 2**64 - 2, 2**64 - 1]) | (
    st.integers(0, 2**64 - 1)
)
LABELS = st.sampled_from(["a", "b", "ä", ""])
ROWS = st.lists(st.tuples(st.none() | LABELS, RANKS), max_size=40)


def columns(rows):
    """labels, ranks, keys: keys in no order of the ranks, all different."""
    labels = pa.array([label for label, _ in rows], pa.string())
    ranks = np.array([rank for _, rank in rows], np.uint64)
    keys = pa.array([f"{i * 7919 % 1009:04d} é{i}" for i in range(len(rows))], pa.string())
    return labels, ranks, keys


def smallest(rows, label, size):
    """The oracle: the rows of a class with the smallest (rank, key)."""
    _, _, keys = columns(rows)
    own = [i for i, (name, _) in enumerate(rows) if name == label]
    return set(sorted(own, key=lambda i: (rows[i][1], keys[i].as_py()))[:size])


def meet(parts):
    """Group by key as the runner does."""
    met = {}
    for label, rows in parts:
        met.setdefault(label, []).append(rows)
    return {label: pa.concat_batches(found) for label, found in met.items()}


def choose(rows, cuts):
    """{(label, cut): rows within it}, by histogram, boundary and threshold."""
    labels, ranks, keys = columns(rows)
    met = meet(boundary_rows(labels, ranks, keys, cuts))
    chosen = {}
    for label, own in cuts.items():
        for i, last in enumerate(thresholds(own, met.get(label))):
            codes = np.array([0 if name == label else -1 for name, _ in rows], np.int64)
            inside = within(codes, ranks, keys, [last, Threshold(-1)])
            chosen[label, i] = set(np.flatnonzero(inside).tolist())
    return chosen


@given(ROWS, st.data())
def test_a_cut_is_the_rows_of_smallest_rank_and_key(rows, data):
    labels, ranks, _ = columns(rows)
    histogram = Histogram.of(labels, ranks)
    totals = histogram.totals()
    sizes = {
        label: data.draw(st.lists(st.sampled_from([0, n]) | st.integers(0, n), max_size=3))
        for label, n in totals.items()
        if label is not None
    }
    cuts = {
        label: tuple(RankCut.of(row, size) for size in sizes[label])
        for label, row in zip(histogram.labels, histogram.counts, strict=True)
        if label is not None
    }
    expected = {
        (label, i): smallest(rows, label, size)
        for label, own in sizes.items()
        for i, size in enumerate(own)
    }
    assert choose(rows, cuts) == expected


def test_rows_of_one_rank_are_cut_by_their_keys():
    rows = [("a", 5)] * 9
    chosen = choose(rows, {"a": (RankCut.of(Histogram.of(*columns(rows)[:2]).counts[0], 4),)})
    assert chosen == {("a", 0): smallest(rows, "a", 4)}


def test_within_takes_each_row_by_its_own_class():
    ranks = np.array([10, 10, 10, 10], np.uint64)
    keys = pa.array(["k"] * 4)
    last = [Threshold(10, "k"), Threshold(10), Threshold(2**64), Threshold(-1)]
    assert within(np.array([0, 1, 2, 3]), ranks, keys, last).tolist() == [True, False, True, False]


@pytest.mark.parametrize("rank", [0, 2**64 - 1])
def test_thresholds_beyond_the_ends(rank):
    ranks, keys, codes = np.array([rank], np.uint64), pa.array(["k"]), np.array([0])
    assert within(codes, ranks, keys, [Threshold(2**64)]).tolist() == [True]
    assert within(codes, ranks, keys, [Threshold(-1)]).tolist() == [False]
    assert within(codes, ranks, keys, [Threshold(rank)]).tolist() == [False]


@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 7))
def test_the_histogram_knows_neither_order_nor_batches(rows, random, size):
    whole = Histogram.of(*columns(rows)[:2])
    shuffled = random.sample(rows, len(rows))
    parts = [
        Histogram.of(*columns(shuffled[at : at + size])[:2]) for at in range(0, len(rows), size)
    ]
    summed = Histogram.sum(parts)
    again = Histogram.sum([Histogram.sum(parts[1:]), Histogram.empty(), *parts[:1]])
    assert summed.labels == again.labels == Histogram.sum([whole]).labels
    assert (summed.counts == again.counts).all()
    assert (summed.counts == Histogram.sum([whole]).counts).all()
    assert summed.counts.sum() == len(rows)
    assert summed.counts.dtype == np.int64


def test_labels_are_in_utf8_order_and_none_is_last():
    labels = pa.array(["z", None, "ä", "", "Z", "😀", "\uffff"], pa.string())
    histogram = Histogram.sum([Histogram.of(labels, np.zeros(7, np.uint64))])
    names = [label for label in histogram.labels if label is not None]
    assert names == sorted(names, key=str.encode)
    assert histogram.labels[-1] is None
    assert len(names) == 6


def test_only_boundary_rows_are_gathered():
    generator = np.random.default_rng(0)
    ranks = generator.integers(0, 2**64, 10_000, np.uint64)
    labels = pa.array(["a" if i % 2 else "b" for i in range(len(ranks))])
    keys = pa.array([str(i) for i in range(len(ranks))])
    histogram = Histogram.of(labels, ranks)
    row = dict(zip(histogram.labels, histogram.counts, strict=True))
    whole = RankCut.of(row["b"], int(row["b"][:9].sum()))  # ends between two buckets
    cut = RankCut.of(row["a"], 1000)
    met = meet(boundary_rows(labels, ranks, keys, {"a": (cut,), "b": (whole,)}))
    assert met.keys() == {"a"}
    assert set(np.asarray(met["a"]["rank"]) >> np.uint64(56)) == {cut.boundary}
    assert len(met["a"]) == row["a"][cut.boundary]


@pytest.mark.parametrize("size", [-1, 4])
def test_a_cut_larger_than_its_class_is_a_bug(size):
    counts = np.zeros(BUCKETS, np.int64)
    counts[7] = 3
    with pytest.raises(ValueError, match=f"a cut of {size} records out of 3"):
        RankCut.of(counts, size)


def test_histograms_of_many_classes_are_small_elements():
    """Flink fails on elements that exceed its sort buffer."""
    generator = np.random.default_rng(0)
    labels = pa.array([f"class {number}" for number in generator.integers(0, 8000, 20_000)])
    histogram = Histogram.of(labels, generator.integers(0, 2**64, 20_000, np.uint64))
    packed = pickle.dumps(histogram)
    assert histogram.counts.nbytes > 14 << 20
    assert len(packed) < 1 << 20
    found = pickle.loads(packed)
    assert found.labels == histogram.labels
    assert np.array_equal(found.counts, histogram.counts)
