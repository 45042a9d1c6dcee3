"""Reshuffle: every record to its shard, in a uniform random order of the whole dataset."""

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.staged.spill import Piece
from recordmill.transforms.writing.shuffle import CutIntoPieces, Shard, empty_pieces


class ShuffledShards(NamedTuple):
    """The pieces of each shard, and the plan."""

    pieces: beam.PCollection[tuple[Shard, list[Piece]]]
    plan: beam.PCollection[Plan]


def _without_empty(shard: tuple[Shard, Iterable[Piece]]) -> tuple[Shard, list[Piece]]:
    name, pieces = shard
    return name, [piece for piece in pieces if piece[0] or piece[1]]


@dataclasses.dataclass(eq=False)
class Reshuffle(beam.PTransform):
    """Shuffle the dataset into its shards: `PlannedBatches` in, `ShuffledShards` out.

    The shard of a record, and its place there, follow from (seed, key, copy): the same on any
    runner. Batches are read again here, with copies as the plan says; what travels between workers
    are pieces, the rows of a batch for one shard, inline or through spill files.

    Example::

        planned | Reshuffle(run)
    """

    run: RunSpec

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, planned: Any) -> Any:  # PlannedBatches -> ShuffledShards
        plan = AsSingleton(planned.plan)
        pieces = (
            planned.batches
            # The plan comes first: an engine would keep rows that wait for it in memory.
            | "SpreadBatches" >> beam.Reshuffle()
            | "Cut"
            >> beam.ParDo(
                CutIntoPieces(self.run.staging, grouped=self.run.grouped), plan
            ).with_output_types(tuple[Shard, Piece])
        )
        empty = (
            planned.batches.pipeline
            | "Once" >> beam.Impulse()
            | "NameShards"
            >> beam.FlatMap(empty_pieces, plan).with_output_types(tuple[Shard, Piece])
        )
        shards = (
            (pieces, empty)
            | "WithEmpty" >> beam.Flatten()
            | "GroupByShard" >> beam.GroupByKey()
            | "Pieces" >> beam.Map(_without_empty).with_output_types(tuple[Shard, list[Piece]])
            # A handful of keys falls unevenly on the workers; their shuffled elements do not.
            | "Spread" >> beam.Reshuffle()
        )
        return ShuffledShards(shards, planned.plan)
