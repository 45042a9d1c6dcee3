"""Timestamps as clock times of a time zone, such as Europe/Berlin, and as microseconds.

The rules come from the machine's time zone database, or else from the package `tzdata`.
"""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, did_you_mean

_MICROSECONDS = pa.timestamp("us")
_MICROSECONDS_OF = {"s": 10**6, "ms": 10**3}
_MINUTE = 60 * 10**6
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# A day inside the years 1 to 9999, the range of datetime.
_LEAST = -719_161 * 1440
_MOST = 2_932_895 * 1440


def zone_of(name: str, flag: str = "--time-zone") -> zoneinfo.ZoneInfo:
    """Return a time zone by its name. flag: the option that names it, for messages.

    Raises:
        ConfigError: there is no such zone.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = zoneinfo.available_timezones()
        if not known:
            raise ConfigError(
                f"{flag} {name}: this machine has no time zone database: pip install tzdata"
            ) from error
        raise ConfigError(
            f"{flag}: unknown zone {name!r}{did_you_mean(name, sorted(known))}; expected a"
            " name such as Europe/Berlin or UTC"
        ) from error


def local_times(column: pa.Array, zone: zoneinfo.ZoneInfo) -> pa.Array:
    """Return timestamps as clock times in a zone, timestamp("us"); those without a zone are UTC.

    All times of one minute have the same offset from UTC.
    """
    utc = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    times = np.asarray(utc.fill_null(0))
    minutes, codes = np.unique(times // _MINUTE, return_inverse=True)
    offsets = [_offset(zone, minute) for minute in np.clip(minutes, _LEAST, _MOST).tolist()]
    shifted = times + np.array(offsets, np.int64)[codes]
    mask = np.asarray(column.is_null())
    return pa.array(shifted, mask=mask).cast(_MICROSECONDS)


def _offset(zone: zoneinfo.ZoneInfo, minute: int) -> int:
    """Return the difference from UTC in microseconds. minute: since 1970."""
    when = (_EPOCH + datetime.timedelta(minutes=minute)).astimezone(zone)
    offset = when.utcoffset()
    assert offset is not None
    return offset // datetime.timedelta(microseconds=1)


def to_microseconds(times: pa.Array) -> pa.Array:
    """Return timestamps as microseconds since 1970, int64[n]; null for `beyond_microseconds`.

    Parts of a microsecond are cut off.
    """
    numbers = np.asarray(times.cast(pa.int64()).fill_null(0))
    null = np.asarray(times.is_null(), bool)
    if times.type.unit == "ns":
        return pa.array(numbers // 1000, mask=null)
    beyond = beyond_microseconds(times)
    factor = _MICROSECONDS_OF.get(times.type.unit, 1)
    return pa.array(np.where(beyond, 0, numbers) * factor, mask=null | beyond)


def beyond_microseconds(times: pa.Array) -> npt.NDArray[np.bool_]:
    """Return whether timestamps are too far from 1970 for int64 microseconds, bool[n]."""
    factor = _MICROSECONDS_OF.get(times.type.unit, 1)
    if factor == 1:  # of nanoseconds, too
        return np.zeros(len(times), np.bool_)
    most = (2**63 - 1) // factor
    numbers = times.cast(pa.int64())
    fits = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, -most))
    return ~np.asarray(fits.fill_null(True), bool)
