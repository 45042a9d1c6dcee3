"""Pictures of several classes: their sets, the one that counts, repeat factors, strata."""

import json
import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import OBJECTS, ObjectCollector
from recordmill.transforms.model.label_sets import (
    Held,
    LabelCounts,
    RepeatFactors,
    largest,
    rarest,
    repeat_factor,
    sets_of,
    strata,
)

names = st.sampled_from(["a", "b", "é", "z", "ab", "1"])
pictures = st.lists(st.lists(names, max_size=5), min_size=1, max_size=12)


def columns(pictures, boxes=None):
    objects = ObjectCollector()
    for number, classes in enumerate(pictures):
        for at, name in enumerate(classes):
            box = (0.0, 0.0, 1.0, 1.0) if boxes is None else boxes[number][at]
            objects.add(number, box, name)
    return pa.record_batch([objects.column(len(pictures))], names=[OBJECTS])


@given(pictures=pictures, cut=st.integers(0, 5))
def test_sets_are_sorted_and_whole(pictures, cut):
    expected = [tuple(sorted(set(one), key=str.encode)) for one in pictures]
    table = columns(pictures)
    assert sets_of(table) == expected
    assert sets_of(table.slice(cut)) == expected[cut:]


@given(pictures=pictures)
def test_counts_are_of_pictures(pictures):
    counts = LabelCounts()
    for one in pictures:
        counts.add(sets_of(columns([one])))
    assert counts.images == len(pictures)
    assert counts.by_class == Counter(name for one in pictures for name in set(one))
    assert sum(counts.by_set.values()) == len(pictures)


def test_the_rarest_class_counts():
    sets = [("a", "b"), ("a",), (), ("b", "c"), ("b",)]
    counts = LabelCounts()
    counts.add(sets)
    assert rarest(sets, counts) == ["a", "a", None, "c", "b"]


def test_of_the_largest_box():
    boxes = [[(0, 0, 2, 2), (0, 0, 1, 9)], [], [(0, 0, 1, 4), (5, 5, 7, 7)]]
    assert largest(columns([["a", "b"], [], ["x", "y"]], boxes)) == ["b", None, "x"]


def test_repeat_factors_are_those_of_lvis():
    assert repeat_factor(0.001, threshold=0.001) == 1
    assert repeat_factor(0.5, threshold=0.001) == 1
    assert repeat_factor(0.0001, threshold=0.001) == pytest.approx(math.sqrt(10))


@given(
    counts=st.dictionaries(names, st.integers(1, 500), min_size=1),
    threshold=st.floats(0.0001, 1),
)
def test_classes_come_as_often_as_their_factor_says(counts, threshold):
    total = sum(counts.values())
    wanted = RepeatFactors(threshold).wanted(counts, Held(total, counts))
    for name, n in counts.items():
        exact = n * max(1, math.sqrt(threshold * total / n))
        assert abs(wanted[name] - exact) <= 0.5 + 1e-9
        assert wanted[name] >= n


def test_frequencies_of_pictures_that_hold_several_are_used():
    held = Held(80, {"rare": 10, "often": 72})
    assert RepeatFactors(0.5).wanted({"rare": 10, "often": 20}, held) == {"rare": 20, "often": 20}


@pytest.mark.parametrize("cut", [0, 1])
def test_what_records_hold_is_counted_once_for_each(cut):
    labels = pa.array(["a", "b", None, "b"])
    sets = pa.array([["a", "b"], ["b"], [], ["b", "c"]])
    one = pa.record_batch([labels], names=[batch.LABEL]).slice(cut)
    several = pa.record_batch([labels, sets], names=[batch.LABEL, batch.CLASSES]).slice(cut)
    a = {"a": 1} if cut == 0 else {}
    assert Held.of(one) == Held(4 - cut, {**a, "b": 2})
    assert Held.of(several) == Held(4 - cut, {**a, "b": 3 - cut, "c": 1})
    both = Held.sum([Held.of(several), Held.of(one)])
    assert both.frequency("b") == (5 - cut) / (8 - 2 * cut)


@given(
    sets=st.dictionaries(
        st.sets(names).map(lambda one: tuple(sorted(one))), st.integers(0, 40), min_size=1
    ),
    least=st.integers(1, 30),
)
def test_no_stratum_is_too_small_where_there_are_enough(sets, least):
    found = strata(sets, least=least)
    assert found.keys() == sets.keys()
    totals = Counter()
    for one, n in sets.items():
        totals[found[one]] += n
    assert min(totals.values()) >= least or len(totals) == 1
    for one, n in sets.items():
        if n >= least:
            assert totals[found[one]] >= n
    assert found == strata(dict(reversed(sets.items())), least=least)


def test_what_is_rare_stays_together():
    sets = {("cat", "dog"): 50, ("cat",): 300, ("dog",): 200, ("cat", "dog", "owl"): 4}
    sets |= {("owl",): 40, ("cat", "owl"): 5}
    found = strata(sets, least=10)
    assert json.loads(found["cat", "dog", "owl"]) == ["owl"]
    assert json.loads(found["cat", "owl"]) == ["owl"]
    assert json.loads(found["cat", "dog"]) == ["cat", "dog"]
