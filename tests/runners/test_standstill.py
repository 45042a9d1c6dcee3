"""Messages about a Flink job that makes no progress or restarts, or whose cluster is silent."""

from collections.abc import Callable
from typing import Any

import pytest

from recordmill.errors import RunError
from recordmill.runners.failures import REFUSAL
from recordmill.runners.flink import standstill
from recordmill.runners.flink.rest import Cluster, JobStatus, RejectedError, UnreachableError
from recordmill.runners.flink.standstill import StandstillWatch, wait_for_answer
from recordmill.runners.progress import JobView
from tests.runners.clock import Clock

_NOW = 1_000_000.0  # by the clock of the JobManager


class Answers:
    """The answers of a cluster: free slots, all slots, {host: seconds since its heartbeat}, the
    stack traces of failures, newest first, and the host of each running task.
    """

    def __init__(self) -> None:
        self.free, self.total = 0, 2
        self.silent = {"10.0.0.3": 5.0}
        self.failures: list[str] = []
        self.running: list[str] = []

    def __call__(self, method: str, path: str) -> Any:
        match path.rpartition("/")[2]:
            case "1":
                tasks = {"RUNNING": len(self.running), "FINISHED": 1}
                return {"vertices": [{"id": "v", "tasks": tasks}, {"id": "w", "tasks": {}}]}
            case "v":
                running = [{"status": "RUNNING", "endpoint": f"{one}:47"} for one in self.running]
                return {"subtasks": [*running, {"status": "FINISHED", "endpoint": "tm-9:47"}]}
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
                entries = [{"stacktrace": one, "endpoint": "tm-2:47"} for one in self.failures]
                return {"exceptionHistory": {"entries": entries}}
        raise AssertionError(path)


