"""Parsing of the times and steps of samples: ISO 8601, numbers of a unit, or a strptime format."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.options.durations import duration
from recordmill.transforms.encoders.time_zones import to_microseconds
from recordmill.transforms.model import batch
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser, decimal_hint

TimeUnit = Literal["s", "ms", "us", "ns", "excel", "matlab"]
EPOCHS = {"excel": 25_569, "matlab": 719_529}  # days that programs count until 1970
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_MICROSECONDS = pa.timestamp("us")
_DATES = ("%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y-%m-%d")
_CLOCKS = (" %H:%M:%S", " %H:%M", " %H.%M.%S", "", " %H", " %H:%M:%S.%f", " %H:%M:%S,%f",
           " %I:%M:%S %p", " %I:%M %p")  # fmt: skip
_COMMON_FORMATS = (
    *(date + clock for date in _DATES for clock in _CLOCKS),
    *(date.replace("%Y", "%y") + clock for date in _DATES for clock in _CLOCKS),
    "%Y%m%d %H%M%S", "%Y%m%d%H%M%S", "%Y%m%d",
)  # fmt: skip

_DAYS_MOVED = 3  # days after the end of a month, at most
_YEAR_1000 = -30_610_224_000 * 10**6  # Arrow's %Y takes fewer digits: 24 would be the year 24
_ZONES = {"%z", "%Z", "%s"}
_UTC_NAMES = ("UTC", "GMT", "UT", "Z")
_COMPOUND = {"%F": "%Y-%m-%d", "%D": "%m/%d/%y", "%T": "%H:%M:%S", "%R": "%H:%M"}
# Directives that Arrow parses without filling the date that they name.
_UNFILLED = {"%G", "%g", "%V"}
_WEEKS, _WEEKDAYS = {"%U", "%W"}, {"%w", "%u", "%a", "%A"}
_DAY = 86_400 * 10**6  # microseconds
_PARTS = re.compile("%[a-zA-Z%]|.", re.DOTALL)  # directives and literal characters
_DIGITS = {
    **dict.fromkeys(("%d", "%m", "%y", "%H", "%I", "%M", "%S"), r"\s*\d{1,2}"),
    **{"%Y": r"\s*\d{4}", "%j": r"\s*\d{1,3}", "%f": r"\d{1,9}", "%p": "[a-zA-Z]+", "%%": "%"},
}
_MIDNIGHT = {**_DIGITS, "%M": r"\s*0{1,2}", "%S": r"\s*0{1,2}"}
# Directives of dates; formats of others have a clock.
_OF_DATES = {"%d", "%m", "%y", "%Y", "%j", "%b", "%B", "%a", "%A", "%e", "%F", "%D", "%w", "%u",
             "%U", "%W", "%h", "%C", "%n", "%t", "%%"}  # fmt: skip
_NUMBER = r"^[+-]?\d+(\.\d*)?([eE][+-]?\d+)?$"


def check_time_format(time_format: str) -> None:
    """Raise ConfigError for a format whose times would not be those of its texts."""
    parts = {*_PARTS.findall(time_format)}
    lost = sorted(parts & _UNFILLED)
    if not lost and parts.isdisjoint(_WEEKDAYS):
        lost = sorted(parts & _WEEKS)
    if lost:
        days = " without a weekday (%w)" if lost[0] in _WEEKS else ""
        raise ConfigError(
            f"{option_name('time_format')} {time_format!r}: {lost[0]}{days} gives no date, so that"
            " all times would be alike: write dates such as 2026-01-31 in the input"
        )


def type_of_format(time_format: str) -> pa.DataType:
    """Return the type of the times of a format: a date if it has no clock, UTC if it has a zone."""
    parts = {*_PARTS.findall(time_format)}
    if {one for one in parts if len(one) > 1} <= _OF_DATES:
        return pa.date32()
    return pa.timestamp("us") if parts.isdisjoint(_ZONES) else pa.timestamp("us", "UTC")


def times_of(texts: pa.Array, time_format: str, kind: pa.DataType) -> pa.Array:
    """Return texts of a format as times of a type, null for other texts: kind[n]."""
    times, _ = parse_times(texts, time_format=time_format, unit="s")
    zone = kind.tz if pa.types.is_timestamp(kind) else None
    return times.cast(pa.timestamp("us", zone)).cast(kind)


def time_mismatch(name: str, text: str, time_format: str) -> str:
    """Return the message for a text that is not a time of the format of its column."""
    return f"column {name!r}: expected a time{format_hint(text, time_format)}, got {text!r}"


def parse_times(
    texts: pa.Array, *, time_format: str | None, unit: TimeUnit
) -> tuple[pa.Array, pa.Array]:
    """Parse times. Returns microseconds since 1970, and whether they lack a time zone.

    int64[n], null for an invalid time, and bool[n]. Numbers do not lack a time zone.

    texts: string[n], or timestamps or durations since 1970, which are read with the unit of their
      type; time_format: of texts.
    """
    if not pa.types.is_string(texts.type):
        is_local = pa.types.is_timestamp(texts.type) and texts.type.tz is None
        return to_microseconds(texts), pa.repeat(is_local, len(texts))
    if time_format is not None:
        times = strptime(texts, time_format)
        zoned = not _ZONES.isdisjoint(_PARTS.findall(time_format))
        return times.cast(pa.int64()), pa.repeat(not zoned, len(texts))
    is_number = pc.match_substring_regex(texts, _NUMBER).fill_null(False)
    if pc.all(is_number).as_py():
        return _parse_numbers(texts, unit), pc.invert(is_number)
    numbers = _parse_numbers(pc.if_else(is_number, texts, None), unit)
    moments, zoned = _parse_iso(pc.if_else(is_number, None, texts))
    times = pc.coalesce(numbers, pc.coalesce(moments, zoned).cast(pa.int64()))
    return times, moments.is_valid()


def parse_steps(steps: pa.Array) -> pa.Array:
    """Parse time steps. Returns microseconds, int64[n], null for an invalid step.

    steps: string[n], such as 10min or a number of seconds, or durations.
    """
    if pa.types.is_duration(steps.type):
        found = np.asarray(to_microseconds(steps).fill_null(0))
    else:
        codes, names = batch.encode(steps)
        parsed = np.zeros(len(names) + 1, np.int64)  # the last is that of missing texts
        for code, name in enumerate(names.to_pylist()):
            with contextlib.suppress(ValueError):
                step = duration(name)
                parsed[code] = step if step < 2**61 else 0
        found = parsed[codes]
    return pa.array(found, mask=found <= 0)


def usual_formats(text: str) -> list[str]:
    """Return the usual formats that parse a time."""
    return [
        one
        for one, pattern in _common_patterns()
        if pattern.fullmatch(text) and strptime(pa.array([text]), one).null_count == 0
    ]


def format_hint(text: str, time_format: str | None) -> str:
    """Return the format that a time was expected in, and options that may parse it."""
    usual = usual_formats(text)
    options = " or ".join(map(repr, usual))
    if time_format is None:
        if not usual and (hint := decimal_hint(text)):
            return f" such as 2026-01-31 18:00, or a number{hint}"
        if not usual and re.match(_NUMBER, text, re.ASCII):
            return (
                " such as 2026-01-31 18:00, or a number of the unit --time-unit that int64"
                " microseconds hold"
            )
        if not usual:
            return " such as 2026-01-31 18:00, or a number (--time-format names another format)"
        return f" such as 2026-01-31 18:00 (is it --time-format {options}?)"
    if "%Z" in _PARTS.findall(time_format):
        return (
            f" as {time_format} (%Z is UTC, GMT, UT or Z, because other names belong to several"
            " time zones: write offsets such as -0500, which %z reads)"
        )
    return f" as {time_format}{f' (is it {options}?)' if usual else ''}"


@functools.cache
def _common_patterns() -> list[tuple[str, re.Pattern[str]]]:
    return [(one, re.compile(_pattern(_PARTS.findall(one)))) for one in _COMMON_FORMATS]


def _parse_numbers(texts: pa.Array, unit: TimeUnit) -> pa.Array:
    """Parse times that are numbers of a unit since 1970, or the days of Excel or MATLAB."""
    if unit in EPOCHS:
        days, _ = ValueParser().cast_or_null(texts, pa.float64())
        return _rounded((np.asarray(days.fill_null(np.nan)) - EPOCHS[unit]) * 86_400_000, 1000)
    per_second = PER_SECOND[unit]
    whole, unfit = ValueParser().cast_or_null(texts, pa.int64())
    if not unfit.any() and per_second >= 10**6:
        return pc.divide(whole, per_second // 10**6)
    factor = 10**6 // min(per_second, 10**6)
    if not unfit.any():
        largest = (2**63 - 1) // factor
        there = pc.less_equal(pc.abs(whole), largest)
        return pc.multiply(pc.if_else(there, whole, None), factor)
    numbers, _ = ValueParser().cast_or_null(texts, pa.float64())
    return _rounded(np.asarray(numbers.fill_null(np.nan)) * (10**6 / per_second), 1)


def _rounded(numbers: np.ndarray, unit: int) -> pa.Array:
    """Return numbers, rounded and times a unit, as int64[n]; null outside its range."""
    there = np.abs(numbers) < 2.0**63 / unit  # false for NaN
    return pa.array(np.rint(np.where(there, numbers, 0)).astype(np.int64) * unit, mask=~there)


def _parse_iso(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Parse ISO 8601 times. Returns those without a zone, and those with one."""
    moments, unfit = ValueParser().cast_or_null(texts, _MICROSECONDS)
    if not unfit.any():
        return moments, pa.nulls(len(texts), _MICROSECONDS)
    zoned, _ = ValueParser().cast_or_null(
        pc.if_else(pa.array(unfit), texts, None), pa.timestamp("us", "UTC")
    )
    return moments, zoned.cast(_MICROSECONDS)


