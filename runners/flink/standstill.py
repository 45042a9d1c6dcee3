"""Messages about a Flink job that makes no progress or restarts, by the state in Flink."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable
from typing import TypeVar

from recordmill.errors import ConfigError, DamageError, RunError
from recordmill.option_names import option_name
from recordmill.runners.failures import WORKER_ERROR_PREFIX, JobFailure, parse_failure
from recordmill.runners.flink.job_errors import failure_cause
from recordmill.runners.flink.rest import (
    Cluster,
    ClusterError,
    JobStatus,
    NoSuchJobError,
    UnreachableError,
)
from recordmill.runners.progress import JobView, duration

_NOTICE_SECONDS = 30.0  # time without progress after which it is explained
_AGAIN_SECONDS = 60.0  # interval of further explanations
_UNANSWERED_SECONDS = 15.0  # time without an answer of the cluster after which that is reported
_UNANSWERED_AGAIN_SECONDS = 25.0  # a request takes up to 30 s: so there is a line each minute
_ASK_SECONDS = 1.0  # interval of requests to a cluster that does not answer
_CAUSE_SECONDS = 4.0  # time after a restart until Flink's pages have its cause
_SILENT_SECONDS = 20.0  # time without a heartbeat; TaskManagers send one every 10 s
_LASTING_ERRORS = tuple(
    f"{kind.__module__}.{kind.__qualname__}" for kind in (ConfigError, DamageError, RunError)
)
_ACTIVE = ("RUNNING", "DEPLOYING", "INITIALIZING")


class GivenUpError(RunError):
    """A cluster has not answered for too long."""


class Silence:
    """Time without an answer of a cluster, and messages about it.

    seconds: time after which the cluster is given up. now: time of the last answer.
    """

    def __init__(self, notice: Callable[[str], None], *, seconds: float, now: float) -> None:
        self._notice = notice
        self._seconds = seconds
        self._answered = now
        self._next_notice = 0.0

    def answered(self, now: float) -> bool:
        """Record an answer, and return whether it ends a silence that was noticed."""
        is_long = now - self._answered >= _UNANSWERED_SECONDS
        self._answered = now
        self._next_notice = 0.0
        return is_long

    def unanswered(self, error: ClusterError, now: float) -> float:
        """Record a failed request, and return the time since the last answer.

        Raises:
          GivenUpError: the cluster has been unreachable for too long.
        """
        seconds = now - self._answered
        cause = error.cause if isinstance(error, UnreachableError) else str(error)
        if seconds > self._seconds and not isinstance(error, NoSuchJobError):
            raise GivenUpError(
                f"{cause}, for {duration(seconds)}. Run the same command again to follow its job,"
                " if that still runs, or to continue it;"
                f" {option_name('stall_timeout')} sets the limit"
            ) from error
        if seconds >= _UNANSWERED_SECONDS and now >= self._next_notice:
            self._next_notice = now + _UNANSWERED_AGAIN_SECONDS
            self._notice(
                f"no answer about the Flink job for {duration(seconds)}: {cause}; waiting up to"
                f" {duration(self._seconds)} for an answer"
            )
        return seconds


Answer = TypeVar("Answer")


def wait_for_answer(
    request: Callable[[], Answer], *, notice: Callable[[str], None], seconds: float
) -> Answer:
    """Return the result of a request, which is repeated while the cluster is unreachable.

    Raises:
      GivenUpError: the cluster has been unreachable for too long.
      ClusterError: the cluster has rejected the request.
    """
    silence = Silence(notice, seconds=seconds, now=time.monotonic())
    while True:
        try:
            return request()
        except UnreachableError as error:
            silence.unanswered(error, time.monotonic())
        time.sleep(_ASK_SECONDS)


class StandstillWatch:
    """Watches one job: reports lack of progress and restarts, and detects a stall.

    All times are seconds of one monotonic clock.

    cluster: where the job runs. managers: number of its TaskManagers when the job started.
    stall_seconds: time without progress after which the job has stalled. view: of the process that
    follows the job. pool: HOST:PORT of the worker pool on each machine, '' if there is none. now:
    time of the start.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        managers: int,
        stall_seconds: float,
        view: JobView,
        pool: str = "",
        now: float,
    ) -> None:
        self._cluster = cluster
        self._stall_seconds = stall_seconds
        self._view = view
        self._pool = pool
        self._activity: object = None
        self._managers = managers
        self._state = ""
        self._restarted: float | None = None
        self._repeated: str | None = None
        self._silence = Silence(view.notice, seconds=stall_seconds, now=now)
        self._changed = now
        self._next_notice = 0.0
        self._progressed(now)

    @property
    def repeated(self) -> str | None:
        """Stack trace of a permanent error.

        It has occurred again after a restart, or a worker or its pool refuses the job.
        """
        return self._repeated

    def idle_seconds(self, now: float) -> float:
        """Return the time since the last progress."""
        return now - self._changed

    def unanswered(self, error: ClusterError, now: float) -> float:
        """Record a failed request, and return the time since the last answer.

        Raises:
          GivenUpError: the cluster has been unreachable for too long.
        """
        return self._silence.unanswered(error, now)

    def answered(self, status: JobStatus, now: float) -> bool:
        """Record a status, and return whether the job has stalled."""
        if self._silence.answered(now):
            self._progressed(now)  # the job may have progressed meanwhile
        if status.state == "RESTARTING" and self._state != status.state:
            self._restarted = now
        self._state = status.state
        if self._restarted is not None and now - self._restarted >= _CAUSE_SECONDS:
            self._restarted = None
            self._explain_restart(status)
        current = (status.activity, self._view.activity())
        if current != self._activity:
            self._activity = current
            self._progressed(now)
        idle = self.idle_seconds(now)
        if idle > self._stall_seconds:
            return True
        if idle >= _NOTICE_SECONDS and now >= self._next_notice:
            self._next_notice = now + _AGAIN_SECONDS
            self._view.notice(f"no progress for {duration(idle)}: {self.reason(status)}")
        return False

    def reason(self, status: JobStatus) -> str:
        """Return the state of a job without progress, as Flink reports it, and what to do."""
        cluster = self._cluster
        try:
            free, total, managers = cluster.free_slots()
            silent = [
                f"{one.host} for {duration(one.silent)}"
                for one in cluster.task_managers(now=status.now)
                if one.silent >= _SILENT_SECONDS
            ]
            failure = self._last_failure(status)
            running = ", ".join(
                f"{host} ({number})" for host, number in cluster.running_on(status.id).items()
            )
        except ClusterError as error:
            return str(error)
        lost = self._managers - managers
        tasks = ", ".join(f"{n} {state.lower()}" for state, n in status.vertices.items())
        state = (
            f"Flink reports the job as {status.state.lower()} ({tasks or 'no'} tasks),"
            f" {free} of {total} slots free, {managers} TaskManager{'' if managers == 1 else 's'}"
        )
        if lost > 0:
            state += f", {lost} fewer than at the start"
        if silent:
            return (
                f"{state}; no heartbeat from the TaskManager at {', '.join(silent)}: check that"
                " machine and its network. Flink restarts its tasks elsewhere after"
                " heartbeat.timeout (50 s by default)"
            )
        waits = not any(status.vertices.get(one) for one in _ACTIVE)
        if not managers:
            return f"{state}: start a TaskManager"
        if waits and not free:
            return (
                f"{state}; it waits for slots: start a TaskManager, end other jobs, or lower"
                f" {option_name('parallelism')}"
            )
        if running:
            state += f"; tasks run on {running}"
        if unanswered := self._view.unanswered():
            return f"{state}; {unanswered}: check the store and its network"
        if failure:
            return f"{state}; the last failure was: {failure}"
        return (
            f"{state}; a step may take long, a worker may hang or wait for the store, or a"
            " TaskManager may have run out of memory: see the logs of the TaskManagers and"
            " worker pools"
        )

    def _last_failure(self, status: JobStatus) -> str:
        failures = self._cluster.failures(status.id)
        return failure_cause(failures[0], pool=self._pool) if failures else ""

    def _explain_restart(self, status: JobStatus) -> None:
        try:
            failures = self._cluster.failures(status.id)
        except ClusterError:
            return
        cause = failure_cause(failures[0], pool=self._pool) if failures else "Flink names no cause"
        self._view.notice(f"Flink restarts tasks of the job: {cause}")
        seen: set[str] = set()
        for one in failures:
            failure = parse_failure(one.text)
            if failure is None or not _stays(failure, one.text):
                continue
            if failure.refusal or str(failure) in seen:
                self._repeated = one.text
            seen.add(str(failure))

    def _progressed(self, now: float) -> None:
        self._changed = now
        self._next_notice = 0.0


def _stays(failure: JobFailure, text: str) -> bool:
    """Return whether an error is permanent: one of data, options or code, or a refusal."""
    if failure.refusal:
        return True
    if WORKER_ERROR_PREFIX not in text:
        return False
    if failure.kind in _LASTING_ERRORS:
        return True
    kind = getattr(builtins, failure.kind, None)
    return isinstance(kind, type) and not issubclass(kind, (OSError, EOFError, MemoryError))
