"""Balanced classes against the sort they replace."""

import collections

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.transforms import (
    Analyze,
    AssignSplits,
    ReadBatches,
    Rebalance,
    RunSpec,
    StageBatches,
)
from recordmill.transforms.balancing.quotas import (
    Quota,
    balance_ranks,
    balance_rows,
    pending_quotas,
    replicate,
    targets,
)
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.rank_cuts import Histogram, boundary_rows, thresholds
from tests.beam_results import results
from tests.examples_of_properties import many
from tests.tiny import TinyEncoder

SEED = 11
GOALS = [
    ("oversample", None),
    ("oversample", 1),
    ("oversample", 7),
    ("oversample", "median"),
    ("undersample", None),
    ("undersample", 1),
    ("undersample", 5),
    ("undersample", "median"),
]
LABELS = st.none() | st.sampled_from("aaaabbc")
SPLITS = st.sampled_from(["train", "train", "train", "test"])


def records(rows):
    """rows: (label, split); the key is the place."""
    return pa.RecordBatch.from_pydict(
        {
            batch.KEY: pa.array([f"key {i}" for i in range(len(rows))], pa.string()),
            batch.LABEL: pa.array([label for label, _ in rows], pa.string()),
            batch.SPLIT: pa.array([split for _, split in rows], pa.string()),
            "user": pa.array(range(len(rows)), pa.int64()),
        }
    )


def wanted(counts, *, balance, target):
    """The oracle of `targets`."""
    ordered = sorted(counts.values())
    if target == "median":
        middle = len(ordered) // 2
        target = ordered[middle]
        if not len(ordered) % 2:
            target = (target + ordered[middle - 1] + 1) // 2
    if balance == "oversample":
        return {label: max(n, target or ordered[-1]) for label, n in counts.items()}
    return {label: min(n, target or ordered[0]) for label, n in counts.items()}


def expected(rows, *, balance, target):
    """The oracle: how often each key appears, by sorting every class."""
    ranks = balance_ranks(rows, seed=SEED).tolist()
    times = dict.fromkeys(rows[batch.KEY].to_pylist(), 1)
    classes = collections.defaultdict(list)
    for rank, row in zip(ranks, rows.to_pylist(), strict=True):
        if row[batch.SPLIT] == "train" and row[batch.LABEL] is not None:
            classes[row[batch.LABEL]].append((rank, row[batch.KEY]))
    if not classes:
        return times
    goal = wanted({k: len(v) for k, v in classes.items()}, balance=balance, target=target)
    for label, members in classes.items():
        for place, (_, key) in enumerate(sorted(members)):
            times[key] = goal[label] // len(members) + (place < goal[label] % len(members))
    return {key: n for key, n in times.items() if n}


def quotas_of(rows, *, balance, target):
    """Findings of the transform, without a runner."""
    ranked = balance_rows(rows, seed=SEED)
    labels, ranks, keys = ranked["label"], np.asarray(ranked["rank"]), ranked["key"]
    found = pending_quotas(
        Histogram.sum([Histogram.of(labels, ranks)]), balance=balance, target=target
    )
    cuts = {label: (goal.cut,) for label, goal in found.items()}
    met = dict(boundary_rows(labels, ranks, keys, cuts))
    return {
        label: Quota(goal.repeats, thresholds(cuts[label], met.get(label))[0], goal.size)
        for label, goal in found.items()
    }


def copies_of(batches):
    """{key: its copy numbers, sorted}"""
    found = collections.defaultdict(list)
    for rows in batches:
        for key, copy in zip(
            rows[batch.KEY].to_pylist(), rows[batch.COPY].to_pylist(), strict=True
        ):
            found[key].append(copy)
    return {key: sorted(copies) for key, copies in found.items()}


def numbered(times):
    return {key: list(range(n)) for key, n in times.items()}


@settings(max_examples=many(3))
@given(st.sampled_from(GOALS), st.lists(st.tuples(LABELS, SPLITS), max_size=40), st.integers(1, 9))
def test_every_record_as_often_as_it_must(goal, rows, size):
    balance, target = goal
    rows = records(rows)
    quotas = quotas_of(rows, balance=balance, target=target)
    parts = [rows.slice(at, size) for at in range(0, len(rows), size)]
    made = [out for part in parts for out in replicate(part, quotas=quotas, seed=SEED)]
    assert copies_of(made) == numbered(expected(rows, balance=balance, target=target))
    for out in made:  # all else of a copy is the record's
        assert [f"key {user}" for user in out["user"].to_pylist()] == out[batch.KEY].to_pylist()
    sizes = collections.Counter(
        label
        for out in made
        for label, split in zip(
            out[batch.LABEL].to_pylist(), out[batch.SPLIT].to_pylist(), strict=True
        )
        if split == "train" and label is not None
    )
    assert sizes == {label: quota.size for label, quota in quotas.items()}


