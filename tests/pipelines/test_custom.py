"""recordmill.run: custom pipelines on this machine, their options, errors and signals."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import apache_beam as beam
import pyarrow as pa
import pytest

import recordmill
from recordmill.errors import ConfigError, RunError
from recordmill.pipelines import custom
from recordmill.transforms import AssignSplits, ReadBatches, RunSpec, StageBatches
from tests.other_processes import wait_until
from tests.paths import ROOT

SCRIPT = ROOT / "tests" / "pipelines" / "script_pipeline.py"


def start(
    output: pathlib.Path, options: dict[str, object] | None = None, **environment: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, output, json.dumps(options or {})],
        env=os.environ | environment, text=True, stderr=subprocess.PIPE, cwd=output.parent,
    )  # fmt: skip


def expect_exit(process: subprocess.Popen[str], code: int) -> str:
    """Expect an exit code, and return the output on standard error."""
    _, text = process.communicate(timeout=120)
    assert process.returncode == code, text
    return text


def test_what_a_script_defines_reaches_encoder_processes(tmp_path):
    expect_exit(start(tmp_path / "out"), 0)
    numbers = [
        record["number"]
        for split in ("train", "test")
        for record in recordmill.read(tmp_path / "out", split)
    ]
    assert sorted(numbers) == [3 * number for number in range(20) if number != 7]
    (reject,) = (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()
    assert json.loads(reject)["detail"] == "it is seven"


@pytest.mark.long
def test_errors_end_a_script_as_they_end_a_command(tmp_path):
    text = expect_exit(start(tmp_path / "out", {"max_reject_fraction": 0}), 1)
    assert "1 of 20" in text
    assert "while running" not in text


@pytest.mark.long
def test_ctrl_c_ends_a_script_and_the_next_run_continues(tmp_path):
    reached = tmp_path / "reached"
    # A shell that starts these tests in the background ignores the signal, for the script, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = start(tmp_path / "out", REACHED=str(reached))
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until(reached.exists, process)
    process.send_signal(signal.SIGINT)
    text = expect_exit(process, 130)
    assert "recordmill: stopped by SIGINT; run the same command again to continue" in text
    assert not (tmp_path / "out" / "dataset.json").exists()
    expect_exit(start(tmp_path / "out"), 0)
    assert (tmp_path / "out" / "dataset.json").exists()


def never(pipeline: beam.Pipeline) -> None:
    raise AssertionError("no pipeline is built with these options")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runner": "spark"}, "runner: expected one of direct, flink, got 'spark'"),
        ({"runner": ["flink"]}, "runner: expected one of direct, flink, got ['flink']"),
        ({"workers": -1}, "workers: expected 0 or more, got -1"),
        ({"worker": 2}, "recordmill.run: unknown option 'worker' (did you mean 'workers'?)"),
        (
            {"flink_master": "localhost:8081"},
            "flink_master: has no effect with runner='direct'; use runner='flink'",
        ),
        ({"runner": "flink", "parallelism": 0}, "parallelism: expected 1 or more, got 0"),
        ({"runner": "flink", "stall_timeout": None}, "stall_timeout: expected a whole number, got"),
        ({"runner": "flink", "retries": -1}, "retries: expected 0 or more, got -1"),
        ({"runner": "flink", "retries": 1}, "retries has no effect without flink_master"),
        ({"runner": "flink", "detach": "yes"}, "detach: expected True or False, got 'yes'"),
        ({"runner": "flink", "job_name": 3}, "job_name: expected text, got 3"),
        (
            {"runner": "flink", "environment": "kubernetes"},
            "environment: expected one of external, process, docker, loopback, got 'kubernetes'",
        ),
        ({"runner": "flink", "detach": True}, "detach needs a cluster that keeps running"),
        (
            {"runner": "flink", "environment": "loopback", "environment_config": "x"},
            "environment_config has no effect with environment='loopback'",
        ),
        ({"runner": "flink", "flink_ca_file": "x"}, "flink_token_file, flink_ca_file: need flink_"),
    ],
    ids=str,
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(ConfigError) as raised:
        recordmill.run(never, **options)
    assert str(raised.value).startswith(message)
    assert "--" not in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_pipeline_is_no_function_that_builds_one():
    with pytest.raises(ConfigError, match="build: expected a function that takes a pipeline, got"):
        recordmill.run(beam.Pipeline(runner="FnApiRunner"))


def stage(output: pathlib.Path, rows: pa.RecordBatch) -> None:
    run = RunSpec(output=str(output), splits={"train": 1.0})

    def build(pipeline: beam.Pipeline) -> None:
        staged = pipeline | beam.Create([rows]) | StageBatches(run) | AssignSplits()
        staged | ReadBatches()

    recordmill.run(build, workers=1)


def test_errors_of_steps_have_exit_codes(tmp_path):
    with pytest.raises(ConfigError, match="__key__") as config_error:
        stage(tmp_path / "numbers", pa.RecordBatch.from_pydict({"__key__": [1]}))
    with pytest.raises(RunError, match="expected every key once") as run_error:
        stage(tmp_path / "repeated", pa.RecordBatch.from_pydict({"__key__": ["a", "a"]}))
    assert [config_error.value.exit_code, run_error.value.exit_code] == [2, 1]
    assert "while running" not in f"{config_error.value} {run_error.value}"


def test_exceptions_of_functions_are_raised_as_they_are():
    def build(pipeline: beam.Pipeline) -> None:
        pipeline | beam.Create([0]) | beam.Map(lambda number: 1 / number)

    with pytest.raises(ZeroDivisionError):
        recordmill.run(build, workers=1)


def test_the_result_has_the_counters():
    def count(number: int) -> None:
        beam.metrics.Metrics.counter("numbers", "seen").inc(number)

    def build(pipeline: beam.Pipeline) -> None:
        pipeline | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(count)

    found = recordmill.run(build, workers=2).metrics().query()["counters"]
    assert {one.key.metric.name: one.committed for one in found} == {"seen": 6}


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_that_of_the_dataset(progress, tmp_path, monkeypatch):
    shown = []

    class Once(custom.Watcher):
        def __enter__(self):
            shown.append((self._quiet, self._poll()))
            return self

    monkeypatch.setattr(custom, "Watcher", Once)
    run = RunSpec(output=str(tmp_path / "out"), splits={"train": 1.0})

    def build(pipeline: beam.Pipeline) -> None:
        rows = pa.RecordBatch.from_pydict({"__key__": ["a"]})
        pipeline | beam.Create([rows]) | StageBatches(run)

    recordmill.run(build, workers=1, progress=progress)
    ((quiet, snapshot),) = shown
    assert quiet is not progress
    assert snapshot.phase == "listing"


_handlers: list[object] = []


def keep_handlers(_: int) -> None:
    _handlers[:] = map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))


def test_a_program_keeps_its_own_handlers_of_signals():
    def build(pipeline: beam.Pipeline) -> None:
        pipeline | beam.Create([1]) | beam.Map(keep_handlers)

    def of_program(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, of_program)
    try:
        recordmill.run(build)
        assert signal.getsignal(signal.SIGINT) is of_program
    finally:
        signal.signal(signal.SIGINT, before)
    interrupt, terminate = _handlers
    assert interrupt is of_program
    assert terminate != signal.getsignal(signal.SIGTERM)