@pytest.fixture
def answers(monkeypatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(Cluster, "_call", lambda cluster, method, path: made(method, path))
    return made


def watch(
    said: list[str],
    activity: Callable[[], object] = lambda: None,
    unanswered: Callable[[], str] = lambda: "",
) -> StandstillWatch:
    view = JobView(notice=said.append, activity=activity, unanswered=unanswered)
    return StandstillWatch(
        Cluster("http://jobmanager:8081"),
        managers=2, stall_seconds=420, view=view, pool="localhost:50000", now=0,
    )  # fmt: skip


def status(state: str = "RUNNING", activity: int = 0, **vertices: int) -> JobStatus:
    return JobStatus(
        id="1", name="n", state=state, vertices=vertices, activity=(activity,), seconds=1, now=_NOW
    )


def test_a_standstill_is_said_within_a_minute_and_again_and_ends_as_a_stall(answers):
    said: list[str] = []
    one = watch(said)
    times = [second for second in range(422) if one.answered(status(RUNNING=2), second)]
    assert times == [421]
    assert [line.partition(":")[0] for line in said] == [
        "no progress for 30 s", "no progress for 1 min 30 s", "no progress for 2 min 30 s",
        "no progress for 3 min 30 s", "no progress for 4 min 30 s", "no progress for 5 min 30 s",
        "no progress for 6 min 30 s",
    ]  # fmt: skip


def test_progress_starts_the_time_again(answers):
    said: list[str] = []
    written = 0
    one = watch(said, activity=lambda: written)
    for second in range(500):
        written = second // 29
        assert not one.answered(status(RUNNING=2), second)
        written = 99
        assert not one.answered(status(RUNNING=2, activity=second // 28), second)
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
            {"silent": {"10.0.0.3": 1.0, "10.0.0.4": _NOW}},
            {"RUNNING": 2},
            "0 of 2 slots free, 2 TaskManagers; a step may take long,",
        ),
        (
            {"silent": {"a": 1.0, "b": 1.0}, "failures": ["java.io.IOException: full", "a.B: old"]},
            {"RUNNING": 2},
            "2 TaskManagers; the last failure was: IOException: full (on tm-2)",
        ),
        (
            {"silent": {"a": 1.0, "b": 1.0}, "running": ["tm-2", "tm-1", "tm-2"]},
            {"RUNNING": 3},
            "2 TaskManagers; tasks run on tm-1 (1), tm-2 (2); a step may take long,",
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


def test_a_store_that_does_not_answer_is_named(answers):
    answers.silent = {"a": 1.0, "b": 1.0}
    reason = watch([], unanswered=lambda: "the store of s3://bucket/out is silent").reason(
        status(RUNNING=2)
    )
    assert reason.endswith(
        "; the store of s3://bucket/out is silent: check the store and its network"
    )


def test_a_taskmanager_that_hangs_without_memory_ends_as_a_stall(monkeypatch):
    """Its process lives, its heartbeats arrive, and the times of its tasks grow."""
    seconds = 0
    answers = Answers()
    answers.silent = {"tm-1": 1.0, "tm-2": 1.0}
    answers.running = ["tm-2"]
    answers.failures = [
        "java.lang.OutOfMemoryError: Cannot reserve 4194304 bytes of direct buffer memory"
        " (allocated: 251658240, limit: 255013685)\n\tat java.nio.Bits.reserveMemory"
    ]

    def call(cluster: Cluster, method: str, path: str) -> Any:
        if path.endswith("/status"):
            return {"status": "RUNNING"}
        if not path.endswith("/jobs/1"):
            return answers(method, path)
        times = {"accumulated-busy-time": 900 * seconds, "write-records": 7}
        return {
            **{"jid": "1", "name": "n", "state": "RUNNING", "duration": 1000 * seconds},
            **{"now": int(_NOW * 1000), "status-counts": {"RUNNING": 1}},
            "vertices": [{"id": "v", "tasks": {"RUNNING": 1}, "metrics": times}],
        }

    monkeypatch.setattr(Cluster, "_call", call)
    said: list[str] = []
    one = watch(said)
    cluster = Cluster("http://jobmanager:8081")
    while not one.answered(cluster.status("1"), seconds):
        seconds += 1
    assert seconds == 421
    assert "tasks run on tm-2 (1); the last failure was: OutOfMemoryError: Cannot rese" in said[0]
    assert said[0].endswith(" (on tm-2)")


POOL = (
    "java.lang.Exception: it failed\nCaused by: a.B$AnnotatedConnectException: finishConnect(..)"
    " failed: Connection refused: localhost/127.0.0.1:50000\nCaused by: java.net.ConnectException:"
    " finishConnect(..) failed: Connection refused\n"
)


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (
            "java.util.concurrent.TimeoutException: Heartbeat of TaskManager timed out.",
            "TimeoutException: Heartbeat of TaskManager timed out. (on tm-2)",
        ),
        (
            "org.apache.flink.runtime.jobmaster.JobMasterException: TaskManager with id"
            " tm-3.local:41547-e21442 is no longer reachable.\n\tat a.B(C.java:1)",
            "the TaskManager at tm-3.local no longer answers (on tm-2): its tasks continue"
            " when it is back, or in free slots of other TaskManagers",
        ),
        (
            "a.B: Connection unexpectedly closed by remote task manager 'tm-3/10.0.0.3:37043 ["
            " tm-3:41547-e21442 ] '. This might indicate that the remote task manager was lost.",
            "the TaskManager at tm-3 no longer answers (on tm-2): its tasks continue when it is"
            " back, or in free slots of other TaskManagers",
        ),
        (
            POOL.replace(":50000", ":37043"),
            "nothing answers at localhost:37043, where a TaskManager or a worker ran (on tm-2): its"
            " tasks continue when it is back, or in free slots of other TaskManagers",
        ),
        (
            POOL,
            "no worker pool: nothing answers at localhost:50000 on tm-2: start it there with"
            " recordmill worker-pool --port 50000, or give its address as environment_config",
        ),
        (
            "java.lang.RuntimeException: it failed\nCaused by: io.grpc.StatusRuntimeException:"
            " CANCELLED: client cancelled\n\tat a.B(C.java:1)",
            "the Python worker on tm-2 has ended, or its worker pool at localhost:50000 has",
        ),
    ],
)
def test_a_restart_is_said_with_its_cause(answers, failure, cause):
    said: list[str] = []
    written = 0
    one = watch(said, activity=lambda: written)
    one.answered(status(RUNNING=2), 1)
    one.answered(status("RESTARTING"), 2)
    answers.failures = [failure, "a.B: an earlier failure"]
    for written in range(3, 20):
        one.answered(status(RUNNING=2), written)
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
    one.answered(status("RESTARTING"), 1)
    one.answered(status("RESTARTING"), 6)
    assert (one.repeated is not None) == stays


DOWN = UnreachableError("no Flink cluster answers at http://jobmanager:8081 (connection refused)")


def waiting(seconds: str) -> str:
    return (
        f"no answer about the Flink job for {seconds}: no Flink cluster answers at"
        " http://jobmanager:8081 (connection refused); waiting up to 7 min for an answer"
    )


def test_a_cluster_that_does_not_answer_is_said_again_and_given_up(answers):
    said: list[str] = []
    one = watch(said)
    one.answered(status(RUNNING=2), 1)
    for second in range(2, 40):
        one.unanswered(DOWN, second)
    assert said == [waiting("15 s")]  # and again after 25 s
    one.answered(status(RUNNING=2, activity=1), 40)
    for second in range(41, 461):
        assert one.unanswered(DOWN, second) == second - 40
    assert said[1:4] == [waiting("15 s"), waiting("40 s"), waiting("1 min 5 s")]
    with pytest.raises(RunError, match=r"refused.*for 7 min 1 s. Run the same command again to fo"):
        one.unanswered(DOWN, 461)


@pytest.mark.parametrize("down", [1, 70, 430])
def test_a_request_waits_for_a_cluster(down, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(standstill, "time", clock)
    said: list[str] = []

    def request() -> str:
        if clock.now < down:
            raise DOWN
        return "1.19"

    def wait() -> str:
        return wait_for_answer(request, notice=said.append, seconds=420)

    if down < 420:
        assert wait() == "1.19"
    else:
        with pytest.raises(RunError, match="no Flink cluster answers at http://jobmanager:8081 "):
            wait()
    assert clock.now == min(down, 421)
    assert len(said) == {1: 0, 70: 3, 430: 17}[down]


def test_a_rejected_request_is_not_repeated():
    def request() -> None:
        raise RejectedError("Flink rejected it")

    with pytest.raises(RejectedError, match="Flink rejected it"):
        wait_for_answer(request, notice=pytest.fail, seconds=420)
