"""Faults of programs, machines, links and the store; many of them at random moments.

    python -m tests.cluster.faults                  100 faults, three per job
    python -m tests.cluster.faults --count 6 --log faults.jsonl

Each job is struck by faults that follow from its seed. When they are over, and the command has
failed, it runs once more. After each job: the store has the files of the local run and nothing
else, there was never a second job at the same time, and the command was never silent for 60 s.

The log has a line per job. Jobs that it has are left out, so that a stopped run goes on. At
the end it is renamed. Beside it are the logs of all machines for each difference. Needs root and
`make flink flink-job-server`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import heapq
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from recordmill.pipelines.cli import main as recordmill
from recordmill.runners.flink.rest import ClusterError
from tests.cluster.machines import (
    JOB_MANAGER,
    STORE,
    SUBMITTER,
    TASK_MANAGERS,
    Command,
    Machines,
    hashes,
)
from tests.paths import DEMO, ROOT
from tests.s3_server import BUCKET
from tests.soak.command import DifferenceError, end

# Enough shards of enough images that a job can be disturbed while it writes.
LONG = ("--size", "384", "--balance", "oversample", "--balance-target", "40", "--seed", "7")
LONG = (*LONG, "--num-shards", "train=24,test=2", "--splits", "train=0.9,test=0.1")

MOST_SILENCE = 60.0  # s between two lines of a command
# As docs/flink.md advises, for the time that a pool takes to be back.
RESTARTS = {
    "restart-strategy.fixed-delay.attempts": 10,
    "restart-strategy.fixed-delay.delay": "5 s",
}
_EACH = 3  # faults of a job
_LIMIT = 600.0  # s for a command that was disturbed
_RUNNING = ("CREATED", "INITIALIZING", "RUNNING", "RESTARTING", "FAILING")
LOG = ROOT / "build" / "soak" / "cluster-faults.jsonl"


def local_files(folder: pathlib.Path) -> dict[str, str]:
    """Return the files of an undisturbed run of LONG on one machine, made in a folder."""
    out = folder / "out"
    assert recordmill(["images", "--input", str(DEMO), "--output", str(out), *LONG, "--quiet"]) == 0
    return hashes(out)


def wait_for_machines(machines: Machines) -> None:
    """Wait until all slots are free and all pools listen."""
    for name in TASK_MANAGERS:
        machines.use_pool(name)
    machines.wait_for_taskmanagers()


class Watch:
    """Watches a job and its commands inside its `with` block.

    silence: longest time between two lines of a command, in seconds. jobs: most jobs at once.
    """

    def __init__(self, machines: Machines) -> None:
        self.silence = 0.0
        self.jobs = 0
        self.command: Command | None = None
        self._machines = machines
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=one) for one in (self._watch_output, self._watch_jobs)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _watch_output(self) -> None:
        last: tuple[Command | None, int] = (None, 0)
        changed = time.monotonic()
        while not self._end.wait(0.2):
            command, now = self.command, time.monotonic()
            if command is None or command.process.poll() is not None:
                changed = now
                continue
            if (current := (command, command.written)) != last:
                last, changed = current, now
            self.silence = max(self.silence, now - changed)

    def _watch_jobs(self) -> None:
        while not self._end.wait(1):
            with contextlib.suppress(ClusterError), self._machines.flink() as flink:
                found = flink._call("GET", "/v1/jobs/overview")["jobs"]
                running = sum(job["state"] in _RUNNING for job in found)
                self.jobs = max(self.jobs, running)


class DisturbedJob:
    """The command of LONG, from the store to the store, again and again.

    ends: exit code, seconds and last message of each run that has ended.
    """

    def __init__(self, machines: Machines, watch: Watch, key: str, *options: str) -> None:
        self.machines, self.watch, self.key = machines, watch, key
        self.ends: list[tuple[int, float, str]] = []
        self._options = options
        self._source = machines.fill("photos", DEMO)
        self.start()

    @property
    def is_running(self) -> bool:
        return self.command.process.poll() is None

    def start(self, *options: str) -> None:
        """Start the command."""
        output = self.machines.uri(self.key)
        options = (*LONG, *self._options, *options)
        self.command = self.machines.submit("images", *options, source=self._source, output=output)
        self.watch.command = self.command

    def end(self) -> int:
        """Wait for the end of the command, and return its exit code."""
        try:
            ended = self.command.end(_LIMIT)
        except subprocess.TimeoutExpired as error:
            self.command.signal(signal.SIGKILL)
            raise DifferenceError(f"it hangs: {self.command.err[-2000:]}") from error
        self.ends.append((ended.code, round(ended.seconds, 1), ended.last))
        return ended.code

    def end_well(self) -> bool:
        """Wait for a dataset, and return whether that took another run.

        Raises DifferenceError if the other run fails.
        """
        if self.end() == 0:
            return False
        self.machines.wait_for_taskmanagers()
        self.start()
        if self.end() != 0:
            raise DifferenceError(f"the rerun failed: {self.command.err[-2000:]}")
        return True

    def check(self, expected: dict[str, str]) -> None:
        """Raise DifferenceError unless the store has exactly the dataset of the local run."""
        found = self.machines.objects(self.key)
        if found != expected:
            names = sorted(
                name for name in found.keys() | expected if found.get(name) != expected.get(name)
            )
            raise DifferenceError(f"missing, too many or other files: {names}")
        known = (f"{BUCKET}/photos/", f"{BUCKET}/{self.key}/")
        strangers = [one for one in self.machines.store.names() if not one.startswith(known)]
        if strangers:
            raise DifferenceError(f"left in the store: {strangers}")
        if self.watch.silence > MOST_SILENCE:
            raise DifferenceError(f"silent for {self.watch.silence:.0f} s")
        if self.watch.jobs > 1:
            raise DifferenceError(f"{self.watch.jobs} jobs at once")
        for name in self.machines.store.names(f"{BUCKET}/{self.key}/"):
            self.machines.store.delete(name)


Strike = Callable[[DisturbedJob, str, random.Random], contextlib.AbstractContextManager[Any]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of fault. strike: lets it last for a `with` block. wheres: machines that it can hit.
    seconds: shortest and longest time that it lasts.
    """

    strike: Strike
    wheres: Sequence[str]
    seconds: tuple[float, float]


