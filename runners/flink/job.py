"""A pipeline on Flink: submitted as a jar, followed to its end, cancelled when we are stopped.

Nothing here is tied to one version of Flink: the cluster is asked for its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from typing import IO, Any, get_args

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineResult, PipelineState

from recordmill.errors import ConfigError, RunError
from recordmill.runners.beam_options import QuickOptions
from recordmill.runners.failures import read_failure
from recordmill.runners.flink import environments
from recordmill.runners.flink.embedded import EmbeddedFlink, java
from recordmill.runners.flink.environments import Environment
from recordmill.runners.flink.jar import ENTRY, job_server_jar, write_jar
from recordmill.runners.flink.rest import TERMINAL, Cluster, ClusterError, JobStatus, NoSuchJobError
from recordmill.runners.workers import versions
from recordmill.runners.workers.pool import WorkerPool

_POLL_SECONDS = 0.5
_LOOK_SECONDS = 3.0  # how often Flink puts its vertices together anew; each time costs it some CPU
_SILENT_SECONDS = 60.0  # for which a cluster may not answer before we give it up
_CANCEL_SECONDS = 10.0
_NOWHERE = ("", "[local]", "[auto]")  # Beam's words for a Flink on this machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlinkOptions:
    """How to run on Flink.

    master: the cluster's REST address; None runs one here. parallelism: None takes all that is
    free. environment, environment_config: where the workers run, None what suits the cluster.
    stall_seconds: cancel a job in which nothing moves for so long. imports: modules that workers
    which are started here have ready. version: of Flink, where it is embedded. beam: Beam's own
    options, as flags; those that say the same as one of these win where these are None.

    Raises:
      ConfigError: ours and Beam's contradict each other.
    """

    master: str | None = None
    environment: Environment | None = None
    environment_config: str | None = None
    parallelism: int | None = None
    job_name: str = "recordmill"
    job_server_jar: str | None = None
    detach: bool = False
    stall_seconds: float = 900.0
    imports: Sequence[str] = ()
    version: str | None = None
    beam: Sequence[str] = ()

    def __post_init__(self) -> None:
        options = PipelineOptions(list(self.beam))
        flink = options.view_as(FlinkRunnerOptions)
        portable = options.view_as(PortableOptions)
        if portable.environment_options:
            raise ConfigError("--environment_options: use --environment-config")
        parallelism = flink.parallelism if flink.parallelism > 0 else None
        kind = portable.environment_type.lower() if portable.environment_type else None
        if kind not in (None, *get_args(Environment)):
            raise ConfigError(
                "--environment_type: expected external, process, docker or loopback, got"
                f" {portable.environment_type!r}"
            )
        setup = options.view_as(SetupOptions)
        for name in ("requirements_file", "setup_file", "extra_packages"):
            given = getattr(setup, name) or []
            for file in [given] if isinstance(given, str) else given:
                if "://" not in file and not os.path.isfile(file):
                    raise ConfigError(f"--{name.rstrip('s')}: there is no file {file!r}")
        object.__setattr__(self, "master", _url(self.master))
        self._settle("master", _url(flink.flink_master), option="flink-master")
        self._settle("environment", kind)
        self._settle("environment_config", portable.environment_config)
        self._settle("parallelism", parallelism)
        jar = flink.flink_job_server_jar
        self._settle("job_server_jar", jar, option="flink-job-server-jar")
        self._settle("version", flink.flink_version)

    def _settle(self, name: str, beams: Any, *, option: str = "") -> None:
        ours = getattr(self, name)
        if ours is None:
            object.__setattr__(self, name, beams)
        elif beams is not None and beams != ours:
            raise ConfigError(
                f"--{option or name.replace('_', '-')} {ours} contradicts Beam's option of the same"
                f" meaning, {beams}: leave one out"
            )


def _url(master: str | None) -> str | None:
    """Of a cluster; None where it is one of Beam's words for none."""
    return None if master is None or master in _NOWHERE else Cluster.parse(master).url


