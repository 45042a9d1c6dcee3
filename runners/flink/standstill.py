"""Messages about a Flink job that makes no progress or restarts, by the state in Flink."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable

from recordmill.errors import ConfigError, DamageError, RunError
from recordmill.option_names import option_name
from recordmill.runners.failures import WORKER_ERROR_PREFIX, JobFailure, parse_failure
from recordmill.runners.flink.rest import Cluster, ClusterError, JobStatus
from recordmill.runners.progress import duration

_NOTICE_SECONDS = 30.0  # time without progress after which it is explained
_AGAIN_SECONDS = 60.0  # interval of further explanations
_UNANSWERED_SECONDS = 15.0  # time without an answer of the cluster after which that is reported
_CAUSE_SECONDS = 4.0  # time after a restart until Flink's pages have its cause
_SILENT_SECONDS = 20.0  # time without a heartbeat; TaskManagers send one every 10 s
_LASTING_ERRORS = tuple(
    f"{kind.__module__}.{kind.__qualname__}" for kind in (ConfigError, DamageError, RunError)
)
_ACTIVE = ("RUNNING", "DEPLOYING", "INITIALIZING")


class StandstillWatch:
    """Watches one job: reports lack of progress and restarts, and detects a stall.

    All times are seconds of one monotonic clock.

    cluster: where the job runs. managers: number of its TaskManagers when the job started.
    stall_seconds: time without progress after which the job has stalled. notice: called with each
    message. now: time of the start.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        managers: int,
        stall_seconds: float,
        notice: Callable[[str], None],
        now: float,
    ) -> None:
        self._cluster = cluster
        self._stall_seconds = stall_seconds
        self._notice = notice
        self._activity: object = None
        self._managers = managers
        self._state = ""
        self._restarted: float | None = None
        self._repeated: str | None = None
        self._changed = self._answered = now
        self._next_notice = self._next_unanswered = 0.0
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

    def unanswered_seconds(self, now: float) -> float:
        """Return the time since the last answer of the cluster."""
        return now - self._answered

    def unanswered(self, error: ClusterError, now: float) -> None:
        """Record a failed request."""
        seconds = self.unanswered_seconds(now)
        if seconds >= _UNANSWERED_SECONDS and now >= self._next_unanswered:
            self._next_unanswered = now + _AGAIN_SECONDS
            self._notice(f"no answer about the Flink job for {duration(seconds)}: {error}")

    def answered(self, status: JobStatus, activity: object, now: float) -> bool:
        """Record a status, and return whether the job has stalled.

        activity: changes as the job progresses, in addition to the status.
        """
        self._answered = now
        self._next_unanswered = 0.0
        if status.state == "RESTARTING" and self._state != status.state:
            self._restarted = now
        self._state = status.state
        if self._restarted is not None and now - self._restarted >= _CAUSE_SECONDS:
            self._restarted = None
            self._explain_restart(status)
        current = (status.activity, activity)
        if current != self._activity:
            self._activity = current
            self._progressed(now)
        idle = self.idle_seconds(now)
        if idle > self._stall_seconds:
            return True
        if idle >= _NOTICE_SECONDS and now >= self._next_notice:
            self._next_notice = now + _AGAIN_SECONDS
            self._notice(f"no progress for {duration(idle)}: {self.reason(status)}")
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
            failure = _last_failure(cluster, status)
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
        if failure:
            return f"{state}; the last failure was: {failure}"
        return (
            f"{state}; a step may take long, a worker may hang or wait for the store, or a"
            " TaskManager may have run out of memory: see the logs of TaskManagers and worker pools"
        )

    def _explain_restart(self, status: JobStatus) -> None:
        try:
            failures = self._cluster.failures(status.id)
            cause = _last_failure(self._cluster, status)
        except ClusterError:
            return
        self._notice(f"Flink restarts tasks of the job: {cause}")
        seen: set[str] = set()
        for text in failures:
            failure = parse_failure(text)
            if failure is None or not _stays(failure, text):
                continue
            if failure.refusal or str(failure) in seen:
                self._repeated = text
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


def _last_failure(cluster: Cluster, status: JobStatus) -> str:
    text = cluster.failure(status.id)
    failure = parse_failure(text)
    return re.sub(r"\s+", " ", str(failure)) if failure else (text.splitlines() or [""])[0]
