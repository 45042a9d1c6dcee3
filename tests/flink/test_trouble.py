"""Failures and cancelled jobs on a cluster: messages, files that remain, how a run goes on."""

import contextlib
import json
import os
import pathlib
import signal
from collections.abc import Iterator

import apache_beam as beam
import pytest

from benchmarks.flink_cluster import (
    JOB_SERVER,
    ROOT,
    WORKERS,
    FlinkCluster,
    processes,
    wait_for_end_of_workers,
    wait_until,
    worker_pool,
)
from recordmill.job import lock
from recordmill.pipelines.cli import main
from recordmill.runners.flink.job import FlinkJob
from recordmill.runners.flink.options import FlinkOptions
from tests.flink.jobs import (
    LONG,
    Job,
    command,
    ended,
    expect_the_same,
    finished,
    run_program,
    start,
    state_of_last,
    wait_for_shards,
)


def expect_nothing_left(cluster: FlinkCluster) -> None:
    wait_for_end_of_workers()
    assert cluster.cluster._call("GET", "/v1/jars")["files"] == []


def test_a_stopped_command_cancels_its_job(flink, long, tmp_path):
    out = tmp_path / "out"
    job = Job(out, *LONG).on(flink, "process")
    process = job.start()
    # Both workers must be writing: Beam loses track of one that starts as its task is cancelled.
    wait_for_shards(process, out, number=8)
    process.send_signal(signal.SIGTERM)
    result = ended(process)
    assert result.code == 143, result.err
    assert result.last.endswith("stopped by SIGTERM; run the same command again to continue")
    assert state_of_last(flink) == "CANCELED"
    expect_nothing_left(flink)
    assert not (out / "dataset.json").exists()
    assert not list((out / ".recordmill").glob("*.json")), "neither a lock nor a job"
    before = finished(out)
    assert before >= 2
    again = Job(out, *LONG).on(flink, "loopback")
    again.finish_here()
    expect_the_same(again, out, long)


def killed(job: Job, out: pathlib.Path, cluster: FlinkCluster) -> str:
    """Kills a command that follows its job while that writes, and returns the id of the job."""
    process = job.start()
    wait_for_shards(process, out)
    process.kill()
    process.communicate()
    name = str(json.loads((out / ".recordmill" / lock.CLUSTER_JOB).read_text())["job"])
    assert not cluster.cluster.status(name).ended
    return name


@contextlib.contextmanager
def paused_workers() -> Iterator[None]:
    """Holds the workers of jobs, so that no job ends meanwhile."""
    workers = [*processes(*WORKERS)]
    assert workers
    for one in workers:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in workers:
            os.kill(one, signal.SIGCONT)


def test_the_job_of_a_killed_command_is_followed_by_the_next(flink, long, tmp_path):
    out = tmp_path / "out"
    job = Job(out, *LONG).on(flink, "process")
    name = killed(job, out, flink)
    before = set(flink.cluster.jobs())
    with paused_workers():
        other = Job(out, *LONG, "--seed", "8").on(flink, "process").run()
        process = job.start()
        assert process.stderr is not None
        said = f"following the Flink job {name}, which an earlier run has started\n"
        assert any(said in line for line in process.stderr)
    assert other.code == 1
    assert f"the Flink job {name} at {flink.cluster.url} holds the lock" in other.last
    again = ended(process)
    assert again.code == 0, again.err
    assert "Publishing of an interrupted run was completed" in again.out
    assert set(flink.cluster.jobs()) == before, "no second job"
    expect_the_same(job, out, long)


@pytest.mark.long
def test_the_job_of_a_killed_command_has_ended_before_the_next(flink, long, tmp_path):
    out = tmp_path / "out"
    job = Job(out, *LONG).on(flink, "process")
    name = killed(job, out, flink)
    wait_until(lambda: flink.cluster.status(name).ended, "the end of the job", seconds=280)
    before = set(flink.cluster.jobs())
    again = job.run()
    assert again.code == 0, again.err
    assert set(flink.cluster.jobs()) == before, "no second job"
    expect_the_same(job, out, long)


