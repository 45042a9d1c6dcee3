"""WriteToTFRecord: encoding and writing of shards, with index and checksum, into staging."""

import dataclasses
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from recordmill.job.staging import ShardInfo
from recordmill.transforms.checks.content_check import Halves, hash_halves
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.writing.shard_writer import ShardWriter, WriteShard


class WrittenShards(NamedTuple):
    """The summary of each finished shard, hashes of its contents in buckets, and the plan."""

    infos: beam.PCollection[ShardInfo]
    contents: beam.PCollection[tuple[int, Halves]]
    plan: beam.PCollection[Plan]


def _info(written: tuple[ShardInfo, int]) -> ShardInfo:
    return written[0]


@dataclasses.dataclass(eq=False)
class WriteToTFRecord(beam.PTransform):
    """Encode and write every shard: `ShuffledShards` in, `WrittenShards` out.

    Names and compression are those of Beam's own `WriteToTFRecord`. In addition, the order of
    records is a function of (seed, key, copy), an interrupted run resumes after its finished
    shards, and each shard has a sha256 and an index. Records that cannot be encoded are rejected
    with a reason.

    only: names of the shards to write; None writes all.

    Example::

        shards | WriteToTFRecord(run)
    """

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
            groups=run.grouped,
            workers=run.workers,
            worker_memory=run.worker_memory,
            versions=run.encoder_versions,
            fingerprint=run.fingerprint,
            reuse=run.reuse,
        )
        written = shards.pieces | "WriteShard" >> beam.ParDo(
            WriteShard(writer, only=self.only), AsSingleton(shards.plan)
        ).with_output_types(tuple[ShardInfo, int])
        infos = written | "Infos" >> beam.Map(_info).with_output_types(ShardInfo)
        contents = written | "Contents" >> beam.FlatMap(
            hash_halves, staging=run.staging
        ).with_output_types(tuple[int, Halves])
        return WrittenShards(infos, contents, shards.plan)
