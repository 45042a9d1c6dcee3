"""The shuffle: every record goes to the shard, and the place in it, that its rank says.

The order of the whole dataset is a function of (seed, key, copy): a uniform shuffle, the same on
any runner, with any number of workers, in whatever order the input came.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.errors import RunError
from recordmill.job.staging import Staging
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

Shard = tuple[str, int]  # split, number
ReadRows = Callable[..., Iterable[pa.RecordBatch]]


def shard_names(plan: Plan) -> list[Shard]:
    """All shards of a plan; a shard's place in here is its id."""
    return [(name, i) for name, split in plan.splits.items() for i in range(split.shards)]


def shard_ids(rows: pa.RecordBatch, *, plan: Plan) -> npt.NDArray[np.int64]:
    """The id of each row's shard: its rank scaled to the number of shards of its split."""
    codes, splits = batch.encode(rows[batch.SPLIT])
    counts = [split.shards for split in plan.splits.values()]
    starts = dict(zip(plan.splits, np.cumsum([0, *counts[:-1]]), strict=True))
    names = splits.to_pylist()
    first = np.array([starts[name] for name in names], np.int64)[codes]
    number = np.array([plan.splits[name].shards for name in names], np.int64)[codes]
    return first + batch.scale(batch.order_ranks(rows, seed=plan.seed), number)


class _CutIntoPieces(beam.DoFn):
    """Cuts batches by shard, inline or spilled as the plan says."""

    def __init__(self, staging: Staging, read: ReadRows) -> None:
        self._staging = staging
        self._read = read
        self._rows: list[pa.RecordBatch] = []
        self._shards: list[npt.NDArray[np.int64]] = []
        self._bytes = 0
        self._plan: Plan | None = None

    def start_bundle(self) -> None:
        self._rows, self._shards = [], []
        self._bytes = 0

    def process(self, name: str, plan: Plan, *sides: Any) -> Iterator[tuple[Shard, Piece]]:
        if plan.verdict is not None:
            return
        self._plan = plan
        for rows in self._read(name, plan, *sides):
            if len(rows):
                yield from self._cut(rows, plan)

    def _cut(self, rows: pa.RecordBatch, plan: Plan) -> Iterator[tuple[Shard, Piece]]:
        shards = shard_ids(rows, plan=plan)
        rows = rows.drop_columns([batch.SPLIT])  # that of the shard
        if not plan.spill:
            names = shard_names(plan)
            for shard, part in spill.cut(rows, shards):
                yield names[shard], spill.inline(part)
            return
        self._rows.append(rows)
        self._shards.append(shards)
        self._bytes += rows.nbytes
        if self._bytes >= spill.BUFFER:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for element in self._flush():
            yield GlobalWindows.windowed_value_at_end_of_window(element)

    def _flush(self) -> list[tuple[Shard, Piece]]:
        if not self._rows:
            return []
        assert self._plan is not None
        names = shard_names(self._plan)
        rows, shards = pa.Table.from_batches(self._rows), np.concatenate(self._shards)
        self.start_bundle()
        pieces = spill.spill(rows, shards, self._staging)
        return [(names[shard], piece) for shard, piece in pieces]


def _no_pieces(_: bytes, plan: Plan) -> Iterator[tuple[Shard, Piece]]:
    """Shards to which nothing falls must be written too: each shard gets an empty piece."""
    for shard in shard_names(plan):
        yield shard, (b"", "", 0, 0)


def _pieces(shard: tuple[Shard, Iterable[Piece]]) -> tuple[Shard, list[Piece]]:
    name, pieces = shard
    return name, [piece for piece in pieces if piece[0] or piece[1]]


@dataclasses.dataclass(eq=False)
class ReshuffleIntoShards(beam.PTransform):
    """Names of batches in, (shard, its pieces) out: a uniform shuffle of the whole dataset.

    Names and not rows, as the plan comes first, and an engine would keep in memory what waits for
    it; and a step that made rows with the plan would be a stage of its own, between which and this
    one every row travels.

    plan: a side input. staging: where large plans spill. read: the batches of a name, of (name,
      plan, *sides), where sides are further side inputs.
    """

    plan: beam.pvalue.AsSideInput
    staging: Staging
    read: ReadRows
    sides: Sequence[beam.pvalue.AsSideInput] = ()

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, names: beam.PCollection[str]) -> beam.PCollection[tuple[Shard, list[Piece]]]:
        pieces = names | "Cut" >> beam.ParDo(
            _CutIntoPieces(self.staging, self.read), self.plan, *self.sides
        ).with_output_types(tuple[Shard, Piece])
        empty = (
            names.pipeline
            | "Once" >> beam.Impulse()
            | "NameShards"
            >> beam.FlatMap(_no_pieces, self.plan).with_output_types(tuple[Shard, Piece])
        )
        return (
            (pieces, empty)
            | "WithEmpty" >> beam.Flatten()
            | "GroupByShard" >> beam.GroupByKey()
            | "Pieces" >> beam.Map(_pieces).with_output_types(tuple[Shard, list[Piece]])
            # A handful of keys falls unevenly on the workers; their shuffled elements do not.
            | "Spread" >> beam.Reshuffle()
        )


def sort_pieces(pieces: Iterable[Piece], *, seed: int, staging: Staging) -> pa.RecordBatch | None:
    """The rows of a shard in their final order, without what has brought them there; None where it
    has none.

    Raises:
      RunError: a record comes twice. Its rank is the same, so both are in this shard.
    """
    loaded = [spill.load(piece, staging=staging) for piece in pieces]
    if not loaded:
        return None
    # A shard may be large, and there are not to be two of it in memory.
    unordered = pa.Table.from_batches(loaded)
    ranks = batch.order_ranks(unordered, seed=seed)
    order = batch.sort_order(ranks, unordered)
    if batch.HASH in unordered.schema.names:
        unordered = unordered.drop_columns([batch.HASH])
    rows, ranks = batch.take(unordered, order), ranks[order]
    keys, copies = rows[batch.KEY], batch.copies(rows)
    for at in np.flatnonzero(ranks[1:] == ranks[:-1]):
        if keys[at] == keys[at + 1] and copies[at] == copies[at + 1]:
            raise RunError(f"two records have the key {keys[at].as_py()!r}: keys have to be unique")
    return rows
