"""Windows against plain loops over all rows at once, wherever cells end."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.window_options import LabelRule, WindowOptions
from recordmill.transforms.windowing.series_report import SeriesRuns
from recordmill.transforms.windowing.series_steps import OtherStep, StepCounter
from recordmill.transforms.windowing.time_splits import TimeSplits
from recordmill.transforms.windowing.time_survey import SERIES, TIME, TimeSurvey, buckets_of
from recordmill.transforms.windowing.window_layout import window_layout
from recordmill.transforms.windowing.windows import (
    Timeline,
    WindowCutter,
    ordered,
    resampled,
    without_repeats,
)

SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in (batch.KEY, batch.LABEL, batch.GROUP)),
        pa.field(batch.SPLIT, pa.string()),
        pa.field(SERIES, pa.string()),
        pa.field(TIME, pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("word", pa.string()),
    ]
)
LAYOUT = Layout(columns=SCHEMA, labelled=True, grouped=False)


def rows_of(moments: list[tuple[str, int]], labels: list[str | None] | None = None):
    """A row per (series, time), in any order."""
    count = len(moments)
    return pa.RecordBatch.from_pydict(
        {
            batch.KEY: [f"f#{number}" for number in range(count)],
            batch.LABEL: pa.array(labels or [None] * count, pa.string()),
            batch.GROUP: pa.nulls(count, pa.string()),
            batch.SPLIT: pa.nulls(count, pa.string()),
            SERIES: pa.array([series for series, _ in moments], pa.string()),
            TIME: pa.array([time for _, time in moments], pa.int64()),
            "x": pa.array([float(number) if number % 7 else None for number in range(count)]),
            "word": pa.array([f"w{number}" if number % 5 else None for number in range(count)]),
        },
        schema=SCHEMA,
    )


def cut(rows, options, timeline, ends):
    """All windows, how many rows are in one, and the cutter; cells end before the times `ends`."""
    cutter = WindowCutter(options, timeline, window_layout(LAYOUT, options).columns)
    times = np.asarray(rows[TIME])
    cells = np.searchsorted(np.array(sorted(ends), np.int64), times, side="right")
    found, used = [], 0
    for cell in np.unique(cells).tolist():
        mine, _ = without_repeats(ordered(rows.filter(pa.array(cells == cell))))
        for one in cutter.cut(resampled(mine, options)):
            found += one.windows.to_pylist()
            used += one.used
    for one in cutter.finish():
        found += one.windows.to_pylist()
        used += one.used
    return sorted(found, key=lambda window: window[batch.KEY]), used, cutter


def plain_runs(rows, options, timeline):
    """Lists of rows that follow each other, by loops; a row that was filled in has no key."""
    whole = rows.to_pylist()
    runs = []
    for series in sorted({row[SERIES] for row in whole}):
        mine = sorted((row for row in whole if row[SERIES] == series), key=lambda row: row[TIME])
        run: list[dict] = []
        for row in mine:
            apart = row[TIME] - run[-1][TIME] if run else math.inf
            step = timeline.steps.get(series, timeline.step)
            max_gap = step * 3 // 2 if options.max_gap is None else options.max_gap
            if run and apart > max_gap and options.gap_policy == "fill":
                missing = (apart + step // 2) // step - 1
                most = options.window if options.fill_rows is None else options.fill_rows
                if missing <= most:
                    last = run[-1]
                    for nth in range(1, missing + 1):
                        made = {**last, TIME: last[TIME] + nth * step, batch.KEY: None}
                        if options.fill == "missing":
                            made |= {"x": None, "word": None}
                        run.append(made)
                    apart = 0
            if run and apart > max_gap:
                runs.append(run)
                run = []
            run.append(row)
        runs.append(run)
    return runs


def plain_windows(rows, options, timeline):
    """{(series, start): rows of the window and its target}, rows in them, and windows cut off."""
    found, whole = {}, 0
    for run in plain_runs(rows, options, timeline):
        stride = 1 if options.last_window else options.stride
        for start in range(0, len(run) - options.window + 1, stride):
            whole += 1
            if start + options.reach <= len(run):
                inside = run[start : start + options.window + options.horizon]
                found[inside[0][SERIES], inside[0][TIME]] = inside
    cut_off = whole - len(found) if options.horizon and not options.last_window else 0
    if options.last_window:
        last = {series: max(t for s, t in found if s == series) for series, _ in found}
        found = {one: found[one] for one in last.items()}
    used = {row[batch.KEY] for inside in found.values() for row in inside} - {None}
    return found, len(used), cut_off


def shown(values):
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values]


@given(st.data())
def test_cells_may_end_anywhere(data):
    moments = data.draw(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(-20, 60)), unique=True, max_size=60)
    )
    rows = rows_of(moments)
    filling = data.draw(st.booleans())
    horizon = data.draw(st.integers(0, 4))
    options = WindowOptions(
        window=data.draw(st.integers(1, 5)),
        stride=data.draw(st.integers(1, 7)),
        max_gap=data.draw(st.sampled_from([None, 3, 4])),
        gap_policy="fill" if filling else "split",
        fill=data.draw(st.sampled_from(["last", "missing"])) if filling else "last",
        fill_rows=data.draw(st.sampled_from([None, 1, 3])) if filling else None,
        label=LabelRule(kind="ahead", rows=data.draw(st.integers(1, 3)))
        if data.draw(st.booleans())
        else LabelRule(),
        horizon=horizon,
        targets=("x",) if horizon else (),
        last_window=data.draw(st.sampled_from([(), ("all",)])),
    )
    timeline = Timeline(
        step=data.draw(st.sampled_from([2, 3])),
        steps=data.draw(st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, 5]))),
    )
    ends = data.draw(st.lists(st.integers(-20, 60), max_size=6))
    found, used, cutter = cut(rows, options, timeline, ends)
    expected, covered, cut_off = plain_windows(rows, options, timeline)
    assert used == covered
    assert cutter.cut_off == cut_off
    plain = plain_runs(rows, options, timeline)
    assert cutter.runs == {
        series: SeriesRuns(
            rows=sum(series == one for one, _ in moments),
            longest=max(len(run) for run in plain if run[0][SERIES] == series),
            span=max(run[-1][TIME] - run[0][TIME] for run in plain if run[0][SERIES] == series),
        )
        for series, _ in moments
    }
    assert len(found) == len(expected)
    for window in found:
        start = (window["window/start"] - window["window/start"].__class__(1970, 1, 1)) // (
            window["window/start"].resolution
        )
        whole = expected[window["window/series"], start]
        inside = whole[: options.window]
        if horizon:
            assert shown(window["target"]) == [row["x"] for row in whole[options.window :]]
        assert shown(window["x"]) == [row["x"] for row in inside]
        assert window["word"] == [row["word"] or "" for row in inside]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("last", ["b", "a", None]),
        ("majority", ["a", "a", "a"]),  # of as many the first by name
        ("any:b", ["b", "b", None]),
        ("any:c", ["b", "a", None]),
        ("first", ["a", "b", "a"]),
        ("all:a", ["b", "b", None]),  # of the others the last one; a row without a class is not a
        ("all:b", ["a", "a", "a"]),
        ("ahead:1", ["b", "a"]),
    ],
)
def test_the_class_of_a_window(rule, expected):
    labels = ["a", "a", "b", "b", None, "a", "a", None, None]
    rows = rows_of([("s", time) for time in range(9)], labels)
    options = WindowOptions(window=3, stride=3, label=LabelRule.parse(rule))
    found, *_ = cut(rows, options, Timeline(step=1), [])
    assert [window[batch.LABEL] for window in found] == expected


def test_rows_of_one_time():
    rows = rows_of([("s", 1), ("s", 1), ("s", 2), ("s", 3), ("s", 3)])
    rows = batch.set_column(rows, "x", pa.array([5.0, 5.0, None, 1.0, 2.0]))
    rows = batch.set_column(rows, "word", pa.array(["a", "a", None, "c", "c"]))
    kept, rejects = without_repeats(ordered(rows))
    assert kept[batch.KEY].to_pylist() == ["f#0", "f#2", "f#3"]
    (reject,) = rejects
    assert reject.key == "f#4"
    assert reject.detail == "series 's' has different values at 1970-01-01 00:00:00.000003 in f#3"


def test_resampling_is_by_series_and_step():
    rows = rows_of([("a", 1), ("a", 3), ("a", 4), ("b", 2), ("a", 11)])
    rows = batch.set_column(rows, "x", pa.array([1.0, 2.0, 7.0, None, 3.0]))
    options = WindowOptions(window=1, stride=1, step=4, resample="mean")
    made = resampled(ordered(rows), options)
    assert list(zip(made[SERIES].to_pylist(), made[TIME].to_pylist(), strict=True)) == [
        ("a", 0), ("a", 4), ("a", 8), ("b", 0)
    ]  # fmt: skip
    assert made["x"].to_pylist() == [1.5, 7.0, 3.0, None]
    assert made["word"].to_pylist() == ["w1", "w2", "w4", "w3"]
    assert made["__inputs__"].to_pylist() == [2, 1, 1, 1]


def test_splits_by_time_leave_out_what_is_too_near():
    rows = rows_of([("s", time) for time in range(20)])
    options = WindowOptions(window=2, stride=2, split_by="time", purge=3)
    timeline = Timeline(step=1, splits=TimeSplits.at({"test": 10}, "train"))
    for ends in ([], [5, 10, 12], list(range(20))):
        found, used, _ = cut(rows, options, timeline, ends)
        starts = {(w[batch.SPLIT], w["window/start"].microsecond) for w in found}
        assert {start for split, start in starts if split == "test"} == {13, 15, 17}
        assert sum(split == "train" for split, _ in starts) == 5
        assert used == 10 + 6


@pytest.mark.parametrize(("rows", "train"), [(100, 50), (101, 50), (7, 4), (2, 1)])
def test_a_split_by_time_begins_at_the_nearest_row(rows, train):
    survey = TimeSurvey.of(rows_of([("s", 10 * time) for time in range(rows)]))
    assert survey.time_at(0.5) == 10 * train


@given(st.permutations(range(6)), st.integers(1, 40))
def test_a_survey_does_not_depend_on_the_order_of_parts(order, size):
    moments = [(series, time * 10) for series in "abcdef" for time in range(40)]
    parts = [rows_of(moments[at : at + 40]) for at in range(0, 240, 40)]
    surveys = [TimeSurvey.of(part) for part in parts]
    one = TimeSurvey.sum(surveys)
    other = TimeSurvey.sum(
        [TimeSurvey.sum(surveys[at] for at in order[:3]), *(surveys[at] for at in order[3:])]
    )
    assert one.time_at(0.5) == other.time_at(0.5)
    starts = one.starts(size, step=None)
    for bucket, times in other.starts(size, step=None).items():
        assert times.tolist() == starts[bucket].tolist()
    for part in parts:
        for bucket in np.unique(buckets_of(part[SERIES])).tolist():
            cells = np.searchsorted(starts[bucket], np.asarray(part[TIME]), side="right")
            assert np.bincount(cells).max() <= size


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"window": 0, "stride": 1}, "--window: expected more than 0"),
        ({"window": 1, "stride": 1, "resample": "max"}, "--resample: requires --step"),
        ({"window": 1, "stride": 1, "purge": 1}, "--purge: requires --split-by time"),
        ({"window": 1, "stride": 1, "fill_rows": 2}, "--fill-rows: requires --gap-policy"),
        ({"window": 1, "stride": 1, "horizon": 2}, "--horizon: requires --target"),
        ({"window": 1, "stride": 1, "targets": ("x",)}, "--target: requires --horizon"),
        ({"window": 1, "stride": 1, "horizon": -1, "targets": ("x",)}, "--horizon: expected more"),
        (
            {"window": 1, "stride": 1, "horizon": 1, "targets": ("x",), "static_columns": ("x",)},
            "--target x: --static-columns says that it has one value per series",
        ),
        ({"window": 1, "stride": 1, "last_window": ("all", "test")}, "--last-window all,test: exp"),
    ],
)
def test_options_that_make_no_sense(given, words):
    with pytest.raises(ConfigError, match=words):
        WindowOptions(**given)


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_each_series_has_its_most_frequent_step_wherever_cells_end(size):
    every = {"a": 10, "b": 10, "c": 600}
    moments = [(series, time * step) for series, step in every.items() for time in range(300)]
    picked = np.random.default_rng(0).permutation(len(moments))[: len(moments) * 2 // 3]
    moments = [*(moments[at] for at in picked), ("one row", 5), ("tie", 0), ("tie", 3), ("tie", 7)]
    moments.sort(key=lambda one: one[1])
    counter = StepCounter()
    for at in range(0, len(moments), size):
        counter.add(ordered(rows_of(moments[at : at + size])))
    assert counter.steps() == {**every, "tie": 3}
    assert not counter.other_steps()


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_series_whose_step_changes_has_another_step_wherever_cells_end(size):
    times = np.cumsum([0, *[600] * 60, *[100] * 90, *[7, 5000] * 20])
    moments = [("a", int(time)) for time in times] + [("b", 10 * i) for i in range(900)]
    moments.sort(key=lambda one: one[1])
    counter = StepCounter()
    for at in range(0, len(moments), size):
        counter.add(ordered(rows_of(moments[at : at + size] * 2)))  # each row occurs twice
    assert counter.other_steps() == {"a": OtherStep(own=100, other=600, rows=60)}


@pytest.mark.parametrize("resample", ["mean", "first", "sum"])
def test_many_steps_stay_in_the_order_of_time(resample):
    """More groups than Arrow keeps in the order in which it met them."""
    random = np.random.default_rng(0)
    moments = [(series, int(time)) for series in "cab" for time in random.integers(0, 9000, 4000)]
    rows, _ = without_repeats(ordered(rows_of(moments)))
    options = WindowOptions(window=2, stride=1, step=5, resample=resample)
    found = resampled(rows, options)
    expected: dict[tuple[str, int], list[dict]] = {}
    for row in rows.to_pylist():
        expected.setdefault((row[SERIES], row[TIME] // 5 * 5), []).append(row)
    assert list(zip(found[SERIES].to_pylist(), found[TIME].to_pylist(), strict=True)) == sorted(
        expected
    )
    reduce = {"mean": np.mean, "first": lambda values: values[0], "sum": np.sum}[resample]
    for row in found.to_pylist():
        inputs = expected[row[SERIES], row[TIME]]
        values = [one["x"] for one in inputs if one["x"] is not None]
        assert row["x"] == (pytest.approx(reduce(values)) if values else None)
        words = [one["word"] for one in inputs if one["word"] is not None]
        assert row["word"] == (words[-1] if words else None)
        assert row[batch.KEY] == inputs[0][batch.KEY]
