"""Limit on the resident memory of encoder processes, checked from outside of them.

A limit inside the process (RLIMIT_AS) would count reserved addresses, of which libraries take
gigabytes that they never use.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import NamedTuple, Protocol

# Seconds between two checks. The shortest passes while a process writes to about 100 MB, and a
# process far below its limit is checked less often.
_SHORTEST, _LONGEST = 0.05, 0.5
_BYTES_PER_SECOND = 2 << 30
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Process(Protocol):
    @property
    def pid(self) -> int | None: ...

    def kill(self) -> None: ...


class _Limit(NamedTuple):
    process: _Process
    limit: int
    exceeded: threading.Event


class MemoryWatch:
    """Kills processes whose resident memory exceeds their limit, in a thread of its own.

    The thread starts with the first process to watch, and ends with `close`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limits: list[_Limit] = []
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @contextlib.contextmanager
    def limit(self, process: _Process, limit: int, exceeded: threading.Event) -> Iterator[None]:
        """Watch a process; `exceeded` is set before it is killed.

        limit: in bytes.
        """
        watched = _Limit(process, limit, exceeded)
        with self._changed:
            self._limits.append(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._limits.remove(watched)

    def close(self) -> None:
        """Stop watching, and let the thread end."""
        with self._changed:
            self._closed.set()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._limits or self._closed.is_set())
                if self._closed.is_set():
                    return
                # The lock is held, so that a process is never killed after its task.
                left = [_kill_beyond(watched) for watched in self._limits]
            self._closed.wait(pause_before(min(left)))


def pause_before(left: int) -> float:
    """Return the seconds until the next check of a process that has `left` bytes to its limit."""
    return min(max(left / _BYTES_PER_SECOND, _SHORTEST), _LONGEST)


def _kill_beyond(watched: _Limit) -> int:
    """Kill a process that exceeds its limit, and return the bytes that it has left."""
    left = watched.limit - _resident_bytes(watched.process.pid)
    if left < 0 and not watched.exceeded.is_set():
        watched.exceeded.set()
        watched.process.kill()
    return left


def _resident_bytes(pid: int | None) -> int:
    """Return the resident memory of a process, 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
