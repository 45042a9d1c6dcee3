"""Runs a command as a whole process, from its start to its end, and measures it from outside.

The command gets a session of its own; its tree is whatever has that session in /proc, so that
children count even where their parent has died.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
PHOTOS = DATA / "clothing"  # at their original size, about 400x533
PEERS = ROOT / "build" / "peers" / "bin" / "python"  # has the libraries of others (`make peers`)
TORCH_PEERS = ROOT / "build" / "torch-peers" / "bin" / "python"  # those for PyTorch, and recordmill

_INTERVAL = 0.1  # seconds between two looks at the memory, at least
_SHARE = 0.02  # of one core, that looking takes at most


class FailedError(RuntimeError):
    """A command that was to be measured did not do its work."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """One run.

    wall: seconds. cpu: seconds, user and system, of the process and all children it waited for
    (wait4). peak: bytes; the largest sum of the tree's proportional set sizes (Pss of
    /proc/PID/smaps_rollup: a page that n processes share counts 1/n in each) seen every 100 ms, or
    less often where looking takes long; 0 where nobody looked. peaks: the same of each of those who
    worked beside it, by name, and of the `command` alone. output: what it printed.
    """

    wall: float
    cpu: float
    peak: int
    peaks: Mapping[str, int]
    output: str


Beside = Callable[[], Mapping[str, Collection[int]]]  # name of who works beside it: their pids


def python(
    module: str, *arguments: object, interpreter: str | pathlib.Path = sys.executable
) -> list[str]:
    """The command that runs a module of this repository."""
    return [str(interpreter), "-m", module, *map(str, arguments)]


def run(command: Sequence[str], *, memory: bool, beside: Beside = dict) -> Measured:
    """Runs a command in the root of the repository.

    memory: whether to look at it, which takes up to 2 % of one core from the command. beside: whose
      memory counts, too.

    Raises:
      FailedError: it failed, or left processes behind.
    """
    peak = 0
    peaks: dict[str, int] = {}
    over = threading.Event()

    def watch(session: int) -> None:
        nonlocal peak
        pause = _INTERVAL
        while not over.wait(pause):
            began = time.thread_time()
            sizes = {
                name: sum(map(_proportional_size, pids))
                for name, pids in {"command": members(session), **beside()}.items()
            }
            peak = max(peak, sum(sizes.values()))
            peaks.update({name: max(size, peaks.get(name, 0)) for name, size in sizes.items()})
            pause = max(_INTERVAL, (time.thread_time() - began) / _SHARE)

    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            # Modules are compiled once, as for everybody, and not anew in each process.
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watcher = threading.Thread(target=watch, args=[process.pid])
        if memory:
            watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        over.set()
        if memory:
            watcher.join()
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode != 0:
        raise FailedError(f"{' '.join(command)} ended with {process.returncode}:\n{text[-3000:]}")
    if left := members(process.pid):
        raise FailedError(f"{' '.join(command)} left processes behind: {left}")
    cpu = usage.ru_utime + usage.ru_stime
    return Measured(wall=wall, cpu=cpu, peak=peak, peaks=peaks, output=text)


def members(session: int) -> list[int]:
    """The living processes of a session (its number is the pid of its first process)."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = pathlib.Path("/proc", entry, "stat").read_text()
            except OSError:  # it has ended
                continue
            # proc_pid_stat(5): pid (name) state ppid pgrp session; a name may hold anything.
            state, _, _, its_session = text.rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found.append(int(entry))
    return found


def _proportional_size(pid: int) -> int:
    try:
        lines = pathlib.Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def bar(
    what: str, got: float, *, at_most: float | None = None, at_least: float | None = None
) -> str:
    """A line: what was got, what was asked for, and whether that is met."""
    line = f"- {what}: {got:.2f}"
    if at_most is not None:
        line += f", bar at most {at_most:g}: {'met' if got <= at_most else 'MISSED'}"
    if at_least is not None:
        line += f", bar at least {at_least:g}: {'met' if got >= at_least else 'MISSED'}"
    return line


def two_cores() -> None:
    """Keeps this process and all it starts to two cores, so that nobody has more than another."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def machine() -> str:
    """What this was measured on, in a line."""
    models = [
        line.partition(":")[2].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    cores = len(os.sched_getaffinity(0))
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{cores} cores of {models[0] if models else os.uname().machine}, Python {version}"
