"""Reshuffle: a uniform shuffle of the whole dataset into its shards."""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple, overload

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from recordmill.errors import ConfigError
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.rebalance import PlannedBatches
from recordmill.transforms.staged.records import RecordValues, Values, values_of
from recordmill.transforms.staged.step_order import VALUES, OrderedStep
from recordmill.transforms.writing.shards.shuffle import BlockPiece, CutIntoPieces, ShardId


class ShuffledShards(NamedTuple):
    """The pieces of each shard (at least one, possibly empty), the plan and the run."""

    pieces: beam.PCollection[tuple[ShardId, Iterable[BlockPiece]]]
    plan: beam.PCollection[Plan]
    run: RunSpec


@dataclasses.dataclass(eq=False)
class Reshuffle(OrderedStep):
    """Shuffle the dataset into its shards: `PlannedBatches` in, `ShuffledShards` out.

    Records in memory become `RecordValues`, which `WriteToTFRecord` shuffles.

    The shard of a record and its position in the shard are functions of (seed, key, copy), so they
    are the same on any runner. Batches are read again, with the copies of the plan, and cut into
    pieces, which are rows of one shard. Pieces are passed on inline or through spill files.

    Raises:
      ConfigError: The input is not the output of an earlier step.

    Example::

        planned | Reshuffle()
    """

    takes = (PlannedBatches, *VALUES)
    after = "Rebalance"

    @overload
    def expand(self, records: PlannedBatches) -> ShuffledShards: ...

    @overload
    def expand(self, records: Values) -> RecordValues: ...

    def expand(self, records: PlannedBatches | Values) -> ShuffledShards | RecordValues:
        if not isinstance(records, PlannedBatches):
            return values_of(records)
        planned = records
        if not planned.run.has_encoder:
            raise ConfigError(
                "Reshuffle: encoder: expected one in the RunSpec, which makes the Examples, such as"
                " ImageEncoder(options=ImageOptions()), got none"
            )
        shards = (
            # Handles, not rows, wait for the plan: a runner keeps waiting elements in memory.
            planned.handles
            | "SpreadBatches" >> beam.Reshuffle()
            | "Cut"
            >> beam.ParDo(
                CutIntoPieces(planned.run.staging, unite=planned.run.layout is None),
                AsSingleton(planned.plan),
            ).with_output_types(tuple[ShardId, BlockPiece])
            | "GroupByShard" >> beam.GroupByKey()
        )
        return ShuffledShards(shards, planned.plan, planned.run)
