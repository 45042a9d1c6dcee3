"""Messages about a Flink job that makes no progress or restarts."""

from typing import Any

import pytest

from recordmill.runners.failures import REFUSAL
from recordmill.runners.flink.rest import Cluster, ClusterError, JobStatus
from recordmill.runners.flink.standstill import StandstillWatch

_NOW = 1_000_000.0  # by the clock of the JobManager


class Answers:
    """The answers of a cluster: free slots, all slots, {host: seconds since its heartbeat}."""

    def __init__(self) -> None:
        self.free, self.total = 0, 2
        self.silent = {"10.0.0.3": 5.0}
        self.failure = ""
        self.failures: list[str] = []

    def __call__(self, method: str, path: str) -> Any:
        match path.rpartition("/")[2]:
            case "overview":
                return {
                    **{"slots-available": self.free, "slots-total": self.total},
                    "taskmanagers": len(self.silent),
                }
            case "taskmanagers":
                return {
                    "taskmanagers": [
                        {
                            "path": f"pekko.tcp://flink@{host}:4711/user/rpc/taskmanager_0",
                            "timeSinceLastHeartbeat": int((_NOW - seconds) * 1000),
                        }
                        for host, seconds in self.silent.items()
                    ]
                }
            case "exceptions":
                entries = [{"stacktrace": text} for text in self.failures]
                return {"root-exception": self.failure, "exceptionHistory": {"entries": entries}}
        raise AssertionError(path)


@pytest.fixture
def answers(monkeypatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(Cluster, "_call", lambda cluster, method, path: made(method, path))
    return made


def watch(said: list[str]) -> StandstillWatch:
    cluster = Cluster("http://127.0.0.1:1")
    return StandstillWatch(cluster, managers=2, stall_seconds=420, notice=said.append, now=0)


def status(state: str = "RUNNING", activity: int = 0, **vertices: int) -> JobStatus:
    return JobStatus(
        id="1", name="n", state=state, vertices=vertices, activity=(activity,), seconds=1, now=_NOW
    )


def test_a_standstill_is_said_within_a_minute_and_again_and_ends_as_a_stall(answers):
    said: list[str] = []
    one = watch(said)
    times = [second for second in range(422) if one.answered(status(RUNNING=2), None, second)]
    assert times == [421]
    assert [line.partition(":")[0] for line in said] == [
        "no progress for 30 s", "no progress for 1 min 30 s", "no progress for 2 min 30 s",
        "no progress for 3 min 30 s", "no progress for 4 min 30 s", "no progress for 5 min 30 s",
        "no progress for 6 min 30 s",
    ]  # fmt: skip


def test_progress_starts_the_time_again(answers):
    said: list[str] = []
    one = watch(said)
    for second in range(500):
        assert not one.answered(status(RUNNING=2), second // 29, second)
        assert not one.answered(status(RUNNING=2, activity=second // 28), 9, second)
    assert said == []


@pytest.mark.parametrize(
    ("change", "vertices", "expected"),
    [
        (
            {"silent": {}, "total": 0},
            {"SCHEDULED": 2},
            "Flink reports the job as running (2 scheduled tasks), 0 of 0 slots free,"
            " 0 TaskManagers, 2 fewer than at the start: start a TaskManager",
        ),
        (
            {},
            {"FINISHED": 1, "SCHEDULED": 3},
            "Flink reports the job as running (1 finished, 3 scheduled tasks), 0 of 2 slots free,"
            " 1 TaskManager, 1 fewer than at the start; it waits for slots: start a TaskManager,"
            " end other jobs, or lower parallelism",
        ),
        (
            {"silent": {"10.0.0.3": 1.0, "10.0.0.4": 34.0}},
            {"RUNNING": 2},
            "0 of 2 slots free, 2 TaskManagers; no heartbeat from the TaskManager at 10.0.0.4 for"
            " 34 s: check that machine and its network.",
        ),
        (
            {"silent": {"a": 1.0, "b": 1.0}, "failure": "java.io.IOException: no pool"},
            {"RUNNING": 2},
            "2 TaskManagers; the last failure was: IOException: no pool",
        ),
        (
            {"silent": {"a": 1.0, "b": 1.0}},
            {"RUNNING": 2},
            "2 TaskManagers; a step may take long, a worker may hang or wait for the store, or a",
        ),
    ],
)
def test_the_state_and_the_remedy(answers, change, vertices, expected):
    for name, value in change.items():
        setattr(answers, name, value)
    assert expected in watch([]).reason(status(**vertices))


def test_a_restart_is_said_with_its_cause(answers):
    said: list[str] = []
    one = watch(said)
    one.answered(status(RUNNING=2), None, 1)
    one.answered(status("RESTARTING"), None, 2)
    answers.failure = "java.util.concurrent.TimeoutException: Heartbeat of TaskManager timed out."
    for second in range(3, 20):
        one.answered(status(RUNNING=2), second, second)
    cause = "TimeoutException: Heartbeat of TaskManager timed out."
    assert said == [f"Flink restarts tasks of the job: {cause}"]


def worker_error(kind: str) -> str:
    return (
        "java.lang.RuntimeException: Error received from SDK harness for instruction 3: Traceback"
        f' (most recent call last):\n  File "step.py", line 1, in step\n{kind}: expected a key\n\n'
        "\tat java"
    )


@pytest.mark.parametrize(
    ("failures", "stays"),
    [
        ([worker_error("ValueError")], False),
        ([worker_error("ValueError"), worker_error("KeyError")], False),
        ([worker_error("ValueError")] * 2, True),
        ([worker_error("recordmill.errors.RunError")] * 2, True),
        ([worker_error("recordmill.errors.StorageError")] * 9, False),
        ([worker_error("ConnectionResetError")] * 9, False),
        ([worker_error("grpc._channel._InactiveRpcError")] * 9, False),
        (["java.io.IOException: Connection refused"] * 9, False),
        (
            [f"java.lang.RuntimeException: {REFUSAL}the pool serves only jobs with its secret"],
            True,
        ),
    ],
)
def test_an_error_that_stays_is_seen_again_and_a_refusal_at_once(answers, failures, stays):
    one = watch([])
    answers.failures = failures
    one.answered(status("RESTARTING"), None, 1)
    one.answered(status("RESTARTING"), None, 6)
    assert (one.repeated is not None) == stays


def test_a_cluster_that_does_not_answer_is_said(answers):
    said: list[str] = []
    one = watch(said)
    one.answered(status(RUNNING=2), None, 1)
    for second in range(2, 40):
        one.unanswered(ClusterError("no Flink cluster answers"), second)
    assert said == ["no answer about the Flink job for 15 s: no Flink cluster answers"]
    one.answered(status(RUNNING=2), 1, 40)
    assert one.unanswered_seconds(41) == 1
