"""Source of sensor series: a row per sample, with a time and the name of its series."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.format.class_names import is_value
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.encoders.time_zones import zone_of
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart, Parts
from recordmill.transforms.model.usual_columns import quoted
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.values.sample_times import (
    EPOCHS,
    PER_SECOND,
    TimeUnit,
    check_time_format,
    format_hint,
    parse_steps,
    parse_times,
)
from recordmill.transforms.sources.row_formats.values.value_parsing import Mask, with_points
from recordmill.transforms.sources.rows.columns.record_columns import (
    BEYOND,
    SYSTEM_FIELDS,
    InvalidRows,
    invalid_rows,
    is_null,
)
from recordmill.transforms.sources.rows.reading.record_layout import Attached, References, RowLayout
from recordmill.transforms.sources.rows.reading.row_sections import Inference
from recordmill.transforms.sources.rows.series.clock_times import to_utc
from recordmill.transforms.sources.rows.series.numeric_times import (
    RECENT,
    UNIT_NAMES,
    YEARS,
    are_recent,
    date_format,
    unlikely_seconds,
    years_of,
    years_text,
)
from recordmill.transforms.sources.rows.series.series_intervals import SeriesIntervals
from recordmill.transforms.sources.rows.values.table_rows import TableRows
from recordmill.transforms.windowing.series_steps import STEP
from recordmill.transforms.windowing.time_survey import SERIES, TIME

_SAMPLE = (pa.field(SERIES, pa.string(), False), pa.field(TIME, pa.int64(), False))
JOINED = "all"  # the name of the series that consists of all files


@dataclasses.dataclass(frozen=True, kw_only=True)
class SensorRows(TableRows):
    """Lists the sections of files of rows and reads the samples of series from them.

    time_columns: columns of the time, joined by a space.
    time_format: strptime format of times. By default a time is ISO 8601, or a number of
      `time_unit` since 1970. Times without a zone are UTC.
    time_unit: by default seconds, unless the numbers look like dates.
    time_zone: name of the zone of times without one; by default UTC.
    series_column: column of the series name. By default each file is a series; if `joined`, all
      files are one series.
    step_column: column of the time between two rows of the series, such as 10min or seconds.
    number_labels: whether the label column keeps its texts, because windows parse numbers of them.
    intervals: intervals that give rows their classes; None if a column does.
    """

    _takes_label_lists: ClassVar[bool] = False
    _takes_formats: ClassVar[bool] = False
    _needs_classes: ClassVar[bool] = False

    time_columns: tuple[str, ...]
    time_format: str | None = None
    time_unit: TimeUnit | None = None
    time_zone: str | None = None
    series_column: str | None = None
    joined: bool = False
    step_column: str | None = None
    number_labels: bool = False
    intervals: SeriesIntervals | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time_unit not in (None, *get_args(TimeUnit)):
            raise ConfigError(
                f"{option_name('time_unit')}: expected one of {', '.join(get_args(TimeUnit))}, got"
                f" {self.time_unit!r}"
            )
        if self.joined and self.series_column is not None:
            raise ConfigError(
                f"expected only one of {option_name('join_files')} and"
                f" {option_name('series_column')}: leave one out"
            )
        if self.time_zone is not None:
            zone_of(self.time_zone, "--input-time-zone")
        if self.time_format is not None:
            check_time_format(self.time_format)

    @property
    def unique_keys(self) -> bool:
        """True, because a series has at most one window at a time."""
        return True

    @property
    def keyed_by_content(self) -> bool:
        """False, because windows have keys of their own."""
        return False

    def content_hashes(self, rows: pa.RecordBatch) -> None:
        """Return None: rows of a series are no records."""

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> RowLayout:
        """Return the layout of the samples.

        Raises:
          ConfigError: as in `RecordRows`, or no time in the first rows can be parsed.
        """
        layout = super().layout(parts, keep, facts=facts)
        if self.intervals is not None:
            of_values = all(is_value(name) for name, _ in self.intervals.classes)
            layout = dataclasses.replace(layout, labelled=True, of_values=of_values)
        for part in itertools.islice(parts, 1):
            listed = next(self.read(part, layout), None)
            if listed is not None and listed.rows is None:
                self._check_magnitude(part, layout)
                wrong = [r for r in listed.rejects if "expected a time" in r.detail]
                if wrong:
                    raise ConfigError(f"{wrong[0].key}: {wrong[0].detail}")
            if listed is not None and listed.rows is not None:
                notes = self._check_times(listed.rows[TIME], part, layout)
                layout = dataclasses.replace(layout, notes=(*layout.notes, *notes))
        return layout

    @property
    def _unit(self) -> TimeUnit:
        return self.time_unit or "s"

    def _check_times(
        self, times: pa.Array, part: pa.RecordBatch, layout: RowLayout
    ) -> Iterator[Note]:
        """Yield notes on options without effect on the first times, and on numbers as times."""

        def differ(other: SensorRows) -> bool:
            listed = next(other.read(part, dataclasses.replace(layout, kept=None)), None)
            return listed is None or listed.rows is None or not listed.rows[TIME].equals(times)

        columns = ", ".join(map(repr, self.time_columns))
        zone = "Etc/GMT+9" if self.time_zone != "Etc/GMT+9" else "Etc/GMT+8"
        if self.time_zone is not None and not differ(dataclasses.replace(self, time_zone=zone)):
            text = f"times in {columns} are numbers or have a zone: --input-time-zone has no effect"
            yield Note("times", text)
        if self.time_format is not None:
            return
        if self.time_unit is None and are_recent(times) and date_format(times) is None:
            return
        unit: TimeUnit = "us" if self.time_unit == "ns" else "ns"
        if differ(dataclasses.replace(self, time_unit=unit)):
            note = self._check_numbers(times)
            yield from () if note is None else (note,)
        elif self.time_unit is not None:
            typed = {field.name: field.type for field in layout.typed}
            has_unit = pa.types.is_duration(typed.get(self.time_columns[0], pa.null()))
            are = "have the unit of their type" if has_unit else "are dates, not numbers"
            text = f"times in {columns} {are}: --time-unit has no effect"
            yield Note("times", text)

    def _check_magnitude(self, part: pa.RecordBatch, layout: RowLayout) -> None:
        """Check that rows without any valid time do not have numbers of a smaller unit.

        Raises:
          ConfigError: with a smaller unit, their numbers give recent times.
        """
        if self.time_format is not None:
            return
        smaller: tuple[TimeUnit, ...] = ("ms", "us", "ns")
        for name in smaller:
            other = dataclasses.replace(self, time_unit=name)
            listed = next(other.read(part, dataclasses.replace(layout, kept=None)), None)
            if listed is None or listed.rows is None:
                continue
            years = years_of(listed.rows[TIME])
            if years[0] >= RECENT and years[1] < YEARS[1]:
                raise ConfigError(
                    f"{option_name('time_unit')}: numbers in"
                    f" {', '.join(map(repr, self.time_columns))} are too large for"
                    f" {UNIT_NAMES[self._unit]} since 1970; pass {option_name('time_unit', name)},"
                    f" which gives {years_text(years)}"
                )

    def _check_numbers(self, times: pa.Array) -> Note | None:
        """Check that the numbers of the first rows give times from 1970 to 2100, or return a note.

        Times that are all in 1970, but would be recent with a larger unit, as years or as days of
        Excel, are noted, too.

        Raises:
          ConfigError: they give later times, but with another unit all would be in this range; or
            they look like dates, and no unit was given.
        """
        years = years_of(times)
        in_range = years[0] >= YEARS[0] and years[1] < YEARS[1]
        date = date_format(times) if self.time_unit is None else None
        if self.time_unit in EPOCHS or (are_recent(times) and date is None):
            return None
        columns = ", ".join(map(repr, self.time_columns))
        unit = UNIT_NAMES[self._unit]
        read = (
            f"numbers in {columns} are read as {unit} since 1970, which gives {years_text(years)}"
        )
        if date is not None:
            raise ConfigError(
                f"{option_name('time_column')}: {read}, but they look like dates: pass"
                f" {option_name('time_format', date)}, or {option_name('time_unit')} s if they are"
                " seconds"
            )
        note: Note | None = None
        if self.time_unit is None and (reading := unlikely_seconds(times)) is not None:
            text = f"{read}; {reading} (--time-unit s confirms that they are seconds)"
            note = Note("times", text)
        for name in PER_SECOND:
            factor = PER_SECOND[self._unit] / PER_SECOND[name]
            found = years_of(times, factor)
            if years[0] >= YEARS[1] and found[0] >= RECENT and found[1] < YEARS[1]:
                raise ConfigError(
                    f"{option_name('time_unit')}: {read}; pass {option_name('time_unit', name)},"
                    f" which gives {years_text(found)}"
                )
            if in_range and found[0] >= RECENT and found[1] < YEARS[1]:
                read += f"; --time-unit {name} gives {years_text(found)}"
                note = Note("times", read)
        return note if in_range else Note("times", f"{read}; --time-unit sets the unit")

    def _keeps_labels(self, label: str) -> bool:
        return self.number_labels or super()._keeps_labels(label)

    @property
    def _zoned_column(self) -> str | None:
        return self.time_columns[-1] if self.time_format is None else None

    def _typed_columns(self, found: ColumnTypes) -> tuple[pa.Field, ...]:
        """Return the columns of times and steps that files declare as timestamps or durations.

        Columns of times are left out if a format reads their text, or if several are joined.
        """
        if not found:
            return ()
        names = [] if self.step_column is None else [self.step_column]
        typed = [found[name].field(name) for name in names]
        typed = [field for field in typed if pa.types.is_duration(field.type)]
        if len(self.time_columns) == 1 and self.time_format is None:
            time = found[self.time_columns[0]].field(self.time_columns[0])
            if pa.types.is_timestamp(time.type) or pa.types.is_duration(time.type):
                typed.append(time)
        return tuple(typed)

    def _infer_remaining(
        self, header: ColumnTypes, parts: Parts, what: Inference, notes: dict[str, Note]
    ) -> ColumnTypes:
        found = super()._infer_remaining(header, parts, what, notes)
        zoned = self._zoned_column
        if zoned in found and found[zoned].types == (pa.string(),):
            text = (
                f"only some times in {zoned!r} have a time zone; those without are read as"
                f" {self.time_zone or 'UTC'}: write the zone of all, or of none"
            )
            notes["zones"] = Note("times", text)
        return found

    def _record_fields(self, roles: ColumnRoles, column_types: ColumnTypes) -> list[pa.Field]:
        step = [] if self.step_column is None else [pa.field(STEP, pa.int64(), False)]
        return [*SYSTEM_FIELDS, *_SAMPLE, *step, *self._place_fields(roles)]

    @property
    def _consumed_columns(self) -> tuple[str, ...]:
        others = (self.series_column, self.step_column)
        return (*self.time_columns, *(name for name in others if name is not None))

    def _roles(self, names: Sequence[str], of_path: Collection[str] = ()) -> ColumnRoles:
        if self.step_column is not None and self.step_column not in names:
            raise ConfigError(
                f"{option_name('step')}: expected a duration, such as 10s, 500ms, 1h30m or 1d,"
                f" auto, or one of the columns {quoted(names)}; got {self.step_column!r}"
            )
        return super()._roles(names, of_path)

    def _attach(self, rows: Rows, layout: RowLayout, files: Sequence[File]) -> Attached:
        del layout
        parts = [rows.columns[name] for name in self.time_columns]
        text = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, " ")
        is_text = self.time_format is None and pa.types.is_string(text.type)
        texts = with_points(text, self.format.decimal) if is_text else text
        times, is_local = parse_times(texts, time_format=self.time_format, unit=self._unit)
        if self.series_column is None:
            series = rows.of_files(
                [JOINED] * len(files) if self.joined else [file.key for file in files]
            )
        else:
            series = rows.columns[self.series_column]
        columns = ", ".join(map(repr, self.time_columns))

        def no_time(row: int) -> str:
            why = f"no time in {columns}"
            if not pa.types.is_string(text.type) and text[row].is_valid:
                number = f"{text[row].value} {text.type.unit}"
                why = f"column {columns}: {number} {BEYOND}"
            elif (got := text[row].as_py()) is not None:
                why = (
                    f"expected a time in {columns}{format_hint(got, self.time_format)}, got {got!r}"
                )
            return why

        faults = [
            invalid_rows(rows, is_null(times), no_time),
            invalid_rows(
                rows, is_null(series), lambda row: f"no series name in {self.series_column!r}"
            ),
        ]
        if self.time_zone is not None:
            times, never = self._in_utc(times, is_local, series, text, rows)
            faults += never
        if self.step_column is None:
            return Attached([series, times], faults)
        written = rows.columns[self.step_column]
        is_text = pa.types.is_string(written.type)
        steps = parse_steps(with_points(written, self.format.decimal) if is_text else written)

        def no_step(row: int) -> str:
            why = "expected a step, such as 10min, or seconds, in"
            return f"{why} {self.step_column!r}, got {written[row]}"

        faults.append(invalid_rows(rows, is_null(steps), no_step))
        return Attached([series, times, steps], faults)

    def _in_utc(
        self, times: pa.Array, is_local: pa.Array, series: pa.Array, texts: pa.Array, rows: Rows
    ) -> tuple[pa.Array, list[InvalidRows]]:
        """Return the times of rows in UTC, and the rows whose time is not clear."""
        assert self.time_zone is not None
        at = np.flatnonzero(np.asarray(pc.and_(is_local, times.is_valid())))
        codes, _ = batch.encode(series)
        utc = np.asarray(times.fill_null(0)).copy()
        converted = to_utc(utc[at], codes[at], zone_of(self.time_zone))
        utc[at] = converted.times

        def invalid(found: Mask, problem: str) -> InvalidRows:
            is_invalid = np.zeros(len(utc), np.bool_)
            is_invalid[at] = found

            return invalid_rows(rows, is_invalid, lambda row: f"{str(texts[row])!r} {problem}")

        twice = (
            f"occurs twice in {self.time_zone}, because clocks are set back then (daylight saving"
            " time), and the order of the rows does not say which one it is: write the offset of"
            " times, such as +02:00"
        )
        never = (
            f"does not exist in {self.time_zone}, because clocks are set forward then (daylight"
            " saving time): if the clock was not changed, pass the zone that it shows to"
            " --input-time-zone, such as Etc/GMT-1 (UTC+1 all year)"
        )
        faults = [invalid(converted.repeated, twice), invalid(converted.skipped, never)]
        return pa.array(utc, mask=is_null(times)), faults

    def _read(
        self, sections: pa.RecordBatch, layout: RowLayout, references: References | None = None
    ) -> Iterator[ListingPart]:
        for found in super()._read(sections, layout, references):
            if self.intervals is None or found.rows is None:
                yield found
                continue
            classes = self.intervals.classes_of(found.rows[SERIES], found.rows[TIME])
            labelled = batch.set_column(found.rows, batch.LABEL, classes)
            yield dataclasses.replace(found, rows=labelled)
