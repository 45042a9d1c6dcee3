"""Publish: publishing of the finished shards as a dataset."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.errors import RunError
from recordmill.job import lock, publishing
from recordmill.job.staging import FOLDER, ShardInfo, Staging
from recordmill.transforms.checks.content_check import (
    BucketReport,
    CheckContent,
    Halves,
    find_all_repeated,
    hash_halves,
    summarize,
)
from recordmill.transforms.model import limits
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.staged.step_order import OrderedStep
from recordmill.transforms.writing.dataset_manifest import publish_dataset

# A shard, and the hashes of its contents.
_Hashed = tuple[ShardInfo, Sequence[tuple[int, Halves]]]


def _hash(written: tuple[ShardInfo, int], *, staging: Staging) -> _Hashed:
    return written[0], list(hash_halves(written, staging=staging))


def _unhashed(written: tuple[ShardInfo, int]) -> _Hashed:
    return written[0], []


def _publish(
    _: bytes,
    plan: Plan,
    shards: Sequence[_Hashed],
    reports: Sequence[BucketReport] | None = None,
    *,
    run: RunSpec,
) -> list[str]:
    """Publish the dataset, with a report on the contents of its records.

    reports: of all contents; None if they are compared here.
    """
    staging = run.staging
    published = publishing.swept_manifest(staging)
    if published is not None:  # an earlier attempt of this step succeeded
        return [published.digest]
    infos = [info for info, _ in shards]
    if reports is None:
        contents = [halves for _, found in shards for halves in found]
        reports = find_all_repeated(contents, staging=staging)
    manifest = publish_dataset(plan, infos, summarize(reports, staging), run=run)
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
        lock.end_cluster_job(staging.root.parent)
    if manifest is None:  # fail, so that the runner does not report success
        verdict = staging.verdict()
        raise RunError("" if verdict is None else verdict.message)
    return [manifest.digest]


class WrittenShards(NamedTuple):
    """Each finished shard, with the number of records that are planned for the dataset, the plan
    and the run.
    """

    infos: beam.PCollection[tuple[ShardInfo, int]]
    plan: beam.PCollection[Plan]
    run: RunSpec


@dataclasses.dataclass(eq=False)
class Publish(OrderedStep):
    """Publish the dataset once all shards are written: `WrittenShards` in, the digest out.

    Nothing is published if the counts of the ledger do not add up, or if too many records were
    rejected. Publishing is a stage of the pipeline, so it does not need the submitter.

    Args:
      at_most: Upper bound of the number of records; None if it is unknown. If it is small, contents
        are compared in this stage, which saves a shuffle.

    Raises:
      RunError: The dataset is refused, and no submitter waits to report it.

    Example::

        planned | Reshuffle() | WriteToTFRecord() | Publish()
    """

    takes = (WrittenShards,)
    after = "WriteToTFRecord"

    _: dataclasses.KW_ONLY
    at_most: int | None = None

    def expand(self, shards: WrittenShards) -> beam.PCollection[str]:
        run = shards.run
        # Each side input is a vertex of its own on Flink, so one brings summaries and hashes.
        if self.at_most is not None and self.at_most <= limits.INDEX_ROWS:
            hashed = shards.infos | "Hash" >> beam.Map(
                _hash, staging=run.staging
            ).with_output_types(_Hashed)
            found = [AsList(hashed)]
        else:
            infos = shards.infos | "Infos" >> beam.Map(_unhashed).with_output_types(_Hashed)
            contents = shards.infos | "Contents" >> beam.FlatMap(
                hash_halves, staging=run.staging
            ).with_output_types(tuple[int, Halves])
            found = [AsList(infos), AsList(contents | CheckContent(run.staging))]
        # An impulse with side inputs, because a GroupByKey over no shards would emit nothing.
        return (
            shards.infos.pipeline
            | "Once" >> beam.Impulse()
            | "Publish"
            >> beam.FlatMap(
                _publish,
                AsSingleton(shards.plan),
                *found,
                run=run,
            ).with_output_types(str)
        )
