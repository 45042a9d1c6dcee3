"""Waiting for processes that tests start or stop."""

import contextlib
import os
import pathlib
import select
import subprocess
from collections.abc import Callable

import pytest

PATIENCE = 60  # seconds, far more than anything here takes


def wait_until(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something while a process runs; fail if the process ends before."""
    for _ in range(PATIENCE * 100):
        if happened():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
            pytest.fail(f"it ended before that: {process.communicate()}")
    pytest.fail("it did not happen")


def children(parent: int) -> list[int]:
    """Return the ids of the children of a process."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # pid (name, which may hold anything) state parent ...
            if int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(status.parent.name))
    return found


def ends(pidfd: int) -> bool:
    """Wait for a process that is not our child, and return whether it has ended."""
    ready, _, _ = select.select([pidfd], [], [], PATIENCE)
    os.close(pidfd)
    return bool(ready)
