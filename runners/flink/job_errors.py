"""Errors of failed Flink jobs, as messages for the user."""

from __future__ import annotations

import re
import sys

from recordmill.errors import ConfigError, RunError
from recordmill.option_names import option_name
from recordmill.runners.failures import JobFailure, parse_failure
from recordmill.runners.flink.jar import find_left_out
from recordmill.runners.flink.rest import Cluster, JobStatus, TaskFailure

# Of gRPC in Java: a worker has ended, or its pool does not answer.
_WORKER_ENDED = "StatusRuntimeException"
_NO_CONNECTION = re.compile(r"Connection refused|[Cc]onnection timed out|No route to host")

# Flink's errors on a TaskManager without heartbeats, or without connection to another one.
_LOST_MANAGER = re.compile(
    r"TaskManager with id (\S+?)(?::\d+-[0-9a-f]+)? (?:is no longer reachable|timed out)"
    r"|remote task manager '([^'/\s]+?)[/:]"
)
_NO_ANSWER = re.compile(r"([^\s/:]+)/[0-9a-f.:]+:(\d+)\Z")  # NAME/ADDRESS:PORT
_GOES_ON = "its tasks continue when it is back, or in free slots of other TaskManagers"


class LostJobError(RunError):
    """The job failed because of the cluster; it may succeed if it is submitted again."""

    def __init__(self, cause: str, advice: str = "") -> None:
        super().__init__(f"{cause}; run the same command again to continue{advice}")
        self.cause = cause


def check_end(cluster: Cluster, status: JobStatus, *, has_library: bool, pool: str) -> None:
    """Raise RunError or ConfigError unless the job has finished successfully.

    pool: as in `job_error`.
    """
    if status.state == "FINISHED":
        return
    if status.state == "CANCELED":
        raise RunError(
            f"the Flink job {status.id} was cancelled; run the same command again to continue"
        )
    raise job_error(
        cluster.failure(status.id),
        source=f"the Flink job {status.id}",
        has_library=has_library,
        pool=pool,
        machine=cluster.failed_machine(status.id),
    )


def failure_cause(failure: TaskFailure, *, pool: str) -> str:
    """Return the cause of a failure in one line, with the machine if Flink names it.

    pool: as in `job_error`.
    """
    parsed = parse_failure(failure.text)
    if parsed is None:
        return (failure.text.splitlines() or [""])[0]
    error = _pool_error(parsed, pool, failure.machine) if pool else None
    if error is not None:
        return error.cause
    lost = _cluster_cause(parsed)
    at = f" (on {failure.machine})" if failure.machine else ""
    return re.sub(r"\s+", " ", f"{parsed}{at}" if lost is None else f"{lost}{at}: {_GOES_ON}")


def _cluster_cause(failure: JobFailure) -> str | None:
    """Return a clause on the machine of the cluster that Flink has lost, or None."""
    if lost := _LOST_MANAGER.search(failure.message):
        return f"the TaskManager at {lost[1] or lost[2]} no longer answers"
    place = _NO_ANSWER.search(failure.message)
    if place is not None and _NO_CONNECTION.search(failure.message):
        return f"nothing answers at {place[1]}:{place[2]}, where a TaskManager or a worker ran"
    return None


def job_error(
    text: str, *, source: str, has_library: bool = False, pool: str = "", machine: str = ""
) -> RunError | ConfigError:
    """Return the error of a failed job.

    text: stack traces. source: where they come from. has_library: whether the job's jar lacks the
    classes of the library. pool: HOST:PORT of the worker pool on each machine, '' if there is none.
    machine: host name of the TaskManager that failed, '' if it is not to be named.
    """
    left_out = left_out_error(text, has_library=has_library)
    if left_out is not None:
        return left_out
    failure = parse_failure(text)
    if failure is None:
        lines = [line for line in text.splitlines() if line.strip()]
        last = lines[-1].strip() if lines else "no output"
        return RunError(f"{source} ends with: {last}; run the same command again to continue")
    if failure.refusal:
        return ConfigError(failure.message)
    if pool and (error := _pool_error(failure, pool, machine)) is not None:
        return error
    if failure.kind == f"{ConfigError.__module__}.{ConfigError.__qualname__}":
        return ConfigError(failure.message)
    if failure.kind.startswith("recordmill."):  # our own errors have messages for users
        return RunError(f"on {machine}: {failure.message}" if machine else failure.message)
    if failure.traceback:
        # A bug: show Python's traceback without the Java stack trace around it.
        print(failure.traceback, file=sys.stderr)
        return RunError(str(failure))
    return LostJobError(_cluster_cause(failure) or str(failure))


def _pool_error(failure: JobFailure, pool: str, machine: str) -> LostJobError | None:
    """Return the error of a worker pool that is missing or has ended, or None."""
    where = machine or "the machine of a TaskManager"
    port = pool.rpartition(":")[2]
    start = f"start it there with recordmill worker-pool --port {port}"
    if _NO_CONNECTION.search(failure.message) and failure.message.endswith(f":{port}"):
        return LostJobError(
            f"no worker pool: nothing answers at {pool} on {where}: {start}, or give its address as"
            f" {option_name('environment_config')}"
        )
    if failure.kind.endswith(_WORKER_ENDED):
        return LostJobError(
            f"the Python worker on {where} has ended, or its worker pool at {pool} has",
            f"; if the pool does not run, {start}; its log says more",
        )
    return None


def left_out_error(text: str, *, has_library: bool) -> RunError | None:
    name = find_left_out(text, has_library=has_library)
    if name is None:
        return None
    if has_library:
        return RunError(
            f"the job needs the class {name} of Beam's job server, and not every TaskManager has"
            " it: copy the jar of recordmill flink-library from the lib folder of the JobManager to"
            f" that of every TaskManager and restart them, or add {option_name('flink_whole_jar')};"
            " then run the same command again to continue"
        )
    return RunError(
        f"the job needs the class {name} of Beam's job server, which was left out of the job's jar:"
        f" add {option_name('flink_whole_jar')} and run the same command again to continue"
    )
