"""Runs of commands in forks of a process that has imported everything, and checks of the results.

Pauses before retries are left out.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback
import types
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Self

from pyarrow import fs

from tests.paths import ROOT
from tests.soak.command import Content, DifferenceError

_MOST_SECONDS = 120.0
STALL_SECONDS = 1.0  # without a byte of a store, until a request has failed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a run. code: negative for a signal."""

    code: int
    stdout: str
    stderr: str


class ForkedRuns:
    """Runs commands inside its `with` block.

    folder: for their output. environment: variables of all commands, added to those of this one.
    pid: of the command that runs.
    """

    def __init__(self, folder: pathlib.Path, environment: Mapping[str, str]) -> None:
        self.pid = 0
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.forked_runs"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
            | dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, arguments: list[str]) -> Ended:
        """Run a command of recordmill to its end. Raises DifferenceError if it hangs."""
        out, err = self._folder / "stdout", self._folder / "stderr"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": arguments, "stdout": str(out), "stderr": str(err)}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        self.pid = int(self._process.stdout.readline() or 0)
        answer = self._process.stdout.readline()
        if not answer or json.loads(answer) is None:
            raise DifferenceError(f"it hangs: {err.read_text()[-500:]}")
        return Ended(code=json.loads(answer), stdout=out.read_text(), stderr=err.read_text())


def _serve() -> None:
    """Run the commands that come as lines of JSON, each in a fork; answer pids and exit codes."""
    import obstore.store  # noqa: F401

    import recordmill.pipelines.arrays
    import recordmill.pipelines.cli
    import recordmill.pipelines.images
    import recordmill.pipelines.jobs.road
    import recordmill.pipelines.jobs.run
    import recordmill.pipelines.table
    import recordmill.pipelines.text
    import recordmill.pipelines.video
    import recordmill.runners.direct  # noqa: F401
    from recordmill.storage import filesystems, s3_objects, storage_errors
    from recordmill.transforms.staged import encoder_tasks  # noqa: F401

    storage_errors.PAUSES = (0, 0, 0)
    storage_errors.OUTAGE_PAUSES = (0, 0)
    s3_objects.STALL_SECONDS = STALL_SECONDS
    filesystems.fs = types.SimpleNamespace(FileSystem=types.SimpleNamespace(from_uri=_from_uri))
    gc.freeze()  # the collector of a fork would copy the pages of all that was imported
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_serve_one(request))
        print(child, flush=True)
        print(json.dumps(_wait(child)), flush=True)


def _from_uri(uri: str) -> tuple[Any, str]:
    """Return the filesystem and the path of a URI of S3, without the retries of the AWS SDK."""
    filesystem, path = fs.FileSystem.from_uri(uri)
    options = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(uri).query))
    once = fs.S3FileSystem(
        region=filesystem.region,
        scheme=options["scheme"],
        endpoint_override=options["endpoint_override"],
        allow_delayed_open=True,
        request_timeout=STALL_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    return once, path


def _serve_one(request: Any) -> int:
    from recordmill.option_names import as_flags
    from recordmill.pipelines import cli
    from recordmill.processes.pool import fork_children

    os.setsid()
    for number, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    with as_flags():
        fork_children()  # new interpreters would have the pauses
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


def of_dataset(found: Content) -> Content:
    """Return the content of a dataset without what a run leaves behind for the next."""
    return {
        name: content
        for name, content in found.items()
        if content != "folder" and not name.startswith(".recordmill")
    }


def state_of(found: Content, known: Mapping[str, Content]) -> str:
    """Return the name of the known dataset that was found, or none.

    Raises DifferenceError for anything else.
    """
    if "dataset.json" not in found:
        return "none"
    for name, expected in known.items():
        if found == expected:
            return name
        if found.items() >= expected.items():
            return f"{name} with files of the other"
    raise DifferenceError(f"the dataset is not one of {', '.join(known)}")


def expect_sentence(ended: Ended, state: str, *, codes: tuple[int, ...], new: str = "new") -> str:
    """Return the sentence of a run that failed, '' of any other.

    Raises DifferenceError for another exit code than 0 and these, exit code 0 without the new
    dataset, a traceback, and if a failed run prints more or less than one sentence beside notes.
    """
    if ended.code == 0 and state != new:
        raise DifferenceError(f"exit 0, but the dataset is {state}")
    if ended.code not in (0, *codes):
        raise DifferenceError(f"exit {ended.code}: {ended.stderr[-500:]}")
    if "Traceback" in ended.stderr:
        raise DifferenceError(f"a traceback: {ended.stderr[-1500:]}")
    if ended.code <= 0:
        return ""
    lines = [line for line in ended.stderr.splitlines() if ": note: " not in line]
    if len(lines) != 1 or ": error: " not in lines[0]:
        raise DifferenceError(f"expected one sentence, got: {ended.stderr[-1500:]}")
    return lines[0]


def run_series(
    count: int, choose: Callable[[int], tuple[str, Callable[[], tuple[int, str]]]]
) -> list[str]:
    """Run injections, and return descriptions of the differences.

    choose: returns the description of an injection, by its number, and a function that makes it
      and returns the exit code and the state.
    """
    differences: list[str] = []
    states: collections.Counter[str] = collections.Counter()
    codes: collections.Counter[int] = collections.Counter()
    for number in range(count):
        description, inject = choose(number)
        try:
            code, state = inject()
        except DifferenceError as error:
            differences.append(f"{number} {description}: {error}")
            print(differences[-1], flush=True)
            continue
        states[state] += 1
        codes[code] += 1
        if number % 50 == 49:
            print(f"{number + 1}: {dict(states)}, exit codes {dict(codes)}", flush=True)
    print(f"{count} injections: states {dict(states)}, exit codes {dict(codes)}")
    return differences


if __name__ == "__main__":
    _serve()
