"""Source of sensor series: a row per sample, with a time and the name of its series."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason
from recordmill.storage.files import Location
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.row_formats.row_file import Rows
from recordmill.transforms.sources.row_formats.value_parsing import Mask, ValueParser
from recordmill.transforms.sources.rows.column_roles import ColumnRoles
from recordmill.transforms.sources.rows.record_columns import SYSTEM_FIELDS, InvalidRows
from recordmill.transforms.sources.rows.record_rows import RowLayout
from recordmill.transforms.sources.rows.table_rows import TableRows
from recordmill.transforms.windowing.time_survey import SERIES, TIME

TimeUnit = Literal["s", "ms", "us", "ns"]
JOINED = "all"  # the name of the series that consists of all files

_MICROSECONDS = pa.timestamp("us")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NUMBER = r"^[+-]?\d+(\.\d*)?([eE][+-]?\d+)?$"
_COMMON_FORMATS = (
    "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y %H.%M.%S", "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M", "%Y%m%d %H%M%S", "%Y%m%d%H%M%S", "%d-%m-%Y %H:%M:%S", "%d-%m-%Y %H:%M",
    "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%Y%m%d",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class SensorRows(TableRows):
    """Lists the sections of files of rows and reads the samples of series from them.

    time_columns: columns of the time, joined by a space.
    time_format: strptime format of times. By default a time is ISO 8601, or a number of
      `time_unit` since 1970. Times without a zone are UTC.
    series_column: column of the series name. By default each file is a series; if `joined`, all
      files are one series.
    """

    _leading_fields: ClassVar[tuple[pa.Field, ...]] = (
        *SYSTEM_FIELDS,
        pa.field(SERIES, pa.string(), False),
        pa.field(TIME, pa.int64(), False),
    )

    time_columns: tuple[str, ...]
    time_format: str | None = None
    time_unit: TimeUnit = "s"
    series_column: str | None = None
    joined: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time_unit not in get_args(TimeUnit):
            raise ConfigError(
                f"--time-unit: expected one of {', '.join(get_args(TimeUnit))}, got"
                f" {self.time_unit!r}"
            )
        if self.joined and self.series_column is not None:
            raise ConfigError(
                "expected only one of --join-files and --series-column: leave one out"
            )

    @property
    def unique_keys(self) -> bool:
        """True, because a series has at most one window at a time."""
        return True

    @property
    def keyed_by_content(self) -> bool:
        """False, because windows have keys of their own."""
        return False

    def layout(self, parts: Iterable[pa.RecordBatch], keep: Location | None = None) -> RowLayout:
        """Return the layout of the samples.

        Raises:
          ConfigError: as in `RecordRows`, or no time in the first rows can be parsed.
        """
        parts = iter(parts)
        first = list(itertools.islice(parts, 1))
        layout = super().layout(itertools.chain(first, parts), keep)
        for part in first:
            listed = next(self.read(part, layout), None)
            if listed is not None and listed.rows is None:
                wrong = [r for r in listed.rejects if "expected a time" in r.detail]
                if wrong:
                    raise ConfigError(f"{wrong[0].key}: {wrong[0].detail}")
        return layout

    @property
    def _consumed_columns(self) -> tuple[str, ...]:
        series = () if self.series_column is None else (self.series_column,)
        return (*self.time_columns, *series)

    def _source_columns(
        self, rows: Rows, roles: ColumnRoles, file: str
    ) -> tuple[list[pa.Array], list[InvalidRows]]:
        del roles
        texts = [rows.columns[name] for name in self.time_columns]
        text = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, " ")
        times = parse_times(text, time_format=self.time_format, unit=self.time_unit)
        if self.series_column is None:
            series = pa.repeat(JOINED if self.joined else file, len(text))
        else:
            series = rows.columns[self.series_column]
        columns = ", ".join(map(repr, self.time_columns))

        def no_time(row: int) -> RejectCause:
            got = text[row].as_py()
            why = f"no time in {columns}"
            if got is not None:
                why = f"expected a time in {columns}{self._format_hint(got)}, got {got!r}"
            return RejectCause(Reason.BAD_VALUE, f"row {rows.numbers[row]}: {why}")

        def no_series(row: int) -> RejectCause:
            why = f"no series name in {self.series_column!r}"
            return RejectCause(Reason.BAD_VALUE, f"row {rows.numbers[row]}: {why}")

        faults = [InvalidRows(_is_null(times), no_time), InvalidRows(_is_null(series), no_series)]
        return [series, times], faults

    def _format_hint(self, got: str) -> str:
        """Return the expected format of a time, and the options that may parse it."""
        if self.time_format is not None:
            return f" as {self.time_format}"
        usual = [one for one in _COMMON_FORMATS if _strptime(pa.array([got]), one).null_count == 0]
        if not usual:
            return " such as 2026-01-31 18:00, or a number (--time-format names another format)"
        return f" such as 2026-01-31 18:00 (is it --time-format {' or '.join(map(repr, usual))}?)"


def parse_times(texts: pa.Array, *, time_format: str | None, unit: TimeUnit) -> pa.Array:
    """Parse times. Returns microseconds since 1970, int64[n], null for an invalid time."""
    if time_format is not None:
        return _strptime(texts, time_format).cast(pa.int64())
    is_number = pc.match_substring_regex(texts, _NUMBER).fill_null(False)
    if pc.all(is_number).as_py():
        return _parse_numbers(texts, unit)
    numbers = _parse_numbers(pc.if_else(is_number, texts, None), unit)
    moments = _parse_iso(pc.if_else(is_number, None, texts))
    return pc.coalesce(numbers, moments.cast(pa.int64()))


def _parse_numbers(texts: pa.Array, unit: TimeUnit) -> pa.Array:
    """Parse times that are numbers of a unit since 1970."""
    per_second = _PER_SECOND[unit]
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


def _strptime(texts: pa.Array, time_format: str) -> pa.Array:
    return pc.strptime(texts, format=time_format, unit="us", error_is_null=True)


def _is_null(column: pa.Array) -> Mask:
    mask: Mask = np.asarray(column.is_null())
    return mask
