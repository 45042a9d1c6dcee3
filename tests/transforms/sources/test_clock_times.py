"""Conversion of clock times to UTC where clocks are set."""

import datetime
import zoneinfo

import numpy as np
import pytest

from recordmill.transforms.sources.rows.series.clock_times import to_utc

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
AUTUMN, SPRING = "2024-10-27", "2024-03-31"


def times(day: str, clocks: list[str]) -> np.ndarray:
    return np.array([f"{day}T{clock}" for clock in clocks], "datetime64[us]").astype(np.int64)


def clocks_of(moments: list[datetime.datetime]) -> np.ndarray:
    return np.array([one.replace(tzinfo=None) for one in moments], "datetime64[us]").astype(
        np.int64
    )


def converted(clocks: np.ndarray, series: list[int] | None = None):
    names = np.zeros(len(clocks), np.int64) if series is None else np.array(series)
    return to_utc(clocks, names, BERLIN)


@pytest.mark.parametrize("day", [AUTUMN, SPRING])
@pytest.mark.parametrize("step", [60, 600, 3600])
@pytest.mark.parametrize("order", [1, -1])
def test_complete_series_are_restored(day, step, order):
    start = datetime.datetime.fromisoformat(f"{day}T00:00+00:00") - datetime.timedelta(days=1)
    steps = [datetime.timedelta(seconds=step * i) for i in range(3 * 86400 // step)]
    utc = [start + one for one in steps][::order]
    found = converted(clocks_of([one.astimezone(BERLIN) for one in utc]))
    assert not found.repeated.any()
    assert not found.skipped.any()
    assert found.times.tolist() == clocks_of(utc).tolist()


@pytest.mark.parametrize(
    ("clocks", "expected"),  # hours of UTC; None: the order does not say
    [
        (["01:30", "02:00", "02:30"], [23.5, 24, 24.5]),  # ends in the first pass
        (["02:00", "02:30", "03:00"], [25, 25.5, 26]),  # begins in the second
        (["01:30", "02:00", "03:00"], [23.5, None, 26]),  # one pass was not recorded
        (["02:00", "02:30"], [None, None]),
        (["02:00", "02:30", "02:00", "02:30", "02:00", "02:30"], [None] * 6),
        (["02:30", "02:00", "02:30"], [24.5, 25, 25.5]),
        (["03:00", "02:00", "02:00", "01:00"], [26, 25, 24, 23]),
    ],
)
def test_the_order_of_rows_tells_the_passes_apart(clocks, expected):
    found = converted(times(AUTUMN, clocks))
    hours = (found.times - times("2024-10-26", ["00:00"])) / 3.6e9
    assert [
        None if no else hour for no, hour in zip(found.repeated, hours, strict=True)
    ] == expected


def test_series_are_told_apart():
    clocks = times(AUTUMN, ["02:00", "02:30", "02:10", "02:40", "02:00", "02:10"])
    found = converted(clocks, [0, 0, 1, 1, 0, 1])
    assert not found.repeated.any()
    assert (clocks - found.times).tolist() == [7.2e9, 7.2e9, 7.2e9, 7.2e9, 3.6e9, 3.6e9]


def test_skipped_times_are_found():
    found = converted(times(SPRING, ["01:59", "02:00", "02:59", "03:00"]))
    assert found.skipped.tolist() == [False, True, True, False]
