"""Jobs on the tiny kind, from their options to the files they leave."""

import dataclasses
import pathlib
from typing import Any

from recordmill.pipelines.jobs.job import Job
from recordmill.pipelines.jobs.job_outcome import JobOutcome
from recordmill.pipelines.jobs.road import Road
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.runners import direct
from recordmill.transforms.model.data_type import Analysis, Chunker, DataType, Duplicates
from recordmill.transforms.model.source import Source
from recordmill.transforms.sources.files.input_paths import InputPath
from tests.tiny import TinyCheck, TinyEncoder, TinyPacker


def tiny_job(
    output: pathlib.Path,
    source: Source,
    *,
    check: bool = False,
    duplicates: Duplicates | None = None,
    analysis: Analysis | None = None,
    chunker: Chunker | None = None,
    packed: bool = False,
    unit: str = "input",
    **options: Any,
) -> Job:
    """A job as the command line would make it; options are those of CommonConfig."""
    options.setdefault("split_column", "split")  # rows that have a split keep it
    config = CommonConfig(input=(InputPath("/nowhere"),), output=str(output), **options)
    kind = DataType(
        name="tiny",
        source=source,
        encoder=TinyPacker() if packed else TinyEncoder(),
        check=TinyCheck() if check else None,
        duplicates=duplicates,
        analysis=analysis,
        chunker=chunker,
        unit=unit,
    )
    return Job(config, kind)


def run(job: Job, *, workers: int = 1, several_machines: bool = False) -> JobOutcome:
    """Run a job as a command does. several_machines: write as on a cluster."""

    def run_road(road: Road) -> None:
        spec = dataclasses.replace(road.run, several_machines=several_machines)
        build = dataclasses.replace(road, run=spec).build
        direct.run(build, workers=workers, checks=False)

    return job.run(run_road, on_listed=lambda rows: None)


def tree(folder: pathlib.Path) -> dict[str, bytes]:
    """{path: content} of the files of a dataset, staging and lock left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] != ".recordmill"
    }
