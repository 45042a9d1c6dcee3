"""Run a pipeline on Flink: submit it as a jar, follow the job, and cancel it when stopped.

Nothing here depends on one version of Flink; the version is requested from the cluster.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

import apache_beam as beam

from recordmill.errors import ConfigError, RunError
from recordmill.option_names import option_name
from recordmill.runners import beam_patches
from recordmill.runners.flink import resource_detector
from recordmill.runners.flink.embedded import EmbeddedFlink, find_java
from recordmill.runners.flink.environments import add_secret, choose_environment, serve_environment
from recordmill.runners.flink.jar import (
    ENTRY_CLASS,
    find_job_server_jar,
    has_files,
    library_name,
    missing_library,
    write_job_jar,
)
from recordmill.runners.flink.job_errors import (
    LostJobError,
    check_end,
    job_error,
    left_out_error,
)
from recordmill.runners.flink.options import FlinkOptions
from recordmill.runners.flink.pipeline_proto import beam_options_of, pipeline_proto
from recordmill.runners.flink.rest import (
    Cluster,
    ClusterError,
    JobStatus,
    NoSuchJobError,
    RejectedError,
    UnreachableError,
)
from recordmill.runners.flink.standstill import (
    Answer,
    StandstillWatch,
    wait_for_answer,
)
from recordmill.runners.progress import JobView
from recordmill.runners.secret_files import read_secret
from recordmill.runners.workers import peers, start_check, versions
from recordmill.runners.workers.pool import PORT, WorkerPool
from recordmill.runners.workers.start_check import StartCheck

_POLL_SECONDS = 0.5  # longest interval of requests for the state of a job
_FIRST_POLL_SECONDS = 0.05
_WORKING_POLL_SECONDS = 0.2  # shortest interval while the job cannot end yet
_POLL_FRACTION = 0.01  # of the time since the start: a short job ends soon after its last task
# Interval of full status requests, which are made only while the staging folder shows no progress:
# the JobManager then collects the metrics of all tasks.
_STATUS_SECONDS = 3.0
_NO_RESTARTS = (
    "the cluster does not restart tasks, so the job fails if it loses a worker or a TaskManager:"
    " set restart-strategy.type: fixed-delay in its configuration (see docs/flink.md)"
)
_DUPLICATE = "already been submitted"  # in Flink's answer to a second job of the same id
_UNKNOWN_SECONDS = 10.0  # time for which a cluster may not know a job that it has accepted


class FlinkJob:
    """One job, from submission to end. The constructor checks the options but starts nothing.

    view: of the process that follows the job. earlier: URL of the cluster with the job of an
      earlier command, or ''; the constructor waits for this cluster if it does not answer.
    id: Flink's id of the job. It is chosen here for a cluster, and by Flink if that is embedded.

    Raises:
      ConfigError: the options do not fit the cluster or this machine.
      RunError: the cluster or the worker pool of this machine does not answer; or the cluster of
        an earlier command has not answered within `stall_seconds` (`GivenUpError`).
    """

    def __init__(
        self,
        options: FlinkOptions,
        *,
        workers: int,
        view: JobView | None = None,
        earlier: str = "",
    ) -> None:
        self._options = options
        self._view = view or JobView()
        self._cluster = options.cluster
        if options.detach and self._cluster is None:
            raise ConfigError(
                f"{option_name('detach')} needs a cluster that keeps running after this command:"
                f" {option_name('flink_master')}"
            )
        if options.retries and (options.detach or self._cluster is None):
            reason = option_name("flink_master") if self._cluster is None else option_name("detach")
            without = "without" if self._cluster is None else "with"
            raise ConfigError(f"{option_name('retries')} has no effect {without} {reason}")
        self.id = uuid.uuid4().hex
        self._environment = choose_environment(
            options.environment,
            cluster=self._cluster,
            detach=options.detach,
            config=options.environment_config,
        )
        self._secret = peers.new_secret()
        if options.worker_secret_file is not None:
            self._secret = read_secret(
                options.worker_secret_file, option=option_name("worker_secret_file")
            )
        assert options.version is not None, "Beam has a default"
        version = options.version
        if self._cluster is not None:
            try:
                if self._cluster.url == earlier:
                    self._when_answered(self._cluster.version)
                version = self._cluster.version()
            except UnreachableError:
                raise
            except ClusterError as error:
                raise ConfigError(str(error)) from error
        else:
            find_java()
        self._workers, self._managers = workers, 1
        self._jar = find_job_server_jar(
            options.job_server_jar, flink_version=version, sha256=options.job_server_sha256
        )
        self._has_library = False
        # The job server is hashed, which takes 0.03 s, while the input is listed.
        self._library: Future[tuple[str, frozenset[str] | None]] | None = None
        if self._cluster is not None and not options.whole_jar:
            thread = ThreadPoolExecutor(1)
            class_path = self._cluster.class_path
            self._library = thread.submit(lambda: (library_name(self._jar), class_path()))
            thread.shutdown(wait=False)
        self._embedded: EmbeddedFlink | None = None
        self._pool: WorkerPool | None = None
        self._folder: str | None = None
        self._status: JobStatus | None = None
        self._status_time = 0.0
        self._submitted = self._accepted = False

    @property
    def url(self) -> str:
        """URL of the cluster; '' if Flink is embedded."""
        return self._cluster.url if self._cluster else ""

    @property
    def _pool_address(self) -> str:
        """HOST:PORT of the worker pool on each machine; '' if there is none."""
        given = self._options.environment_config
        return given or f"localhost:{PORT}" if self._environment == "external" else ""

    @property
    def is_private(self) -> bool:
        """True if all workers are processes of this user."""
        return self._cluster is None and self._environment in ("loopback", "process")

    @property
    def needs_command(self) -> bool:
        """True if the workers are processes of this command, and end with it."""
        return self._environment == "loopback"

    @property
    def has_ended(self) -> bool:
        """True if the job certainly does not run, and can no longer start."""
        if self._cluster is None or not self._submitted:
            return True
        try:
            return self._cluster.status(self.id).ended
        except NoSuchJobError:
            return self._accepted
        except ClusterError:
            return False

    def note(self) -> str | None:
        """Return a note on the cluster, which lacks the library of the job server; else None."""
        if self._library is None:
            return None
        name, jars = self._library.result()
        if jars is None or name in jars:
            return None
        return missing_library(name, jars, url=self.url)

    def is_running(self, job: str, *, accepted: bool = True) -> bool:
        """Return whether the cluster still works on a job of an earlier command.

        accepted: whether the cluster has accepted the job. Otherwise, if it does not know the job,
          the submission may still be in progress, so that this job takes the same id: Flink accepts
          one of the two.

        Raises:
          RunError: the cluster does not answer.
        """
        cluster = self._cluster
        if cluster is None:
            return False
        try:
            return not self._when_answered(lambda: cluster.status(job)).ended
        except NoSuchJobError:
            if not accepted:
                self.id = job
            return False

    def cancel_other(self, job: str) -> None:
        """Cancel a job of an earlier command, and wait for its end. Raises RunError."""
        if self._cluster is not None:
            with contextlib.suppress(NoSuchJobError):
                self._cluster.cancel(job)

    def run(
        self,
        build: Callable[[beam.Pipeline], None],
        *,
        on_submit: Callable[[bool], None] = lambda accepted: None,
        check: tuple[StartCheck, Mapping[str, str]] | None = None,
    ) -> None:
        """Run a pipeline to its end or, if it is to be detached, until the cluster has accepted it.

        on_submit: called with False before the job is submitted to a cluster, under the id that it
          has then, and with True when the cluster has accepted it.
        check: called by each worker before it works, with its argument.

        Raises:
          ConfigError: the workers cannot run this job.
          RunError: a pool is missing, or the job failed, stalled, or was cancelled by someone else.
        """
        beam_patches.apply_patches()
        if self._submitted:  # a job that this one has followed
            self._forget_job()
        self._folder = tempfile.mkdtemp(prefix="recordmill-flink-")
        try:
            with open(os.path.join(self._folder, "workers.log"), "ab") as log:
                self._run(build, on_submit, check, log)
        finally:
            self._clean_up()

    def follow(self, job: str) -> None:
        """Follow a job of an earlier command to its end, as `run` does, instead of starting one.

        Raises:
          RunError: as `run`.
        """
        assert self._cluster is not None, "an embedded Flink ends with its command"
        self.id, self._submitted, self._accepted = job, True, True
        self._count_slots()
        self._follow(self._cluster)

    def cancel(self) -> None:
        """Cancel the job; for a signal handler that ends this process right afterwards."""
        if self._pool is not None:
            self._pool.kill()
        if self._embedded is not None:
            self._embedded.kill()
        elif self._cluster is not None and self._submitted:
            # The request to run the jar may still be in progress: retry until the job is known.
            for _ in range(10):
                with contextlib.suppress(ClusterError):
                    self._cluster.cancel(self.id)
                    break
                time.sleep(_POLL_SECONDS)
        self._clean_up()

    def waiting(self) -> str | None:
        """Return what the job waits for, or None once it runs."""
        status = self._status
        if status is None:
            return "starting Flink" if self._cluster is None else "submitting"
        if status.state == "RUNNING" and not status.vertices.get("RUNNING"):
            return "waiting for slots" if status.vertices.get("SCHEDULED") else None
        return None if status.state == "RUNNING" else status.state.lower()

    def _run(
        self,
        build: Callable[[beam.Pipeline], None],
        on_submit: Callable[[bool], None],
        check: tuple[StartCheck, Mapping[str, str]] | None,
        log: IO[bytes],
    ) -> None:
        assert self._folder is not None
        options = self._options
        parallelism = self._count_slots()
        with serve_environment(
            self._environment,
            config=options.environment_config,
            secret=self._secret,
            imports=options.imports,
            log=log,
        ) as (kind, config, self._pool):
            beam_options = beam_options_of(
                options,
                embedded=self._cluster is None,
                environment=(kind, config),
                parallelism=parallelism,
            )
            pipeline = pipeline_proto(build, beam_options, folder=self._folder)
            add_secret(pipeline, self._secret, job=self.id)
            # Beam reads shipped files with the loader of its own classes, so they share a jar.
            name, jars = ("", None) if self._library is None else self._library.result()
            self._has_library = jars is not None and name in jars and not has_files(pipeline)
            jar = os.path.join(self._folder, "job.jar")
            given, classes = resource_detector.for_job_server(self._jar)
            given[versions.OPTION] = versions.to_option(versions.installed())
            if check is not None:
                given[start_check.OPTION] = start_check.to_option(*check)
            write_job_jar(
                jar,
                job_server=None if self._cluster is None else self._jar,
                pipeline=pipeline,
                # Without defaults: Flink decodes the options twice or more for each task.
                options=beam_options.get_all_options(drop_default=True) | given,
                whole=options.whole_jar,
                has_library=self._has_library,
                classes=classes,
            )
            if self._cluster is None:
                self._embedded = EmbeddedFlink(self._folder, parallelism=parallelism)
                self._embedded.start(jar, job_server=self._jar)
                self._follow(self._embedded.cluster)
                return
            with contextlib.suppress(ClusterError):
                if not self._cluster.restarts_tasks():
                    self._view.notice(_NO_RESTARTS)
            for retry in range(1, options.retries + 2):
                self._submit(self._cluster, jar, on_submit)
                if options.detach:
                    return
                try:
                    self._follow(self._cluster)
                    return
                except LostJobError as error:
                    if retry > options.retries:
                        raise
                    again = f"submitting it again ({retry} of {options.retries})"
                    self._view.notice(f"{error.cause}; {again}")
                    self._forget_job()

    def _forget_job(self) -> None:
        """Prepare for another job."""
        self.id, self._submitted, self._accepted = uuid.uuid4().hex, False, False
        self._status = None

    def _when_answered(self, request: Callable[[], Answer]) -> Answer:
        return wait_for_answer(
            request, notice=self._view.notice, seconds=self._options.stall_seconds
        )

    def _count_slots(self) -> int:
        """Return the number of task slots of the job.

        They are counted late: when a JobManager is restarted, its TaskManagers come back after it.
        """
        if self._cluster is None:
            return self._options.parallelism or self._workers
        free, slots, self._managers = self._when_answered(self._cluster.free_slots)
        return self._options.parallelism or free or slots or 1

    def _submit(self, cluster: Cluster, jar: str, on_submit: Callable[[bool], None]) -> None:
        def submit() -> None:
            uploaded = cluster.upload(jar)
            on_submit(False)
            self._submitted = True
            try:
                cluster.run_jar(uploaded, ENTRY_CLASS, self.id)
            except RejectedError as error:
                # A job with the id of an earlier submission, which the cluster has accepted first.
                if _DUPLICATE not in str(error) or not cluster.is_running(self.id):
                    self._submitted = False
                    raise
            finally:
                # The job has its own copy.
                with contextlib.suppress(ClusterError):
                    cluster.delete_jar(uploaded)

        try:
            # A JobManager that was restarted has lost the jar, and maybe the job.
            self._when_answered(submit)
        except ClusterError as error:
            left_out = left_out_error(str(error), has_library=self._has_library)
            if left_out is None:
                raise
            raise left_out from error
        self._accepted = True
        on_submit(True)

    def _follow(self, cluster: Cluster) -> None:
        """Follow the job to its end."""
        start = time.monotonic()
        watch = StandstillWatch(
            cluster,
            managers=self._managers,
            stall_seconds=self._options.stall_seconds,
            view=self._view,
            pool=self._pool_address,
            now=start,
        )
        while True:
            is_working = self._view.is_working()
            time.sleep(_poll_seconds(time.monotonic() - start, is_working=is_working))
            if self._embedded is not None and self._embedded.exit_code() is not None:
                self._check_embedded_exit(self._embedded)
                return
            now = time.monotonic()
            try:
                self._update_status(cluster, idle_seconds=watch.idle_seconds(now))
                status = self._status
                if status is not None and status.ended and self._embedded is None:
                    check_end(
                        cluster,
                        status,
                        has_library=self._has_library,
                        pool=self._pool_address,
                    )
                    return
            except ClusterError as error:
                # An embedded Flink answers late and ends early; its exit code is reliable.
                if self._embedded is None:
                    self._check_known(error, watch.unanswered(error, time.monotonic()))
                continue
            if status is None:
                continue
            if watch.answered(status, now):
                self._fail_stalled(cluster, watch.reason(status))
            if watch.repeated is not None and self._embedded is None:
                with contextlib.suppress(RunError):
                    cluster.cancel(self.id)
                raise job_error(
                    watch.repeated,
                    source=f"the Flink job {self.id}",
                    has_library=self._has_library,
                )

    def _update_status(self, cluster: Cluster, *, idle_seconds: float) -> None:
        """Update the state of the job, and its details after a while without activity."""
        if self._embedded is not None and self._status is None:
            jobs = cluster.jobs()
            if not jobs:
                return
            self.id = jobs[0]
        now = time.monotonic()
        idle_seconds = min(idle_seconds, now - self._status_time)
        if self._status is None or idle_seconds >= _STATUS_SECONDS:
            self._status, self._status_time = cluster.status(self.id), now
        else:
            self._status = cluster.with_current_state(self._status)

    def _check_embedded_exit(self, embedded: EmbeddedFlink) -> None:
        if embedded.exit_code() != 0:
            raise job_error(embedded.log(), source="the log of Flink")

    def _check_known(self, error: ClusterError, seconds: float) -> None:
        """Raise LostJobError if the cluster has not known the job for too long."""
        if isinstance(error, NoSuchJobError) and seconds > _UNKNOWN_SECONDS:
            raise LostJobError(
                f"{error} any more, probably because its JobManager was restarted without high"
                " availability"
            )

    def _fail_stalled(self, cluster: Cluster, reason: str) -> None:
        """Cancel a stalled job and raise RunError with the likely reason."""
        stalled = f"the Flink job {self.id} made no progress for {self._options.stall_seconds:g} s"
        if self._embedded is None:
            try:
                cluster.cancel(self.id)
            except NoSuchJobError:
                pass
            except RunError as error:
                raise RunError(f"{stalled}, and was not cancelled: {error}. {reason}") from error
        raise LostJobError(
            f"{stalled} and was cancelled: {reason}",
            f"; {option_name('stall_timeout')} sets the limit",
        )

    def _clean_up(self) -> None:
        if self._embedded is not None:
            self._embedded.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _poll_seconds(elapsed: float, *, is_working: bool) -> float:
    first = _WORKING_POLL_SECONDS if is_working else _FIRST_POLL_SECONDS
    return min(_POLL_SECONDS, max(first, _POLL_FRACTION * elapsed))
