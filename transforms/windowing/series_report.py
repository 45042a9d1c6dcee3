"""Report on time series: those that yield no window, with their longest runs, and --step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.notes import Note, count_of
from recordmill.transforms.model.durations import show_duration
from recordmill.transforms.model.window_options import WindowOptions

_NAMED = 3
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
    combined: number of those that hold several.
    """

    count: int = 0
    named: Mapping[str, SeriesRuns] = dataclasses.field(default_factory=dict)
    longest: SeriesRuns = SeriesRuns()
    of: str = ""
    steps: int = 0
    combined: int = 0

    @classmethod
    def of_series(cls, series: Mapping[str, SeriesRuns]) -> SeriesReport:
        """Report the given series."""
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
        count = steps = combined = 0
        series: dict[str, SeriesRuns] = {}
        for report in reports:
            count += report.count
            steps += report.steps
            combined += report.combined
            series |= {**report.named, report.of: report.longest} if report.count else {}
        found = cls.of_series(series)
        return dataclasses.replace(found, count=count, steps=steps, combined=combined)

    def write(self, part: StagedPart, staging: Staging) -> StagedPart:
        """Write the report beside a part, if it has anything to report; return the part."""
        if not self.count and not self.steps:
            return part
        staging.place(_name(part)).write_bytes(to_json(self))
        return dataclasses.replace(part, reported=True)

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> SeriesReport:
        named = {name: SeriesRuns(**runs) for name, runs in data["named"].items()}
        return cls(**{**data, "named": named, "longest": SeriesRuns(**data["longest"])})

    @classmethod
    def read(cls, parts: Iterable[StagedPart], staging: Staging) -> SeriesReport:
        """Read the reports beside all parts that have one."""
        return cls.sum(
            staging.read_json(_name(part), cls._from_json) for part in parts if part.reported
        )

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
        if not self.count:
            return
        shown = [
            f"{name!r} ({why_none(runs, options)})" for name, runs in sorted(self.named.items())
        ]
        more = ", ..." if self.count > len(shown) else ""
        text = (
            f"{self.count} series {'has' if self.count == 1 else 'have'} no window:"
            f" {', '.join(shown)}{more};"
            f" a window needs {count_of(options.reach, 'row')} without a gap: lower"
            " --window, or raise --max-gap"
        )
        yield Note("no-window", text)

    def remedy(self, options: WindowOptions) -> str | None:
        """Return a sentence on the longest run if no series has a window, without full stop."""
        if not self.count:
            return None
        return (
            f"a window needs {count_of(options.reach, 'row')} without a gap, and the longest run"
            f" has {count_of(self.longest.longest, 'row')}{_within(self.longest)}, in series"
            f" {self.of!r}"
            ": lower --window, or raise --max-gap"
        )


def why_none(runs: SeriesRuns, options: WindowOptions) -> str:
    """Return why a series has no window."""
    rows = f"{runs.rows:,} {'row' if runs.rows == 1 else 'rows'}"
    if not runs.longest:
        return f"none of its {rows} is left"
    if runs.rows < options.reach:
        return f"too short: {rows}{_within(runs)}"
    return f"gaps: the longest run has {runs.longest:,} of its {rows}{_within(runs)}"


def _step(options: WindowOptions) -> str:
    step = options.step
    return f"{show_duration(step)}" if isinstance(step, int) else f"--step {step}"


def _within(runs: SeriesRuns) -> str:
    return f" in {show_duration(runs.span)}" if runs.span else ""


def _name(part: StagedPart) -> str:
    return f"{part.name}.series.json"
