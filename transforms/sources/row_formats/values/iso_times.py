"""Times of ISO 8601 and RFC 3339 in text."""

from __future__ import annotations

import contextlib
import re

import pyarrow as pa
import pyarrow.compute as pc

MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"  # for RE2, too
_DATE = r"\d{4}([-/.])\d\d([-/.])\d\d"
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d+)?)?"
_ZONE = r" ?(Z|[+-]\d\d(:?\d\d)?)"
_TIME = re.compile(rf"\d{{4}}-\d\d-\d\d([T ]{_CLOCK}(?P<zone>{_ZONE})?)?", re.ASCII)
_ZONED = rf"[T ]{_CLOCK} ?([zZ]|UTC|GMT|[+-]\d\d(:?\d\d)?)$"
_OTHER_DATE = re.compile(
    r"(\d\d?[./-]\d\d?[./-]\d\d(\d\d)?|\d{4}[./-]\d\d?([./-]\d\d?)?|"
    rf"\d\d?[ .-]+{MONTH}[ .,-]+\d{{4}}|{MONTH}\.? +\d\d?[ .,-]+\d{{4}})($|[T ,])",
    re.ASCII,
)
# Spellings of ISO 8601 and RFC 3339 that Arrow does not parse, and how it writes them.
_ARROW_SPELLINGS = (
    (rf"^({_DATE})t", r"\1T"),
    (rf"^({_DATE}[T ]\d\d:\d\d:\d\d\.\d{{6}})\d+", r"\1"),
    (rf"^({_DATE}[T ]{_CLOCK}) ?(?:z|Z|UTC|GMT)$", r"\1Z"),
    (rf"^({_DATE}[T ]{_CLOCK}) ([+-]\d\d(?::?\d\d)?)$", r"\1\6"),
)
_HOUR_24 = r"^(?P<day>\d{4}-\d\d-\d\d)[T ]24:00(?::00(?:\.0+)?)?(?P<zone>Z|[+-]\d\d(?::?\d\d)?|)$"
_DAY_LONG = pa.scalar(86_400, pa.duration("s"))


def is_time(text: str) -> bool:
    """Return whether a text is a date such as 2026-01-31, with or without a time."""
    if _TIME.fullmatch(text) is None:
        return False
    return bool(parse_iso_times(pa.array([text]))[0].is_valid)  # unlike 2026-02-30


def is_no_date(text: str) -> bool:
    """Return whether a text has the form of `is_time`, but is not a valid time, as 2026-02-30."""
    return _TIME.fullmatch(text) is not None and not is_time(text)


def is_other_date(text: str) -> bool:
    """Return whether a text begins with a date or a month, but is not one of `is_time`."""
    return not is_time(text) and _OTHER_DATE.match(text) is not None


def has_zone(text: str) -> bool:
    """Return whether a text is a date with a time and a time zone."""
    found = _TIME.fullmatch(text)
    return found is not None and found["zone"] is not None


def parse_iso_times(texts: pa.Array) -> pa.Array:
    """Return texts as times, timestamp[us, UTC][n]; null for texts that are not times.

    Args:
      texts: string[n]. Times without a time zone are in UTC.
    """
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(kind).cast(pa.timestamp("us", "UTC"))
    texts = arrow_times(texts)
    zoned = pc.match_substring_regex(texts, _ZONED)
    nothing = pa.scalar(None, pa.string())
    with_zone = _cast_or_null(pc.if_else(zoned, texts, nothing), pa.timestamp("us", "UTC"))
    without = _cast_or_null(pc.if_else(zoned, nothing, texts), pa.timestamp("us"))
    return pc.coalesce(with_zone, without.cast(with_zone.type))


def _cast_or_null(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        coded = texts.dictionary_encode()
    values = [_parsed(one, kind) for one in coded.dictionary]
    return pa.array(values, kind).take(coded.indices)


def _parsed(text: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return None


def arrow_times(texts: pa.Array) -> pa.Array:
    """Return times of ISO 8601 and RFC 3339 in the notation that Arrow parses, other texts as is.

    Of a fraction, six digits are kept; 24:00 is the start of the next day.
    """
    for pattern, spelling in _ARROW_SPELLINGS:
        texts = pc.replace_substring_regex(texts, pattern, spelling)
    found = pc.extract_regex(texts, _HOUR_24)
    if found.null_count == len(found):
        return texts
    days, zones = (pc.struct_field(found, name) for name in ("day", "zone"))
    dates = pc.strptime(days, format="%Y-%m-%d", unit="s", error_is_null=True)
    exists = pc.equal(pc.strftime(dates, "%Y-%m-%d"), days)  # 31 June is read as 1 July
    after = pc.strftime(pc.add(dates, _DAY_LONG), "%Y-%m-%d")
    midnights = pc.binary_join_element_wise(after, " 00:00", zones, "")
    return pc.if_else(exists.fill_null(False), midnights, texts)
