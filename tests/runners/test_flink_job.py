"""A Flink job: how often it is polled, with which requests, and its errors.

They are those of its workers, and those of a JobManager that does not answer.
"""

import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.job.lock import CLUSTER_JOB
from recordmill.pipelines.cli import main
from recordmill.runners.failures import REFUSAL
from recordmill.runners.flink import job, standstill
from recordmill.runners.flink.job import FlinkJob, _poll_seconds
from recordmill.runners.flink.job_errors import LostJobError, check_end, job_error
from recordmill.runners.flink.options import FlinkOptions
from recordmill.runners.flink.rest import (
    Cluster,
    JobStatus,
    NoSuchJobError,
    RejectedError,
    UnreachableError,
)
from recordmill.runners.progress import JobView
from tests.paths import DEMO
from tests.runners.clock import Clock


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
            LostJobError,
            "no worker pool: nothing answers at localhost:50000 on tm-2: start it there with"
            " recordmill worker-pool --port 50000, or give its address as environment_config; run"
            " the same command again to continue",
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
    assert Cluster("http://127.0.0.1:1").failed_machine("1") == ""
    cluster = Cluster("http://jobmanager:8081")
    assert cluster.failed_machine("1") == "tm-2"
    assert cluster.failure("1").splitlines()[0] == worker
    del answer["exceptionHistory"]["entries"][1]
    assert cluster.failed_machine("1") == "tm-1"
    answer["exceptionHistory"]["entries"].clear()
    assert cluster.failed_machine("1") == ""


NO_POOL = (
    "a.B$AnnotatedConnectException: finishConnect(..) failed: Connection refused:"
    " localhost/127.0.0.1:50000"
)


def test_a_pool_that_is_missing_is_a_fault_of_its_machine(monkeypatch):
    def call(cluster: Cluster, method: str, path: str) -> Any:
        entries = [{"stacktrace": one, "endpoint": "tm-2:4712"} for one in (NO_POOL, NO_POOL)]
        return {"root-exception": NO_POOL, "exceptionHistory": {"entries": entries}}

    monkeypatch.setattr(Cluster, "_call", call)
    failed = JobStatus(id="1", name="n", state="FAILED", vertices={}, activity=(), seconds=1.0)
    with pytest.raises(LostJobError, match="localhost:50000 on tm-2: start it there") as raised:
        check_end(
            Cluster("http://jobmanager:8081"), failed, has_library=True, pool="localhost:50000"
        )
    assert raised.value.exit_code == 1


