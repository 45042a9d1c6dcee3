"""A cluster that is damaged or has too little: messages, and how a run goes on."""

import signal
from collections.abc import Iterator

import pytest

from benchmarks.flink_cluster import FlinkCluster, processes, wait_until
from tests.flink.jobs import (
    LONG,
    Job,
    disturbed,
    ended,
    expect_the_same,
    finished,
    kill_workers,
    replace_taskmanager,
    run_program,
)

FORGOTTEN = "org/apache/beam/runners/fnexecution/control/DefaultJobBundleFactory"


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Iterator[FlinkCluster]:
    """A cluster that a test may damage, without the library; at first it has no TaskManager."""
    folder = tmp_path_factory.mktemp("frail")
    with FlinkCluster(folder, taskmanagers=0, library=False) as cluster:
        yield cluster


@pytest.fixture
def frail(empty: FlinkCluster) -> FlinkCluster:
    """The same cluster with a TaskManager."""
    if not empty.taskmanagers:
        empty.start_taskmanager()
        empty.wait_for_taskmanagers(1)
    return empty


@pytest.mark.long
def test_a_job_that_stalls_is_cancelled_with_its_cause(empty, tmp_path):
    assert not empty.taskmanagers, "this test comes before those that start one"
    options = ("--stall-timeout", "5", "--retries", "1", "--parallelism", "2")
    result = Job(tmp_path / "out").on(empty, "loopback", *options).run()
    assert result.code == 1
    assert "made no progress for 5 s and was cancelled" in result.last
    assert "0 of 0 slots free, 0 TaskManagers: start a TaskManager; run the same" in result.last
    assert "was cancelled: Flink reports the job as running" in result.err
    assert "start a TaskManager; submitting it again (1 of 1)\n" in result.err
    assert [empty.cluster.state(job) for job in empty.cluster.jobs()] == ["CANCELED"] * 2
    assert not list((tmp_path / "out").glob(".recordmill/*.json"))


@pytest.mark.long
def test_a_killed_taskmanager(frail, long, tmp_path):
    out = tmp_path / "out"
    job = Job(out, *LONG).on(frail, "process")
    disturbed(job, frail, replace_taskmanager)
    expect_the_same(job, out, long)


def test_a_killed_worker(frail, long, tmp_path):
    out = tmp_path / "out"
    job = Job(out, *LONG).on(frail, "process")
    disturbed(job, frail, kill_workers)
    expect_the_same(job, out, long)


def test_a_class_that_was_left_out_is_named(frail, tmp_path):
    program = (
        "import sys; from recordmill.pipelines import cli\n"
        "from recordmill.runners.flink import jar\n"
        f"jar._UNUSED += ({FORGOTTEN!r},); sys.exit(cli.main(sys.argv[1:]))"
    )
    job = Job(tmp_path / "out").on(frail, "loopback")
    result = run_program(program, *job.arguments)
    assert result.code == 1
    note = f"note: the cluster at {frail.cluster.url} does not have recordmill-beam-"
    assert note in result.err
    name = FORGOTTEN.replace("/", ".")
    assert f"error: the job needs the class {name} of Beam's job server" in result.last
    assert result.last.endswith("add --flink-whole-jar and run the same command again to continue")
    job.arguments.append("--flink-whole-jar")
    assert run_program(program, *job.arguments).code == 0


@pytest.mark.long
def test_an_embedded_flink_ends_with_its_command(long, tmp_path):
    out = tmp_path / "out"
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    def ours() -> Iterator[int]:
        return processes("", variable=f"TMPDIR={temporary}")

    job = Job(out, *LONG).on_flink("--parallelism", "2")
    for number, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        process = job.start(TMPDIR=str(temporary))
        already = finished(out)
        wait_until(lambda: finished(out) > already, "another finished shard")  # noqa: B023
        assert set(ours()) > {process.pid}, "the JVM and its workers are seen"
        process.send_signal(number)
        assert ended(process).code == code
        # Not those of another cluster: Beam keeps the worker of a task that is cancelled as it
        # starts, till the cluster ends.
        wait_until(lambda: not list(ours()), "the end of all processes")
        wait_until(lambda: not list(temporary.iterdir()), f"{list(temporary.iterdir())} gone")
    again = Job(out, *LONG)
    again.finish_here()
    expect_the_same(again, out, long)
