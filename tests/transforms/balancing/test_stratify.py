"""Exact fractions within every class, against a brute force."""

import collections

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.balancing.stratify import find_strata, majority, split_cuts, too_small
from recordmill.transforms.model import batch
from recordmill.transforms.model.rank_cuts import Histogram, Threshold
from recordmill.transforms.model.splits import Strata, apportion, assign, assign_strata, split_ranks
from tests.beam_results import results

SEED = 4
FRACTIONS = {"train": 0.7, "validation": 0.2, "test": 0.1}


def records(rows):
    """rows: (key, label, group, split)"""
    names = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT)
    columns = zip(*rows, strict=True) if rows else [()] * 4
    return pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in columns], names=names)


def random_rows(count, *, groups, seed=0):
    generator = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        label = (None, "a", "b", "c")[generator.choice(4, p=[0.1, 0.6, 0.2, 0.1])]
        group = f"g{generator.integers(groups)}" if groups and generator.random() < 0.8 else None
        split = "test" if generator.random() < 0.1 else None
        rows.append((f"key {i}", label, group, split))
    return rows


def expected(rows):
    """The oracle: {key: split}, by sorting the units of every class."""
    table = records(rows)
    by_hash = assign(table, fractions=FRACTIONS, seed=SEED)[batch.SPLIT].to_pylist()
    rank_of = {}
    votes = collections.defaultdict(collections.Counter)
    unit_of = []
    for row, rank in zip(rows, split_ranks(table, seed=SEED).tolist(), strict=True):
        key, label, group, split = row
        unit = ("group", group) if group else ("key", key)
        unit_of.append(unit)
        rank_of[unit] = rank
        if label is not None and split is None:
            votes[unit][label] += 1
    classes = collections.defaultdict(list)
    for unit, counter in votes.items():
        label = min(counter, key=lambda name: (-counter[name], name))
        classes[label].append((rank_of[unit], unit))
    split_of = {}
    for members in classes.values():
        names = np.repeat(list(FRACTIONS), apportion(len(members), FRACTIONS)).tolist()
        split_of |= {unit: name for (_, unit), name in zip(sorted(members), names, strict=True)}
    return {
        row[0]: row[3] or split_of.get(unit, hashed)
        for row, unit, hashed in zip(rows, unit_of, by_hash, strict=True)
    }


@pytest.fixture(scope="module")
def inputs():
    """(rows, grouped) by name: labels, groups, unlabelled records and given splits mixed."""
    plain = random_rows(1500, groups=0)
    grouped = random_rows(1500, groups=300, seed=1)
    return {
        "plain": (plain, False),
        "grouped": (grouped, True),
        "small": ([*plain, ("one", "rare", None, None), ("two", "rare", None, None)], False),
    }


class Stratify(beam.PTransform):
    """What the road does with --stratify: (rows with their splits, problems)."""

    def __init__(self, grouped):
        super().__init__()
        self.grouped = grouped

    def expand(self, batches):
        strata, problems = find_strata(
            lambda label, after=None: (
                batches | label >> beam.Map(_same).with_output_types(pa.RecordBatch)
            ),
            fractions=FRACTIONS,
            seed=SEED,
            grouped=self.grouped,
        )
        rows = batches | "Assign" >> beam.Map(
            assign_strata, fractions=FRACTIONS, strata=beam.pvalue.AsSingleton(strata), seed=SEED
        ).with_output_types(pa.RecordBatch)
        return {"rows": rows, "problems": problems}


def _same(rows):
    return rows


@pytest.fixture(scope="module")
def found(inputs):
    def build(pipeline):
        made = {}
        for name, (rows, grouped) in inputs.items():
            parts = [records(rows[at : at + 130]) for at in range(0, len(rows), 130)]
            batches = pipeline | f"Read {name}" >> beam.Create([*parts, records([])])
            out = batches | f"Stratify {name}" >> Stratify(grouped)
            made |= {f"{name} {kind}": collection for kind, collection in out.items()}
        return made

    return results(build)


