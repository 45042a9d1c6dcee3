"""Publish: publishing of the finished shards as a dataset."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.errors import RunError
from recordmill.format.manifest import MANIFEST, load
from recordmill.job import lock
from recordmill.job.staging import FOLDER, ShardInfo
from recordmill.transforms.checks.content_check import (
    BucketReport,
    CheckContent,
    find_all_repeated,
    summarize,
)
from recordmill.transforms.model import limits
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.writing.dataset_manifest import publish_dataset

_ReportOn = Callable[[Sequence[Any]], Sequence[BucketReport]]


def _publish(
    _: bytes,
    plan: Plan,
    infos: Sequence[ShardInfo],
    contents: Sequence[Any],
    *,
    run: RunSpec,
    report: _ReportOn,
) -> list[str]:
    """Publish the dataset, with a report on the contents of its records."""
    staging = run.staging
    if not staging.root.exists() and (staging.output / MANIFEST).exists():
        return [load(staging.output).digest]  # an earlier attempt of this step succeeded
    manifest = publish_dataset(plan, infos, summarize(report(contents), staging), run=run)
    written = sum(info.shard.records for info in infos)
    rejected = sum(len(info.rejects) for info in infos)
    RecordCounters("Publish").add(
        read=written, out=0 if manifest is None else written, rejected=rejected
    )
    if run.watched:
        return [] if manifest is None else [manifest.digest]
    if run.is_custom:
        if manifest is not None:  # finished shards of a refused run stay
            (staging.output / FOLDER).delete_tree()
    else:
        if manifest is not None:
            staging.sweep()
        lock.end_detached_job(staging.root.parent)
    if manifest is None:  # fail, so that the runner does not report success
        verdict = staging.verdict()
        raise RunError("" if verdict is None else verdict.message)
    return [manifest.digest]


@dataclasses.dataclass(eq=False)
class Publish(beam.PTransform):
    """Publish the dataset once all shards are written: `WrittenShards` in, the digest out.

    Nothing is published if the counts of the ledger do not add up, or if too many records were
    rejected. Publishing is a stage of the pipeline, so that it also happens without the submitter.

    at_most: upper bound of the number of records; None if it is unknown. The contents
      of few records are compared while they are published, which saves a shuffle.

    Raises:
      RunError: the dataset is refused, and no submitter waits to report it.
    """

    run: RunSpec
    _: dataclasses.KW_ONLY
    at_most: int | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, shards: Any) -> beam.PCollection[str]:  # WrittenShards
        contents = shards.contents
        report: _ReportOn = functools.partial(find_all_repeated, staging=self.run.staging)
        if self.at_most is None or self.at_most > limits.INDEX_ROWS:
            contents, report = contents | CheckContent(self.run.staging), list
        # An impulse with side inputs, because a GroupByKey over no shards would emit nothing.
        return (
            shards.infos.pipeline
            | "Once" >> beam.Impulse()
            | "Publish"
            >> beam.FlatMap(
                _publish,
                AsSingleton(shards.plan),
                AsList(shards.infos),
                AsList(contents),
                run=self.run,
                report=report,
            ).with_output_types(str)
        )
