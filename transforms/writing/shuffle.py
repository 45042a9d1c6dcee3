"""The shuffle: the rank of a record decides its shard and its position there.

The order of the whole dataset is a function of (seed, key, copy). It is a uniform shuffle, and it
is the same on any runner, with any number of workers, and for any order of the input.
"""

from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.errors import RunError
from recordmill.job.staging import Staging
from recordmill.transforms.balancing.quotas import replicate
from recordmill.transforms.model import batch, coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.batches import Element, StagedBatch
from recordmill.transforms.staged.spill import Piece

ShardId = tuple[str, int]  # (split, number)


def all_shards(plan: Plan) -> list[ShardId]:
    """Return all shards of a plan."""
    return [(name, i) for name, split in plan.splits.items() for i in range(split.shards)]


def shard_indices(rows: pa.RecordBatch, *, plan: Plan) -> npt.NDArray[np.int64]:
    """Return the index in `all_shards` of the shard of each row: int64[n].

    It is the rank of the row, scaled to the number of shards of its split.
    """
    codes, splits = batch.encode(rows[batch.SPLIT])
    counts = [split.shards for split in plan.splits.values()]
    starts = dict(zip(plan.splits, np.cumsum([0, *counts[:-1]]), strict=True))
    names = splits.to_pylist()
    first = np.array([starts[name] for name in names], np.int64)[codes]
    number = np.array([plan.splits[name].shards for name in names], np.int64)[codes]
    return first + batch.scale(batch.order_ranks(rows, seed=plan.seed), number)


def balanced_rows(
    element: Element, plan: Plan, staging: Staging, *, grouped: bool, keys: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch, each as often as the plan says, with the column `__copy__`.

    grouped: whether records have groups; otherwise the column `__group__` is dropped. keys: as in
      `read_part`.
    """
    if not isinstance(element, StagedBatch) or element.role != "records":
        return
    rows = element.read(staging, columns=None, keys=keys)
    if not grouped and batch.GROUP in rows.schema.names:  # it is all null
        rows = rows.drop_columns([batch.GROUP])
    done = (batch.UNIT, batch.NEAR)
    rows = rows.drop_columns([name for name in done if name in rows.schema.names])
    yield from replicate(rows, quotas=plan.quotas, seed=plan.seed)


class CutIntoPieces(beam.DoFn):
    """Cuts batches into the pieces of shards, inline or in spill files as the plan says."""

    def __init__(self, staging: Staging, *, grouped: bool) -> None:
        self._staging = staging
        self._grouped = grouped
        self._rows: list[pa.RecordBatch] = []
        self._shards: list[npt.NDArray[np.int64]] = []
        self._bytes = 0
        self._plan: Plan | None = None
        self._counters = RecordCounters("Reshuffle")

    def start_bundle(self) -> None:
        self._rows, self._shards = [], []
        self._bytes = 0

    def process(self, element: Element, plan: Plan) -> Iterator[tuple[ShardId, Piece]]:
        if plan.verdict is not None:
            return
        self._plan = plan
        element_rows = balanced_rows(
            element, plan, self._staging, grouped=self._grouped, keys=False
        )
        for rows in element_rows:
            if len(rows):
                self._counters.add(read=len(rows), out=len(rows))
                yield from self._cut(rows, plan)

    def _cut(self, rows: pa.RecordBatch, plan: Plan) -> Iterator[tuple[ShardId, Piece]]:
        shards = shard_indices(rows, plan=plan)
        # The shard has the split, and without quotas there are no copies.
        known = [batch.SPLIT] if plan.quotas else [batch.SPLIT, batch.COPY]
        rows = rows.drop_columns(known)
        ids = all_shards(plan)
        if not plan.spill:
            for shard, part in spill.split_by_shard(rows, shards):
                yield ids[shard], spill.inline(part)
            return
        self._rows.append(rows)
        self._shards.append(shards)
        self._bytes += rows.nbytes
        if self._bytes >= min(limits.SPILL_BYTES, len(ids) * limits.PIECE_BYTES):
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for element in self._flush():
            yield GlobalWindows.windowed_value_at_end_of_window(element)

    def _flush(self) -> list[tuple[ShardId, Piece]]:
        if not self._rows:
            return []
        assert self._plan is not None
        ids = all_shards(self._plan)
        rows, shards = pa.Table.from_batches(self._rows), np.concatenate(self._shards)
        self.start_bundle()
        pieces = spill.spill(rows, shards, self._staging)
        return [(ids[shard], piece) for shard, piece in pieces]


def empty_pieces(plan: Plan) -> Iterator[tuple[ShardId, Piece]]:
    """Yield an empty piece for each shard, so that shards without records are written too."""
    for shard in all_shards(plan):
        yield shard, (b"", "", 0, 0)


def sort_pieces(pieces: Iterable[Piece], *, seed: int, staging: Staging) -> pa.RecordBatch | None:
    """Return the rows of a shard in their final order, without hashes; None if it has no rows.

    Their keys are complete only after `batch.with_keys`.

    Raises:
      RunError: two records have the same key. Their ranks are equal, so both are in this shard.
    """
    loaded = [spill.load(piece, staging=staging) for piece in pieces]
    if not loaded:
        return None
    # A shard may be large: the pieces are not joined, so that it is in memory only once.
    unordered = pa.Table.from_batches(loaded)
    ranks = batch.order_ranks(unordered, seed=seed)
    order = batch.sort_order(ranks, unordered)
    if batch.HASH in unordered.schema.names:
        unordered = unordered.drop_columns([batch.HASH])
    rows, ranks = batch.with_sorted_files(batch.take(unordered, order)), ranks[order]
    copies = batch.copies(rows)
    rows = batch.set_column(rows, batch.COPY, pa.array(copies))
    for at in np.flatnonzero(ranks[1:] == ranks[:-1]):
        key, other = batch.keys(rows.slice(at, 2)).to_pylist()
        if key == other and copies[at] == copies[at + 1]:
            raise RunError(f"two records have the key {key!r}: keys must be unique")
    return rows
