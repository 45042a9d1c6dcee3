"""Commands around jobs on Flink: `recordmill status`, `cancel` and `worker-pool`."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any

from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import MANIFEST
from recordmill.job import lock
from recordmill.job.staging import FOLDER, jobs
from recordmill.pipelines.options.declaration import Group, option, parse_command
from recordmill.pipelines.watch import JobProgress
from recordmill.runners import progress
from recordmill.runners.flink.rest import Cluster, JobStatus
from recordmill.storage.files import Location, shown

_JOB = Group(10, "The job")
_POOL = Group(10, "The pool")
_OUTPUT = Group(30, "How it is shown")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _JobConfig:
    flink_master: str | None = option(
        None, group=_JOB, metavar="HOST:PORT", help="REST address of the cluster."
    )
    job: str | None = option(
        None, group=_JOB, metavar="ID", help="The job, as --detach has printed it."
    )
    output: str | None = option(
        None,
        group=_JOB,
        metavar="FOLDER",
        help="Instead of both: the output of a job that was submitted with --detach.",
    )

    def __post_init__(self) -> None:
        if self.output is None and (self.flink_master is None or self.job is None):
            raise ConfigError("expected --flink-master and --job, or --output")
        if self.job is not None and not re.fullmatch("[0-9a-f]{32}", self.job):
            raise ConfigError(f"--job: expected 32 hexadecimal digits, got {self.job!r}")

    def find(self) -> tuple[Cluster, str] | None:
        """The job; None where the output is left to none."""
        if self.flink_master is not None and self.job is not None:
            return Cluster.parse(self.flink_master), self.job
        assert self.output is not None
        found = lock.detached(Location.parse(self.output) / FOLDER)
        return None if found is None else (Cluster(found[0]), found[1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class StatusConfig(_JobConfig):
    """Options of `recordmill status`."""

    json: bool = option(False, group=_OUTPUT, help="Print JSON.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CancelConfig(_JobConfig):
    """Options of `recordmill cancel`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """Options of `recordmill worker-pool`."""

    host: str = option(
        "127.0.0.1",
        group=_POOL,
        metavar="ADDRESS",
        help="Address to listen at. Whoever reaches it can run code on this machine.",
    )
    port: int = option(50000, group=_POOL, help="Port to listen at; 0 takes a free one.")

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ConfigError(f"--port: expected 0 to 65535, got {self.port}")


def status_main(argv: Sequence[str]) -> int:
    """Says how a job on a Flink cluster is, and why it failed if it did.

    The exit code is 0 where it runs or has finished, 1 where it failed or was cancelled.

    Example:
      recordmill status --flink-master localhost:8081 --job 0f3ad5cd2b7c4b39b51dbd2a2d9b0b6e
    """
    config = parse_command(StatusConfig, argv, status_main)
    found = config.find()
    failed = False
    if found is None:
        assert config.output is not None
        output = Location.parse(config.output)
        said: dict[str, Any] = _in_output(output)
        if not said:
            raise RunError(f"{shown(output)} is left to no job, and holds no dataset")
    else:
        cluster, job = found
        status = cluster.status(job)
        failed = status.state in ("FAILED", "FAILING", "CANCELED")
        said = _describe(cluster, status, config.output)
    if config.json:
        print(json.dumps(said, indent=2))
    else:
        for name, value in said.items():
            print(f"{name}: {value}")
    return 1 if failed or "refused" in said else 0


def cancel_main(argv: Sequence[str]) -> int:
    """Ends a job on a Flink cluster; the command that submitted it then continues it.

    Example:
      recordmill cancel --flink-master localhost:8081 --job 0f3ad5cd2b7c4b39b51dbd2a2d9b0b6e
    """
    config = parse_command(CancelConfig, argv, cancel_main)
    found = config.find()
    if found is None:
        raise RunError(f"{config.output} is left to no job; there is nothing to cancel")
    cluster, job = found
    ended = cluster.status(job).ended
    status = cluster.cancel(job)
    print(f"job {job} {'had ended before: it is' if ended else 'is'} {status.state}")
    return 0


def worker_pool_main(argv: Sequence[str]) -> int:
    """Starts the Python workers that the TaskManager beside it asks for, until it is stopped.

    For clusters whose jobs run with --environment external: one pool on every machine of them.

    Example:
      recordmill worker-pool --port 50000
    """
    from recordmill.runners.workers.pool import WorkerPool

    config = parse_command(PoolConfig, argv, worker_pool_main)

    def stop(number: int, _: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    imports = ["recordmill.pipelines.road", "recordmill.pipelines.images"]
    with WorkerPool(host=config.host, port=config.port, imports=imports) as pool:
        print(f"listening for workers at {pool.address}", flush=True)
        pool.wait()
    return 0


def _describe(cluster: Cluster, status: JobStatus, output: str | None) -> dict[str, Any]:
    said: dict[str, Any] = {
        "job": status.id,
        "name": status.name,
        "state": status.state,
        "running for" if not status.ended else "ran for": progress.duration(status.seconds),
    }
    cause = cluster.failure_cause(status.id)
    if cause:
        said["failed" if status.state == "FAILED" else "started again after"] = cause
    if output is not None:
        said |= _in_output(Location.parse(output))
    return said


def _in_output(output: Location) -> dict[str, str]:
    """What the job has left in its output so far."""
    for staging in jobs(output):
        verdict = staging.verdict()
        if verdict is not None:
            return {"refused": verdict.message}
        snapshot = JobProgress(staging).poll()
        if snapshot is not None:
            return {"progress": progress.line(snapshot, progress.Pace())}
    return {"dataset": shown(output)} if (output / MANIFEST).exists() else {}
