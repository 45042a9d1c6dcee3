"""Exact fractions within every class, against a brute force."""

import collections

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from recordmill.transforms.balancing.group_division import divide_groups, too_small
from recordmill.transforms.balancing.stratify import find_strata, split_cuts
from recordmill.transforms.model import batch
from recordmill.transforms.model.rank_cuts import Histogram
from recordmill.transforms.model.splits import apportion, assign, assign_strata, split_ranks
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
    """The oracle: {key: split}, by sorting the records of every class; groups as divided."""
    table = records(rows)
    by_hash = assign(table, fractions=FRACTIONS, seed=SEED)[batch.SPLIT].to_pylist()
    rank_of = dict(zip(table[batch.KEY].to_pylist(), split_ranks(table, seed=SEED), strict=True))
    hash_of = dict(zip(table[batch.KEY].to_pylist(), batch.unit_hashes(table), strict=True))
    members = collections.defaultdict(list)
    for key, label, group, split in rows:
        if split is None:
            members[("group", group) if group else ("key", key)].append((key, label))
    classes = collections.defaultdict(list)
    groups = []
    for (_, name), records_ in members.items():
        labels = collections.Counter(label for _, label in records_ if label)
        if len(records_) == 1 and labels:
            ((key, label),) = records_
            classes[label].append((rank_of[key], key))
        groups += [(hash_of[records_[0][0]], *one, name) for one in labels.items()
                   if len(records_) > 1]  # fmt: skip
    if not groups:
        sizes = {label: apportion(len(found), FRACTIONS) for label, found in classes.items()}
        whole = {}
    else:
        columns = dict(zip(("unit", "label", "count", "name"), zip(*groups), strict=True))  # noqa: B905
        columns["unit"] = pa.array(columns["unit"], pa.uint64())
        parts = [pa.RecordBatch.from_pydict(columns)]
        singles = {label: len(found) for label, found in classes.items()}
        division = divide_groups(parts, singles, fractions=FRACTIONS, seed=SEED)
        sizes, whole = (
            division.singles,
            dict(zip(*division.groups.to_pydict().values(), strict=True)),
        )
    split_of = {}
    for label, found in classes.items():
        names = np.repeat(list(FRACTIONS), sizes[label]).tolist()
        split_of |= {key: name for (_, key), name in zip(sorted(found), names, strict=True)}
    for key, unit in hash_of.items():
        if int(unit) in whole:
            split_of[key] = list(FRACTIONS)[whole[int(unit)]]
    return {
        row[0]: row[3] or split_of.get(row[0], hashed)
        for row, hashed in zip(rows, by_hash, strict=True)
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
    """Apply --stratify as the road does: (rows with their splits, problems)."""

    def __init__(self, grouped):
        super().__init__()
        self.grouped = grouped

    def expand(self, batches):
        found = find_strata(
            lambda label, after=None: (
                batches | label >> beam.Map(_same).with_output_types(pa.RecordBatch)
            ),
            fractions=FRACTIONS,
            seed=SEED,
            grouped=self.grouped,
        )
        rows = batches | "Assign" >> beam.Map(
            assign_strata,
            fractions=FRACTIONS,
            strata=beam.pvalue.AsSingleton(found.strata),
            seed=SEED,
        ).with_output_types(pa.RecordBatch)
        notes = {} if found.notes is None else {"notes": found.notes}
        return {"rows": rows, "problems": found.problems, **notes}


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


def test_counts_by_class_are_near_with_groups(inputs, found):
    rows, _ = inputs["grouped"]
    splits = assigned(found["grouped rows"])
    open_ = [(label, splits[key]) for key, label, _, split in rows if label and not split]
    for label in "abc":
        counts = collections.Counter(split for name, split in open_ if name == label)
        goals = apportion(counts.total(), FRACTIONS)
        assert all(abs(counts[name] - n) <= 1 for name, n in zip(FRACTIONS, goals, strict=True))
    assert "grouped notes" not in found


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
        " validation, test; too few in 'rare' (2): add records, leave the class out with"
        " --exclude-labels, or split without --stratify"
    ]


def test_many_small_classes_are_not_all_named():
    counts = np.zeros((8, 256), np.int64)
    counts[:7, 0] = 1
    counts[7, 0] = 1
    histogram = Histogram((*(f"c{i}" for i in range(7)), None), counts)
    counts = {f"c{i}": 1 for i in range(7)} | {"large": 3}
    (problem,) = too_small(counts, FRACTIONS, "groups")
    assert "3 groups" in problem
    assert "'c4' (1) and 2 more:" in problem
    assert split_cuts(histogram, fractions=FRACTIONS) == {}
