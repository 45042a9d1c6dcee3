"""Rows that were dropped as repeated, in hours that a clock may have shown twice."""

import datetime

import pyarrow as pa
import pytest

from recordmill.transforms.model import batch
from recordmill.transforms.windowing.repeated_hours import RepeatedHours
from recordmill.transforms.windowing.time_survey import SERIES, TIME

SUNDAY = datetime.datetime(2025, 10, 26, 2, tzinfo=datetime.UTC)


def found(minutes: list[int], *, begin: datetime.datetime = SUNDAY, rejected: tuple[str, ...] = ()):
    """The result for a row of two series at each of these minutes, in ascending order."""
    count = len(minutes)
    start = int(begin.timestamp()) * 10**6
    rows = pa.record_batch(
        {
            batch.KEY: [f"{series}#{row}" for series in "ab" for row in range(count)],
            SERIES: [series for series in "ab" for _ in range(count)],
            TIME: [start + minute * 60 * 10**6 for minute in minutes] * 2,
        }
    )
    return RepeatedHours.of(rows, rejected)


def hour(step: int) -> list[int]:
    """Minutes of three hours, of which the second occurs twice."""
    return sorted([*range(-60, 120, step), *range(0, 60, step)])


@pytest.mark.parametrize("step", [5, 20, 60])
def test_an_hour_of_times_that_occur_twice_is_found_in_each_series(step):
    time = int(SUNDAY.timestamp()) * 10**6
    assert found(hour(step)) == RepeatedHours(rows=2 * 60 // step, series="a", time=time)


def test_rejected_rows_are_not_counted():
    hours = found(hour(20), rejected=("a#4", "b#4"))
    assert (hours.rows, hours.time) == (4, int(SUNDAY.timestamp() + 20 * 60) * 10**6)


@pytest.mark.parametrize(
    ("minutes", "begin"),
    [
        (hour(5), SUNDAY + datetime.timedelta(days=1)),
        (hour(5), SUNDAY + datetime.timedelta(hours=9)),
        ([0, 5, 5, 10], SUNDAY),
        (sorted([*range(0, 180, 5)] * 2), SUNDAY - datetime.timedelta(hours=2)),
        ([0, 0, 0, 60, 60, 60], SUNDAY),
    ],
)
def test_other_repeated_rows_are_not_counted(minutes, begin):
    assert found(minutes, begin=begin) == RepeatedHours()
