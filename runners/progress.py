"""Live progress: a poll says how far a job is, a watcher shows it while the job runs.

The job is not asked to report; whoever starts it polls what it leaves behind. So the same works
for a job in this process and for one on a cluster.
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

if TYPE_CHECKING:
    # At run time on terminals only.
    from rich.console import RenderableType
    from rich.live import Live

_POLL_SECONDS = 0.5
_LOG_SECONDS = 10.0
_BAR, _LEAST_BAR = 20, 5  # columns
_DISPENSABLE = ("bytes", "speed", "rejects", "left")  # in a narrow terminal, in this order
_MEMORY_SECONDS = 20.0  # how far back the speed looks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How far a job is.

    done, total: in `unit`s of the phase; total is None where nobody knows it.
    records, bytes, rejects: so far in this phase; rejects None where there can be none.
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
    """Smoothed speeds per second, and the seconds that are left; None where nobody can say."""

    done: float = 0.0
    records: float = 0.0
    bytes: float = 0.0
    left: float | None = None


class Meter:
    """Measures the pace of a job from its snapshots; a new phase starts anew."""

    def __init__(self) -> None:
        self._last: tuple[float, Snapshot] | None = None
        self._pace = Pace()
        self._seconds = 0.0  # measured so far, at most what is remembered

    def update(self, snapshot: Snapshot, now: float) -> Pace:
        """The pace at `now`, in seconds of any clock that never goes back."""
        if self._last is None or self._last[1].phase != snapshot.phase:
            self._last, self._pace, self._seconds = (now, snapshot), Pace(), 0.0
            return self._pace
        before, last = self._last
        seconds = now - before
        if seconds < 1e-6:  # the same moment
            return self._pace
        self._last = now, snapshot
        # At first the plain mean of all that was seen, later one that forgets: shards end in
        # bursts, and a speed that follows each of them would make the time left jump.
        forget = max(1 - math.exp(-seconds / _MEMORY_SECONDS), seconds / (self._seconds + seconds))
        self._seconds = min(self._seconds + seconds, _MEMORY_SECONDS)

        def smooth(speed: float, more: int) -> float:
            return speed + forget * (max(more, 0) / seconds - speed)

        done = smooth(self._pace.done, snapshot.done - last.done)
        missing = None if snapshot.total is None else max(snapshot.total - snapshot.done, 0)
        self._pace = Pace(
            done=done,
            records=smooth(self._pace.records, snapshot.records - last.records),
            bytes=smooth(self._pace.bytes, snapshot.bytes - last.bytes),
            left=missing / done if missing is not None and done > 0 else None,
        )
        return self._pace


def line(snapshot: Snapshot, pace: Pace) -> str:
    """`writing 12,000/20,000 records, 310 records/s, 5.2 MB/s, 26 s left, 0 rejects`."""
    return ", ".join([f"{snapshot.phase} {_count(snapshot)}", *_rest(snapshot, pace).values()])


def fitting_line(snapshot: Snapshot, pace: Pace, width: int) -> tuple[int, str]:
    """How many columns the bar gets, 0 for none, and what stands after it, in `width` columns.

    Where there is less room, units go first, then the bar, then figures; the count goes last.
    """
    room = width - len(snapshot.phase) - 1
    for short, least in ((False, _LEAST_BAR), (True, _LEAST_BAR), (True, 0)):
        rest = _rest(snapshot, pace, short=short)
        words = ", ".join([_count(snapshot, short=short), *rest.values()])
        if len(words) + least + (least > 0) <= room:
            return min(room - len(words) - 1, _BAR) if least else 0, words
    for name in _DISPENSABLE:
        rest.pop(name, None)
        words = ", ".join([_count(snapshot, short=True), *rest.values()])
        if len(words) <= room:
            break
    return 0, words


def duration(seconds: float) -> str:
    """`26 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h" + (f" {minutes % 60} min" if minutes % 60 else "")


class Watcher:
    """Shows the progress of what runs inside its `with` block.

    On a terminal one live line, elsewhere a plain line every ten seconds, nothing if `quiet`. What
    goes wrong in `poll` never ends the job: where it raises OSError, or returns None, there is
    nothing to show this time; any other exception ends the display with a traceback.
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
            # A poll may hang in a store that does not answer; the job is over all the same.
            self._thread.join(timeout=5)
        if self._live is not None:
            self._live.stop()

    def tick(self) -> None:
        """Polls once, and shows what there is to show."""
        snapshot = None
        with contextlib.suppress(OSError):
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

    def _run(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            self.tick()


def _count(snapshot: Snapshot, *, short: bool = False) -> str:
    total = "" if snapshot.total is None else f"/{snapshot.total:,}"
    unit = "" if short and snapshot.unit == "records" else f" {snapshot.unit}"
    return f"{snapshot.done:,}{total}{unit}"


def _rest(snapshot: Snapshot, pace: Pace, *, short: bool = False) -> dict[str, str]:
    """What is said beside the count, by its name in `_DISPENSABLE`."""
    parts = {}
    if snapshot.total is None and not pace.records and pace.done:
        parts["speed"] = f"{_speed(pace.done)} {snapshot.unit}/s"
    if pace.records:
        unit = "/s" if short and snapshot.unit == "records" else " records/s"
        parts["speed"] = f"{_speed(pace.records)}{unit}"
    if pace.bytes:
        parts["bytes"] = f"{_speed(pace.bytes / 1e6)} MB/s"
    if pace.left is not None:
        parts["left"] = f"{duration(pace.left)} left"
    if snapshot.rejects is not None:
        parts["rejects"] = f"{snapshot.rejects:,} reject{'' if snapshot.rejects == 1 else 's'}"
    return parts


def _speed(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _live(stream: IO[str]) -> Live:
    from rich.console import Console
    from rich.live import Live

    # Transient: the closing table takes its place.
    return Live(console=Console(file=stream), auto_refresh=False, transient=True)


def _bar(snapshot: Snapshot, pace: Pace, width: int) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bar, words = fitting_line(snapshot, pace, width)
    count, comma, rest = words.partition(", ")
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
