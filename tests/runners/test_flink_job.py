"""A Flink job: how often it is polled, with which requests, and the errors of its workers."""

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.runners.flink.job import _poll_seconds
from recordmill.runners.flink.job_errors import job_error
from recordmill.runners.flink.rest import Cluster, JobStatus


def test_a_short_job_is_polled_often_and_a_long_one_seldom():
    times = (0.0, 1.0, 4.0, 8.0, 60.0, 1e6)
    intervals = [_poll_seconds(elapsed, is_working=False) for elapsed in times]
    assert intervals == [0.05, 0.05, 0.05, 0.08, 0.5, 0.5]
    intervals = [_poll_seconds(elapsed, is_working=True) for elapsed in times]
    assert intervals == [0.2, 0.2, 0.2, 0.2, 0.5, 0.5]


@pytest.mark.parametrize("state", ["RUNNING", "FINISHED", "CANCELED", "FAILED"])
def test_details_are_requested_for_a_failure_alone(state, monkeypatch):
    paths = []

    def call(self: Cluster, method: str, path: str) -> object:
        paths.append(path)
        if path.endswith("/status"):
            return {"status": state}
        # Flink refreshes the details every 3 s.
        return {
            "jid": "1", "name": "n", "state": "RUNNING", "duration": 5,
            "status-counts": {"RUNNING": 2}, "vertices": [],
        }  # fmt: skip

    monkeypatch.setattr(Cluster, "_call", call)
    earlier = JobStatus(
        id="1", name="n", state="RUNNING", vertices={"RUNNING": 1}, activity=(), seconds=1.0
    )
    status = Cluster("http://127.0.0.1:1").with_current_state(earlier)
    if state == "FAILED":
        assert (status.state, status.vertices) == ("RUNNING", {"RUNNING": 2})
    else:
        assert (status.state, status.vertices) == (state, earlier.vertices)
        assert paths == ["/v1/jobs/1/status"]


@pytest.mark.parametrize("kind", [ConfigError, RunError])
def test_errors_of_workers_keep_their_exit_code(kind):
    error = job_error(
        "java.lang.RuntimeException: Error received from SDK harness for instruction 3: Traceback"
        f' (most recent call last):\n  File "step.py", line 1, in step\n{kind.__module__}.'
        f"{kind.__qualname__}: expected a key [while running 'Stage']\n\n\tat java",
        source="the job",
    )
    assert (type(error), str(error)) == (kind, "expected a key")
    assert error.exit_code == kind.exit_code
