"""Recognition of numeric times that are no seconds since 1970."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from recordmill.transforms.sources.rows.series.numeric_times import date_format, unlikely_seconds


def seconds(numbers: list[float]) -> pa.Array:
    return pa.array(np.rint(np.array(numbers) * 1e6).astype(np.int64))


def five_minutes(year: int, count: int) -> list[int]:
    """Return times of steps of 5 minutes as numbers YYMMDDHHMM."""
    begin = datetime.datetime(year, 4, 3, 21)
    moments = (begin + datetime.timedelta(minutes=5 * place) for place in range(count))
    return [int(f"{one:%y%m%d%H%M}") for one in moments]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([20240330, 20240331, 20240401], "%Y%m%d"),
        ([19991231, 20000101], "%Y%m%d"),
        ([18850101, 18850102], "%Y%m%d"),
        ([1485010100, 1485010200], None),  # seconds of 2017
        ([2024033023, 2024033100], "%Y%m%d%H"),
        ([202403302359, 202403310000], "%Y%m%d%H%M"),
        ([2504030000, 2504032359], "%y%m%d%H%M"),
        ([250403000000, 250403235959], "%y%m%d%H%M%S"),
        ([40403000000, 120403235959], "%y%m%d%H%M%S"),  # of the years 2004 to 2012
        (five_minutes(2017, 30), "%y%m%d%H%M"),
        (five_minutes(2005, 30), "%y%m%d%H%M"),
        (five_minutes(2017, 15), None),  # too few to tell them from seconds
        ([1704030000 + place for place in range(40)], None),
        ([1704030000 + 300 * place for place in range(40)], None),
        ([1704030000 + 3600 * place for place in range(40)], None),
        ([1704030000 + 86400 * place for place in range(40)], None),
        ([2504030000, 2504030060], None),
        ([2504030000, 2504032400], None),
        ([4104030000, 4104030001], None),
        ([20240331, 20240332], None),  # no date
        ([20240331.5], None),
        ([1767225600, 1767225601], None),
        ([0, 1, 2], None),
        ([-20240330], None),
    ],
)
def test_numbers_are_dates_if_all_can_be(numbers, expected):
    assert date_format(seconds(numbers)) == expected


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([1998, 1999], "--time-format %Y reads them as years, from 1998 to 1999"),
        ([1885, 2024], "--time-format %Y reads them as years, from 1885 to 2024"),
        ([999, 1000], None),
        ([45381.5, 45382], "--time-unit excel reads them as the days of Excel, from 2024-03-30 on"),
        ([1998.5, 1999], None),
        ([0, 1, 1999], None),
        ([0.01, 0.02], None),
        ([1767225600, 1767225601], None),
    ],
)
def test_years_and_days_of_excel_are_recognised(numbers, expected):
    assert unlikely_seconds(seconds(numbers)) == expected
