"""A Flink job: how often it is polled, with which requests, and the errors of its workers."""

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.runners.failures import REFUSAL
from recordmill.runners.flink.job import _poll_seconds
from recordmill.runners.flink.job_errors import LostJobError, NoPoolError, job_error
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


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "java.lang.Exception: The user defined 'open()' method caused an exception:"
            f" java.lang.RuntimeException: {REFUSAL}the pool on tm-2 is unfit\n\tat a.B(C.java:1)\n"
            f"Caused by: java.lang.RuntimeException: {REFUSAL}the pool on tm-2 is unfit\n\tat a.B",
            ConfigError,
            "the pool on tm-2 is unfit",
        ),
        (
            "java.lang.RuntimeException: Error received from SDK harness for instruction 3:"
            f" {REFUSAL}--input: not shared\n\n\tat a.B(C.java:1)",
            ConfigError,
            "--input: not shared",
        ),
        (
            "java.lang.Exception: it failed\n\tat a.B(C.java:1)\nCaused by: io.netty.channel."
            "AbstractChannel$AnnotatedConnectException: finishConnect(..) failed: Connection"
            " refused: localhost/127.0.0.1:50000\nCaused by: java.net.ConnectException:"
            " finishConnect(..) failed: Connection refused\n",
            NoPoolError,
            "no worker pool: nothing answers at localhost:50000 on tm-2: start it there with"
            " recordmill worker-pool --port 50000, or give its address as environment_config",
        ),
        (
            "java.lang.RuntimeException: it failed\nCaused by: io.grpc.StatusRuntimeException:"
            " CANCELLED: client cancelled\n\tat a.B(C.java:1)",
            LostJobError,
            "the Python worker on tm-2 has ended, or its worker pool at localhost:50000 has; run"
            " the same command again to continue; if the pool does not run, start it there with"
            " recordmill worker-pool --port 50000; its log says more",
        ),
        (
            "java.lang.RuntimeException: Error received from SDK harness for instruction 3:"
            ' Traceback (most recent call last):\n  File "step.py", line 1, in step\n'
            "recordmill.errors.StorageError: cannot read x\n\n\tat java",
            RunError,
            "on tm-2: cannot read x",
        ),
    ],
)
def test_errors_name_the_machine(text, kind, message):
    error = job_error(text, source="the job", pool="localhost:50000", machine="tm-2")
    assert (type(error), str(error)) == (kind, message)


def test_the_first_failure_is_that_of_a_worker(monkeypatch):
    worker = "a.B: Error received from SDK harness for instruction 1: it failed"
    answer = {
        "root-exception": "a.B: the job failed",
        "exceptionHistory": {
            "entries": [
                {
                    "stacktrace": "a.B: the job failed",
                    "concurrentExceptions": [
                        {"stacktrace": "a.B: it failed", "endpoint": "tm-1:1"}
                    ],
                },
                {"stacktrace": worker, "endpoint": "tm-2:4712"},
            ]
        },
    }
    monkeypatch.setattr(Cluster, "_call", lambda *args: answer)
    cluster = Cluster("http://127.0.0.1:1")
    assert cluster.failed_machine("1") == "tm-2"
    assert cluster.failure("1").splitlines()[0] == worker
    del answer["exceptionHistory"]["entries"][1]
    assert cluster.failed_machine("1") == "tm-1"
    answer["exceptionHistory"]["entries"].clear()
    assert cluster.failed_machine("1") == ""
