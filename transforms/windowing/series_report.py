"""Report on time series: those that yield no window, with their longest runs, and --step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.notes import Note, count_of
from recordmill.options.durations import clock_hint, show_duration, shown_time
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.windowing.repeated_hours import RepeatedHours
from recordmill.transforms.windowing.series_steps import OtherStep
from recordmill.transforms.windowing.shared_rows import RowSample
from recordmill.transforms.windowing.split_coverage import SplitCoverage

_NAMED = 3
_SUMS = ("count", "steps", "combined", "cut_off", "unscaled", "unsteady")  # numbers of a report
_MOST = 0.5  # of the steps: if more hold several rows, rows are meant to be combined


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeriesRuns:
    """Runs of a series: rows that follow each other without a gap, in one split.

    rows: number of all rows. longest: number of rows of the longest run. span: microseconds from
    the first to the last row of the run that takes the most time.
    """

    rows: int = 0
    longest: int = 0
    span: int = 0

    def __add__(self, later: SeriesRuns) -> SeriesRuns:
        return SeriesRuns(
            rows=self.rows + later.rows,
            longest=max(self.longest, later.longest),
            span=max(self.span, later.span),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeriesReport:
    """Series that yield no window, and the steps of resampled ones.

    named: {series: its runs} of the first ones by name. longest: the longest run of all series. of:
    the series with that run. steps: number of steps that hold rows, if rows were resampled;
    combined: number of those that hold several. cut_off: number of windows that were not made,
    because their target crosses a gap or the end of the series. unscaled: number of series whose
    windows are scaled by their own rows, because the series has no value in train; first_unscaled:
    the first ones by name. sample: rows of the series, if whole series are assigned to splits.
    unsteady: number of series with rows at several steps; other_steps: those of the first ones by
    name. hours: rows that were dropped as repeated, in hours that a clock may have shown twice.
    labelled: series with intervals that give classes; first: the first series by name, if
    there may be any. coverage: the splits in which series have windows, if splits are by time.
    """

    count: int = 0
    named: Mapping[str, SeriesRuns] = dataclasses.field(default_factory=dict)
    longest: SeriesRuns = SeriesRuns()
    of: str = ""
    steps: int = 0
    combined: int = 0
    cut_off: int = 0
    unscaled: int = 0
    first_unscaled: Sequence[str] = ()
    unsteady: int = 0
    other_steps: Mapping[str, OtherStep] = dataclasses.field(default_factory=dict)
    hours: RepeatedHours = dataclasses.field(default_factory=RepeatedHours)
    labelled: Sequence[str] = ()
    first: str = ""
    sample: RowSample = dataclasses.field(default_factory=RowSample)
    coverage: SplitCoverage = dataclasses.field(default_factory=SplitCoverage)

    @classmethod
    def of_bucket(
        cls,
        runs: Mapping[str, SeriesRuns],
        options: WindowOptions,
        *,
        steps: int,
        combined: int,
        cut_off: int,
        unscaled: Sequence[str],
        other_steps: Mapping[str, OtherStep],
        hours: RepeatedHours,
        sample: RowSample,
        coverage: SplitCoverage,
    ) -> SeriesReport:
        """Report on all series of a bucket, given their runs.

        unscaled: names of series. other_steps: of all series that have them. The others are fields
          of the report.
        """
        named = [name for name in options.labelled_series if name in runs]
        short = {name: one for name, one in runs.items() if one.longest < options.reach}
        first = tuple(sorted(unscaled)[:_NAMED])
        return dataclasses.replace(
            cls._of_short(short),
            steps=steps,
            combined=combined,
            cut_off=cut_off,
            unscaled=len(unscaled),
            first_unscaled=first,
            unsteady=len(other_steps),
            other_steps=_first_named(other_steps),
            hours=hours,
            labelled=named,
            first=min(runs, default="") if options.labelled_series else "",
            sample=sample,
            coverage=coverage,
        )

    @classmethod
    def _of_short(cls, series: Mapping[str, SeriesRuns]) -> SeriesReport:
        """Report series without a window."""
        if not series:
            return cls()
        named = sorted(series)[:_NAMED]
        of = min(series, key=lambda name: (-series[name].longest, name))
        return cls(
            count=len(series),
            named={name: series[name] for name in named},
            longest=series[of],
            of=of,
        )

    @classmethod
    def sum(cls, reports: Iterable[SeriesReport]) -> SeriesReport:
        """Return the sum of reports that have no series in common."""
        parts = list(reports)
        series: dict[str, SeriesRuns] = {}
        for part in parts:
            series |= {**part.named, part.of: part.longest} if part.count else {}
        first = sorted(name for part in parts for name in part.first_unscaled)[:_NAMED]
        found = dataclasses.replace(
            cls._of_short(series),
            first_unscaled=tuple(first),
            other_steps=_first_named(
                {name: one for part in parts for name, one in part.other_steps.items()}
            ),
            hours=sum((part.hours for part in parts), RepeatedHours()),
            labelled=[name for part in parts for name in part.labelled],
            first=min((part.first for part in parts if part.first), default=""),
            sample=RowSample.sum(part.sample for part in parts),
            coverage=SplitCoverage.sum(part.coverage for part in parts),
        )
        for name in _SUMS:
            total = sum(getattr(part, name) for part in parts)
            found = dataclasses.replace(found, **{name: total})
        return found

    def write(self, part: StagedPart, staging: Staging) -> StagedPart:
        """Write the report beside a part, if it has anything to report; return the part."""
        if self == SeriesReport():
            return part
        staging.place(_name(part)).write_bytes(to_json(self))
        return dataclasses.replace(part, reported=True)

    @classmethod
    def read(cls, parts: Iterable[StagedPart], staging: Staging) -> SeriesReport:
        """Read the reports beside all parts that have one."""
        return cls.sum(staging.read_json(_name(part), cls) for part in parts if part.reported)

    def notes(self, options: WindowOptions) -> Iterator[Note]:
        """Yield the notes on series."""
        if 0 < self.combined < _MOST * self.steps:
            yield Note(
                "resampled",
                f"{self.combined:,} of {count_of(self.steps, 'step')} of {_step(options)} hold"
                f" several rows, of which --resample {options.resample} makes one; the times may be"
                " inexact, and a step without a row is a gap. Without --step all rows are kept;"
                " --resample first or last keeps one row of each step",
            )
        missing = [name for name in options.labelled_series if name not in self.labelled]
        if missing:
            names = ", ".join(map(repr, missing[:_NAMED])) + (", ..." if missing[_NAMED:] else "")
            yield Note(
                "intervals",
                f"{len(missing)} of the {len(options.labelled_series)} series of --intervals"
                f" {'is' if len(missing) == 1 else 'are'} not in the input: {names}; series there"
                f" have names such as {self.first!r}",
            )
        if self.cut_off:
            yield Note(
                "horizon",
                f"{count_of(self.cut_off, 'window')} {'was' if self.cut_off == 1 else 'were'} not"
                f" made, because the {count_of(options.horizon, 'row')} after"
                f" {'it' if self.cut_off == 1 else 'them'} (--horizon) would cross a gap or the end"
                " of the series, or of its split",
            )
        if self.unscaled:
            names = ", ".join(map(repr, self.first_unscaled))
            more = ", ..." if self.unscaled > len(self.first_unscaled) else ""
            yield Note(
                "scaled-by-window",
                f"{self.unscaled} series {'has' if self.unscaled == 1 else 'have'} no value of a"
                f" --zscore column in train, so that each window is scaled by its own rows:"
                f" {names}{more}",
            )
        if self.hours.rows:
            yield Note(
                "times",
                f"{count_of(self.hours.rows, 'row')} {'was' if self.hours.rows == 1 else 'were'}"
                " dropped as repeated, because others have the same time and values: the first is"
                f" in series {self.hours.series!r} at {shown_time(self.hours.time)}"
                f"{clock_hint(self.hours.time)}",
            )
        if self.other_steps:
            yield Note("steps", self._unsteady_text(options))
        if pairs := self.sample.pairs():
            some = "; ".join(f"{one!r} and {other!r}" for one, other in pairs[:_NAMED])
            more = "; ..." if pairs[_NAMED:] else ""
            yield Note(
                "shared-rows",
                f"series have the same rows at the same times: {some}{more}. They may be in"
                " different splits, and then test has rows of train: remove the copies, or make one"
                " series of all files with --join-files; --split-by time keeps equal times in one"
                " split",
            )
        yield from self.coverage.notes(options)
        if not self.count:
            return
        shown = [
            f"{name!r} ({why_none(runs, options)})" for name, runs in sorted(self.named.items())
        ]
        more = ", ..." if self.count > len(shown) else ""
        text = (
            f"{self.count} series {'has' if self.count == 1 else 'have'} no window:"
            f" {', '.join(shown)}{more};"
            f" {_needed(options)}: lower --window{_horizon(options)}, or raise --max-gap"
        )
        yield Note("no-window", text)

    def _unsteady_text(self, options: WindowOptions) -> str:
        """Return the text of the note on series with rows at several steps."""
        shown = [
            f"{name!r} (its step is {show_duration(one.own)}, but"
            f" {count_of(one.rows, 'row')} {'is' if one.rows == 1 else 'are'}"
            f" {show_duration(one.other)} after the row before, {_effect(one, options)})"
            for name, one in self.other_steps.items()
        ]
        more = ", ..." if self.unsteady > len(shown) else ""
        every = self.other_steps.values()
        largest = show_duration(max(max(one.own, one.other) for one in every))
        has_gaps = any(one.other > _max_gap(one, options) for one in every)
        joins = f"; --max-gap {largest} joins them in windows that span unlike times"
        return (
            f"{self.unsteady} series {'has' if self.unsteady == 1 else 'have'} rows at several"
            f" steps: {', '.join(shown)}{more}; --step {largest} resamples all rows to one step"
            f" (--resample){joins if has_gaps else ''}"
        )

    def problems(self, options: WindowOptions) -> list[str]:
        """Return a sentence if no series has the intervals that give classes."""
        if not options.labelled_series or self.labelled or not self.first:
            return []
        return [
            f"--intervals: no series of the file is in the input; expected names such as"
            f" {self.first!r}, got {options.labelled_series[0]!r}: name series as --series-column"
            " does, or files by their path below --input"
        ]

    def remedy(self, options: WindowOptions) -> str | None:
        """Return a sentence on the longest run if no series has a window, without full stop."""
        if not self.count:
            return None
        return (
            f"{_needed(options)}, and the longest run"
            f" has {count_of(self.longest.longest, 'row')}{_within(self.longest)}, in series"
            f" {self.of!r}: lower --window{_horizon(options)}, or raise --max-gap"
        )


def _first_named(steps: Mapping[str, OtherStep]) -> dict[str, OtherStep]:
    """Return the steps of the first series by name."""
    return {name: steps[name] for name in sorted(steps)[:_NAMED]}


def _max_gap(steps: OtherStep, options: WindowOptions) -> int:
    return steps.own * 3 // 2 if options.max_gap is None else options.max_gap


def _effect(steps: OtherStep, options: WindowOptions) -> str:
    """Return what becomes of the rows at another step."""
    max_gap = _max_gap(steps, options)
    if steps.other > max_gap:
        return f"which is a gap of more than {show_duration(max_gap)}"
    return f"and in windows that span {'more' if steps.other > steps.own else 'less'} time"


def why_none(runs: SeriesRuns, options: WindowOptions) -> str:
    """Return why a series has no window."""
    rows = f"{runs.rows:,} {'row' if runs.rows == 1 else 'rows'}"
    if not runs.longest:
        return f"none of its {rows} is left"
    if runs.rows < options.reach:
        return f"too short: {rows}{_within(runs)}"
    return f"gaps: the longest run has {runs.longest:,} of its {rows}{_within(runs)}"


def _needed(options: WindowOptions) -> str:
    what = "a window and its target need" if options.horizon else "a window needs"
    return f"{what} {count_of(options.reach, 'row')} without a gap"


def _horizon(options: WindowOptions) -> str:
    return " or --horizon" if options.horizon else ""


def _step(options: WindowOptions) -> str:
    step = options.step
    return f"{show_duration(step)}" if isinstance(step, int) else f"--step {step}"


def _within(runs: SeriesRuns) -> str:
    return f" in {show_duration(runs.span)}" if runs.span else ""


def _name(part: StagedPart) -> str:
    return f"{part.name}.series.json"
