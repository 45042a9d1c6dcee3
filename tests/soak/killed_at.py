"""Runs `recordmill` and kills itself just before a given step of publishing.

    python -m tests.soak.killed_at STEP LOG images --input ... --output ...

A step is a change of the output's folder, as Python's audit events tell them (a rename, a removal,
a new folder), counted from 1 from the moment when publishing begins: the first change inside the
`side` folder of staging. STEP 0 never comes. LOG gets a line for every step that was reached.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from recordmill.pipelines import cli

_CHANGES = {"os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2}  # event: index of dir_fd
_BEGINS = "/side"
_OPEN_FILES = "/proc/self/fd"


def count_steps(output: str, *, kill_at: int, log: int) -> None:
    """Installs the hook. log: file descriptor."""
    steps = 0
    begun = False

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps, begun
        if event not in _CHANGES:
            return
        path = _named(os.fsdecode(arguments[0]))
        # Removing a tree goes by names relative to an open folder: dir_fd is -1 for all others.
        if not path.startswith(output) and arguments[_CHANGES[event]] == -1:
            return
        if event == "os.mkdir" and os.path.isdir(path):
            return
        begun = begun or _BEGINS in path.removeprefix(output)
        if not begun:
            return
        steps += 1
        os.write(log, f"{event.removeprefix('os.')} {path.removeprefix(output)}\n".encode())
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)


def _named(path: str) -> str:
    """Return the path of a file that is named through its open folder, as `pinned_path` does."""
    if not path.startswith(f"{_OPEN_FILES}/"):
        return path
    number, _, name = path.removeprefix(f"{_OPEN_FILES}/").partition("/")
    return os.path.join(os.readlink(f"{_OPEN_FILES}/{number}"), name)


def main(step: str, log: str, *arguments: str) -> int:
    output = os.path.abspath(arguments[arguments.index("--output") + 1])
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count_steps(output, kill_at=int(step), log=descriptor)
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