@contextlib.contextmanager
def _off(job: DisturbedJob, where: str, _: random.Random) -> Iterator[None]:
    job.machines.switch_off(where)
    yield
    job.machines.switch_on(where)


@contextlib.contextmanager
def _taskmanager_killed(job: DisturbedJob, where: str, _: random.Random) -> Iterator[None]:
    job.machines.kill_flink(where)
    yield
    job.machines.start_taskmanager(where)


@contextlib.contextmanager
def _pool_killed(job: DisturbedJob, where: str, _: random.Random) -> Iterator[None]:
    job.machines.kill_pool(where)
    yield
    job.machines.use_pool(where)


@contextlib.contextmanager
def _worker_killed(job: DisturbedJob, where: str, choice: random.Random) -> Iterator[None]:
    if workers := job.machines.workers(where):
        with contextlib.suppress(ProcessLookupError):
            os.kill(choice.choice(workers), signal.SIGKILL)
    yield


@contextlib.contextmanager
def _jobmanager_killed(job: DisturbedJob, where: str, _: random.Random) -> Iterator[None]:
    job.machines.kill_flink(where)
    yield
    job.machines.start_jobmanager()


def _stopped(number: signal.Signals) -> Strike:
    """Stop the command, and start it again at once."""

    @contextlib.contextmanager
    def strike(job: DisturbedJob, where: str, _: random.Random) -> Iterator[None]:
        del where
        job.command.signal(number)
        if job.end() != 0:  # else the signal came too late
            job.start()
        yield

    return strike


