"""What lasts on a cluster of several machines: lost machines, half-open links, failing jobs.

    python -m tests.cluster.soak                    all cases
    python -m tests.cluster.soak --only half-open   those with this word in their name

A row per case, with the seconds until the command says what it waits for. After each, the dataset
is that of the local run. The logs of a case that differs are kept in build/soak. Needs root and
`make flink flink-job-server`.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.flink_cluster import wait_until
from recordmill.runners.flink.rest import ClusterError
from tests.cluster.faults import (
    LOG,
    DisturbedJob,
    Watch,
    keep_logs,
    local_files,
    wait_for_machines,
)
from tests.cluster.machines import (
    JOB_MANAGER,
    SLOTS,
    STORE,
    SUBMITTER,
    TASK_MANAGERS,
    Machines,
    last_for,
)
from tests.s3_server import BUCKET
from tests.soak.command import DifferenceError, end

_HERE, _THERE = TASK_MANAGERS
_FAILING = 12  # jobs
_REFRESH_SECONDS = 12.0  # Flink's pages have metrics that are up to 10 s old
_METRICS = ("Status.JVM.Memory.Metaspace.Used", "Status.JVM.Memory.Direct.MemoryUsed")
_MOST_GROWTH = 30e6  # bytes in all jobs; without the library each takes 27 MB
_WORDS_SECONDS = 300.0  # time in which a job must have come to stand still
_STANDSTILL = ("no progress for 3", "no answer about", "restarts tasks", ": error: ")
_WORKERS_SECONDS = 60.0  # time in which the workers of a job must have ended
Expected = dict[str, str]


@contextlib.contextmanager
def _job(machines: Machines, key: str, *options: str) -> Iterator[DisturbedJob]:
    """Give a job that has begun to write."""
    with Watch(machines) as watch:
        job = DisturbedJob(machines, watch, key, *options)
        machines.wait_for_shards(job.command, key)
        yield job


def _wait_for_words(job: DisturbedJob, *words: str) -> str:
    """Wait until the command says one of these, or ends well; return how long that took.

    A job may go on for a while before it stands still: `no progress for` says since when it does.
    """
    start = time.monotonic()
    before = len(job.command.err)
    lines: list[str] = []

    def is_said() -> bool:
        said = job.command.err[before:].splitlines()
        lines[:] = [line for line in said if any(word in line for word in words)]
        return bool(lines) or not job.is_running

    with contextlib.suppress(AssertionError):
        wait_until(is_said, f"one of {words}", seconds=_WORDS_SECONDS)
    seconds = time.monotonic() - start
    if not lines and job.command.process.poll() == 0:
        return f"{seconds:.0f} s: the job ended well"
    if not lines:
        raise DifferenceError(f"none of {words} after {seconds:.0f} s: {job.command.err[-1000:]}")
    return f"{seconds:.0f} s: {lines[0].partition(': ')[2]}"


def taskmanager_off_for_good(machines: Machines, expected: Expected) -> str:
    """The job needs all slots: it is cancelled after a while, and the next one uses those left."""
    with _job(machines, "off", "--stall-timeout", "60") as job:
        machines.switch_off(_THERE)
        said = _wait_for_words(job, "start a TaskManager", "waits for slots")
        if job.end() == 0:
            raise DifferenceError("expected that the job cannot go on")
        _wait_for_slots(machines, SLOTS)
        job.start()
        if job.end() != 0:
            raise DifferenceError(f"the rerun failed: {job.command.err[-2000:]}")
    machines.switch_on(_THERE)
    job.check(expected)
    return said


def taskmanager_off_with_spare_slots(machines: Machines, expected: Expected) -> str:
    with _job(machines, "spare", "--parallelism", str(SLOTS)) as job:
        busy = _busy_taskmanager(machines)
        machines.switch_off(busy)
        said = _wait_for_words(job, "restarts tasks")
        if job.end() != 0:
            raise DifferenceError(f"it did not go on: {job.command.err[-2000:]}")
    machines.switch_on(busy)
    job.check(expected)
    return said


def pool_killed_for_good(machines: Machines, expected: Expected) -> str:
    """It is a fault of the machine, which the command names."""
    with _job(machines, "pool") as job:
        machines.kill_pool(_THERE)
        said = _wait_for_words(job, f"on {_THERE}")
        if job.end() != 1:
            raise DifferenceError(f"expected exit code 1: {job.ends}")
        if _THERE not in job.ends[0][2] or "start it there with" not in job.ends[0][2]:
            raise DifferenceError(f"expected the machine and what to do: {job.ends}")
        wait_for_machines(machines)
        job.start()
        if job.end() != 0:
            raise DifferenceError(f"the rerun failed: {job.command.err[-2000:]}")
    job.check(expected)
    return said


def jobmanager_killed(machines: Machines, expected: Expected) -> str:
    """The cluster loses its jobs: the command says so and, with --retries, starts another."""
    said = ""
    for retries in ("0", "1"):
        with _job(machines, f"session-{retries}", "--retries", retries) as job:
            machines.kill_flink(JOB_MANAGER)
            last_for(5)
            machines.start_jobmanager()
            said += _wait_for_words(job, "was restarted without high availability") + "; "
            if job.end_well() != (retries == "0"):
                raise DifferenceError(f"--retries {retries}: {job.ends}")
        job.check(expected)
    return said


def jobmanager_down(machines: Machines, expected: Expected) -> str:
    """It is down for more than a minute, and once the command is killed meanwhile."""
    with _job(machines, "down", "--retries", "1") as job:
        machines.kill_flink(JOB_MANAGER)
        said = _wait_for_words(job, "no answer about the Flink job for")
        last_for(75)
        machines.start_jobmanager()
        if job.end_well():
            raise DifferenceError(f"expected another job of the command: {job.ends}")
    job.check(expected)
    with _job(machines, "down-rerun") as job:
        machines.kill_flink(JOB_MANAGER)
        job.command.signal(signal.SIGKILL)
        job.end()
        job.start()
        said += "; the rerun: " + _wait_for_words(job, "no answer about the Flink job for")
        machines.start_jobmanager()
        if job.end() != 0:
            raise DifferenceError(f"the rerun failed: {job.command.err[-2000:]}")
    job.check(expected)
    return said


def _half_open(hearer: str, *speakers: str) -> Callable[[Machines, Expected], str]:
    def case(machines: Machines, expected: Expected) -> str:
        hosts = machines.hosts
        with _job(machines, f"half-open-{hearer}-{'-'.join(speakers)}") as job:
            with hosts[hearer].deaf(*(hosts[name] for name in speakers)):
                said = _wait_for_words(job, *_STANDSTILL)
            job.end_well()
        job.check(expected)
        return said

    return case


def failing_jobs(machines: Machines, expected: Expected) -> str:
    """Twelve jobs whose input vanishes, and a good one: memory and workers are as before."""
    before = [len(machines.workers(name)) for name in TASK_MANAGERS]
    memory = []
    for number in range(_FAILING):
        with Watch(machines) as watch:
            job = DisturbedJob(machines, watch, f"failing-{number}")
            machines.wait_for_shards(job.command, job.key, 1)
            for name in machines.store.names(f"{BUCKET}/photos/"):
                machines.store.delete(name)
            if job.end() == 0:
                raise DifferenceError("expected that the job fails")
        if number == 0:
            print(f"failing: {job.ends[0][2]}", flush=True)
        for name in machines.store.names(f"{BUCKET}/{job.key}/"):
            machines.store.delete(name)
        if number in (0, _FAILING - 1):
            memory.append(_memory(machines))
            print(f"after {number + 1} failed jobs: {_in_megabytes(memory[-1])}", flush=True)
    after = _workers_left(machines, before)
    print(f"workers before {before}, after {after}", flush=True)
    with Watch(machines) as watch:
        job = DisturbedJob(machines, watch, "good")
        if job.end() != 0:
            raise DifferenceError(f"the good job failed: {job.command.err[-2000:]}")
    job.check(expected)
    first, last = memory
    for host, values in last.items():
        for name, value in values.items():
            if value - first[host][name] > _MOST_GROWTH:
                raise DifferenceError(f"{host}: {name} has grown from {first[host][name]}: {value}")
    if any(left > start for left, start in zip(after, before, strict=True)):
        raise DifferenceError(f"{after} workers are left, before there were {before}")
    return f"{_in_megabytes(first)}; then {_in_megabytes(last)}; workers {before}, then {after}"


def _memory(machines: Machines) -> dict[str, dict[str, float]]:
    """Return the metrics of the memory of each TaskManager, in bytes."""
    found = {}
    with machines.flink() as flink:
        for refresh in (True, False):
            for one in flink._call("GET", "/v1/taskmanagers")["taskmanagers"]:
                answer = flink._call(
                    "GET", f"/v1/taskmanagers/{one['id']}/metrics?get={','.join(_METRICS)}"
                )
                values = {value["id"].split(".")[-2]: float(value["value"]) for value in answer}
                found[str(one["path"]).partition("@")[2].partition(":")[0]] = values
            if refresh:
                last_for(_REFRESH_SECONDS)
    return found


def _in_megabytes(memory: dict[str, dict[str, float]]) -> str:
    return ", ".join(
        f"{host} {name} {value / 1e6:.1f} MB"
        for host, values in sorted(memory.items())
        for name, value in values.items()
    )


def _workers_left(machines: Machines, wanted: list[int]) -> list[int]:
    """Return the number of workers of each machine, once they had time to end."""
    left: list[int] = []

    def ended() -> bool:
        left[:] = [len(machines.workers(name)) for name in TASK_MANAGERS]
        return all(a <= b for a, b in zip(left, wanted, strict=True))

    with contextlib.suppress(AssertionError):
        wait_until(ended, "the end of workers", seconds=_WORKERS_SECONDS)
    return left


def _wait_for_slots(machines: Machines, number: int) -> None:
    def there() -> bool:
        with contextlib.suppress(ClusterError), machines.flink() as flink:
            return flink.free_slots()[:2] == (number, number)
        return False

    wait_until(there, f"{number} free slots")


def _busy_taskmanager(machines: Machines) -> str:
    with machines.flink() as flink:
        found: list[dict[str, Any]] = flink._call("GET", "/v1/taskmanagers")["taskmanagers"]
    found.sort(key=lambda one: int(one["freeSlots"]))
    return next(name for name in TASK_MANAGERS if name in str(found[0]["path"]))


CASES: dict[str, Callable[[Machines, Expected], str]] = {
    "twelve failing jobs": failing_jobs,
    "half-open: TaskManager hears no other": _half_open(_THERE, _HERE),
    "half-open: TaskManager hears no JobManager": _half_open(_THERE, JOB_MANAGER),
    "half-open: JobManager hears no TaskManager": _half_open(JOB_MANAGER, _THERE),
    "half-open: submitter hears no JobManager": _half_open(SUBMITTER, JOB_MANAGER),
    "half-open: TaskManager hears no store": _half_open(_THERE, STORE),
    "TaskManager off for good": taskmanager_off_for_good,
    "TaskManager off for good, with spare slots": taskmanager_off_with_spare_slots,
    "pool killed for good": pool_killed_for_good,
    "JobManager killed": jobmanager_killed,
    "JobManager down for long": jobmanager_down,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="words in the names of cases")
    only = parser.parse_args().only
    differences = []
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
        expected = local_files(pathlib.Path(folder))
    print("| case | s | until a message | |\n|---|--:|---|---|", flush=True)
    todo = {name: case for name, case in CASES.items() if only in name}
    while todo:
        with Machines() as machines:
            for name in list(todo):
                case = todo.pop(name)
                wait_for_machines(machines)
                start = time.monotonic()
                try:
                    said, outcome = case(machines, expected), "the same"
                except (DifferenceError, AssertionError) as error:
                    said, outcome = str(error), "DIFFERENT"
                    differences.append(f"{name}: {error}")
                print(f"| {name} | {time.monotonic() - start:.0f} | {said} | {outcome} |")
                sys.stdout.flush()
                if outcome != "the same":
                    keep_logs(machines, LOG.with_name(name.replace(" ", "-").replace(":", "")))
                    break  # to machines without traces of this
    end(differences)


if __name__ == "__main__":
    main()