class FlinkJob:
    """One job, from its submission to its end. Made before any work starts.

    id: under which Flink knows it; set here for a cluster, by Flink where it is embedded.

    Raises:
      ConfigError: the options, the cluster and this machine do not fit together.
    """

    def __init__(self, options: FlinkOptions, *, workers: int) -> None:
        self._options = options
        self._cluster = Cluster.parse(options.master) if options.master else None
        if options.detach and self._cluster is None:
            raise ConfigError("--detach needs a cluster that goes on without us: --flink-master")
        self.id = uuid.uuid4().hex
        self._environment = environments.choose(
            options.environment,
            cluster=self._cluster,
            detach=options.detach,
            config=options.environment_config,
        )
        assert options.version is not None, "Beam has a default"
        version, slots = options.version, workers
        if self._cluster is not None:
            try:
                version = self._cluster.version()
                free, slots, _ = self._cluster.free_slots()
            except ClusterError as error:
                raise ConfigError(str(error)) from error
            slots = free or slots or 1
        else:
            java()
        self._parallelism = options.parallelism or slots
        self._jar = job_server_jar(options.job_server_jar, flink_version=version)
        self._embedded: EmbeddedFlink | None = None
        self._pool: WorkerPool | None = None
        self._folder: str | None = None
        self._status: JobStatus | None = None
        self._looked = 0.0  # when the status was asked for
        self._submitted = False

    @property
    def url(self) -> str:
        """Of the cluster; '' where Flink is embedded."""
        return "" if self._cluster is None else self._cluster.url

    def run(
        self, build: Callable[[beam.Pipeline], None], *, moved: Callable[[], object] = lambda: None
    ) -> None:
        """Runs a pipeline to its end, or, to be detached, until the cluster has it.

        moved: whatever changes as the job goes on, beside what Flink itself can see.

        Raises:
          RunError: the job failed, was cancelled by somebody, or stalled.
        """
        self._folder = tempfile.mkdtemp(prefix="recordmill-flink-")
        try:
            with open(os.path.join(self._folder, "workers.log"), "ab") as log:
                self._run(build, moved, log)
        finally:
            self._clear()

    def cancel(self) -> None:
        """Ends the job, for a signal handler that ends this process right after."""
        if self._pool is not None:
            self._pool.kill()
        if self._embedded is not None:
            self._embedded.kill()
        elif self._cluster is not None and self._submitted:
            # The cluster may be about to take it: what it does not know yet comes.
            for _ in range(10):
                with contextlib.suppress(ClusterError):
                    cancel(self._cluster, self.id)
                    break
                time.sleep(_POLL_SECONDS)
        self._clear()

    def waiting(self) -> str | None:
        """What the job waits for before it runs; None once it does."""
        status = self._status
        if status is None:
            return "starting Flink" if self._cluster is None else "submitting"
        if status.state == "RUNNING" and not status.vertices.get("RUNNING"):
            return "waiting for slots" if status.vertices.get("SCHEDULED") else None
        return None if status.state == "RUNNING" else status.state.lower()

    def _run(
        self, build: Callable[[beam.Pipeline], None], moved: Callable[[], object], log: IO[bytes]
    ) -> None:
        assert self._folder is not None
        options = self._options
        with environments.serving(
            self._environment,
            config=options.environment_config,
            imports=options.imports,
            log=log,
        ) as (kind, config, self._pool):
            beam_options = _beam_options(
                options,
                embedded=self._cluster is None,
                environment=(kind, config),
                parallelism=self._parallelism,
            )
            jar = os.path.join(self._folder, "job.jar")
            write_jar(
                jar,
                job_server=self._jar,
                pipeline=_proto(build, beam_options, folder=self._folder),
                options=beam_options.get_all_options()
                | {versions.OPTION: versions.to_option(versions.ours())},
            )
            if self._cluster is None:
                self._embedded = EmbeddedFlink(self._folder, parallelism=self._parallelism)
                self._embedded.start(jar)
                self._follow(self._embedded.cluster, moved)
                return
            self._submit(self._cluster, jar)
            if not options.detach:
                self._follow(self._cluster, moved)

    def _submit(self, cluster: Cluster, jar: str) -> None:
        uploaded = cluster.upload(jar)
        os.unlink(jar)
        self._submitted = True
        try:
            cluster.run_jar(uploaded, ENTRY, self.id)
            self._status = cluster.status(self.id)
        finally:
            # The job has a copy of its own.
            with contextlib.suppress(ClusterError):
                cluster.delete_jar(uploaded)

    def _follow(self, cluster: Cluster, moved: Callable[[], object]) -> None:
        last: object = None
        since = answered = time.monotonic()
        while True:
            time.sleep(_POLL_SECONDS)
            if self._embedded is not None and self._embedded.exit_code() is not None:
                self._ended_here(self._embedded)
                return
            now = time.monotonic()
            try:
                self._look(cluster)
                answered = now
            except ClusterError:
                # One that is embedded answers late and ends early; its process tells.
                if self._embedded is None and now - answered > _SILENT_SECONDS:
                    raise
                continue
            status = self._status
            if status is None:
                continue
            if status.ended and self._embedded is None:
                _ended(cluster, status)
                return
            mark = (status.moved, moved())
            if mark != last:
                last, since = mark, now
            elif now - since > self._options.stall_seconds:
                self._stalled(cluster, status)

    def _look(self, cluster: Cluster) -> None:
        if self._embedded is not None and self._status is None:
            jobs = cluster.jobs()
            if not jobs:
                return
            self.id = jobs[0]
        now = time.monotonic()
        known = self._status is not None and now - self._looked < _LOOK_SECONDS
        if not known or cluster.state(self.id) in TERMINAL:
            self._status, self._looked = cluster.status(self.id), now

    def _ended_here(self, embedded: EmbeddedFlink) -> None:
        if embedded.exit_code() == 0:
            return
        raise _failed(embedded.log(), where="the log of Flink")

    def _stalled(self, cluster: Cluster, status: JobStatus) -> None:
        """Cancels a job that has stopped moving, and says what is known of the reason."""
        why = _why_stalled(cluster, status)
        if self._embedded is None:
            with contextlib.suppress(ClusterError):
                cancel(cluster, self.id)
        raise RunError(
            f"nothing has moved in the Flink job {self.id} for"
            f" {self._options.stall_seconds:g} s, so it was cancelled: {why}. The same command"
            " continues it; --stall-timeout says how long to wait"
        )

    def _clear(self) -> None:
        if self._embedded is not None:
            self._embedded.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def cancel(cluster: Cluster, job: str) -> JobStatus:
    """Cancels a job and waits until it has ended. One that has ended stays as it is.

    Raises:
      NoSuchJobError: the cluster does not know it.
      RunError: it is still there after a while.
    """
    try:
        cluster.cancel(job)
    except NoSuchJobError:
        raise
    except ClusterError:  # it may have ended already, which Flink takes for a conflict
        if not cluster.status(job).ended:
            raise
    deadline = time.monotonic() + _CANCEL_SECONDS
    while not (status := cluster.status(job)).ended:
        if time.monotonic() > deadline:
            raise RunError(
                f"the Flink job {job} is still {status.state} {_CANCEL_SECONDS:g} s after it was"
                " told to end"
            )
        time.sleep(0.2)
    return status


