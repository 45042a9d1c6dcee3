"""Reshuffle: a uniform shuffle of the whole dataset into its shards."""

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.rebalance import PlannedBatches
from recordmill.transforms.staged.step_order import OrderedStep
from recordmill.transforms.writing.shuffle import BlockPiece, CutIntoPieces, ShardId


class ShuffledShards(NamedTuple):
    """The plan, and the pieces of each shard: one or more, which may be empty."""

    pieces: beam.PCollection[tuple[ShardId, Iterable[BlockPiece]]]
    plan: beam.PCollection[Plan]


@dataclasses.dataclass(eq=False)
class Reshuffle(OrderedStep):
    """Shuffle the dataset into its shards: `PlannedBatches` in, `ShuffledShards` out.

    The shard of a record and its position there are a function of (seed, key, copy), and so the
    same on any runner. Batches are read again, with the copies of the plan, and cut into pieces:
    the rows of a batch for one shard, which go to the shard inline or through spill files.

    Example::

        planned | Reshuffle(run)
    """

    takes = (PlannedBatches,)
    after = "Rebalance"

    run: RunSpec

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, planned: Any) -> Any:  # PlannedBatches -> ShuffledShards
        shards = (
            # Handles, not rows, wait for the plan: a runner keeps waiting elements in memory.
            planned.batches
            | "SpreadBatches" >> beam.Reshuffle()
            | "Cut"
            >> beam.ParDo(
                CutIntoPieces(self.run.staging), AsSingleton(planned.plan)
            ).with_output_types(tuple[ShardId, BlockPiece])
            | "GroupByShard" >> beam.GroupByKey()
            # A few keys are distributed unevenly over the workers; reshuffled elements are not.
            | "Spread" >> beam.Reshuffle()
        )
        return ShuffledShards(shards, planned.plan)
