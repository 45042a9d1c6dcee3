"""Jobs as a person starts them: the command in a process of its own, and what comes of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from benchmarks.flink_cluster import JOB_SERVER, ROOT, FlinkCluster, kill, processes, wait_until
from recordmill.pipelines.cli import main
from tests.paths import DEMO
from tests.soak.command import content

# Balanced and augmented, of small photos.
LARGE = ("--size", "48", "--augment", "flip,crop")
# Enough shards of enough pictures that a job can be caught writing.
LONG = ("--size", "384", "--balance-target", "40", "--num-shards", "train=24,test=2")
FOLDER = ".recordmill"
_PATIENCE = 280  # s


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """Its last output on standard error."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


class Job:
    """`recordmill images`, over the pictures of the demo where nothing else is said."""

    def __init__(
        self,
        output: pathlib.Path | str,
        *options: str,
        source: pathlib.Path | str = DEMO,
        kind: str = "images",
    ) -> None:
        self.output = output
        places = ["--input", str(source), "--output", str(output)]
        how = ["--balance", "oversample", "--seed", "7", "--num-shards", "train=8,test=2"]
        size = [] if "--size" in options or kind != "images" else ["--size", "96"]
        self.arguments = [kind, *places, *how, *size, *options]

    def on(self, cluster: FlinkCluster, environment: str, *options: str) -> Job:
        """The same job on a cluster."""
        where = ["--flink-master", cluster.master, "--environment", environment]
        return self.on_flink(*where, *options)

    def on_flink(self, *options: str) -> Job:
        job = Job(self.output)
        jar = ["--flink-job-server-jar", str(JOB_SERVER)]
        job.arguments = [*self.arguments, "--runner", "flink", *jar, *options]
        return job

    def start(self, **environment: str) -> subprocess.Popen[str]:
        return start(*self.arguments, **environment)

    def run(self, **environment: str) -> Ended:
        return ended(self.start(**environment))

    def finish(self, **environment: str) -> None:
        result = self.run(**environment)
        assert result.code == 0, result.err[-3000:]

    def finish_here(self) -> None:
        """Run the command in this process, which saves the import of Beam."""
        with pytest.MonkeyPatch.context() as patch:
            if "flink" not in self.arguments:
                # Its encoder processes are kept for the next job, and belong to no cluster.
                patch.delenv("RECORDMILL_STARTED_BY")
            assert main(self.arguments) == 0

    @property
    def files(self) -> Mapping[str, str]:
        """All that is in the output, but for what tells how it was called."""
        found = content(pathlib.Path(self.output))
        return {
            name: what
            for name, what in found.items()
            if name not in ("job.json", "recipes.parquet")
        }


def start(
    *arguments: str,
    program: Sequence[str] = ("-m", "recordmill"),
    cwd: pathlib.Path = ROOT,
    **environment: str,
) -> subprocess.Popen[str]:
    """Starts a command of recordmill, or what Python is told in its place."""
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=cwd, env=os.environ | environment, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=_PATIENCE)
    return Ended(process.returncode, out, err)


def command(*arguments: str, **environment: str) -> Ended:
    """Runs a command of recordmill to its end."""
    return ended(start(*arguments, **environment))


def run_program(program: str, *arguments: str) -> Ended:
    """Runs a Python program with the arguments of a recordmill command to its end."""
    return ended(start(*arguments, program=("-c", program)))


def finished(out: pathlib.Path) -> int:
    """How many shards an unfinished job has written."""
    return len(list(out.glob(f"{FOLDER}/*/info/*.json")))


def wait_for_shards(process: subprocess.Popen[str], out: pathlib.Path, number: int = 2) -> None:
    """Waits until a job is in the middle of writing."""

    def writing() -> bool:
        assert process.poll() is None, ended(process)
        return finished(out) >= number

    wait_until(writing, f"{number} finished shards")


def disturbed(
    job: Job, cluster: FlinkCluster, strike: Callable[[FlinkCluster], None], *, shards: int = 2
) -> int:
    """Strikes in the middle of writing, and returns the exit code of that run. The dataset is whole
    then: the job has survived it, or the same command has continued it.
    """
    process = job.start()
    wait_for_shards(process, pathlib.Path(job.output), shards)
    strike(cluster)
    code = ended(process).code
    if code != 0:
        cluster.wait_for_taskmanagers(len(cluster.taskmanagers))
        job.finish()
    return code


def kill_workers(_: FlinkCluster) -> None:
    """SIGKILL for all Python workers."""
    workers = list(processes("recordmill-worker"))
    assert workers
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def replace_taskmanager(cluster: FlinkCluster) -> None:
    """SIGKILL for one, and another is started."""
    kill(cluster.taskmanagers.pop())
    cluster.start_taskmanager()


def finish_both(
    cluster: FlinkCluster,
    folder: pathlib.Path,
    *options: str,
    source: pathlib.Path | str,
    kind: str = "images",
) -> tuple[Job, Job]:
    """Runs the same job by the local runner and on a cluster."""
    direct = Job(folder / "direct", *options, source=source, kind=kind)
    direct.finish_here()
    job = Job(folder / "flink", *options, source=source, kind=kind).on(cluster, "loopback")
    job.finish_here()
    return direct, job


def expect_the_same(job: Job, out: pathlib.Path, undisturbed: Job) -> None:
    """The dataset is whole, after as many runs of the command as it may take."""
    assert job.files == undisturbed.files
    assert not (out / FOLDER).exists()


def _last(flink: FlinkCluster) -> Mapping[str, Any]:
    jobs = flink.cluster._call("GET", "/v1/jobs/overview")["jobs"]
    found: Mapping[str, Any] = max(jobs, key=lambda job: job["start-time"])
    return found


def state_of_last(flink: FlinkCluster) -> str:
    return str(_last(flink)["state"])


def vertices_of_last(flink: FlinkCluster) -> list[Mapping[str, Any]]:
    """The vertices of the last job, as Flink's page shows them."""
    return list(flink.cluster._call("GET", f"/v1/jobs/{_last(flink)['jid']}")["vertices"])
