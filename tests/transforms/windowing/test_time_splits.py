"""Splits in time against plain loops over the times of each series."""

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.model import batch
from recordmill.transforms.windowing.time_splits import TimeSplits, divide_each_series
from recordmill.transforms.windowing.time_survey import SERIES, TIME

FRACTIONS = st.sampled_from(
    [
        {"train": 1.0},
        {"train": 0.8, "validation": 0.1, "test": 0.1},
        {"train": 0.5, "test": 0.5},
        {"a": 0.05, "train": 0.6, "b": 0.3, "test": 0.05},
    ]
)
SERIES_TIMES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.lists(st.integers(-50, 300), min_size=1, max_size=80),
    min_size=1,
)


def rows_of(moments: list[tuple[str, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            SERIES: pa.array([series for series, _ in moments], pa.string()),
            TIME: pa.array([time for _, time in moments], pa.int64()),
            batch.SPLIT: pa.nulls(len(moments), pa.string()),
        }
    )


def cells_of(moments: list[tuple[str, int]], ends: list[int]) -> list[pa.RecordBatch]:
    """Rows sorted by series and time, in cells that end before the times `ends`."""
    edges = [-(10**9), *sorted(ends), 10**9]
    return [
        rows_of(sorted(one for one in moments if begin <= one[1] < end))
        for begin, end in itertools.pairwise(edges)
    ]


@given(SERIES_TIMES, FRACTIONS, st.lists(st.integers(-50, 300), max_size=4))
def test_each_series_is_divided_by_the_fractions_of_its_own_times(series, fractions, ends):
    moments = [(name, time) for name, times in series.items() for time in times]
    cells = cells_of(moments, ends)
    splits = divide_each_series(
        lambda: [(cell[SERIES], np.asarray(cell[TIME])) for cell in cells], fractions
    )
    found: dict[str, dict[int, str]] = {name: {} for name in series}
    for cell in cells:
        for row in splits.apply(cell, purge=0).to_pylist():
            found[row[SERIES]][row[TIME]] = row[batch.SPLIT]
    order = list(fractions)
    for name, times in series.items():
        mine = [found[name][time] for time in sorted(set(times))]  # KeyError for a row lost
        assert mine == sorted(mine, key=order.index)
        end = 0.0
        for split, fraction in fractions.items():
            end += fraction
            before = sum(order.index(one) <= order.index(split) for one in mine)
            assert abs(before - end * len(mine)) <= 0.5 + 1e-9


@given(SERIES_TIMES, st.integers(0, 60), st.booleans())
def test_a_purge_drops_the_rows_after_the_begin_of_each_split(series, purge, own):
    moments = [(name, time) for name, times in series.items() for time in {*times}]
    cells = cells_of(moments, [])
    if own:
        splits = divide_each_series(
            lambda: [(cell[SERIES], np.asarray(cell[TIME])) for cell in cells],
            {"train": 0.5, "test": 0.5},
        )
        begins = {name: splits.of_series[name][1] for name in series}
    else:
        splits = TimeSplits.at({"test": 100}, "train")
        begins = dict.fromkeys(series, 100)
    kept = {
        (row[SERIES], row[TIME]) for c in cells for row in splits.apply(c, purge=purge).to_pylist()
    }
    assert kept == {
        (name, time)
        for name, time in moments
        if time < begins[name] or time >= begins[name] + purge
    }


def test_one_moment_divides_all_series():
    splits = TimeSplits.at({"test": 20, "validation": 10}, "train")
    rows = splits.apply(
        rows_of([(name, time) for name in "ab" for time in (9, 10, 19, 20)]), purge=0
    )
    assert rows[batch.SPLIT].to_pylist() == ["train", "validation", "validation", "test"] * 2
