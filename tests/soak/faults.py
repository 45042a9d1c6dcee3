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
import collections
import contextlib
import dataclasses
import errno
import gc
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any

from tests.paths import ROOT
from tests.soak.command import Content, DifferenceError, content, end
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
_MOST_SECONDS = 120.0


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
class Result:
    """The end of a run. code: negative for a signal. calls: {call: count below the folders}."""

    code: int
    stdout: str
    stderr: str
    calls: dict[str, int]
    injected: int


class Runs:
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
        self._folder = folder
        self._write(None)
        environment = {
            "LD_PRELOAD": str(library),
            "FAULTS_STATE": str(self._state),
            "TMPDIR": str(self.work / "tmp"),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.faults", "--serve"],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, arguments: list[str], injection: Injection | None) -> Result:
        """Run a command of recordmill to its end. Raises DifferenceError if it hangs."""
        out, err = self._folder / "stdout", self._folder / "stderr"
        self._write(injection)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": arguments, "stdout": str(out), "stderr": str(err)}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        state = self._state.read_bytes()
        counts = _COUNTS.unpack_from(state, _HEAD.size)
        (injected,) = struct.unpack_from("i", state, _HEAD.size + _COUNTS.size)
        self._write(None, off=True)
        if not answer or json.loads(answer) is None:
            raise DifferenceError(f"it hangs: {err.read_text()[-500:]}")
        return Result(
            code=json.loads(answer),
            stdout=out.read_text(),
            stderr=err.read_text(),
            calls=dict(zip(_CALLS, counts, strict=True)),
            injected=injected,
        )

    def _write(self, injection: Injection | None, *, off: bool = False) -> None:
        head = (-1, 0 if off else 1, 0, 0)  # counts, and nothing fails
        if injection is not None:
            call, mode = _CALLS.index(injection.call), _MODES.index(injection.mode)
            head = (call, mode, injection.code, injection.at)
        folders = os.fsencode(self.work).ljust(256, b"\0")
        state = _HEAD.pack(*head) + bytes(_COUNTS.size + 4) + folders
        with open(self._state, "r+b" if self._state.exists() else "w+b") as file:
            file.write(state.ljust(_SIZE, b"\0"))


def serve() -> None:
    """Run the commands that come as lines of JSON, each in a fork; answer their exit codes."""
    import recordmill.pipelines.arrays
    import recordmill.pipelines.cli
    import recordmill.pipelines.images
    import recordmill.pipelines.jobs.road
    import recordmill.pipelines.jobs.run
    import recordmill.pipelines.table
    import recordmill.pipelines.text
    import recordmill.pipelines.video
    import recordmill.runners.direct  # noqa: F401
    from recordmill.storage import storage_errors
    from recordmill.transforms.staged import encoder_tasks  # noqa: F401

    storage_errors.PAUSES = (0, 0, 0)
    gc.freeze()  # the collector of a fork would copy the pages of all that was imported
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_serve_one(request))
        print(json.dumps(_wait(child)), flush=True)


def _serve_one(request: Any) -> int:
    from recordmill.pipelines import cli

    os.setsid()
    for number, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    code = 1
    try:
        code = cli.main(request["arguments"])
    except BaseException:  # noqa: BLE001 (the check looks for it)
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _wait(child: int) -> int | None:
    """Return the exit code of a process, or None if it had to be killed."""
    deadline = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def dataset(output: pathlib.Path) -> Content:
    """Return the content of a dataset without what a run leaves behind for the next."""
    return {
        name: found
        for name, found in content(output).items()
        if found != "folder" and not name.startswith(".recordmill")
    }


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
        result = runs.run(arguments, None)
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
    result = runs.run(arguments, injection)
    state = _state(kind, output)
    if result.code == 0 and state != "new":
        raise DifferenceError(f"exit 0, but the dataset is {state}")
    if result.code not in ((0, 1, 2, -9) if injection.code == errno.EACCES else (0, 1, -9)):
        raise DifferenceError(f"exit {result.code}: {result.stderr[-500:]}")
    if "Traceback" in result.stderr:
        raise DifferenceError(f"a traceback: {result.stderr[-1500:]}")
    said = [line for line in result.stderr.splitlines() if ": error: " in line]
    lines = [line for line in result.stderr.splitlines() if ": note: " not in line]
    if result.code > 0 and (len(said) != 1 or len(lines) != 1):
        raise DifferenceError(f"expected one sentence, got: {result.stderr[-1500:]}")
    again = runs.run(arguments, None)
    if again.code or again.stderr:
        raise DifferenceError(f"the rerun: exit {again.code}: {again.stderr[-1500:]}")
    if dataset(output) != kind.new:
        raise DifferenceError("the rerun gave other bytes")
    if (output / ".recordmill").exists():
        raise DifferenceError(f"staging is left: {list((output / '.recordmill').rglob('*'))}")
    return result.code, state


def _state(kind: Kind, output: pathlib.Path) -> str:
    """Return old, new or none. Raises DifferenceError for anything else."""
    if not (output / "dataset.json").exists():
        return "none"
    found = dataset(output)
    for name, expected in (("old", kind.old), ("new", kind.new)):
        if found == expected:
            return name
        if found.items() >= expected.items():
            return f"{name} with files of the other"
    raise DifferenceError("the dataset is neither the old nor the new one")


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
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    generator = random.Random(arguments.seed)
    differences: list[str] = []
    states: collections.Counter[str] = collections.Counter()
    codes: collections.Counter[int] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="recordmill-faults-") as name:
        folder = pathlib.Path(name)
        with Runs(folder) as runs:
            commands = make_inputs(runs.work)
            kinds = [prepare(runs, kind, command, folder) for kind, command in commands.items()]
            for kind in kinds:
                print(f"{kind.name}: {kind.calls}", flush=True)
            for number in range(arguments.count):
                kind = kinds[number % len(kinds)]
                injection = choose(kind, generator)
                over_old = generator.random() < 0.5
                try:
                    code, state = inject(runs, kind, injection, over_old=over_old)
                except DifferenceError as error:
                    differences.append(f"{number} {kind.name} {injection}: {error}")
                    print(differences[-1], flush=True)
                    continue
                states[state] += 1
                codes[code] += 1
                if number % 50 == 49:
                    print(f"{number + 1}: {dict(states)}, exit codes {dict(codes)}", flush=True)
    print(f"{arguments.count} injections: states {dict(states)}, exit codes {dict(codes)}")
    end(differences)


if __name__ == "__main__":
    main()
