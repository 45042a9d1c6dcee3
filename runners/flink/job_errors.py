"""Errors of Flink jobs that have failed, for those who run the command."""

from __future__ import annotations

import sys

from recordmill.errors import ConfigError, RunError
from recordmill.option_names import option_name
from recordmill.runners.failures import parse_failure
from recordmill.runners.flink.jar import find_left_out
from recordmill.runners.flink.rest import Cluster, JobStatus


class LostJobError(RunError):
    """The job has ended for a reason of the cluster, so that another one may succeed."""

    def __init__(self, cause: str, advice: str = "") -> None:
        super().__init__(f"{cause}; run the same command again to continue{advice}")
        self.cause = cause


def check_end(cluster: Cluster, status: JobStatus, *, has_library: bool) -> None:
    """Raise RunError unless the job has finished successfully."""
    if status.state == "FINISHED":
        return
    if status.state == "CANCELED":
        raise RunError(
            f"the Flink job {status.id} was cancelled; run the same command again to continue"
        )
    raise job_error(
        cluster.failure(status.id), source=f"the Flink job {status.id}", has_library=has_library
    )


def job_error(text: str, *, source: str, has_library: bool = False) -> RunError | ConfigError:
    left_out = left_out_error(text, has_library=has_library)
    if left_out is not None:
        return left_out
    failure = parse_failure(text)
    if failure is None:
        lines = [line for line in text.splitlines() if line.strip()]
        last = lines[-1].strip() if lines else "no output"
        return RunError(f"{source} ends with: {last}; run the same command again to continue")
    if failure.kind == f"{ConfigError.__module__}.{ConfigError.__qualname__}":
        return ConfigError(failure.message)
    if failure.kind.startswith("recordmill."):  # our own errors have messages for users
        return RunError(failure.message)
    if failure.traceback:
        # A bug: show Python's traceback without the Java stack trace around it.
        print(failure.traceback, file=sys.stderr)
        return RunError(str(failure))
    return LostJobError(str(failure))


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
