"""WriteToTFRecord: encoding and writing of shards, with index and checksum, into staging."""

import dataclasses
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from recordmill.job.staging import ShardInfo
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.reshuffle import ShuffledShards
from recordmill.transforms.staged.step_order import OrderedStep
from recordmill.transforms.writing.shard_writer import ShardWriter, WriteShard


class WrittenShards(NamedTuple):
    """Each finished shard, with the number of records that are planned for the dataset, and the
    plan.
    """

    infos: beam.PCollection[tuple[ShardInfo, int]]
    plan: beam.PCollection[Plan]


@dataclasses.dataclass(eq=False)
class WriteToTFRecord(OrderedStep):
    """Encode and write every shard: `ShuffledShards` in, `WrittenShards` out.

    Names and compression are those of Beam's own `WriteToTFRecord`. In addition, the order of
    records is a function of (seed, key, copy), an interrupted run goes on after the last record
    written, and each shard has a sha256 and an index. Records that cannot be encoded are rejected
    with a reason.

    only: names of the shards to write; None writes all.

    Example::

        shards | WriteToTFRecord(run)
    """

    takes = (ShuffledShards,)
    after = "Reshuffle"

    run: RunSpec
    only: frozenset[str] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, shards: Any) -> Any:  # ShuffledShards -> WrittenShards
        run = self.run
        writer = ShardWriter(
            encoder=run.encoder,
            staging=run.staging,
            compression=run.compression,
            workers=run.workers,
            worker_limits=run.worker_limits,
            versions=run.encoder_versions,
            fingerprint=run.fingerprint,
            reuse=run.reuse,
        )
        written = shards.pieces | "WriteShard" >> beam.ParDo(
            WriteShard(writer, only=self.only), AsSingleton(shards.plan)
        ).with_output_types(tuple[ShardInfo, int])
        return WrittenShards(written, shards.plan)