def strptime(texts: pa.Array, time_format: str) -> pa.Array:
    """Parse times of a format, as Python's strptime does. Returns null for other texts.

    %Y takes four digits; %f takes one to nine, of which six are kept. %Z takes the names of UTC
    alone, because others, such as IST and CST, belong to several time zones. Hour 24 without
    minutes is the start of the next day, as in ISO 8601.
    """
    time_format = "".join(_COMPOUND.get(one, one) for one in _PARTS.findall(time_format))
    parts = _PARTS.findall(time_format)
    if "%Z" in parts:
        formats = ["".join(name if one == "%Z" else one for one in parts) for name in _UTC_NAMES]
        return pc.coalesce(*(strptime(texts, one) for one in formats))
    if "%f" in parts:
        return _parse_fractions(texts, parts)
    times = pc.strptime(texts, format=time_format, unit="us", error_is_null=True)
    times = pc.if_else(pc.greater_equal(times.cast(pa.int64()), _YEAR_1000), times, None)
    times = _without_missing_days(texts, times, parts)
    return _with_hour_24(texts, times, parts) if "%H" in parts and times.null_count else times


def _with_hour_24(texts: pa.Array, times: pa.Array, parts: Sequence[str]) -> pa.Array:
    """Return times with the start of the next day for texts with hour 24.

    times: null for these texts. parts: of the format.
    """
    place = parts.index("%H")
    before, after = (_pattern(some, _MIDNIGHT) for some in (parts[:place], parts[place + 1 :]))
    found = pc.extract_regex(texts, rf"^(?P<before>{before})\s*24(?P<after>{after})$")
    if found.null_count == len(found):
        return times
    left, right = (pc.struct_field(found, name) for name in ("before", "after"))
    days = strptime(pc.binary_join_element_wise(left, right, "00"), "".join(parts))
    next_days = pc.add(days.cast(pa.int64()), _DAY).cast(days.type)
    return pc.coalesce(times, next_days)