def assigned(batches):
    return {
        key: split
        for rows in batches
        for key, split in zip(
            rows[batch.KEY].to_pylist(), rows[batch.SPLIT].to_pylist(), strict=True
        )
    }


@pytest.mark.parametrize("name", ["plain", "grouped"])
def test_splits_are_those_of_the_brute_force(inputs, found, name):
    rows, _ = inputs[name]
    assert assigned(found[f"{name} rows"]) == expected(rows)
    assert f"{name} problems" not in found


def test_counts_are_exact_by_class(inputs, found):
    rows, _ = inputs["plain"]
    splits = assigned(found["plain rows"])
    open_ = [(label, splits[key]) for key, label, _, split in rows if label and not split]
    for label in "abc":
        counts = collections.Counter(split for name, split in open_ if name == label)
        assert [counts[name] for name in FRACTIONS] == apportion(counts.total(), FRACTIONS)


def test_groups_never_part(inputs, found):
    rows, _ = inputs["grouped"]
    splits = assigned(found["grouped rows"])
    of_group = collections.defaultdict(set)
    for key, _, group, split in rows:
        if group and not split:
            of_group[group].add(splits[key])
    assert {len(found) for found in of_group.values()} == {1}


def test_given_splits_and_records_without_label(inputs, found):
    for name in ("plain", "grouped"):
        rows, _ = inputs[name]
        splits = assigned(found[f"{name} rows"])
        assert all(splits[key] == split for key, _, _, split in rows if split)
        lone = [row for row in rows if not row[1] and not row[2] and not row[3]]
        by_hash = assigned([assign(records(lone), fractions=FRACTIONS, seed=SEED)])
        assert len(lone) > 10
        assert {key: splits[key] for key in by_hash} == by_hash


def test_a_class_too_small_is_a_problem(found):
    assert found["small problems"] == [
        "--stratify: expected at least 3 records in every class, one for each of train,"
        " validation, test; too few in 'rare' (2): add records, remove the class, or split without"
        " --stratify"
    ]


def test_many_small_classes_are_not_all_named():
    counts = np.zeros((8, 256), np.int64)
    counts[:7, 0] = 1
    counts[7, 0] = 1
    histogram = Histogram((*(f"c{i}" for i in range(7)), None), counts)
    (problem,) = too_small(histogram, fractions=FRACTIONS, unit="groups")
    assert "3 groups" in problem
    assert "'c4' (1) and 2 more:" in problem
    assert split_cuts(histogram, fractions=FRACTIONS) == {}


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "ä", "z"])), min_size=1),
    st.integers(1, 5),
)
def test_the_majority_decides_and_ties_go_to_the_first_name(votes, size):
    parts = [
        pa.RecordBatch.from_pydict(
            {
                "unit": pa.array([unit for unit, _ in votes[at : at + size]], pa.uint64()),
                "label": pa.array([label for _, label in votes[at : at + size]], pa.string()),
            }
        )
        for at in range(0, len(votes), size)
    ]
    made = majority(parts)
    counted = collections.defaultdict(collections.Counter)
    for unit, label in votes:
        counted[unit][label] += 1
    assert dict(zip(made["unit"].to_pylist(), made["label"].to_pylist(), strict=True)) == {
        unit: min(counter, key=lambda name: (-counter[name], name.encode()))
        for unit, counter in counted.items()
    }
    assert made["unit"].to_pylist() == sorted(counted)


def test_a_group_whose_rank_is_a_threshold_is_beyond_it():
    """Units have no key of their own to compare with the one of the threshold."""
    rows = records([("k", "a", "g", None)])
    rank = int(split_ranks(rows, seed=SEED)[0])
    units = pa.RecordBatch.from_pydict(
        {"unit": pa.array(batch.unit_hashes(rows)), "label": pa.array(["a"])}
    )
    strata = Strata({"a": [Threshold(rank), Threshold(2**64)]}, units)
    made = assign_strata(rows, fractions=FRACTIONS, strata=strata, seed=SEED)
    assert made[batch.SPLIT].to_pylist() == ["validation"]