def is_running(url: str, job: str) -> bool:
    """Whether a cluster still works on a job. Raises ClusterError where it does not answer."""
    try:
        return not Cluster(url).status(job).ended
    except NoSuchJobError:
        return False


def cause_of(cluster: Cluster, job: str) -> str:
    """Why a job failed, in the words of what failed it; '' where nothing did."""
    text = cluster.failure(job)
    failure = read_failure(text)
    return "" if not text else str(failure) if failure else text.splitlines()[0]


class _Capture(PortableRunner):
    """Takes the pipeline as Beam would hand it to a job server."""

    proto: Any = None

    def run_portable_pipeline(self, pipeline: Any, options: PipelineOptions) -> PipelineResult:
        self.proto = self._optimize_pipeline(pipeline, options)
        return PipelineResult(PipelineState.DONE)


def _proto(build: Callable[[beam.Pipeline], None], options: PipelineOptions, *, folder: str) -> Any:
    runner = _Capture()
    before = tempfile.tempdir
    tempfile.tempdir = folder  # Beam makes folders here and there, and leaves them
    try:
        pipeline = beam.Pipeline(runner=runner, options=options)
        build(pipeline)
        pipeline.run()
    finally:
        tempfile.tempdir = before
    return runner.proto


def _beam_options(
    options: FlinkOptions, *, embedded: bool, environment: tuple[str, str], parallelism: int
) -> PipelineOptions:
    found = PipelineOptions(list(options.beam))
    flink, portable = found.view_as(FlinkRunnerOptions), found.view_as(PortableOptions)
    # A job in a jar runs where it is started; a cluster must not be looked for from there.
    flink.flink_master = "[local]" if embedded else "[auto]"
    flink.parallelism = parallelism
    portable.environment_type, portable.environment_config = environment
    # The class of a runner means nothing to Java.
    found.view_as(StandardOptions).runner = None
    given = found.get_all_options(drop_default=True)
    return QuickOptions.from_dictionary(given | {"job_name": options.job_name})


def _ended(cluster: Cluster, status: JobStatus) -> None:
    if status.state == "FINISHED":
        return
    if status.state == "CANCELED":
        raise RunError(
            f"somebody cancelled the Flink job {status.id}; the same command continues it"
        )
    raise _failed(cluster.failure(status.id), where=f"the Flink job {status.id}")


def _failed(text: str, *, where: str) -> RunError:
    failure = read_failure(text)
    if failure is None:
        lines = [line for line in text.splitlines() if line.strip()]
        said = lines[-1].strip() if lines else "it says nothing"
        return RunError(f"{where} ends with: {said}; the same command continues it")
    if failure.kind.startswith("recordmill."):  # ours, made to be read
        return RunError(failure.message)
    if failure.traceback:
        # A bug, whoever's: all that Python has said of it, and none of the Java around it.
        print(failure.traceback, file=sys.stderr)
        return RunError(str(failure))
    return RunError(f"{failure}; the same command continues the job")


def _why_stalled(cluster: Cluster, status: JobStatus) -> str:
    try:
        free, total, managers = cluster.free_slots()
        failure = read_failure(cluster.failure(status.id))
    except ClusterError as error:
        return str(error)
    if not free and not status.vertices.get("RUNNING"):
        return (
            f"it waits for slots, and none of the {total} slots of {managers} TaskManagers is"
            " free; start more, or ask for less with --parallelism"
        )
    if failure is not None:
        return f"its last failure was {failure}"
    counts = ", ".join(f"{n} {state.lower()}" for state, n in status.vertices.items())
    return (
        f"of its tasks are {counts}; that is a worker that hangs, or a TaskManager without memory"
    )
