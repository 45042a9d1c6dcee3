"""Publish: from finished shards to a dataset, if the ledger closes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.errors import RunError
from recordmill.format.manifest import MANIFEST, load
from recordmill.job import lock
from recordmill.job.staging import FOLDER, ShardInfo
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.writing.publication import publish


def _publish(_: bytes, plan: Plan, infos: Sequence[ShardInfo], *, run: RunSpec) -> list[str]:
    staging = run.staging
    if not staging.root.exists() and (staging.output / MANIFEST).exists():
        return [load(staging.output).digest]  # an attempt before this one has finished
    manifest = publish(plan, infos, run=run)
    written = sum(info.shard.records for info in infos)
    rejected = sum(len(info.rejects) for info in infos)
    RecordCounters("Publish").add(
        read=written, out=0 if manifest is None else written, rejected=rejected
    )
    if run.watched:
        return [] if manifest is None else [manifest.digest]
    if run.is_custom:
        if manifest is not None:  # what a refused run has finished stays
            (staging.output / FOLDER).delete_tree()
    else:
        if manifest is not None:
            staging.sweep()
        lock.end_detached_job(staging.root.parent)
    if manifest is None:  # the engine must not report that the job succeeded
        verdict = staging.verdict()
        raise RunError("" if verdict is None else verdict.message)
    return [manifest.digest]


@dataclasses.dataclass(eq=False)
class Publish(beam.PTransform):
    """Publish the dataset, once, after the last shard: `WrittenShards` in, its digest out.

    Nothing is published while the ledger is open or too many records were rejected. Publishing is a
    stage of the pipeline, so that a job whose submitter has left publishes itself.

    Raises:
      RunError: the dataset is refused, and nobody watches the run to report it.
    """

    run: RunSpec

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, shards: Any) -> beam.PCollection[str]:  # WrittenShards
        # An impulse with a side input: a GroupByKey over nothing would never fire.
        return (
            shards.infos.pipeline
            | "Once" >> beam.Impulse()
            | "Publish"
            >> beam.FlatMap(
                _publish, AsSingleton(shards.plan), AsList(shards.infos), run=self.run
            ).with_output_types(str)
        )
