"""The commands for Flink: `recordmill status`, `cancel`, `worker-pool` and `flink-library`."""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any

from recordmill import strict_json
from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import MANIFEST, load
from recordmill.job import lock
from recordmill.job.publishing import is_published
from recordmill.job.staging import FOLDER, jobs
from recordmill.options.declaration import Group, option
from recordmill.pipelines.jobs.watch import JobProgress
from recordmill.pipelines.options.arguments.command_line import parse_command
from recordmill.printable import printable
from recordmill.runners import progress
from recordmill.runners.flink.rest import Cluster, JobStatus
from recordmill.storage.files import Location, shown

_JOB = Group(10, "Job")
_POOL = Group(10, "Worker pool")
_LIBRARY = Group(10, "Library")
_OUTPUT = Group(30, "Output")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _JobConfig:
    flink_master: str | None = option(
        None, group=_JOB, metavar="HOST:PORT", help="REST address of the cluster."
    )
    flink_token_file: str | None = option(
        None,
        group=_JOB,
        metavar="FILE",
        help="File with the token of the REST interface, or with USER:PASSWORD; only its owner may"
        " be able to read it.",
    )
    flink_ca_file: str | None = option(
        None,
        group=_JOB,
        metavar="FILE",
        help="PEM file of the certificate authorities to trust for an https:// cluster. Default:"
        " those of the system.",
    )
    job: str | None = option(
        None, group=_JOB, metavar="ID", help="Id of the job, as printed by --detach."
    )
    output: str | None = option(
        None,
        group=_JOB,
        metavar="FOLDER",
        help="Instead of --job: the output folder of a job on the cluster of --flink-master.",
    )

    def __post_init__(self) -> None:
        if self.output is None and (self.flink_master is None or self.job is None):
            raise ConfigError("expected --flink-master and --job together, or --output alone")
        if self.job is not None and not re.fullmatch("[0-9a-f]{32}", self.job):
            raise ConfigError(f"--job: expected 32 hexadecimal digits, got {self.job!r}")

    def _cluster(self, master: str) -> Cluster:
        token, ca = self.flink_token_file, self.flink_ca_file
        return Cluster.parse(master, token_file=token, ca_file=ca)

    def find(self) -> tuple[Cluster, str] | None:
        """Return the cluster and the id of the job; None if no Flink job holds the output."""
        if self.flink_master is not None and self.job is not None:
            return self._cluster(self.flink_master), self.job
        assert self.output is not None
        found = lock.cluster_job(Location.parse(self.output) / FOLDER)
        if found is None:
            return None
        url, job = found.cluster, found.job
        cluster = None if self.flink_master is None else self._cluster(self.flink_master)
        if cluster is None or cluster.url != url:
            # Another user of the output may have written the file that names the cluster.
            raise RunError(
                f"--output {self.output}: the Flink job {job} at {url} holds it, and this command"
                f" names {'no cluster' if cluster is None else cluster.url}: if you trust that"
                f" cluster, pass --flink-master {url}"
            )
        return cluster, job


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
        help="Address to listen on. An address other than loopback needs --secret-file.",
    )
    secret_file: str | None = option(
        None,
        group=_POOL,
        metavar="FILE",
        help="File with a secret; only its owner may be able to read it. Anyone who has the secret"
        " can run code on this machine. Processes of the same user and of root on the loopback"
        " address do not need it. Without it the pool serves only these processes.",
    )
    port: int = option(50000, group=_POOL, help="Port to listen on; 0 picks a free port.")

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ConfigError(f"--port: expected 0 to 65535, got {self.port}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LibraryConfig:
    """Options of `recordmill flink-library`."""

    flink_job_server_jar: str | None = option(
        None,
        group=_LIBRARY,
        metavar="PATH",
        help="Jar of Beam's Flink job server, the same as that of the jobs.",
    )
    output: str | None = option(
        None, group=_LIBRARY, metavar="FOLDER", help="Folder to write the jar to."
    )

    def __post_init__(self) -> None:
        if self.flink_job_server_jar is None or self.output is None:
            raise ConfigError("expected --flink-job-server-jar and --output")
        if "://" in self.flink_job_server_jar:
            raise ConfigError(
                f"--flink-job-server-jar: expected a file, got {self.flink_job_server_jar}"
            )


def status_main(argv: Sequence[str]) -> int:
    """Shows the state and progress of a job on a Flink cluster, and why it failed.

    The exit code is 0 if the job is running or finished, and 1 if it failed or was cancelled.

    Example:
      recordmill status --flink-master localhost:8081 --job 0f3ad5cd2b7c4b39b51dbd2a2d9b0b6e
    """
    config = parse_command(StatusConfig, argv, status_main)
    found = config.find()
    failed = False
    if found is None:
        assert config.output is not None
        output = Location.parse(config.output)
        facts: dict[str, Any] = _in_output(output)
        if not facts:
            raise RunError(
                f"--output {shown(output)}: no Flink job writes to it, and it holds no dataset"
            )
    else:
        cluster, job = found
        status = cluster.status(job)
        failed = status.state in ("FAILED", "FAILING", "CANCELED")
        facts = _describe(cluster, status, config.output)
    if config.json:
        strict_json.show(facts)
    else:
        for name, value in facts.items():
            print(f"{name}: {f'{value:,}' if isinstance(value, int) else printable(value)}")
    return 1 if failed or "refused" in facts else 0


def cancel_main(argv: Sequence[str]) -> int:
    """Cancels a job on a Flink cluster. The command that submitted it can continue it later.

    Example:
      recordmill cancel --flink-master localhost:8081 --job 0f3ad5cd2b7c4b39b51dbd2a2d9b0b6e
    """
    config = parse_command(CancelConfig, argv, cancel_main)
    found = config.find()
    if found is None:
        raise RunError(
            f"--output {config.output}: no Flink job writes to it; there is nothing to cancel"
        )
    cluster, job = found
    ended = cluster.status(job).ended
    status = cluster.cancel(job)
    print(f"job {job} {'had already ended:' if ended else 'is'} {status.state}")
    return 0


def worker_pool_main(argv: Sequence[str]) -> int:
    """Serves Python workers to the TaskManager on the same machine, until it is stopped.

    Clusters whose jobs run with --environment external need one pool on every machine.

    Example:
      recordmill worker-pool --port 50000
    """
    from recordmill.runners.secret_files import read_secret
    from recordmill.runners.workers.pool import WorkerPool

    config = parse_command(PoolConfig, argv, worker_pool_main)
    file = config.secret_file
    secret = None if file is None else read_secret(file, option="--secret-file")

    def stop(number: int, _: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    imports = ["recordmill.pipelines.jobs.road", "recordmill.pipelines.images"]
    with WorkerPool(host=config.host, port=config.port, secret=secret, imports=imports) as pool:
        print(f"listening for workers at {pool.address}", flush=True)
        pool.wait()
    return 0


def flink_library_main(argv: Sequence[str]) -> int:
    """Writes a jar of Beam's classes for the lib folder of a Flink cluster.

    With this jar a cluster loads the classes once, instead of receiving and loading them with each
    job. Copy it to the lib folder of the JobManager and of every TaskManager, and restart them.

    Example:
      recordmill flink-library --flink-job-server-jar flink-job-server.jar --output flink/lib
    """
    from recordmill.runners.flink import jar

    config = parse_command(LibraryConfig, argv, flink_library_main)
    assert config.flink_job_server_jar is not None
    assert config.output is not None
    given = jar.find_job_server_jar(config.flink_job_server_jar, flink_version="")
    try:
        print(jar.write_library(config.output, job_server=given))
    except OSError as error:
        raise ConfigError(f"--output {config.output}: {error.strerror}") from error
    return 0


def _describe(cluster: Cluster, status: JobStatus, output: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "job": status.id,
        "name": status.name,
        "state": status.state,
        "running for" if not status.ended else "ran for": progress.duration(status.seconds),
    }
    cause = cluster.failure_cause(status.id)
    if cause:
        facts["failed" if status.state == "FAILED" else "restarted after"] = cause
    if output is not None:
        inside = _in_output(Location.parse(output))
        if status.state == "FINISHED" or "dataset" not in inside:  # else an earlier dataset
            facts |= inside
    return facts


def _in_output(output: Location) -> dict[str, Any]:
    """Return facts on an output folder: the verdict, the progress or the finished dataset."""
    for staging in jobs(output):
        if is_published(staging):  # the command that would remove it was killed
            continue
        verdict = staging.verdict()
        if verdict is not None:
            return {"refused": verdict.message}
        snapshot = JobProgress(staging).poll()
        if snapshot is not None:
            return {"progress": progress.line(snapshot, progress.Pace())}
    if not (output / MANIFEST).exists():
        return {}
    manifest = load(output)
    return {
        "dataset": shown(output),
        "state": "finished",
        "records": sum(split.records for split in manifest.splits.values()),
        "digest": manifest.digest,
    }
