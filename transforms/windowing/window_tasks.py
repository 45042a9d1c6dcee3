"""Encoder tasks that turn parts of rows into parts of windows.

Rows are grouped into cells, each a bucket of series and an interval of time. Each cell is sorted,
and windows are cut bucket by bucket. Names and content of the files depend on the data alone, so
that a retried task writes the same files.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason, Reject
from recordmill.format.split_names import TRAIN
from recordmill.job.staging import StagedPart, Staging
from recordmill.options.durations import shown_time
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.sources.folders.number_labels import TARGET
from recordmill.transforms.sources.rows.references.repeated_rows import REPEATED
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import (
    read_excluded,
    read_skipped,
    write_checked_part,
    write_part,
)
from recordmill.transforms.staged.parts import read_part
from recordmill.transforms.staged.spill import Piece
from recordmill.transforms.staged.value_batches import layout_of_values
from recordmill.transforms.windowing.complete_windows import CompleteWindows
from recordmill.transforms.windowing.constant_columns import ConstantColumns
from recordmill.transforms.windowing.last_windows import WindowedRows
from recordmill.transforms.windowing.repeated_hours import RepeatedHours
from recordmill.transforms.windowing.series_report import SeriesReport
from recordmill.transforms.windowing.series_scales import ScaleLearner, SeriesScales
from recordmill.transforms.windowing.series_steps import STEP, StepCounter
from recordmill.transforms.windowing.shared_rows import RowSample, largest_rank
from recordmill.transforms.windowing.split_coverage import SplitCounter
from recordmill.transforms.windowing.time_splits import TimeSplits, divide_each_series
from recordmill.transforms.windowing.time_survey import (
    NAMES,
    SERIES,
    TIME,
    Ints,
    TimeSurvey,
    buckets_of,
)
from recordmill.transforms.windowing.window_layout import window_layout
from recordmill.transforms.windowing.windows import (
    INPUTS,
    Timeline,
    WindowCutter,
    gaps,
    on_grid,
    ordered,
    resampled,
    without_repeats,
)

# The columns that steps read of any part; one without rows needs no others.
_NO_WINDOWS = pa.schema(
    [pa.field(name, pa.string()) for name in (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT)]
)
_INTERVALS = 1 << 32  # cell = bucket * _INTERVALS + number of its time interval


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimePlan:
    """Cells and splits in time, from the times of all rows.

    starts: {bucket: int64, times at which its cells begin, without the first}.
    problem: the reason, as a sentence for the user, why the input cannot become a dataset.
    """

    timeline: Timeline
    starts: Mapping[int, Ints]
    problem: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windowing:
    """Options for cutting windows.

    schema: schema of the windows; None if only the rows tell it, which a source has read as values.
    splits: {split: fraction}, in order.
    by_series: whether whole series are assigned to splits. by_group: whether groups decide the
      split of a series. complete: rejects windows without a label or a number of their target.
    """

    options: WindowOptions
    schema: pa.Schema | None
    staging: Staging
    splits: Mapping[str, float]
    by_series: bool
    by_group: bool
    complete: CompleteWindows

    @property
    def cut_schema(self) -> pa.Schema:
        """Schema of windows whose labels are still text."""
        assert self.schema is not None
        if self.complete.numbers is None:
            return self.schema
        return pa.schema([field for field in self.schema if field.name != TARGET])

    def of_rows(self, rows: pa.Schema) -> Windowing:
        """Return the options with the schema of the windows of rows.

        Raises:
          ConfigError: windows cannot hold a column.
        """
        if self.schema is not None:
            return self
        known = layout_of_values(rows) or Layout(columns=rows, labelled=False, grouped=False)
        records = window_layout(known, self.options, self.complete.numbers)
        labelled = self.complete.labelled and records.labelled
        complete = dataclasses.replace(self.complete, labelled=labelled)
        return dataclasses.replace(self, schema=records.columns, complete=complete)

    @property
    def _divides_series(self) -> bool:
        """True if series with rows of the same times may be in several splits."""
        return self.options.split_by != "time" and (
            len(self.splits) > 1 or not (self.by_series or self.options.divides_time)
        )

    def plan(self, survey: TimeSurvey) -> TimePlan:
        """Return cells and splits in time, from the survey of all rows."""
        options = self.options
        step = options.step if isinstance(options.step, int) else None
        starts = survey.starts(limits.CELL_ROWS, step=step)
        sampled = largest_rank(survey.rows) if self._divides_series else 0
        timeline = Timeline(step=step, splits=self._time_splits(survey), sampled=sampled)
        return TimePlan(timeline=timeline, starts=starts, problem=self._problem(survey))

    def _problem(self, survey: TimeSurvey) -> str | None:
        found = len(survey.series)
        if not self.by_series or not 0 < found < min(len(self.splits), NAMES):
            return None
        return (
            f"expected at least one series for each of the splits {', '.join(self.splits)}, got"
            f" {', '.join(map(repr, survey.series))}: use --split-by time or series-time, or"
            " --splits train=1; if"
            " a column holds the names of series, name it with --series-column"
        )

    def _time_splits(self, survey: TimeSurvey) -> TimeSplits:
        if self.options.split_by != "time" or not len(survey.samples):
            return TimeSplits()
        if self.options.split_times:
            return TimeSplits.at(dict(self.options.split_times), TRAIN)
        first, *others = self.splits
        ends = np.cumsum(list(self.splits.values())).tolist()
        times = {name: survey.time_at(end) for name, end in zip(others, ends[:-1], strict=True)}
        return TimeSplits.at(times, first)


def survey_part(part: StagedPart, *, staging: Staging) -> TimeSurvey:
    """Survey the times of the rows of a part."""
    return TimeSurvey.of(read_part(part.name, staging=staging, columns=(SERIES, TIME)))


def into_cells(part: StagedPart, plan: TimePlan, windowing: Windowing) -> list[tuple[int, Piece]]:
    """Return [(cell, piece)] of the rows of a part."""
    rows = read_part(part.name, staging=windowing.staging)
    if not len(rows):
        return []
    rows = rows.drop_columns([batch.HASH])
    # Rows of one step must be in one cell.
    buckets, times = buckets_of(rows[SERIES]), on_grid(rows, windowing.options)
    cells = buckets * _INTERVALS
    for bucket in np.unique(buckets).tolist():
        mine = buckets == bucket
        cells[mine] += np.searchsorted(plan.starts[bucket], times[mine], side="right")
    return spill.into_pieces(rows, cells, windowing.staging)


def bucket_of(cell: int) -> int:
    """Return the bucket of a cell."""
    return cell // _INTERVALS


def sort_cell(cell: int, pieces: Sequence[Piece], staging: Staging) -> StagedPart:
    """Write the rows of a cell, sorted by series, time and key."""
    rows = batch.concat(spill.load_all(pieces, staging=staging))
    staging.place("cells").make_dirs()
    return write_part(ordered(rows), staging, f"cells/{cell:016x}.arrow")


def without_rows(part: StagedPart, windowing: Windowing) -> StagedPart:
    """Write a part without windows that carries the rejects and filter counts of a part of rows."""
    rejects, filtered = read_excluded(part, staging=windowing.staging)
    return _write(
        windowing,
        f"rest-{part.name.rpartition('/')[2]}",
        rejects=rejects,
        unread=len(rejects),
        skipped=Counter(read_skipped(part, staging=windowing.staging)) + Counter(filtered),
    )


def cut_bucket(
    bucket: int, cells: Iterable[StagedPart], timeline: Timeline, windowing: Windowing
) -> list[StagedPart]:
    """Write the windows of all series of a bucket, given its cells."""
    in_order = sorted(cells, key=lambda cell: cell.name)
    if windowing.schema is None:
        first = read_part(in_order[0].name, staging=windowing.staging)
        windowing = windowing.of_rows(first.schema)
    steps = _count_steps(in_order, windowing)
    timeline = dataclasses.replace(timeline, steps=steps.steps())
    if windowing.options.split_by == "series-time":
        timeline = dataclasses.replace(timeline, splits=_splits_of_series(in_order, windowing))
    rejected_series = _series_with_gaps(in_order, timeline, windowing)
    scales = _scales(in_order, rejected_series, timeline, windowing)
    cutter = WindowCutter(windowing.options, timeline, windowing.cut_schema, scales)
    parts: list[StagedPart] = []
    rejects: list[Reject] = []
    constant = ConstantColumns(windowing.options.static_columns, by_group=windowing.by_group)
    sample = RowSample()
    splits = SplitCounter()
    hours = RepeatedHours()
    total = used = held = combined = repeated = 0

    def write(some: Iterable[WindowedRows]) -> None:
        nonlocal used
        for one in some:
            used += one.used
            name = f"{bucket:02d}-{len(parts):05d}.arrow"
            windows, incomplete = windowing.complete.divide(one.windows)
            if windowing.options.divides_time and len(windowing.splits) > 1:
                splits.add(windows)
            extra = len(one.windows) - one.used
            parts.append(_write(windowing, name, windows, rejects=incomplete, extra=extra))

    for cell in in_order:
        rows = read_part(cell.name, staging=windowing.staging)
        total += len(rows)
        constant.check(rows)
        given = rows
        rows, new_rejects, equal = _prepare(rows, rejected_series, windowing.options)
        if equal and windowing.options.zone_unknown:
            hours += RepeatedHours.of(given, {reject.key for reject in new_rejects})
        rejects += new_rejects
        if timeline.sampled:
            sample = RowSample.sum([sample, _sample(rows, timeline, windowing)])
        repeated += equal
        if windowing.options.step is not None:
            held += len(rows)
            combined += int((np.asarray(rows[INPUTS]) > 1).sum())
        write(cutter.cut(rows))
    write(cutter.finish())
    rest = f"{bucket:02d}-rest.arrow"
    skipped = {REPEATED: repeated, "in no window": total - used - len(rejects) - repeated}
    skipped = {reason: count for reason, count in skipped.items() if count}
    last = _write(windowing, rest, rejects=rejects, unread=len(rejects), skipped=skipped)
    report = SeriesReport.of_bucket(
        cutter.runs,
        windowing.options,
        steps=held,
        combined=combined,
        cut_off=cutter.cut_off,
        unscaled=_unscaled(cutter.runs, scales, windowing.options),
        other_steps=steps.other_steps(),
        hours=hours,
        sample=sample,
        coverage=splits.coverage(),
    )
    return [*parts, report.write(last, windowing.staging)]


def _sample(rows: pa.RecordBatch, timeline: Timeline, windowing: Windowing) -> RowSample:
    """Return a sample of ordered rows, for the search for series with the same rows."""
    without = (*windowing.options.static_columns, TARGET)
    return RowSample.of(
        rows, largest=timeline.sampled, by_group=windowing.by_group, without=without
    )


def _scales(
    cells: Sequence[StagedPart],
    rejected_series: Mapping[str, str],
    timeline: Timeline,
    windowing: Windowing,
) -> SeriesScales:
    """Return the means and scales of the series of a bucket, by their rows in train."""
    options = windowing.options
    if options.scale_by != "series":
        return SeriesScales()
    learner = ScaleLearner(options)
    for cell in cells:
        rows = read_part(cell.name, staging=windowing.staging)
        rows, _, _ = _prepare(rows, rejected_series, options)
        learner.add(timeline.splits.apply(rows, purge=options.purge))
    return learner.scales()


def _splits_of_series(cells: Sequence[StagedPart], windowing: Windowing) -> TimeSplits:
    """Return the splits of the series of a bucket, each by its own time."""
    options = windowing.options
    columns = (SERIES, TIME, STEP) if isinstance(options.step, str) else (SERIES, TIME)

    def times() -> Iterator[tuple[pa.Array, Ints]]:
        for cell in cells:
            rows = read_part(cell.name, staging=windowing.staging, columns=columns)
            yield rows[SERIES], on_grid(rows, options)

    return divide_each_series(times, windowing.splits)


def _unscaled(series: Iterable[str], scales: SeriesScales, options: WindowOptions) -> Sequence[str]:
    if options.scale_by != "series":
        return []
    return [name for name in series if not scales.knows(name)]


def _prepare(
    rows: pa.RecordBatch, rejected_series: Mapping[str, str], options: WindowOptions
) -> tuple[pa.RecordBatch, list[Reject], int]:
    """Return the rows to cut, distinct and resampled, the rejects, and the number of equal rows.

    rejected_series: {series: reason}.
    """
    count = len(rows)
    rows, rejects = without_repeats(rows)
    equal = count - len(rows) - len(rejects)
    if rejected_series:
        codes, names = batch.encode(rows[SERIES])
        bad = np.array([name in rejected_series for name in names.to_pylist()])[codes]
        out = rows.filter(pa.array(bad))
        rejects += [
            Reject(key, "check", Reason.BAD_VALUE, rejected_series[series])
            for key, series in zip(out[batch.KEY].to_pylist(), out[SERIES].to_pylist(), strict=True)
        ]
        rows = rows.filter(pa.array(~bad))
    return resampled(rows, options), rejects, equal


def _count_steps(cells: Sequence[StagedPart], windowing: Windowing) -> StepCounter:
    """Count the steps of each series of a bucket, if options do not set what they decide."""
    options = windowing.options
    counter = StepCounter()
    if options.step is not None or (options.max_gap is not None and options.gap_policy != "fill"):
        return counter
    for cell in cells:
        counter.add(read_part(cell.name, staging=windowing.staging, columns=(SERIES, TIME)))
    return counter


def _series_with_gaps(
    cells: Sequence[StagedPart], timeline: Timeline, windowing: Windowing
) -> dict[str, str]:
    """Return {series: reason} of the series that are rejected because of a gap."""
    if windowing.options.gap_policy != "reject":
        return {}
    reasons: dict[str, str] = {}
    before: dict[str, int] = {}
    for cell in cells:
        rows, _, _ = _prepare(
            read_part(cell.name, staging=windowing.staging), {}, windowing.options
        )
        if not len(rows):
            continue
        max_gaps = timeline.max_gaps(rows, windowing.options)
        inside = np.flatnonzero(gaps(rows, max_gaps)).tolist()
        times = np.asarray(rows[TIME])
        found = [(rows[SERIES][at].as_py(), *rows[TIME].slice(at, 2).to_pylist()) for at in inside]
        for name, first, last in _extents(rows):
            start, end = int(times[first]), int(times[last])
            if name in before and start - before[name] > max_gaps[first]:
                found.append((name, before[name], start))
            before[name] = end
        for name, last, following in sorted(found, key=lambda gap: gap[1]):
            reasons.setdefault(
                name,
                f"series {name!r} has a gap between {shown_time(last)} and"
                f" {shown_time(following)}, which --gap-policy reject rejects",
            )
    return reasons


def _extents(rows: pa.RecordBatch) -> Iterator[tuple[str, int, int]]:
    """Yield (series, its first row, its last row) of ordered rows."""
    codes, names = batch.encode(rows[SERIES])
    ends = np.flatnonzero(np.diff(codes, append=-1))
    first = 0
    for end in ends.tolist():
        yield names[codes[end]].as_py(), first, end
        first = end + 1


def _write(
    windowing: Windowing,
    name: str,
    windows: pa.RecordBatch | None = None,
    *,
    rejects: Sequence[Reject] = (),
    unread: int = 0,
    skipped: Mapping[str, int] = MappingProxyType({}),
    extra: int = 0,
) -> StagedPart:
    """Write a part of windows, and its rejects; None stands for no windows."""
    if windows is None:
        windows = pa.RecordBatch.from_pylist([], schema=windowing.schema or _NO_WINDOWS)
    windowing.staging.place("windows").make_dirs()
    return write_checked_part(
        batch.with_hash(windows),
        windowing.staging,
        f"windows/{name}",
        rejects=rejects,
        filtered={},
        unread=unread,
        skipped=skipped,
        extra=extra,
    )
