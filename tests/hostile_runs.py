"""Commands on hostile input, in a process of their own with a limit on memory."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence

from tests.image_runs import Made
from tests.paths import ROOT

MEMORY = 4 << 30  # bytes of address space of each process; libraries alone take more than 1 GiB
SECONDS = 300  # for each command, until it counts as hanging

Command = Sequence[object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostileRun:
    """Result of a command.

    made: the dataset, if its exit code is 0. peak: resident bytes of the largest process so far.
    """

    code: int
    errors: str
    made: Made | None
    peak: int

    @property
    def result(self) -> tuple[int, str | None, bytes | str]:
        """Exit code, digest, and rejects or messages, which are the same in equal runs."""
        if self.made is None:
            return self.code, None, self.errors
        return self.code, self.digest, (self.made.folder / "rejects.jsonl").read_bytes()

    @property
    def digest(self) -> str | None:
        """Digest of the dataset, if there is one."""
        return None if self.made is None else self.made.manifest.digest


def run_limited(
    *commands: Command, memory: int = MEMORY, environment: Mapping[str, str] | None = None
) -> list[HostileRun]:
    """Run commands that write datasets, one after another.

    A crash, a hang or a traceback is an AssertionError. Each command is run in a fork of a process
    that has imported what they need.

    commands: arguments after `recordmill`; the last of each is the output.
    """
    given = [[*map(str, command[:-1]), "--output", str(command[-1])] for command in commands]
    result = subprocess.run(
        [sys.executable, "-m", "tests.hostile_runs", str(memory)],
        input=json.dumps(given),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS * len(commands),
        check=False,
    )
    lines = result.stdout.splitlines()
    at = min(len(lines), len(given) - 1)
    assert len(lines) == len(given), (given[at], result.returncode, result.stderr[-3000:])
    found = []
    for command, line in zip(given, lines, strict=True):
        code, errors, peak = json.loads(line)
        bad = code not in (0, 1, 2) or any(word in errors for word in _BUGS)
        assert not bad, (command, code, errors[-3000:])
        made = Made(pathlib.Path(command[-1])) if code == 0 else None
        found.append(HostileRun(code=code, errors=errors, made=made, peak=peak))
    return found


_BUGS = ("Traceback", "MemoryError", "encoder process died")


def _import_modules(commands: Sequence[Sequence[str]]) -> None:
    """Import what commands need, without starting threads, so that forks can fork encoders."""
    from recordmill.pipelines import cli

    for name in {command[0] for command in commands}:
        importlib.import_module(cli.DATA_TYPES[name].module)
    for name in ("pipelines.jobs.run", "pipelines.jobs.road", "runners.direct"):
        importlib.import_module(f"recordmill.{name}")
    importlib.import_module("recordmill.transforms.staged.encoder_tasks")


def _results(commands: Sequence[Sequence[str]]) -> Iterator[tuple[int, str, int]]:
    """Run each command in a fork, and yield exit code, messages and peak of memory of each."""
    if len(commands) > 1:
        _import_modules(commands)
    for command in commands:
        with tempfile.TemporaryFile() as answer:
            child = os.fork()
            if not child:
                signal.alarm(SECONDS)  # which ends the process
                answer.write(json.dumps(_result(command)).encode())
                answer.flush()
                os._exit(0)
            _, status = os.waitpid(child, 0)
            answer.seek(0)
            code = os.waitstatus_to_exitcode(status)
            yield tuple(json.load(answer)) if code == 0 else (code, f"it ended with {code}", 0)


def _result(command: Sequence[str]) -> tuple[int, str, int]:
    from recordmill.pipelines.cli import main

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(errors):
        try:
            code = main([*command, "--quiet", "--max-reject-fraction", "1"])
        except Exception:  # noqa: BLE001  (reported to the parent)
            code = -1
            traceback.print_exc()
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return code, errors.getvalue(), max(_peak_kilobytes(), children) << 10


def _peak_kilobytes() -> int:
    """Return the peak of resident memory of this process.

    Not ru_maxrss, which begins with the memory of the process that started this one (exec_mmap in
    Linux's fs/exec.c).
    """
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
    for one in _results(json.loads(sys.stdin.read())):
        print(json.dumps(one), flush=True)
