"""Limits on the memory and the CPU time of tasks, checked from outside of their processes.

A limit inside the process (RLIMIT_AS) would count reserved addresses, of which libraries take
gigabytes that they never use. CPU time is that of user code: a process that is suspended,
waits for storage or a core, or swaps, takes none.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from recordmill.errors import Reason, RecordError

MAX_MEMORY = 8 << 30  # bytes of an encoder process; a valid record takes far less
MAX_SECONDS = 600.0  # of CPU time; a valid record takes far less

# Seconds between two checks. The shortest passes while a process writes to about 100 MB, and a
# process far below its limits is checked less often.
_SHORTEST, _LONGEST = 0.05, 0.5
_BYTES_PER_SECOND = 2 << 30
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")  # of user time, per second
# Places in /proc/PID/stat after the name of the program: proc_pid_stat(5).
_USER_TIME, _RESIDENT = 11, 21


class TaskLimits(NamedTuple):
    """Memory in bytes and CPU time in seconds that a task may take; 0 is no limit."""

    memory: int = MAX_MEMORY
    seconds: float = MAX_SECONDS


DEFAULT_LIMITS = TaskLimits()
NO_LIMITS = TaskLimits(0, 0)


class _Process(Protocol):
    @property
    def pid(self) -> int | None: ...

    def kill(self) -> None: ...


class Watched:
    """A task that is watched.

    fault: the reject of a row that exceeds a limit, once the process was killed for it; else None.
    """

    def __init__(self, process: _Process, limits: TaskLimits) -> None:
        self.fault: RecordError | None = None
        self._process, self._limits = process, limits
        self._start = _usage(process.pid)[1] if limits.seconds else 0.0

    def check(self) -> float:
        """Kill the process if it exceeds a limit, and return the seconds until the next check."""
        memory, seconds = self._limits
        resident, now = _usage(self._process.pid)
        left = (
            memory - resident if memory else math.inf,
            seconds - (now - self._start) if seconds else math.inf,
        )
        if min(left) < 0 and self.fault is None:
            self.fault = memory_fault(memory) if left[0] < 0 else time_fault(seconds)
            self._process.kill()
        return pause_before(*left)


class TaskWatch:
    """Kills processes whose task exceeds a limit, in a thread of its own.

    The thread starts with the first task to watch, and ends with `close`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: list[Watched] = []
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @contextlib.contextmanager
    def watch(self, process: _Process, limits: TaskLimits) -> Iterator[Watched]:
        """Watch a task that begins now, until the end of the block."""
        watched = Watched(process, limits)
        if limits == NO_LIMITS:
            yield watched
            return
        with self._changed:
            self._tasks.append(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield watched
        finally:
            with self._changed:
                self._tasks.remove(watched)

    def close(self) -> None:
        """Stop watching, and let the thread end."""
        with self._changed:
            self._closed.set()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._tasks or self._closed.is_set())
                if self._closed.is_set():
                    return
                # The lock is held, so that a process is never killed after its task.
                pauses = [watched.check() for watched in self._tasks]
            self._closed.wait(min(pauses))


def pause_before(memory: float, seconds: float) -> float:
    """Return the seconds until the next check of a process.

    memory, seconds: bytes and CPU time that it has left to its limits.
    """
    soonest = min(memory / _BYTES_PER_SECOND, seconds / (os.cpu_count() or 1))
    return min(max(soonest, _SHORTEST), _LONGEST)


def memory_fault(limit: int) -> RecordError:
    """Return the reject of a row that needs more memory than `limit` bytes."""
    return RecordError(
        Reason.TOO_LARGE,
        f"an encoder process needs more than --max-worker-memory {limit} bytes for it",
    )


def time_fault(limit: float) -> RecordError:
    """Return the reject of a row that needs more CPU time than `limit` seconds."""
    return RecordError(
        Reason.TOO_SLOW,
        f"an encoder process needs more than --max-worker-seconds {limit:g} of CPU time for it",
    )


def _usage(pid: int | None) -> tuple[int, float]:
    """Return the resident bytes and the seconds of user time of a process, 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0, 0.0
    return int(fields[_RESIDENT]) * _PAGE_BYTES, int(fields[_USER_TIME]) / _TICKS