@pytest.mark.parametrize("balance", ["none", "weights"])
def test_what_is_not_balanced_stays(balance):
    assert targets({"a": 3, "b": 1}, balance=balance) == {"a": 3, "b": 1}
    rows = records([("a", "train"), ("a", "train"), (None, "train"), ("b", "test")])
    assert copies_of(replicate(rows, quotas={}, seed=0)) == {f"key {i}": [0] for i in range(4)}


@pytest.mark.parametrize(
    ("balance", "target", "sizes"),
    [
        ("oversample", None, {"a": 10, "b": 10, "c": 10, "d": 10}),
        ("oversample", 5, {"a": 10, "b": 5, "c": 5, "d": 5}),
        ("oversample", "median", {"a": 10, "b": 4, "c": 4, "d": 4}),
        ("undersample", None, {"a": 1, "b": 1, "c": 1, "d": 1}),
        ("undersample", 5, {"a": 5, "b": 4, "c": 3, "d": 1}),
        ("undersample", "median", {"a": 4, "b": 4, "c": 3, "d": 1}),
    ],
)
def test_targets(balance, target, sizes):
    counts = {"a": 10, "b": 4, "c": 3, "d": 1}
    assert targets(counts, balance=balance, target=target) == sizes
    assert targets({}, balance=balance, target=target) == {}


@pytest.mark.parametrize(
    ("counts", "goal"),
    [((239, 981), 610), ((1, 2), 2), ((5, 5), 5), ((1, 4, 9), 4), ((1, 2, 4, 9), 3), ((7,), 7)],
)
def test_the_median_of_an_even_number_of_classes_is_between_the_middle_two(counts, goal):
    named = {f"c{place}": count for place, count in enumerate(counts)}
    more = targets(named, balance="oversample", target="median")
    assert [*more.values()] == [max(count, goal) for count in counts]
    fewer = targets(named, balance="undersample", target="median")
    assert [*fewer.values()] == [min(count, goal) for count in counts]


def test_a_rare_class_becomes_batches_of_usual_size():
    rows = records([("a", "train")] * 3)
    made = list(replicate(rows, quotas={"a": Quota(100_000, size=300_000)}, seed=0))
    assert max(map(len, made)) == limits.PART_ROWS
    assert sum(map(len, made)) == 300_000
    assert copies_of(made) == {f"key {i}": list(range(100_000)) for i in range(3)}


def test_the_seed_decides_who_is_repeated():
    rows = balance_rows(records([("a", "train")] * 50), seed=1)
    other = balance_rows(records([("a", "train")] * 50), seed=2)
    assert np.argsort(rows["rank"]).tolist() != np.argsort(other["rank"]).tolist()


def test_undersampling_takes_no_side():
    """The choice of records does not depend on their split and their place."""
    rows = records([("a", "train")] * 4000)
    ranks = balance_ranks(rows, seed=SEED).astype(np.float64)
    order = batch.order_ranks(rows, seed=SEED).astype(np.float64)
    assert abs(np.corrcoef(ranks, order)[0, 1]) < 0.06
    assert abs(np.corrcoef(ranks, np.arange(len(rows)))[0, 1]) < 0.06


def with_value(rows):
    return rows.append_column("value", pa.array([b"v"] * len(rows), pa.binary()))


def test_in_a_custom_pipeline(tmp_path):
    """On any engine, in whatever batches: the same as the oracle."""
    generator = np.random.default_rng(0)
    labels = [(None, "a", "b", "c")[i] for i in generator.choice(4, 3000, p=[0.1, 0.7, 0.15, 0.05])]
    splits = [("train", "test")[i] for i in generator.choice(2, 3000, p=[0.8, 0.2])]
    rows = records(list(zip(labels, splits, strict=True)))
    shuffled = rows.take(pa.array(generator.permutation(len(rows))))

    cut = [shuffled.slice(at, 170) for at in range(0, len(rows), 170)]
    cases = (
        ("whole", [rows], "oversample", None),
        ("cut", [*cut, rows.slice(0, 0)], "oversample", None),
        ("cut", [*cut, rows.slice(0, 0)], "undersample", "median"),
    )

    def build(pipeline):
        made = {}
        for name, batches, balance, target in cases:
            label = f"{name} {balance} {target}"
            run = RunSpec(output=str(tmp_path / label), encoder=TinyEncoder(), seed=SEED)
            made[label] = (
                pipeline
                | f"Create {label}" >> beam.Create([with_value(some) for some in batches])
                | f"Stage {label}" >> StageBatches(run)
                | f"Split {label}" >> AssignSplits()
                | f"Analyze {label}" >> Analyze()
                | f"Rebalance {label}" >> Rebalance(balance, target=target)
                | f"Read {label}" >> ReadBatches()
            )
        return made

    found = results(build)
    assert len(found) == 3
    for name, made in found.items():
        _, balance, target = name.split()
        target = None if target == "None" else target
        assert copies_of(made) == numbered(expected(rows, balance=balance, target=target)), name


def test_an_unknown_balance_is_no_undersampling():
    for counts in ({"a": 3, "b": 1}, {}):
        with pytest.raises(AssertionError, match="unreachable"):
            targets(counts, balance="focal")  # type: ignore[arg-type]
