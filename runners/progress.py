"""Live progress display of a job, from snapshots that are polled while it runs.

The job itself does not report: the process that started it polls the files that the job leaves in
staging, so that the display works for jobs in this process and on a cluster alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Self

from recordmill.errors import RunError

if TYPE_CHECKING:
    # Imported at run time only if the output is a terminal.
    from rich.console import RenderableType
    from rich.live import Live

_POLL_SECONDS = 0.5
_LOG_SECONDS = 10.0
_BAR, _MIN_BAR = 20, 5  # columns
_OPTIONAL_FIGURES = ("bytes", "speed", "rejects", "left")  # in the order of omission
_SMOOTHING_SECONDS = 20.0  # time constant of the moving average
_IDLE_SECONDS = 30.0  # time without progress after which no pace is shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Progress of a job at one moment.

    done, total: number of `unit`s in this phase; total is None if it is unknown. With the unit ''
    nothing is counted.
    records, bytes, rejects: so far in this phase; rejects is None if the phase cannot reject.
    """

    phase: str
    done: int = 0
    total: int | None = None
    records: int = 0
    bytes: int = 0
    rejects: int | None = 0
    unit: str = "records"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pace:
    """Smoothed rates per second, and the estimated seconds left (None if unknown).

    idle: seconds since the last progress of a stalled phase; 0 if it is not stalled.
    """

    done: float = 0.0
    records: float = 0.0
    bytes: float = 0.0
    left: float | None = None
    idle: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobView:
    """View of a job on a cluster, for the process that follows it.

    activity: returns a value that changes as the job progresses, in addition to what the cluster
      reports. is_working: returns whether the job certainly cannot end yet.
    unanswered: returns a message about a store that does not answer this process, or ''.
    notice: called with each message.
    """

    activity: Callable[[], object] = lambda: None
    is_working: Callable[[], bool] = lambda: False
    unanswered: Callable[[], str] = lambda: ""
    notice: Callable[[str], None] = lambda message: None


class Meter:
    """Moving average of the pace of a job, which restarts with each phase."""

    def __init__(self) -> None:
        self._last: tuple[float, Snapshot] | None = None
        self._pace = Pace()
        self._seconds = 0.0  # measured so far, at most _SMOOTHING_SECONDS
        self._progressed = 0.0  # time of the last progress

    def update(self, snapshot: Snapshot, now: float) -> Pace:
        """Return the pace at `now`, in seconds of a monotonic clock."""
        if self._last is None or self._last[1].phase != snapshot.phase:
            self._last, self._pace, self._seconds = (now, snapshot), Pace(), 0.0
            self._progressed = now
            return self._pace
        before, last = self._last
        if (snapshot.done, snapshot.bytes) != (last.done, last.bytes):
            self._progressed = now
        seconds = now - before
        if seconds < 1e-6:
            return self._pace
        self._last = now, snapshot
        # The plain mean at first, an exponential moving average later: shards end in bursts, and
        # without smoothing the time left would jump with each of them.
        weight = max(
            1 - math.exp(-seconds / _SMOOTHING_SECONDS), seconds / (self._seconds + seconds)
        )
        self._seconds = min(self._seconds + seconds, _SMOOTHING_SECONDS)

        def smooth(rate: float, increase: int) -> float:
            return rate + weight * (max(increase, 0) / seconds - rate)

        done = smooth(self._pace.done, snapshot.done - last.done)
        left = None if snapshot.total is None else max(snapshot.total - snapshot.done, 0)
        idle = now - self._progressed
        # The moving average of a job without progress gives an absurd time. A job whose records are
        # all counted is not finished either: it still has to publish.
        stands = left is not None and idle >= _IDLE_SECONDS
        self._pace = Pace(
            done=done,
            records=smooth(self._pace.records, snapshot.records - last.records),
            bytes=smooth(self._pace.bytes, snapshot.bytes - last.bytes),
            left=left / done if left and done > 0 and not stands else None,
            idle=idle if stands else 0.0,
        )
        return self._pace


def line(snapshot: Snapshot, pace: Pace) -> str:
    """Format as `writing 12,000/20,000 records, 310 records/s, 5.2 MB/s, 26 s left, 0 rejects`."""
    first = f"{snapshot.phase} {_count(snapshot)}".rstrip()
    return ", ".join([first, *_figures(snapshot, pace).values()])


