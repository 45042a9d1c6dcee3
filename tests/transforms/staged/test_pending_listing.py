"""A pipeline that never runs leaves no trace, and one that runs finds its listing in staging."""

import gc
import pathlib
import tempfile

import apache_beam as beam
import pytest

from recordmill.errors import ConfigError
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    Publish,
    Read,
    Rebalance,
    Reshuffle,
    RunSpec,
    WriteToTFRecord,
)
from tests.tiny import TinyEncoder, TinySections, TinySource, tiny_rows

SOURCES = {
    "rows": TinySource(rows=tiny_rows(60)),
    "sections": TinySections(rows=tiny_rows(60)),
}


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch) -> pathlib.Path:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def spec(output: pathlib.Path, **options) -> RunSpec:
    return RunSpec(
        output=str(output), encoder=TinyEncoder(), splits={"train": 0.5, "test": 0.5}, **options
    )


def build(pipeline: beam.Pipeline, source, run: RunSpec) -> None:
    analyzed = pipeline | Read.from_source(source, run) | AssignSplits() | Analyze()
    analyzed | Rebalance("oversample") | Reshuffle() | WriteToTFRecord() | Publish()


@pytest.mark.parametrize("kind", SOURCES)
def test_a_pipeline_that_never_runs_writes_nothing(kind, tmp_path, temporary):
    pipeline = beam.Pipeline(runner="FnApiRunner")
    build(pipeline, SOURCES[kind], spec(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    del pipeline
    gc.collect()
    assert [path for path in temporary.iterdir() if "listing" in path.name] == []


def test_a_step_that_is_refused_leaves_nothing(tmp_path, temporary):
    pipeline = beam.Pipeline(runner="FnApiRunner")
    run = spec(tmp_path / "out")
    with pytest.raises(ConfigError, match="apply AssignSplits before it"):
        pipeline | Read.from_source(SOURCES["rows"], run) | Analyze()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_program_runs_in_a_with_block_and_again(kind, tmp_path):
    digests = []
    for seed in (1, 1, 2):
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            build(pipeline, SOURCES[kind], spec(tmp_path / "out", seed=seed, overwrite=True))
        digests.append(load(Location.parse(str(tmp_path / "out"))).digest)
    assert digests[0] == digests[1] != digests[2]


def test_pipelines_that_are_built_before_either_runs(tmp_path):
    pipelines = []
    for _ in range(2):
        pipeline = beam.Pipeline(runner="FnApiRunner")
        build(pipeline, SOURCES["rows"], spec(tmp_path / "out", overwrite=True))
        pipelines.append(pipeline)
    for pipeline in pipelines:
        pipeline.run().wait_until_finish()
    assert load(Location.parse(str(tmp_path / "out"))).ledger.records.written
