"""No gate passes what an exact computation refuses, or what cannot be computed."""

import dataclasses
import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordmill.errors import RunError
from recordmill.gates import fraction, is_within
from recordmill.profile import drift
from recordmill.profile.schema_rules import ColumnRules, DistanceLimit, SchemaRules
from recordmill.profile.statistics_file import ALL_EXAMPLES, ColumnView, SliceView, parse
from recordmill.transforms.checks.violations import drift_above, drift_violations
from recordmill.transforms.encoders.tokenization.coverage import VocabularyCoverage
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.planning.refusals import refusal
from recordmill.transforms.statistics.dataset_statistics import Statistics
from recordmill.transforms.statistics.statistics_proto import to_bytes
from tests.examples_of_properties import many

ROUNDING = 1e-9
_HUGE = float(np.finfo(np.float64).max)

# Each makes n values.
NUMBERS = {
    "zeros": lambda rng, n: np.zeros(n),
    "negative zeros": lambda rng, n: np.full(n, -0.0),
    "ones": lambda rng, n: np.ones(n),
    "integers": lambda rng, n: rng.integers(-5, 5, n).astype(float),
    "uniform": lambda rng, n: rng.random(n),
    "wide": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
    "subnormal": lambda rng, n: rng.integers(-9, 9, n) * 5e-324,
    "tiny": lambda rng, n: rng.normal(size=n) * 1e-308,
    "huge": lambda rng, n: rng.choice([-_HUGE, _HUGE, _HUGE / 2], n),
    "largest": lambda rng, n: np.full(n, _HUGE),
    "nan": lambda rng, n: np.full(n, math.nan),
    "infinite": lambda rng, n: np.full(n, math.inf),
    "minus infinite": lambda rng, n: np.full(n, -math.inf),
    "both infinite": lambda rng, n: rng.choice([-math.inf, math.inf], n, p=[0.2, 0.8]),
}
TEXTS = {
    "constant": lambda rng, n: ["a"] * n,
    "few": lambda rng, n: [f"w{k}" for k in rng.integers(0, 4, n)],
    "many": lambda rng, n: [f"w{k}" for k in rng.integers(0, 3000, n)],
    "ids": lambda rng, n: [f"id {k:x}" for k in rng.integers(0, 2**60, n)],
    "long": lambda rng, n: ["x" * 300] * n,
    "long ids": lambda rng, n: [f"{k:x}" + "y" * 400 for k in rng.integers(0, 2**60, n)],
    "empty": lambda rng, n: [""] * n,
}