def fitting_line(snapshot: Snapshot, pace: Pace, width: int) -> tuple[int, str]:
    """Return the columns of the bar (0: no bar) and the text after it that fit into `width`.

    If there is too little room, units are omitted first, then the bar, then figures; the count is
    always shown.
    """
    room = width - len(snapshot.phase) - 1
    for short, min_bar in ((False, _MIN_BAR), (True, _MIN_BAR), (True, 0)):
        figures = _figures(snapshot, pace, short=short)
        text = ", ".join([_count(snapshot, short=short), *figures.values()])
        if len(text) + min_bar + (min_bar > 0) <= room:
            return min(room - len(text) - 1, _BAR) if min_bar else 0, text
    for name in _OPTIONAL_FIGURES:
        figures.pop(name, None)
        text = ", ".join([_count(snapshot, short=True), *figures.values()])
        if len(text) <= room:
            break
    return 0, text


def duration(seconds: float) -> str:
    """Format seconds as `26 s`, `3 min 20 s` or `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h" + (f" {minutes % 60} min" if minutes % 60 else "")


class Watcher:
    """Progress display of the work inside its `with` block.

    It shows one live line on a terminal, a plain line every ten seconds elsewhere, and nothing if
    `quiet`. Errors of `poll` never end the job: if it raises OSError or RunError, or returns
    None, nothing is shown this time; any other exception ends the display with a traceback.
    """

    def __init__(
        self,
        poll: Callable[[], Snapshot | None],
        *,
        quiet: bool = False,
        stream: IO[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._poll = poll
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._meter = Meter()
        self._live: Live | None = None
        self._logged = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            if self._stream.isatty():
                self._live = _live(self._stream)
                self._live.start()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            # A poll may hang in an object store, which must not delay the end of the job.
            self._thread.join(timeout=5)
        if self._live is not None:
            self._live.stop()

    def tick(self) -> None:
        """Poll once and show the result."""
        snapshot = None
        with contextlib.suppress(OSError, RunError):
            snapshot = self._poll()
        if snapshot is None:
            return
        now = self._clock()
        pace = self._meter.update(snapshot, now)
        if self._live is not None:
            self._live.update(_bar(snapshot, pace, self._live.console.width), refresh=True)
        elif now - self._logged >= _LOG_SECONDS:
            self._logged = now
            print(line(snapshot, pace), file=self._stream, flush=True)

    def say(self, message: str) -> None:
        """Show a line above the progress; nothing if `quiet`."""
        if self._quiet:
            return
        with contextlib.suppress(OSError):
            if self._live is not None:
                self._live.console.print(message, markup=False, highlight=False, soft_wrap=True)
            else:
                print(message, file=self._stream, flush=True)

    def _run(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            self.tick()


def _count(snapshot: Snapshot, *, short: bool = False) -> str:
    if not snapshot.unit:
        return ""
    total = "" if snapshot.total is None else f"/{snapshot.total:,}"
    unit = "" if short and snapshot.unit == "records" else f" {snapshot.unit}"
    return f"{snapshot.done:,}{total}{unit}"


def _figures(snapshot: Snapshot, pace: Pace, *, short: bool = False) -> dict[str, str]:
    """Return the figures that follow the count, by their names in `_OPTIONAL_FIGURES`."""
    parts = {}
    if pace.idle:
        parts["left"] = f"no progress for {duration(pace.idle)}"
        pace = Pace()
    if snapshot.total is None and not pace.records and pace.done:
        parts["speed"] = f"{_rate(pace.done)} {snapshot.unit}/s"
    if pace.records:
        unit = "/s" if short and snapshot.unit == "records" else " records/s"
        parts["speed"] = f"{_rate(pace.records)}{unit}"
    if pace.bytes:
        parts["bytes"] = f"{_rate(pace.bytes / 1e6)} MB/s"
    if pace.left is not None:
        parts["left"] = f"{duration(pace.left)} left"
    if snapshot.rejects is not None:
        parts["rejects"] = f"{snapshot.rejects:,} reject{'' if snapshot.rejects == 1 else 's'}"
    return parts


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _live(stream: IO[str]) -> Live:
    from rich.console import Console
    from rich.live import Live

    # Transient: the closing table replaces it.
    return Live(console=Console(file=stream), auto_refresh=False, transient=True)


def _bar(snapshot: Snapshot, pace: Pace, width: int) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bar, text = fitting_line(snapshot, pace, width)
    count, comma, rest = text.partition(", ")
    cells: list[RenderableType] = [Text(snapshot.phase, style="bold")]
    if bar:
        cells.append(
            ProgressBar(
                total=snapshot.total,
                completed=snapshot.done,
                width=bar,
                pulse=snapshot.total is None,
            )
        )
    cells.append(Text.assemble(count, (comma + rest, "dim"), overflow="ellipsis"))
    grid = Table.grid(padding=(0, 1))
    for _ in cells:
        grid.add_column(no_wrap=True)
    grid.add_row(*cells)
    return grid
