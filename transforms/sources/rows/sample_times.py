"""Parsing of the times of samples: ISO 8601, numbers of a unit, or a strptime format."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.sources.row_formats.value_parsing import ValueParser

TimeUnit = Literal["s", "ms", "us", "ns"]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_MICROSECONDS = pa.timestamp("us")
_NUMBER = r"^[+-]?\d+(\.\d*)?([eE][+-]?\d+)?$"


def parse_times(texts: pa.Array, *, time_format: str | None, unit: TimeUnit) -> pa.Array:
    """Parse times. Returns microseconds since 1970, int64[n], null for an invalid time."""
    if time_format is not None:
        return strptime(texts, time_format).cast(pa.int64())
    is_number = pc.match_substring_regex(texts, _NUMBER).fill_null(False)
    if pc.all(is_number).as_py():
        return _parse_numbers(texts, unit)
    numbers = _parse_numbers(pc.if_else(is_number, texts, None), unit)
    moments = _parse_iso(pc.if_else(is_number, None, texts))
    return pc.coalesce(numbers, moments.cast(pa.int64()))


def _parse_numbers(texts: pa.Array, unit: TimeUnit) -> pa.Array:
    """Parse times that are numbers of a unit since 1970."""
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
    scaled = np.asarray(numbers.fill_null(np.nan)) * (10**6 / per_second)
    there = np.abs(scaled) < 2.0**63  # false for NaN
    return pa.array(np.rint(np.where(there, scaled, 0)).astype(np.int64), mask=~there)


def _parse_iso(texts: pa.Array) -> pa.Array:
    """Parse ISO 8601 times, with or without a zone."""
    moments, unfit = ValueParser().cast_or_null(texts, _MICROSECONDS)
    if not unfit.any():
        return moments
    zoned, _ = ValueParser().cast_or_null(
        pc.if_else(pa.array(unfit), texts, None), pa.timestamp("us", "UTC")
    )
    return pc.coalesce(moments, zoned.cast(_MICROSECONDS))


def strptime(texts: pa.Array, time_format: str) -> pa.Array:
    return pc.strptime(texts, format=time_format, unit="us", error_is_null=True)