KINDS = {
    "TaskManager off": Kind(_off, TASK_MANAGERS, (5, 20)),
    "TaskManager killed": Kind(_taskmanager_killed, TASK_MANAGERS, (0, 3)),
    "pool killed": Kind(_pool_killed, TASK_MANAGERS, (0, 3)),
    "worker killed": Kind(_worker_killed, TASK_MANAGERS, (0, 0)),
    "JobManager killed": Kind(_jobmanager_killed, (JOB_MANAGER,), (0, 5)),
    "TaskManager cut off": Kind(
        lambda job, where, _: job.machines.cut_off(where), TASK_MANAGERS, (3, 20)
    ),
    "store cut off": Kind(lambda job, where, _: job.machines.cut_off(where), (STORE,), (3, 20)),
    "store slow": Kind(
        lambda job, *_: job.machines.store.answering(delay=0.5), (STORE,), (5, 10)
    ),
    "store answers 503": Kind(
        lambda job, *_: job.machines.store.answering(status=503), (STORE,), (3, 10)
    ),
    "SIGTERM": Kind(_stopped(signal.SIGTERM), (SUBMITTER,), (0, 0)),
    "SIGINT": Kind(_stopped(signal.SIGINT), (SUBMITTER,), (0, 0)),
    "SIGKILL": Kind(_stopped(signal.SIGKILL), (SUBMITTER,), (0, 0)),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Fault:
    """after: seconds from the start of the command. lasts: seconds."""

    kind: str
    where: str
    after: float
    lasts: float


def plan(seed: int, *, number: int = _EACH, seconds: float) -> list[Fault]:
    """Return the faults of a job that takes so many seconds; no machine has two at once."""
    generator = random.Random(seed)
    moments = sorted(generator.uniform(0, seconds) for _ in range(number))
    free: dict[str, float] = {}
    faults = []
    for after in moments:
        name = generator.choice(list(KINDS))
        kind = KINDS[name]
        where = generator.choice(list(kind.wheres))
        after = max(after, free.get(where, 0.0))
        lasts = generator.uniform(*kind.seconds)
        free[where] = after + lasts + 0.1
        faults.append(Fault(name, where, round(after, 2), round(lasts, 2)))
    return faults


def run(
    machines: Machines, seed: int, expected: dict[str, str], *, seconds: float
) -> dict[str, Any]:
    """Run a job with the faults of a seed; return what came of it, for the log.

    seconds: that an undisturbed job takes.
    """
    faults = plan(seed, seconds=seconds)
    found: dict[str, Any] = {"seed": seed, "struck": [], "different": ""}
    with Watch(machines) as watch:
        job = DisturbedJob(machines, watch, f"faults-{seed}")
        try:
            found["struck"] = _strike(job, faults, random.Random(seed))
            found["rerun"] = job.end_well()
            job.check(expected)
        except (DifferenceError, AssertionError) as error:
            found["different"] = f"{type(error).__name__}: {error}"
            with contextlib.suppress(ProcessLookupError):
                job.command.signal(signal.SIGKILL)
    workers = [machines.workers(name) for name in TASK_MANAGERS]
    store = machines.store
    found |= {"silence": round(watch.silence, 1), "jobs": watch.jobs, "ends": job.ends}
    found |= {"workers": list(map(len, workers)), "uploads": len(store.uploads)}
    store.uploads.clear()
    return found


def _strike(
    job: DisturbedJob, faults: Sequence[Fault], choice: random.Random
) -> list[tuple[str, str, float]]:
    """Let faults begin and end at their moments; return those that hit a running command."""
    start = time.monotonic()
    struck = []
    events: list[tuple[float, int, Fault | None, contextlib.ExitStack]] = []
    with contextlib.ExitStack() as all_over:
        for at, fault in enumerate(faults):
            stack = all_over.enter_context(contextlib.ExitStack())
            heapq.heappush(events, (fault.after, at, fault, stack))
        while events:
            moment, at, begins, stack = heapq.heappop(events)
            threading.Event().wait(max(start + moment - time.monotonic(), 0))
            if begins is None:
                stack.close()
            elif job.is_running:
                struck.append((begins.kind, begins.where, round(time.monotonic() - start, 1)))
                stack.enter_context(KINDS[begins.kind].strike(job, begins.where, choice))
                heapq.heappush(events, (moment + begins.lasts, at, None, stack))
    return struck


def _read(log: pathlib.Path) -> dict[int, dict[str, Any]]:
    """Return the last line of each seed in a log."""
    if not log.exists():
        return {}
    return {line["seed"]: line for line in map(json.loads, log.read_text().splitlines())}


def _run_all(first: int, count: int, log: pathlib.Path) -> None:
    """Run jobs from this seed on, but those that the log has, until so many faults have struck."""
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
        expected = local_files(pathlib.Path(folder))
    while (seed := _next_seed(first, count, log)) is not None:
        with Machines(RESTARTS) as machines:
            with Watch(machines) as watch:
                job = DisturbedJob(machines, watch, "undisturbed")
                if job.end() != 0:
                    raise DifferenceError(f"without faults: {job.command.err[-2000:]}")
                job.check(expected)
            seconds = job.ends[0][1]
            print(f"undisturbed: {seconds} s, silent for {watch.silence:.1f} s", flush=True)
            different = ""
            while seed is not None and not different:
                wait_for_machines(machines)
                found = run(machines, seed, expected, seconds=seconds)
                with log.open("a") as file:
                    print(json.dumps(found), file=file)
                print(_row(found), flush=True)
                different = found["different"]
                if different:  # continue with machines without traces of this
                    keep_logs(machines, log.with_suffix(f".{seed}"))
                seed = _next_seed(seed + 1, count, log)


def _next_seed(first: int, count: int, log: pathlib.Path) -> int | None:
    """Return the first seed that is to run, None if enough faults have struck."""
    done = _read(log)
    if sum(len(one["struck"]) for one in done.values()) >= count:
        return None
    return next(seed for seed in itertools.count(first) if seed not in done)


def keep_logs(machines: Machines, folder: pathlib.Path) -> None:
    """Copy what all programs have written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in machines.hosts:
        (folder / f"{name}.log").write_text(machines.logs(name))
    for path in machines.hosts[SUBMITTER].folder.glob("*.err"):
        (folder / path.name).write_bytes(path.read_bytes())


def _row(found: dict[str, Any]) -> str:
    struck = ", ".join(f"{kind} ({where}, {after} s)" for kind, where, after in found["struck"])
    ends = ", ".join(f"{code} in {seconds} s" for code, seconds, _ in found["ends"])
    return (
        f"| {found['seed']} | {struck} | {ends} | {found['silence']} | {found['workers']} |"
        f" {found['uploads']} | {found['different'][:300] or 'the same'} |"
    )


def _print_totals(found: Sequence[dict[str, Any]]) -> None:
    kinds = collections.Counter(kind for one in found for kind, *_ in one["struck"])
    print(f"{sum(kinds.values())} faults in {len(found)} jobs: {dict(kinds)}")
    print(f"jobs that needed another run: {sum(bool(one.get('rerun')) for one in found)}")
    print(f"longest silence: {max((one['silence'] for one in found), default=0)} s")
    print(f"unfinished uploads: {sum(one['uploads'] for one in found)}")
    print(f"most workers after a job: {max((max(one['workers']) for one in found), default=0)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100, help="of faults that strike")
    parser.add_argument("--seed", type=int, default=0, help="of the first job")
    parser.add_argument("--log", type=pathlib.Path, default=LOG)
    arguments = parser.parse_args()
    log: pathlib.Path = arguments.log
    log.parent.mkdir(parents=True, exist_ok=True)
    print("| seed | faults | runs | silence, s | workers | uploads | dataset |")
    print("|--:|---|---|--:|---|--:|---|", flush=True)
    _run_all(arguments.seed, arguments.count, log)
    found = list(_read(log).values())
    log.rename(log.with_suffix(".complete"))
    _print_totals(found)
    end([f"seed {one['seed']}: {one['different']}" for one in found if one["different"]])


if __name__ == "__main__":
    main()