@st.composite
def columns_of(draw, kinds):
    """A column of a mixture of kinds and nulls; 1 to 10,000 values in at most three parts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([1, 2, 3, 9, 100, 1000]) | st.integers(1, 10_000))
    names = draw(st.lists(st.sampled_from([*kinds, "null"]), min_size=1, max_size=3))
    ends = sorted([0, *(draw(st.integers(0, size)) for _ in names[1:]), size])
    values = []
    for name, (start, end) in zip(names, itertools.pairwise(ends), strict=True):
        made = [None] * (end - start) if name == "null" else kinds[name](rng, end - start)
        values += list(made)
    order = rng.permutation(size)
    return [values[place] for place in order.tolist()]


def slices_of(values, kind):
    """The statistics of a column, as they are read back; in parts, as they are counted."""
    column = pa.array(values, kind, from_pandas=False)
    cuts = [0, len(values) // 3, len(values)]
    parts = []
    for start, end in itertools.pairwise(cuts):
        some = column.slice(start, end - start)
        system = {
            batch.SPLIT: pa.repeat("train", len(some)),
            batch.LABEL: pa.nulls(len(some), pa.string()),
        }
        rows = pa.RecordBatch.from_pydict(system | {"x": some})
        parts.append(Statistics.of(rows, {"x": some}))
    return parse(to_bytes(Statistics.sum(parts)))


def with_zero(view: ColumnView) -> ColumnView:
    """The same with one bucket of all subnormal numbers, which count as 0."""
    tiny = 2.0**-1022
    found = []
    for low, high, count in view.buckets:
        if max(abs(low), abs(high)) < tiny:
            low, high = -tiny, tiny
        elif abs(low) < tiny:
            low = tiny if low > 0 else -tiny
        elif abs(high) < tiny:
            high = -tiny if high < 0 else tiny
        found.append((low, high, count))
    return dataclasses.replace(view, buckets=tuple(found))


def exact_distance(before: ColumnView, now: ColumnView) -> Fraction:
    """The documented distance of columns of numbers, in exact arithmetic."""
    missing = [Fraction(one.missing, one.missing + one.records) for one in (before, now)]
    apart = abs(missing[0] - missing[1])
    if not before.values or not now.values:
        return apart
    before, now = (with_zero(one) for one in (before, now))
    edges, held, least = set(), 0, None
    total = sum(Fraction(count) for _, _, count in before.buckets)
    for low, high, count in before.buckets:
        least = low if least is None else least
        held += Fraction(count)
        if held * 10 >= total:
            edges |= {least, high}
            held, least = 0, None
    if least is not None:
        edges |= {least, before.buckets[-1][1]}
    edges = sorted(edges)

    def shares(view):
        found = [Fraction(0)] * (len(edges) + 1)
        for low, high, count in view.buckets:
            bounds = [None, *edges, None]
            for place, (start, end) in enumerate(itertools.pairwise(bounds)):
                low_, high_ = Fraction(low), Fraction(high)
                if low_ == high_:
                    inside = (start is None or start <= low) and (end is None or low < end)
                    part = Fraction(int(inside))
                else:
                    left = low_ if start is None else max(low_, Fraction(start))
                    right = high_ if end is None else min(high_, Fraction(end))
                    part = max(right - left, Fraction(0)) / (high_ - low_)
                found[place] += part * Fraction(count)
        odd = [Fraction(view.odd.get(name, 0)) for name in ("NaN", "inf", "-inf", "infinite")]
        return [one / view.values for one in (*found, *odd)]

    norms = [abs(one - two) for one, two in zip(shares(before), shares(now), strict=True)]
    return max(apart, *norms)


def signs_distance(before, now) -> Fraction:
    """The largest difference between the shares of an infinity."""
    found = [[value for value in one if value is not None] for one in (before, now)]
    return max(
        abs(
            Fraction(found[0].count(sign), len(found[0]))
            - Fraction(found[1].count(sign), len(found[1]))
        )
        if all(found)
        else Fraction(0)
        for sign in (math.inf, -math.inf)
    )


def texts_distance(before, now) -> Fraction:
    """The documented distance of columns of texts, by counting them."""
    missing = [Fraction(one.count(None), len(one)) for one in (before, now)]
    apart = abs(missing[0] - missing[1])
    counts = [Counter(text for text in one if text is not None) for one in (before, now)]
    totals = [sum(one.values()) for one in counts]
    if not all(totals):
        return apart
    shares = [
        [Fraction(one[text], total) for one, total in zip(counts, totals, strict=True)]
        for text in {*counts[0], *counts[1]}
    ]
    return max(apart, *(abs(one - two) for one, two in shares))


def check_gates(slices, exact, limit):
    """Assert that no gate passes above its limit; return whether --max-drift passes."""
    comparison = drift.drift(*slices)
    json.dumps(comparison.to_json(), allow_nan=False)
    passes = [not [*drift_above(comparison, limits)] for limits in ({"": limit}, {"x": limit})]
    assert passes[0] == passes[1]
    if limit < 1:
        assert not passes[0] or exact <= limit + ROUNDING
    limits = DistanceLimit(infinity_norm=limit)
    rules = SchemaRules(columns={"x": ColumnRules(name="x", drift=limits, skew=limits)})
    views = [one[ALL_EXAMPLES].columns["x"] for one in slices]
    pair = {"train": slices[0][ALL_EXAMPLES], "test": slices[1][ALL_EXAMPLES]}
    for violations in (
        [*drift_violations(comparison, rules, "drift")],
        [*drift_violations(drift.skew(pair), rules, "skew")],
    ):
        assert violations or all(view.values for view in views)
    return passes[0]


LIMITS = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5, 0.9]) | st.floats(0, 1)


@settings(max_examples=min(many(1), 200))  # each takes 0.3 s
@given(columns_of(NUMBERS), columns_of(NUMBERS), LIMITS)
@example([0.0] * 900 + [x / 7 for x in range(100)], [0.0] * 100 + [x / 7 for x in range(900)], 0.2)
@example([_HUGE], [1.0], 0.5)
@example([math.nan], [0.0], 0.5)
@example([math.inf], [-math.inf], 0.5)
@example([math.inf] * 9 + [-math.inf], [math.inf] + [-math.inf] * 9, 0.5)
def test_no_column_of_numbers_passes_a_gate_above_its_limit(before, now, limit):
    slices = slices_of(before, pa.float64()), slices_of(now, pa.float64())
    views = [one[ALL_EXAMPLES].columns["x"] for one in slices]
    exact = exact_distance(*views)
    (found,) = drift.drift(*slices).distances
    assert found.distance == pytest.approx(float(exact), abs=ROUNDING)
    if any("infinite" in view.odd for view in views):  # it is not known how many of each sign
        exact = max(exact, signs_distance(before, now))
        check_gates(slices, exact, limit)
        return
    assert exact >= signs_distance(before, now)
    if exact <= limit:  # and what is within the limit passes
        limit = min(limit + ROUNDING, 1)
    assert check_gates(slices, exact, limit) == (exact <= limit)


@settings(max_examples=min(many(1), 200))  # each takes 0.3 s
@given(columns_of(TEXTS), columns_of(TEXTS), LIMITS)
@example(["x" * 300] * 9 + ["a"], ["y" * 300] * 9 + ["a"], 0.2)
@example(["x" * 300], ["y" * 300], 0.5)
@example([f"one {n}" for n in range(9000)], ["a"] * 3 + [f"two {n}" for n in range(9000)], 0.0)
def test_no_column_of_texts_passes_a_gate_above_its_limit(before, now, limit):
    slices = slices_of(before, pa.string()), slices_of(now, pa.string())
    check_gates(slices, texts_distance(before, now), limit)


@settings(max_examples=min(many(1), 200))
@given(columns_of({"bytes": lambda rng, n: [rng.bytes(3) for _ in range(n)]}), LIMITS)
def test_a_column_that_cannot_be_compared_passes_no_gate(values, limit):
    slices = slices_of(values, pa.binary()), slices_of(values, pa.binary())
    has_values = any(value is not None for value in values)
    assert check_gates(slices, Fraction(0), limit) == (limit >= 1 or not has_values)


@pytest.mark.parametrize("limits", [{"": 0.9}, {"x": 0.9}])
def test_statistics_without_a_slice_or_a_histogram_pass_no_gate(limits):
    full = slices_of([1.0, 2.0], pa.float64())
    assert not [*drift_above(drift.drift(full, full), limits)]
    for before, now in (({}, full), (full, {}), ({}, {})):
        assert [*drift_above(drift.drift(before, now), limits)]
    column = dataclasses.replace(full[ALL_EXAMPLES].columns["x"], buckets=())
    for one in (column, ColumnView(records=0, missing=0, values=0)):
        other = {ALL_EXAMPLES: SliceView(records=2, columns={"x": one})}
        assert [*drift_above(drift.drift(full, other), limits)]
        assert [*drift_above(drift.drift(other, full), limits)]


def test_a_split_that_does_not_exist_passes_no_limit_of_skew():
    rules = SchemaRules(columns={"x": ColumnRules(name="x", skew=DistanceLimit(infinity_norm=0.9))})
    one = slices_of([1.0, 2.0], pa.float64())
    (found,) = drift_violations(drift.skew(one), rules, "skew")
    assert found == (
        "the skew of column 'x' cannot be computed, because only one split has records, but the"
        " schema limits it"
    )


NOT_LIMITED = st.none() | st.floats() | st.integers()


@given(NOT_LIMITED, st.none() | st.floats(), st.none() | st.floats())
def test_a_value_is_within_limits_only_if_it_exists_and_is_between_them(value, least, most):
    expected = value is not None
    if value is None or math.isnan(value):
        expected = value is not None and least is None and most is None
    for limit, is_broken in ((least, lambda: value < least), (most, lambda: value > most)):
        if limit is not None and expected:
            expected = not math.isnan(limit) and not is_broken()
    assert is_within(value, least=least, most=most) == expected


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.floats(0, 1) | st.just(math.nan))
def test_rejects_pass_only_below_their_limit(rejected, more, limit):
    seen = rejected + more
    passes = refusal(rejected, seen, limit) is None
    if rejected:
        assert passes == (not math.isnan(limit) and fraction(rejected, seen) <= limit)
    assert not rejected or refusal(rejected, 0, limit) is not None


@given(
    st.dictionaries(
        st.sampled_from(["train", "validation", "test"]),
        st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)),
    ),
    st.floats(0, 1) | st.just(math.nan),
)
@example({"train": (0, 1)}, 1 - 2**-53)
def test_unknown_tokens_pass_only_below_their_limit_in_every_split(splits, limit):
    coverage = VocabularyCoverage(
        options=TextOptions(tokenizer="words"), tokens=Artifact(path="", sha256=""), limit=limit
    )
    counts = {
        f"{kind}/{split}": count
        for split, (known, unknown) in splits.items()
        for kind, count in (("records", 9), ("known", known), ("unknown", unknown))
    }
    rows = {
        "item": pa.array([*counts], pa.string()),
        "count": pa.array([*counts.values()], pa.int64()),
    }
    try:
        coverage.learn(pa.RecordBatch.from_pydict(rows), records=0)
        passes = True
    except RunError:
        passes = False
    assert passes == (
        bool(splits)
        and all(
            known + unknown and unknown / (known + unknown) <= limit
            for known, unknown in splits.values()
        )
        if not math.isnan(limit)
        else False
    )