class JobManager:
    """A JobManager that is down from one second to another, and then may have lost its jobs.

    Its slots are there five seconds later.

    known: the jobs that it knows. uploaded: number of jars.
    """

    def __init__(self, clock: Clock, down: tuple[float, float], *, keeps: bool = False) -> None:
        self.known: set[str] = set()
        self.uploaded = 0
        self._clock, self._down, self._keeps = clock, down, keeps
        self._is_new = False

    def __call__(self, cluster: Cluster, method: str, path: str, **content: Any) -> Any:
        self._clock.sleep(0.1)
        if self._down[0] <= self._clock.now < self._down[1]:
            raise UnreachableError(
                f"no Flink cluster answers at {cluster.url} (connection refused)"
            )
        if self._clock.now >= self._down[1] and not self._is_new:
            self._is_new = True
            self.known = self.known if self._keeps else set()
        match path.split("/")[2:]:
            case ["config"]:
                return {"flink-version": "1.19.3"}
            case ["overview"]:
                slots = 0 if self._clock.now < self._down[1] + 5 else 4
                return {"slots-available": slots, "slots-total": slots, "taskmanagers": slots // 2}
            case ["jars", "upload"]:
                self.uploaded += 1
                return {"filename": f"/tmp/{self.uploaded}"}
            case ["jars", jar, "run"]:
                assert jar == str(self.uploaded), "it has the last jar alone"
                if content["body"]["jobId"] in self.known:
                    raise RejectedError("Job has already been submitted.")
                self.known.add(content["body"]["jobId"])
                if self._down[0] < self._clock.now + 0.1 < self._down[1]:
                    self._clock.sleep(0.1)  # the answer is lost
                    raise UnreachableError(f"no Flink cluster answers at {cluster.url} (reset)")
                return {}
            case ["jars", _]:
                return {}
            case ["jobs", job, *rest] if job in self.known:
                state = "FINISHED" if self._clock.now > 600 else "RUNNING"
                if rest == ["status"]:
                    return {"status": state}
                return {
                    **{"jid": job, "name": "n", "state": state, "duration": 1},
                    **{"status-counts": {state: 1}, "vertices": []},
                }
        raise NoSuchJobError(f"the cluster at {cluster.url} knows no such job")


URL = "http://jobmanager:8081"
Start = Callable[..., tuple[FlinkJob, JobManager, Clock, list[str]]]


@pytest.fixture
def start(monkeypatch, tmp_path) -> Start:
    """Returns a function that makes a job on a cluster that is down for a while."""
    jar = tmp_path / "job-server.jar"
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("org/apache/beam/runners/flink/FlinkPipelineRunner.class", b"")

    def make(
        down: tuple[float, float], *, keeps: bool = False, earlier: str = ""
    ) -> tuple[FlinkJob, JobManager, Clock, list[str]]:
        clock, said = Clock(), list[str]()
        manager = JobManager(clock, down, keeps=keeps)
        for module in (job, standstill):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(Cluster, "_call", lambda *args, **content: manager(*args, **content))
        options = FlinkOptions(master=URL, job_server_jar=str(jar), whole_jar=True)
        view = JobView(notice=said.append)
        return FlinkJob(options, workers=1, view=view, earlier=earlier), manager, clock, said

    return make


def test_a_command_waits_for_the_cluster_of_its_earlier_job(start):
    *_, clock, said = start((0, 100), earlier=URL)
    assert 100 < clock.now < 102
    assert [line.partition(" (")[0] for line in said] == [
        f"no answer about the Flink job for {seconds}: no Flink cluster answers at {URL}"
        for seconds in ("15 s", "41 s", "1 min 6 s", "1 min 31 s")
    ]


def test_slots_are_counted_when_the_job_starts(start):
    """The TaskManagers of a JobManager that was restarted come back after it."""
    one, _, clock, _ = start((0, 100), earlier=URL)
    clock.sleep(10)  # during which the input is listed
    assert one._count_slots() == 4


@pytest.mark.parametrize("earlier", ["", "http://other:8081"])
def test_a_cluster_that_was_never_reached_is_an_error_at_once(earlier, start):
    with pytest.raises(UnreachableError, match="start it, or give its REST address with flink_m"):
        start((0, 100), earlier=earlier)


def test_a_cluster_that_stays_down_is_a_fault_of_the_machine(start):
    with pytest.raises(RunError, match=r"for 7 min\. Run the same command again") as raised:
        start((0, 1000), earlier=URL)
    assert not isinstance(raised.value, ConfigError)


def test_a_job_is_followed_again_when_its_cluster_is_back(start):
    one, manager, clock, said = start((1, 400), keeps=True)
    manager.known.add("a" * 32)
    one.follow("a" * 32)
    assert clock.now > 600
    assert sum("no answer about the Flink job" in line for line in said) == 16


def test_a_job_that_its_cluster_has_lost_can_be_submitted_again(start):
    one, manager, clock, _ = start((1, 200))
    manager.known.add("a" * 32)
    with pytest.raises(LostJobError, match="JobManager was restarted without high availability"):
        one.follow("a" * 32)
    assert clock.now < 215


def test_a_job_whose_cluster_stays_down_is_not_submitted_again(start):
    one, manager, *_ = start((1, 1000))
    manager.known.add("a" * 32)
    with pytest.raises(RunError, match=rf"answers at {URL} .* to follow its job, if th") as raised:
        one.follow("a" * 32)
    assert not isinstance(raised.value, LostJobError), "it may still run"


@pytest.mark.parametrize(
    ("down", "keeps", "uploaded"),
    [((0.15, 90), False, 1), ((0.35, 90), True, 2), ((0.35, 90), False, 2)],
    ids=["before the upload", "before the answer", "and the job is lost"],
)
def test_a_submission_waits_for_its_cluster(down, keeps, uploaded, start):
    one, manager, clock, said = start(down, keeps=keeps)
    accepted: list[bool] = []
    one._submit(one._cluster, __file__, accepted.append)
    assert clock.now > 90
    assert accepted[-1]
    assert (manager.known, manager.uploaded) == ({one.id}, uploaded)
    assert len(said) == 3


@pytest.mark.parametrize("recorded", ["", "http://127.0.0.1:9", "http://other:8081"])
def test_a_command_waits_only_for_the_cluster_that_its_output_names(
    recorded, tmp_path, monkeypatch, capsys
):
    clock = Clock()
    monkeypatch.setattr(standstill, "time", clock)
    if recorded:
        (tmp_path / ".recordmill").mkdir()
        content = {"cluster": recorded, "job": "0" * 32}
        (tmp_path / ".recordmill" / CLUSTER_JOB).write_text(json.dumps(content))
    options = ("--input", str(DEMO), "--output", str(tmp_path), "--quiet")
    code = main(["images", *options, "--runner", "flink", "--flink-master", "127.0.0.1:9"])
    said = capsys.readouterr().err
    assert "no Flink cluster answers at http://127.0.0.1:9 (connection refused)" in said
    is_earlier = recorded.endswith(":9")
    assert (code, clock.now > 420) == (1, is_earlier)
    assert ("no longer exists, remove cluster-job.json" in said) == is_earlier
