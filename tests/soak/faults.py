"""Makes file calls of runs fail, one by one: the dataset must be old, new or none, and never wrong.

    python -m tests.soak.faults                     1,200 injections over five data types
    python -m tests.soak.faults --count 50          a sample

A library (faults.c, built with the system's `cc` and preloaded) makes the k-th open, read, write,
rename, unlink, fsync, mkdir or mmap below the folders of a run fail: once, from then on, with less
than was asked, or by killing the process. After each injection:

- the output holds the old dataset, the new one, or none; after exit 0 the new one;
- stderr has no traceback, and after exit 1 one sentence that begins with `recordmill KIND: error:`;
- the same command without faults gives the same bytes as a run without any, and no staging.

Runs are forked from a process that has imported everything; pauses before retries are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable

from tests.soak.command import Content, DifferenceError, content, end
from tests.soak.forked_runs import (
    Ended,
    ForkedRuns,
    expect_sentence,
    of_dataset,
    run_series,
    state_of,
)
from tests.soak.small_inputs import make_inputs

_CALLS = ("open", "read", "write", "rename", "unlink", "fsync", "mkdir", "mmap")
_MODES = ("off", "once", "lasting", "short", "kill")
_ERRNOS = (
    *(errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EDQUOT, errno.ENOMEM),
    *(errno.ETIMEDOUT, errno.ESTALE),
)
_COUNTS = struct.Struct(f"{len(_CALLS)}i")
_HEAD = struct.Struct("4i")  # call, mode, code, at
_SIZE = _HEAD.size + _COUNTS.size + 4 + 4 * 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Injection:
    """The `at`-th call fails with `code`, as `mode` says.

    With the mode `short` and `at` 0, every read and every write does less than was asked.
    """

    call: str
    mode: str
    at: int
    code: int = 0

    def __str__(self) -> str:
        return f"{self.call} {self.at} {errno.errorcode.get(self.code, '-')} {self.mode}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Ended):
    """The end of a run. calls: {call: count below the folders}."""

    calls: dict[str, int]
    injected: int


class Runs(ForkedRuns):
    """Runs commands in forks of a process that has the library preloaded."""

    def __init__(self, folder: pathlib.Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            sys.exit("tests.soak.faults needs a C compiler: install cc (Debian: apt install gcc)")
        library = folder / "faults.so"
        source = pathlib.Path(__file__).with_suffix(".c")
        build = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
        subprocess.run(build, check=True)
        self.work = folder / "work"
        (self.work / "tmp").mkdir(parents=True)
        self._state = folder / "state"
        self._write(None)
        environment = {
            "LD_PRELOAD": str(library),
            "FAULTS_STATE": str(self._state),
            "TMPDIR": str(self.work / "tmp"),
        }
        super().__init__(folder, environment)

    def inject(self, arguments: list[str], injection: Injection | None) -> Result:
        """Run a command of recordmill to its end. Raises DifferenceError if it hangs."""
        self._write(injection)
        try:
            ended = self.run(arguments)
            state = self._state.read_bytes()
        finally:
            self._write(None, off=True)
        counts = _COUNTS.unpack_from(state, _HEAD.size)
        (injected,) = struct.unpack_from("i", state, _HEAD.size + _COUNTS.size)
        calls = dict(zip(_CALLS, counts, strict=True))
        return Result(**vars(ended), calls=calls, injected=injected)

    def _write(self, injection: Injection | None, *, off: bool = False) -> None:
        head = (-1, 0 if off else 1, 0, 0)  # counts, and nothing fails
        if injection is not None:
            call, mode = _CALLS.index(injection.call), _MODES.index(injection.mode)
            head = (call, mode, injection.code, injection.at)
        folders = os.fsencode(self.work).ljust(256, b"\0")
        state = _HEAD.pack(*head) + bytes(_COUNTS.size + 4) + folders
        with open(self._state, "r+b" if self._state.exists() else "w+b") as file:
            file.write(state.ljust(_SIZE, b"\0"))


def dataset(output: pathlib.Path) -> Content:
    """Return the content of a dataset without what a run leaves behind for the next."""
    return of_dataset(content(output))


@dataclasses.dataclass
class Kind:
    """A data type under test. old, new: what the commands with another and with this seed give."""

    name: str
    command: list[str]
    old_folder: pathlib.Path
    old: Content
    new: Content
    calls: dict[str, int]


def prepare(runs: Runs, name: str, command: list[str], folder: pathlib.Path) -> Kind:
    """Run both commands without faults, and count the calls."""
    output = runs.work / "out"
    old = folder / f"old-{name}"
    for seed in ("1", "2"):
        overwrite = ["--overwrite"] if output.exists() else []
        arguments = [*command, "--output", str(output), "--seed", seed, *overwrite]
        result = runs.inject(arguments, None)
        if result.code:
            raise DifferenceError(f"{name} without faults: exit {result.code}: {result.stderr}")
        if seed == "1":
            shutil.copytree(output, old)
    new = dataset(output)
    shutil.rmtree(output)
    return Kind(name, command, old, dataset(old), new, result.calls)


def inject(runs: Runs, kind: Kind, injection: Injection, *, over_old: bool) -> tuple[int, str]:
    """Inject a fault, check the state, run again; return the exit code and the state."""
    output = runs.work / "out"
    if output.exists():
        shutil.rmtree(output)
    if over_old:
        shutil.copytree(kind.old_folder, output)
    arguments = [*kind.command, "--output", str(output), "--seed", "2"]
    arguments += ["--overwrite"] if over_old else []
    result = runs.inject(arguments, injection)
    state = state_of(dataset(output), {"old": kind.old, "new": kind.new})
    expect_sentence(result, state, codes=(1, 2, -9) if injection.code == errno.EACCES else (1, -9))
    again = runs.inject(arguments, None)
    if again.code or again.stderr:
        raise DifferenceError(f"the rerun: exit {again.code}: {again.stderr[-1500:]}")
    if dataset(output) != kind.new:
        raise DifferenceError("the rerun gave other bytes")
    if (output / ".recordmill").exists():
        raise DifferenceError(f"staging is left: {list((output / '.recordmill').rglob('*'))}")
    return result.code, state


def choose(kind: Kind, generator: random.Random) -> Injection:
    """Return a random injection into a run of this data type."""
    call = generator.choice([call for call in _CALLS if kind.calls[call]])
    mode = generator.choices(_MODES[1:], (5, 4, 2 if call in ("read", "write") else 0, 1))[0]
    code = 0 if mode in ("short", "kill") else generator.choice(_ERRNOS)
    return Injection(call=call, mode=mode, at=generator.randint(1, kind.calls[call]), code=code)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1200, help="of injections")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of injections")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="recordmill-faults-") as name:
        folder = pathlib.Path(name)
        with Runs(folder) as runs:
            commands = make_inputs(runs.work)
            kinds = [prepare(runs, kind, command, folder) for kind, command in commands.items()]
            for kind in kinds:
                print(f"{kind.name}: {kind.calls}", flush=True)

            def choose_one(number: int) -> tuple[str, Callable[[], tuple[int, str]]]:
                kind = kinds[number % len(kinds)]
                injection = choose(kind, generator)
                over_old = generator.random() < 0.5
                return f"{kind.name} {injection}", lambda: inject(
                    runs, kind, injection, over_old=over_old
                )

            differences = run_series(arguments.count, choose_one)
    end(differences)


if __name__ == "__main__":
    main()
