"""Conversion of clock times of a time zone to UTC.

When clocks are set back, they show an hour twice. The order of the rows says which one a time is
in: in each series, rows of the first pass precede those of the second one.
"""

from __future__ import annotations

import datetime
import itertools
import zoneinfo
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.transforms.sources.row_formats.values.value_parsing import Mask

Ints = npt.NDArray[np.int64]

_MINUTE = 60 * 10**6
_DAY = 1440 * _MINUTE
_EPOCH = datetime.datetime(1970, 1, 1)
_LEAST, _MOST = -719_161 * 1440, 2_932_895 * 1440  # minutes inside the years 1 to 9999
_MICROSECOND = datetime.timedelta(microseconds=1)


class Converted(NamedTuple):
    """Times in UTC, in microseconds since 1970, int64[n].

    repeated: bool[n], the clock showed the time twice, and the order of the rows does not say which
    one is meant. skipped: bool[n], the clock never showed the time.
    """

    times: Ints
    repeated: Mask
    skipped: Mask


def to_utc(times: Ints, series: Ints, zone: zoneinfo.ZoneInfo) -> Converted:
    """Convert clock times in microseconds since 1970.

    times, series: int64[n], of rows in the order of their file; series: codes of names.
    """
    first, second = clock_offsets(times, zone)
    repeated = first > second
    converted = times - first
    for rows, before, after in _runs(times, series, repeated) if repeated.any() else ():
        size = int(first[rows[0]] - second[rows[0]])
        passes = _second_pass(times[rows], before, after, size)
        if passes is not None:
            repeated[rows] = False
            converted[rows[passes]] = times[rows[passes]] - second[rows[passes]]
    return Converted(converted, repeated, first < second)


def clock_offsets(times: Ints, zone: zoneinfo.ZoneInfo) -> tuple[Ints, Ints]:
    """Return the differences of clock times from UTC, in microseconds.

    The first differs from the second where clocks are set: where it is larger, the clock shows the
    time twice, where it is smaller, never.
    """
    days, of = np.unique(times // _DAY, return_inverse=True)
    starts = [_offsets(zone, day * 1440) for day in days.tolist()]
    ends = [_offsets(zone, (day + 1) * 1440) for day in days.tolist()]
    offsets = np.array(starts, np.int64).reshape(-1, 2)[of]
    uneven = [len({*start, *end}) > 1 for start, end in zip(starts, ends, strict=True)]
    rows = np.flatnonzero(np.array(uneven, np.bool_)[of])
    minutes, of = np.unique(times[rows] // _MINUTE, return_inverse=True)
    exact = [_offsets(zone, minute) for minute in minutes.tolist()]
    offsets[rows] = np.array(exact, np.int64).reshape(-1, 2)[of]
    return offsets[:, 0], offsets[:, 1]


def _offsets(zone: zoneinfo.ZoneInfo, minute: int) -> tuple[int, int]:
    """Return the two differences from UTC at a minute of the clock, counted from 1970."""
    when = _EPOCH + datetime.timedelta(minutes=min(max(minute, _LEAST), _MOST))
    first, second = (zone.utcoffset(when.replace(fold=fold)) for fold in (0, 1))
    assert first is not None
    assert second is not None
    return first // _MICROSECOND, second // _MICROSECOND


def _runs(times: Ints, series: Ints, repeated: Mask) -> list[tuple[Ints, int | None, int | None]]:
    """Return the rows of each series that follow each other with times that occur twice.

    Each with the times of the rows of the series before and after them.
    """
    order = np.argsort(series, kind="stable")
    names, at, flags = series[order], times[order], repeated[order]
    far = np.abs(np.diff(at)) > _DAY // 2
    parted = np.flatnonzero(np.diff(flags) | (names[1:] != names[:-1]) | far) + 1
    bounds = [0, *parted.tolist(), len(order)]
    runs = []
    for start, end in itertools.pairwise(bounds):
        if flags[start]:
            has_before = start > 0 and names[start - 1] == names[start]
            has_after = end < len(order) and names[end] == names[start]
            before = int(at[start - 1]) if has_before else None
            runs.append((order[start:end], before, int(at[end]) if has_after else None))
    return runs


def _second_pass(times: Ints, before: int | None, after: int | None, size: int) -> Ints | None:
    """Return the indices of the second pass among rows, None if their order does not say.

    times: of the rows. before, after: of the rows around them. size: of the change of the clock.
    """
    around = [one for one in (before, *times.tolist(), after) if one is not None]
    signs = np.sign(np.diff(around))
    indices = np.arange(len(times))
    if signs.sum() < 0 and np.count_nonzero(signs < 0) > 1:  # the newest rows are first
        times, indices, before, after = times[::-1], indices[::-1], after, before
    steps = np.diff(times)
    cuts = np.flatnonzero(steps < 0)
    if not len(cuts):
        cuts = np.flatnonzero(steps == 0)  # such as a row per hour
    if len(cuts) == 1:
        return indices[cuts[0] + 1 :]
    if (steps < 0).any():
        return None
    follows = before is not None and 0 <= times[0] - before <= size
    precedes = after is not None and 0 <= after - times[-1] <= size
    if follows == precedes:
        return None
    return indices[:0] if follows else indices
