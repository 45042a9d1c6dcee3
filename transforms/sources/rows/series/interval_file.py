"""Reader of --intervals files: classes of series by intervals of time.

The file is CSV or TSV with columns series, start, end, label, or a JSON list of objects with these
names, or an object {series: [[start, end], ...]} as in NAB's combined_windows.json.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.option_files import DELIMITERS, read_option_file
from recordmill.options.durations import shown_time
from recordmill.transforms.encoders.time_zones import zone_of
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.sources.folders.references import label_problem
from recordmill.transforms.sources.row_formats.values.sample_times import TimeUnit, parse_times
from recordmill.transforms.sources.row_formats.values.text_columns import json_text
from recordmill.transforms.sources.rows.series.clock_times import clock_offsets
from recordmill.transforms.sources.rows.series.series_intervals import INTERVALS, SeriesIntervals

ANOMALY, NORMAL = "anomaly", "normal"  # classes of files that name none, as NAB's

_FLAG = "--intervals"
_NAMES = ("series", "start", "end", "label")


class _Interval(NamedTuple):
    """An interval as text. where: its place in the file, for messages."""

    where: str
    series: str
    start: str
    end: str
    label: str


class _Row(NamedTuple):
    """An interval; times are in microseconds since 1970."""

    series: str
    start: int
    end: int
    label: str


def read_intervals(
    path: str,
    *,
    outside: str | None,
    time_format: str | None,
    unit: TimeUnit,
    zone: str | None,
) -> SeriesIntervals:
    """Read a file of intervals.

    outside: class of the rows outside of all intervals. time_format, unit, zone: of times, as for
      rows; ISO 8601 is read too.

    Raises:
      ConfigError: the file cannot be read, is not in one of the formats, or has intervals of
        different classes that overlap.
    """
    text = read_option_file(_FLAG, path)
    try:
        named, found = _parse(text)
        listed = list(found)
        if _is_table(text):
            labels = [one.label for one in listed] + ([] if outside is None else [outside])
            renames = LabelSpelling().add(pa.array(labels, pa.string())).renames()
            listed = [one._replace(label=renames.get(one.label) or one.label) for one in listed]
            outside = outside and (renames.get(outside) or outside)
        intervals = _checked(listed, time_format, unit, zone)
    except _FileError as error:
        raise ConfigError(f"{_FLAG} {path}: {error}") from error
    if outside is None and not named:
        outside = NORMAL
    return SeriesIntervals(content=batch.to_bytes(intervals), outside=outside)


class _FileError(Exception):
    """An invalid file. The message describes the problem."""


def _parse(text: str) -> tuple[bool, Iterator[_Interval]]:
    """Return whether the file names classes, and its intervals."""
    if _is_table(text):
        return True, _from_rows(text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _FileError(f"expected JSON: {error}") from error
    return (False, _from_nab(data)) if isinstance(data, dict) else (True, _from_objects(data))


def _is_table(text: str) -> bool:
    """Return whether a file is CSV or TSV, not JSON."""
    return text.lstrip()[:1] not in ("[", "{")


def _from_rows(text: str) -> Iterator[_Interval]:
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if missing := [name for name in _NAMES if name not in header]:
            raise _FileError(
                f"expected a first line with {', '.join(_NAMES)}, or JSON; got no {missing[0]!r} in"
                f" {', '.join(map(repr, header)) or 'an empty file'}"
            )
        if twice := [name for name in _NAMES if header.count(name) > 1]:
            raise _FileError(f"expected one column {twice[0]!r}, got {header.count(twice[0])}")
        places = [header.index(name) for name in _NAMES]
        for row in reader:
            if not row:
                continue
            where = f"line {reader.line_num}"
            if len(row) != len(header):
                raise _FileError(f"{where}: expected {len(header)} values, got {len(row)}")
            yield _Interval(where, *(row[place].strip() for place in places))
    except csv.Error as error:
        raise _FileError(f"line {reader.line_num}: expected CSV: {error}") from error


def _from_objects(data: Sequence[Any]) -> Iterator[_Interval]:
    for number, one in enumerate(data, start=1):
        where = f"interval {number}"
        if not isinstance(one, dict):
            raise _FileError(f"{where}: expected an object with {', '.join(_NAMES)}, got {one!r}")
        if missing := [name for name in _NAMES if name not in one]:
            raise _FileError(f"{where}: expected {', '.join(_NAMES)}, got no {missing[0]!r}")
        label = one["label"]
        label = json_text(label) if isinstance(label, bool) else _text(label, where)
        series, start, end = (_text(one[name], where) for name in _NAMES[:-1])
        yield _Interval(where, series, start, end, label or "")


def _from_nab(data: Mapping[str, Any]) -> Iterator[_Interval]:
    for series, intervals in data.items():
        if not isinstance(intervals, list):
            raise _FileError(f"{series!r}: expected a list of [start, end], got {intervals!r}")
        for one in intervals:
            if not isinstance(one, list) or len(one) != 2:
                raise _FileError(f"{series!r}: expected [start, end], got {one!r}")
            start, end = (_text(value, repr(series)) for value in one)
            yield _Interval(repr(series), series, start, end, ANOMALY)


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _FileError(f"{where}: expected a text or a number, got {value!r}")
    return (json_text(value) or "").strip()


def _checked(
    found: Sequence[_Interval], time_format: str | None, unit: TimeUnit, zone: str | None
) -> pa.RecordBatch:
    """Return the intervals, those of one class that overlap joined. Raises _FileError."""
    if not found:
        raise _FileError("expected at least one interval, got none")
    for one in found:
        if not one.series or not one.label:
            raise _FileError(
                f"{one.where}: expected a series and a label, got {one.series!r} and {one.label!r}"
            )
        if (problem := label_problem(one.label)) is not None:
            raise _FileError(f"{one.where}: {problem}")
    texts = [one.start for one in found], [one.end for one in found]
    times = [_times(some, time_format, unit, zone, fold=fold) for fold, some in enumerate(texts)]
    rows = []
    for one, start, end in zip(found, *times, strict=True):
        if start is None or end is None:
            raise _FileError(
                f"{one.where}: expected times such as 2026-01-31 18:00, or numbers, got"
                f" {one.start!r} and {one.end!r}; --time-format is tried, too"
            )
        if end < start:
            raise _FileError(f"{one.where}: ends at {one.end}, before its start at {one.start}")
        rows.append(_Row(one.series, start, end, one.label))
    columns = zip(*_joined(sorted(rows)), strict=True)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, INTERVALS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=INTERVALS)


def _times(
    texts: Sequence[str], time_format: str | None, unit: TimeUnit, zone: str | None, *, fold: int
) -> list[int | None]:
    """Parse times. fold: the pass that is meant by times that a clock shows twice, 0 or 1."""
    column = string_array(texts)
    times, is_local = parse_times(column, time_format=None, unit=unit)
    if time_format is not None:
        formatted, local = parse_times(column, time_format=time_format, unit=unit)
        is_local = pc.if_else(formatted.is_valid(), local, is_local)
        times = pc.coalesce(formatted, times)
    if zone is not None:
        offsets = clock_offsets(np.asarray(times.fill_null(0)), zone_of(zone))[fold]
        times = pc.if_else(is_local, pc.subtract(times, pa.array(offsets)), times)
    found: list[int | None] = times.to_pylist()
    return found


def _joined(ordered: Iterable[_Row]) -> Iterator[_Row]:
    """Yield the intervals; those of one class that overlap become one."""
    before: _Row | None = None
    for one in ordered:
        if before is not None and before.series == one.series and one.start <= before.end:
            if before.label == one.label:
                before = before._replace(end=max(before.end, one.end))
                continue
            if one.start < before.end:
                raise _FileError(
                    f"series {one.series!r} is {before.label!r} until {shown_time(before.end)}, and"
                    f" {one.label!r} from {shown_time(one.start)} on: a row can have one class only"
                )
        if before is not None:
            yield before
        before = one
    if before is not None:
        yield before