def _without_missing_days(texts: pa.Array, times: pa.Array, parts: Sequence[str]) -> pa.Array:
    """Return times with null for days such as 31 June, which Arrow reads as 1 July.

    texts: the times as text. parts: of their format.
    """
    if "%j" in parts:
        every = np.arange(len(texts))
        times = _without_days_beyond(texts, times, parts, every, day="%j", period="Y")
    if "%d" in parts:
        at = np.arange(len(texts))
        if _ZONES.isdisjoint(parts):
            moved = pc.less_equal(pc.day(times), _DAYS_MOVED).fill_null(False)
            at = np.flatnonzero(np.asarray(moved))
        times = _without_days_beyond(texts, times, parts, at, day="%d", period="M")
    return times


def _without_days_beyond(
    texts: pa.Array,
    times: pa.Array,
    parts: Sequence[str],
    at: npt.NDArray[np.int64],
    *,
    day: Literal["%d", "%j"],
    period: Literal["M", "Y"],
) -> pa.Array:
    """Return times with null for days beyond the last of their month or year.

    parts: of the format. at: indices of the times to check. day: the part that numbers the days of
    the period.
    """
    place = parts.index(day)
    before, after = _pattern(parts[:place]), _pattern(parts[place + 1 :])
    form = rf"^(?P<before>{before})(?P<day>{_DIGITS[day]})(?P<after>{after})$"
    found = pc.extract_regex(texts.take(pa.array(at)), form)
    left, days, right = (pc.struct_field(found, name) for name in ("before", "day", "after"))
    # Day 15 is in the same period in every time zone.
    middle = pc.strptime(
        pc.binary_join_element_wise(left, right, "015" if day == "%j" else "15"),
        format="".join([*parts[:place], day, *parts[place + 1 :]]),
        unit="us",
        error_is_null=True,
    )
    periods = np.asarray(middle.cast(pa.timestamp("us"))).astype(f"datetime64[{period}]")
    lengths = (periods + 1).astype("datetime64[D]") - periods.astype("datetime64[D]")
    numbers = np.asarray(pc.utf8_trim_whitespace(days).cast(pa.int64()).fill_null(0))
    exists = np.ones(len(texts), np.bool_)
    exists[at] = (numbers <= lengths.astype(int)) | np.isnat(periods)
    return pc.if_else(pa.array(exists), times, None)


def _parse_fractions(texts: pa.Array, parts: Sequence[str]) -> pa.Array:
    """Parse times of a format with %f, which Arrow does not know. parts: of the format."""
    place = parts.index("%f")
    before, after = parts[:place], parts[place + 1 :]
    found = pc.extract_regex(
        texts,
        f"^(?P<before>{_pattern(before)})(?P<digits>[0-9]{{1,9}})(?P<after>{_pattern(after)})$",
    )
    left, digits, right = (pc.struct_field(found, name) for name in ("before", "digits", "after"))
    whole = pc.binary_join_element_wise(left, right, "f")
    times = strptime(whole, "".join([*before, "f", *after]))
    fraction = pc.divide(pc.utf8_rpad(digits, 9, padding="0").cast(pa.int64()), 1000)
    return pc.add(times.cast(pa.int64()), fraction).cast(times.type)


def _pattern(parts: Sequence[str], digits: Mapping[str, str] = _DIGITS) -> str:
    """Return a regular expression that divides a text as these parts of a format do."""
    return "".join(
        digits.get(one, ".+?") if len(one) > 1 else r"\s+" if one.isspace() else re.escape(one)
        for one in parts
    )
