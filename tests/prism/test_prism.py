"""The same datasets with Beam's Prism, a runner of its own, as on this machine.

Prism is written in Go. It runs the graph of the commands as Beam's model describes it, fuses stages
otherwise than Flink, and checks what Flink does not.
"""

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.prism_runner import PrismRunner

from benchmarks.flink_cluster import worker_pool
from recordmill.format.manifest import load
from recordmill.pipelines.cli import main
from recordmill.pipelines.jobs import run
from recordmill.storage.files import Location
from tests.all_kinds import KINDS
from tests.paths import DEMO, ROOT

PRISM = ROOT / "build" / "prism" / "prism"
# Of every data type the options that use most of the graph.
JOBS = {
    "images": ("pictures", "--dedup", "drop", "--stratify"),
    "text": ("text", "--near-duplicates", "group", "--balance", "undersample"),
    "table": ("table", "--stratify", "--balance", "oversample"),
    "sensor": ("windows", "--purge", "6h"),
    "audio": ("audio-clips",),
    "video": ("clips",),
    "arrays": ("arrays-in-chunks", "--balance", "oversample"),
}
MORE = ("--quiet", "--seed", "7", "--spill-above", "1")


@pytest.fixture(scope="session")
def pool() -> Iterator[str]:
    """A pool of workers; gives its address."""
    with worker_pool() as address:
        yield address


def digest(folder: pathlib.Path) -> str:
    return load(Location.parse(str(folder))).digest


def options(*more: str) -> PipelineOptions:
    assert PRISM.exists(), f"{PRISM} is missing: make prism"
    return PipelineOptions([f"--prism_location={PRISM}", "--prism_log_level=error", *more])


def run_on_prism(monkeypatch: pytest.MonkeyPatch, pool: str, *arguments: object) -> None:
    """Run a command whose graph goes to Prism, and its DoFns to workers of the pool."""
    graphs = []

    def on_prism(build, *, workers, checks):
        external = ("--environment_type=EXTERNAL", f"--environment_config={pool}")
        pipeline = beam.Pipeline(runner=PrismRunner(), options=options(*external))
        build(pipeline)
        result = pipeline.run()
        assert result.wait_until_finish() == "DONE"
        graphs.append(pipeline)

    with monkeypatch.context() as patch:
        patch.setattr(run, "run_here", on_prism)
        assert main([*map(str, arguments)]) == 0
    assert len(graphs) == 1, "Prism has run nothing"


@pytest.mark.parametrize("data_type", JOBS)
def test_every_data_type_gives_the_digest_of_the_local_runner(
    data_type, pool, tmp_path, monkeypatch
):
    kind, *more = JOBS[data_type]
    command = [*map(str, KINDS[kind](tmp_path)), *MORE, *more]
    assert command[0] == data_type
    assert main([*command, "--output", str(tmp_path / "here")]) == 0
    run_on_prism(monkeypatch, pool, *command, "--output", tmp_path / "prism")
    assert digest(tmp_path / "prism") == digest(tmp_path / "here")


SCRIPT = f"""
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from recordmill.transforms import *


def use(runner, options, output):
    with beam.Pipeline(runner=runner, options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | ReadImages({str(DEMO)!r})
            | DecodeAndResizeImages(size=24)
            | AssignSplits({{"train": 0.8, "test": 0.2}}, seed=7)
            | Rebalance("oversample")
            | Reshuffle()
            | WriteToTFRecord(output)
        )


use("PrismRunner", ["--prism_location={PRISM}"], sys.argv[1])
use("FnApiRunner", [], sys.argv[2])
"""


def test_a_custom_pipeline_runs_on_prism_as_beam_has_it(tmp_path):
    """With Beam's own workers, which are threads of the program, and without our patches."""
    options()
    (tmp_path / "script.py").write_text(SCRIPT)
    folders = [tmp_path / name for name in ("prism", "here")]
    subprocess.run([sys.executable, tmp_path / "script.py", *folders], cwd=ROOT, check=True)
    assert digest(folders[0]) == digest(folders[1])