def test_a_job_whose_workers_were_killed_with_the_command_starts_again(flink, long, tmp_path):
    out = tmp_path / "out"
    job = Job(out, *LONG).on(flink, "loopback")
    name = killed(job, out, flink)
    job.finish_here()
    assert flink.cluster.status(name).state in ("CANCELED", "FAILED")
    expect_the_same(job, out, long)


def test_a_second_job_of_the_same_id_is_not_started(flink, tmp_path):
    """As where a submission is still in progress when its command is killed."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # the job waits for a writer
    options = FlinkOptions(
        master=flink.master, job_server_jar=str(JOB_SERVER), environment="process", detach=True
    )
    jobs = [FlinkJob(options, workers=1) for _ in range(2)]
    assert not jobs[1].is_running(jobs[0].id, accepted=False)
    assert jobs[1].id == jobs[0].id
    accepted = []

    def build(pipeline: beam.Pipeline) -> None:
        pipeline | beam.Create([str(fifo)]) | beam.Map(lambda at: pathlib.Path(at).read_text())

    for job in jobs:
        job.run(build, on_submit=accepted.append)
    assert flink.cluster.restarts_tasks()
    assert accepted == [False, True, False, True]
    assert flink.cluster.jobs().count(jobs[0].id) == 1
    assert not jobs[0].has_ended
    flink.cluster.cancel(jobs[0].id)
    wait_until(lambda: jobs[0].has_ended, "the end of the job")


def test_a_detached_job_publishes_itself(flink, long, tmp_path):
    out = tmp_path / "out"
    job = Job(out, *LONG).on(flink, "process", "--detach")
    submitted = job.run()
    assert submitted.code == 0, submitted.err
    name = submitted.out.split()[-1]
    assert submitted.out == f"submitted to {flink.cluster.url}: job {name}\n"
    # Whoever comes now is told.
    second = job.run()
    assert second.code == 1
    assert f"the Flink job {name} at {flink.cluster.url} holds the lock" in second.last
    master = ("--flink-master", flink.master)
    said = command("status", *master, "--output", str(out), "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["state"] in ("RUNNING", "CREATED")
    wait_until(lambda: flink.cluster.status(name).ended, "the end of the job", seconds=280)
    assert flink.cluster.status(name).state == "FINISHED"
    expect_the_same(job, out, long)
    assert command("status", "--output", str(out)).out.startswith("dataset: ")
    again = job.run()
    assert again.code == 0
    assert "nothing has changed" in again.out


@pytest.mark.long
def test_a_detached_job_is_cancelled_and_goes_on(flink, long, tmp_path, capsys):
    out = tmp_path / "out"
    with worker_pool() as address:
        options = ("--environment-config", address, "--detach")
        submitted = Job(out, *LONG).on(flink, "external", *options).run()
        name = submitted.out.split()[-1]
        wait_until(lambda: finished(out) >= 2, "a finished shard")
        master = ("--flink-master", flink.master)
        # In this process: while another starts, the job could end.
        code = main(["cancel", *master, "--output", str(out)])
    printed = capsys.readouterr()
    assert (code, printed.out) == (0, f"job {name} is CANCELED\n"), printed.err
    said = command("status", *master, "--job", name)
    assert said.code == 1
    assert "state: CANCELED" in said.out
    unknown = command("cancel", *master, "--job", "0" * 32)
    assert unknown.code == 1
    assert "knows no job" in unknown.last
    job = Job(out, *LONG).on(flink, "loopback")
    job.finish_here()
    expect_the_same(job, out, long)


def no_pictures(folder):
    (folder / "a").mkdir(parents=True)
    for number in range(5):
        (folder / "a" / f"{number}.jpg").write_bytes(b"no picture")
    return folder


@pytest.mark.long
def test_a_detached_job_that_is_refused_has_failed(flink, tmp_path):
    out = tmp_path / "out"
    job = Job(out, source=no_pictures(tmp_path / "in"))
    with worker_pool() as address:
        options = ("--environment-config", address, "--detach")
        name = job.on(flink, "external", *options).run().out.split()[-1]
        wait_until(lambda: flink.cluster.status(name).ended, "the end of the job")
    by_job = command("status", "--flink-master", flink.master, "--job", name)
    by_output = command("status", "--output", str(out))
    assert (by_job.code, by_output.code) == (1, 1)
    assert "5 of 5 inputs were rejected" in by_job.out
    assert by_output.out.startswith("refused: 5 of 5 inputs were rejected")
    again = command("cancel", "--flink-master", flink.master, "--job", name)
    assert again.out == f"job {name} had already ended: FAILED\n", again.err


def test_too_many_rejects_are_a_verdict(flink, tmp_path):
    job = Job(tmp_path / "out", source=no_pictures(tmp_path / "in")).on(flink, "loopback")
    result = job.run()
    assert result.code == 1
    assert result.last.startswith("recordmill images: error: 5 of 5 inputs were rejected (100.0%)")
    assert state_of_last(flink) == "FINISHED"  # nothing that an engine should try again
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_changed_file_is_told_as_everywhere(flink, tmp_path):
    # The listing of a run that was cut off is kept; the file it names is not what it was.
    out, photos = tmp_path / "out", tmp_path / "in"
    (photos / "a").mkdir(parents=True)
    source = next((ROOT / "examples" / "clothing" / "hat").iterdir())
    for number in range(3):
        (photos / "a" / f"{number}.jpg").write_bytes(source.read_bytes())
    program = (
        "import sys\n"
        "from recordmill.pipelines import cli\n"
        "from recordmill.pipelines.jobs import job\n"
        "real = job.list_input\n"
        "def listed(*args, **kw):\n"
        f"    found = real(*args, **kw); open({str(photos / 'a' / '1.jpg')!r}, 'ab').write(b'x')\n"
        "    return found\n"
        "job.list_input = listed; sys.exit(cli.main(sys.argv[1:]))"
    )
    job = Job(out, "--splits", "train=1", "--num-shards", "2", source=photos)
    result = run_program(program, *job.on(flink, "loopback").arguments)
    assert result.code == 1
    size = source.stat().st_size
    assert result.last == (
        f"recordmill images: error: {photos}/a/1.jpg changed while the job ran (was {size} bytes,"
        f" is {size + 1}): run the same command again to list the input anew"
    )
    assert "java" not in result.err


def test_a_bug_is_told_in_the_words_of_python(flink, tmp_path):
    program = (
        "import sys; from recordmill.pipelines import cli\n"
        "from tests.flink import broken; broken.install(); sys.exit(cli.main(sys.argv[1:]))"
    )
    job = Job(tmp_path / "out").on(flink, "loopback")
    result = run_program(program, *job.arguments)
    assert result.code == 1
    assert result.last == "recordmill images: error: ValueError: this encoder is broken"
    assert 'raise ValueError("this encoder is broken")' in result.err
    assert " rows, from ['" in result.err
    assert "org.apache" not in result.err


def test_a_worker_of_another_version_refuses(flink, tmp_path):
    fake = tmp_path / "recordmill-9.9.dist-info"
    fake.mkdir()
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: recordmill\nVersion: 9.9\n")
    # Where we stand comes first in the path, and an editable install has left its metadata there.
    path = f"{tmp_path}:{ROOT}"
    pool = start("worker-pool", "--port", "0", cwd=tmp_path, PYTHONPATH=path)
    try:
        assert pool.stdout is not None
        address = pool.stdout.readline().split()[-1]
        job = Job(tmp_path / "out")
        result = job.on(flink, "external", "--environment-config", address).run()
    finally:
        pool.terminate()
        pool.communicate(timeout=60)
    assert result.code == 2
    assert (
        "has recordmill 9.9, the submitter 0.1.0: install the same versions on both" in result.last
    )
    assert not job.output.exists()


def test_what_the_status_of_a_failed_job_says(flink, tmp_path):
    # Its workers cannot start.
    options = ("--environment-config", "/bin/false", "--detach")
    submitted = Job(tmp_path / "out").on(flink, "process", *options).run()
    assert submitted.code == 0, submitted.err
    name = submitted.out.split()[-1]
    wait_until(lambda: flink.cluster.status(name).ended, "the end of the job")
    said = command("status", "--flink-master", flink.master, "--job", name)
    assert said.code == 1
    assert "state: FAILED" in said.out
    assert "exit code 1" in said.out
