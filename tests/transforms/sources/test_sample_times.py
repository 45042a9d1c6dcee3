"""Parsing of the times of samples."""

import datetime

import pyarrow as pa
import pytest

from recordmill.transforms.sources.row_formats.values.sample_times import format_hint, strptime


@pytest.mark.parametrize(
    ("time_format", "text", "expected"),
    [
        ("%d.%m.%Y", "30.03.24", None),
        ("%d.%m.%Y", "30.03.924", None),
        ("%d.%m.%y", "30.03.24", "2024-03-30"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-03-30 12:00:00.1", "2024-03-30T12:00:00.100"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-03-30 12:00:00", None),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-03-30 12:00:00.1234567890", None),
        ("%Y-%m-%d %H:%M:%S.%f", "1969-12-31 23:59:59.75", "1969-12-31T23:59:59.750"),
        ("%H:%M:%S,%f %d.%m.%Y", "2:00:00,000007 3.3.2024", "2024-03-03T02:00:00.000007"),
        ("%Y%m%d%H%M%S%f", "20240330120000123", "2024-03-30T12:00:00.123"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2024-03-30T12:00:00.5+0200", "2024-03-30T10:00:00.500"),
        ("%I:%M:%S.%f %p %d %b %Y", "02:00:00.5 PM 3 Mar 2024", "2024-03-03T14:00:00.500"),
        ("%F %T.%f", "2024-03-30 12:00:00.5", "2024-03-30T12:00:00.500"),
        ("100%% %Y.%f %Z", "100% 2024.5 UTC", "2024-01-01T00:00:00.500"),
        ("%Y-%m-%d %H:%M %Z", "2024-07-01 12:00 GMT", "2024-07-01T12:00"),
        ("%Y-%m-%d %H:%M %Z", "2024-07-01 12:00 CET", None),
        ("%Y-%m-%d %%Z", "2024-07-01 %Z", "2024-07-01"),
        ("%d.%m.%Y", "31.06.2025", None),
        ("%Y-%j", "2025-366", None),
        ("%Y-%j", "2024-366", "2024-12-31"),
        ("%d.%m.%Y", "29.02.2025", None),
        ("%d.%m.%Y", "29.02.2024", "2024-02-29"),
        ("%m/%d/%y %H:%M", "2/30/24 23:59", None),
        ("%d %b %Y", "31 Apr 2025", None),
        ("%d %B %Y %H:%M:%S.%f", "31 May 2025 00:00:00.5", "2025-05-31T00:00:00.500"),
        ("%F %H:%M", "2025-11-31 00:00", None),
        ("%Y-%m-%d %H:%M%z", "2025-06-31 23:00-0500", None),
        ("%Y-%m-%d %H:%M%z", "2025-05-31 23:00-0500", "2025-06-01T04:00"),
        ("%Y-%m-%d %H:%M%z", "2025-07-01 00:30+0200", "2025-06-30T22:30"),
        ("%d.%m.%Y %H:%M", "31.12.2024 24:00", "2025-01-01"),
        ("%F %T", "2024-02-29 24:00:00", "2024-03-01"),
        ("%Y%m%d%H", "2024022924", "2024-03-01"),
        ("%H:%M:%S.%f %d.%m.%Y", "24:00:00.0 1.3.2024", "2024-03-02"),
        ("%F %R%z", "2024-12-31 24:00+0100", "2024-12-31T23:00"),
        ("%F %R", "2024-02-30 24:00", None),
        ("%F %R", "2024-02-20 24:01", None),
        ("%F %R", "2024-02-20 25:00", None),
    ],
)
def test_times_are_parsed_as_by_python(time_format, text, expected):
    parsed = strptime(pa.array([text, None], pa.string()), time_format).cast(pa.timestamp("us"))
    time = None if expected is None else datetime.datetime.fromisoformat(expected)
    assert parsed.to_pylist() == [time, None]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10/25/2025 08:00 PM", "(is it --time-format '%m/%d/%Y %I:%M %p'?)"),
        ("25.10.2025 8:00:30 am", "(is it --time-format '%d.%m.%Y %I:%M:%S %p'?)"),
        ("2025-02-29 00:00", "such as 2026-01-31 18:00, or a number (--time-format names another"),
        ("31.06.2025", "or a number (--time-format names another"),
    ],
)
def test_errors_name_usual_formats(text, hint):
    assert hint in format_hint(text, None)
