"""Durations, such as 10s or 1h30m, and times: as text, and in microseconds."""

from __future__ import annotations

import datetime
import re

_UNITS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6, "sec": 10**6,
    "m": 60 * 10**6, "min": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
}  # fmt: skip


def duration(text: str) -> int:
    """Parse `10s`, `500ms`, `1h30m`, `1d` or a number of seconds into microseconds."""
    given = text.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", given, re.ASCII)
    if re.fullmatch(r"\d+(\.\d+)?", given, re.ASCII):
        parts = [(given, "s")]
    elif "".join(map("".join, parts)) != re.sub(r"\s", "", given) or not parts:
        parts = [("0", "")]
    total = 0
    for number, unit in parts:
        if unit not in _UNITS:
            raise ValueError(f"expected a duration, such as 10s, 500ms, 1h30m or 1d; got {text!r}")
        whole, _, decimals = number.partition(".")
        total += int(whole + decimals) * _UNITS[unit] // 10 ** len(decimals)
    return total


def show_duration(value: int | None) -> str | None:
    """Return the inverse of `duration`, in the largest unit that divides the value."""
    if value is None:
        return None
    for unit in ("d", "h", "min", "s", "ms"):
        if value and value % _UNITS[unit] == 0:
            return f"{value // _UNITS[unit]}{unit}"
    return f"{value}us"


def shown_time(microseconds: int) -> str:
    """Return a time in ISO 8601, without a fraction of 0. microseconds: since 1970."""
    return (
        datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    ).isoformat(" ")


def clock_hint(time: int) -> str:
    """Return advice on rows of the same time if clocks are often set back then, else "".

    time: microseconds since 1970.
    """
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=time)
    if when.isoweekday() != 7 or when.hour > 3 or when.month not in (3, 4, 9, 10, 11):
        return ""
    return (
        ": if clocks were set back then (daylight saving time), --input-time-zone tells the two"
        " hours apart"
    )
