"""Recognition of numeric times that are not seconds since 1970: dates, years and days."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.sources.row_formats.values.sample_times import EPOCHS, strptime

UNIT_NAMES = {
    **{"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"},
    **dict.fromkeys(EPOCHS, "days"),
}
YEARS = (1970, 2100)  # numbers that give times outside these years may have another unit
RECENT = 1980  # a time after this year, read in too large a unit, is after the year 11970

_SECOND = 10**6
_FIRST, _LAST = 1000, 2100  # years
_DATES = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M"}  # by their digits
_FIRST_HOURS = 1900  # first year of dates with hours: earlier ones are recent as seconds, too
# Formats with years of two digits, by their digits; a number lacks the zero of 2000 to 2009.
_SHORT_DATES = {10: "%y%m%d%H%M", 12: "%y%m%d%H%M%S"}
_LAST_SHORT = 40  # year
# Numbers of ten digits may be seconds, too. They are dates if they are late as seconds (2039), or
# if this many of them, in several hours, have minutes below 60 and hours below 24.
_LATE = 2_200_000_000
_LEAST_DATES = 20
_PROGRAMS = {"excel": "Excel", "matlab": "MATLAB"}
_LIKELY_DAYS = (7_305, 29_220)  # since 1970: 1990 to 2050


def are_recent(times: pa.Array) -> bool:
    """Return whether times are in `YEARS`, but not all in the first of these years."""
    first, last = years_of(times)
    return first >= YEARS[0] and YEARS[0] < last < YEARS[1]


def years_of(times: pa.Array, factor: float = 1) -> tuple[int, int]:
    """Return the years of the first and the last time; times: microseconds since 1970."""
    found = pc.min_max(times).as_py()
    year = 365.2425 * 86400 * 10**6
    first, last = (math.floor(1970 + found[name] * factor / year) for name in ("min", "max"))
    return first, last


def years_text(years: tuple[int, int]) -> str:
    first, last = years
    return f"the year {first}" if first == last else f"the years {first} to {last}"


def date_format(times: pa.Array) -> str | None:
    """Return the format of numbers such as 20240330 and 2403301800, None for other numbers.

    times: the numbers, read as seconds, in microseconds; int64[n], n > 0.
    """
    numbers = _whole(times)
    if numbers is None:
        return None
    first, last = pc.min_max(numbers).as_py().values()
    digits = len(str(first))
    scale = 10 ** max(digits - 4, 0)
    start = _FIRST_HOURS if digits == 10 else _FIRST
    if digits not in _DATES or first < start * scale or last >= (_LAST + 1) * scale:
        return _short_date_format(numbers)
    parsed = strptime(numbers.cast(pa.string()), _DATES[digits])
    return _short_date_format(numbers) if parsed.null_count else _DATES[digits]


def _short_date_format(numbers: pa.Array) -> str | None:
    """Return the format of dates whose years have two digits, None for other numbers."""
    first, last = pc.min_max(numbers).as_py().values()
    digits = -(-len(str(last)) // 2) * 2
    if digits not in _SHORT_DATES or first < 0 or last >= (_LAST_SHORT + 1) * 10 ** (digits - 2):
        return None
    hours = pc.divide(numbers, 10 ** (digits - 8))
    if np.any(np.asarray(hours) % 100 == 24):
        return None
    few = pc.count_distinct(numbers).as_py() < _LEAST_DATES or len(hours.unique()) < 2
    if digits == 10 and first < _LATE and few:
        return None
    texts = pc.utf8_lpad(numbers.cast(pa.string()), digits, padding="0")
    return None if strptime(texts, _SHORT_DATES[digits]).null_count else _SHORT_DATES[digits]


def unlikely_seconds(times: pa.Array) -> str | None:
    """Return how to read numbers that may be years, or days of Excel or MATLAB, else None.

    times: as for `date_format`.
    """
    first, last = (found / _SECOND for found in pc.min_max(times).as_py().values())
    if first >= _FIRST and last <= _LAST and _whole(times) is not None:
        return f"--time-format %Y reads them as years, from {first:.0f} to {last:.0f}"
    for unit, program in _PROGRAMS.items():
        days = first - EPOCHS[unit], last - EPOCHS[unit]
        if days[0] >= _LIKELY_DAYS[0] and days[1] <= _LIKELY_DAYS[1]:
            start = pa.scalar(int(days[0]), pa.int32()).cast(pa.date32())
            return f"--time-unit {unit} reads them as the days of {program}, from {start} on"
    return None


def _whole(times: pa.Array) -> pa.Array | None:
    """Return times in seconds, int64[n]; None unless all are whole seconds."""
    seconds = pc.divide(times, _SECOND)
    return seconds if pc.multiply(seconds, _SECOND).equals(times) else None
