"""The shuffle: the rank of a record decides its shard and its position there.

The order of the whole dataset is a function of (seed, key, copy). It is a uniform shuffle, and it
is the same on any runner, with any number of workers, and for any order of the input.
"""

from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.job.publishing import swept_manifest
from recordmill.job.staging import Staging
from recordmill.transforms.balancing.quotas import replicate
from recordmill.transforms.model import batch, coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.handles import Element, StagedBatch
from recordmill.transforms.staged.parts import read_columns, with_columns
from recordmill.transforms.staged.spill import Piece

ShardId = tuple[str, int]  # (split, number)
BlockPiece = tuple[int, int, Piece]  # (number of the block of its shard, rows in the piece, piece)


def all_shards(plan: Plan) -> list[ShardId]:
    """Return all shards of a plan."""
    return [(name, i) for name, split in plan.splits.items() for i in range(split.shards)]


def all_blocks(plan: Plan) -> list[tuple[ShardId, int]]:
    """Return (shard, number of the block) of all blocks of a plan, in the order of the rows."""
    counts = _block_counts(plan)
    return [(shard, block) for shard in all_shards(plan) for block in range(counts[shard[0]])]


def _block_counts(plan: Plan) -> dict[str, int]:
    """Return {split: number of blocks of each of its shards}."""
    shards = sum(split.shards for split in plan.splits.values())
    most = max(limits.MAX_BLOCKS // max(shards, 1), 1) if plan.spill else 1
    largest = limits.for_rows(limits.BLOCK_BYTES, plan.row_bytes)
    counts = {}
    for name, split in plan.splits.items():
        of_tasks = limits.BLOCK_TASKS * split.task_rows * plan.row_bytes
        size = min(largest, max(of_tasks, limits.LEAST_BLOCK_BYTES))
        wanted = -(-split.records * plan.row_bytes // (split.shards * size))
        counts[name] = min(wanted, most) or 1
    return counts


def block_indices(rows: pa.RecordBatch, *, plan: Plan) -> npt.NDArray[np.int64]:
    """Return the index in `all_blocks` of the block of each row: int64[n].

    This is the rank of the row, scaled to the number of blocks of its split. Blocks of a shard are
    equal parts of its range of ranks, so their number does not move a row to another shard.
    """
    codes, splits = batch.encode(rows[batch.SPLIT])
    blocks = _block_counts(plan)
    counts = {name: split.shards * blocks[name] for name, split in plan.splits.items()}
    starts = dict(zip(counts, np.cumsum([0, *[*counts.values()][:-1]]), strict=True))
    names = splits.to_pylist()
    first = np.array([starts[name] for name in names], np.int64)[codes]
    number = np.array([counts[name] for name in names], np.int64)[codes]
    return first + batch.scale(batch.order_ranks(rows, seed=plan.seed), number)


def balanced_rows(
    element: Element,
    plan: Plan,
    staging: Staging,
    *,
    grouped: bool,
    unite: bool,
    keys: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch, each as often as the plan says, with the column `__copy__`.

    grouped: whether records have groups; otherwise the column `__group__` is dropped. unite:
      whether columns of batches may differ. keys: as in `read_part`.
    """
    if not isinstance(element, StagedBatch) or element.role != "records":
        return
    rows = element.read(staging, columns=None, keys=keys)
    if unite:
        rows = with_columns(rows, read_columns(staging))
    if not grouped and batch.GROUP in rows.schema.names:  # it is all null
        rows = rows.drop_columns([batch.GROUP])
    done = (batch.UNIT, batch.NEAR)
    rows = rows.drop_columns([name for name in done if name in rows.schema.names])
    yield from replicate(rows, quotas=plan.quotas, seed=plan.seed)


class CutIntoPieces(beam.DoFn):
    """Cuts batches into the pieces of shards, inline or in spill files as the plan says.

    The first batch of the plan also gives an empty piece for each shard. unite: whether columns of
    batches may differ.
    """

    def __init__(self, staging: Staging, *, unite: bool = False) -> None:
        self._staging = staging
        self._unite = unite
        self._rows: list[pa.RecordBatch] = []
        self._blocks: list[npt.NDArray[np.int64]] = []
        self._bytes = 0
        self._plan: Plan | None = None
        self._counters = RecordCounters("Reshuffle")

    def start_bundle(self) -> None:
        self._clear()
        # Flink retries the steps up to Publish together.
        self._is_published = swept_manifest(self._staging) is not None

    def process(self, element: Element, plan: Plan) -> Iterator[tuple[ShardId, BlockPiece]]:
        if plan.verdict is not None or self._is_published:
            return
        self._plan = plan
        if isinstance(element, StagedBatch) and element.part.name == plan.parts[0].name:
            yield from empty_pieces(plan)
        found = balanced_rows(
            element, plan, self._staging, grouped=plan.grouped, unite=self._unite, keys=False
        )
        for rows in found:
            if len(rows):
                self._counters.add(read=len(rows), out=len(rows))
                yield from self._cut(rows, plan)

    def _cut(self, rows: pa.RecordBatch, plan: Plan) -> Iterator[tuple[ShardId, BlockPiece]]:
        blocks = block_indices(rows, plan=plan)
        # The shard has the split, and without quotas there are no copies.
        known = [batch.SPLIT] if plan.quotas else [batch.SPLIT, batch.COPY]
        rows = rows.drop_columns(known)
        if not plan.spill:
            ids = all_shards(plan)
            for shard, part in spill.split_by_shard(rows, blocks):
                yield ids[shard], (0, len(part), spill.inline(part))
            return
        self._rows.append(rows)
        self._blocks.append(blocks)
        self._bytes += rows.nbytes
        if self._bytes >= _spilled_bytes(plan, rows):
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for element in self._flush():
            yield GlobalWindows.windowed_value_at_end_of_window(element)

    def _clear(self) -> None:
        self._rows, self._blocks = [], []
        self._bytes = 0

    def _flush(self) -> list[tuple[ShardId, BlockPiece]]:
        if not self._rows:
            return []
        assert self._plan is not None
        ids = all_blocks(self._plan)
        rows, blocks = pa.Table.from_batches(self._rows), np.concatenate(self._blocks)
        self._clear()
        counts = np.bincount(blocks, minlength=len(ids)).tolist()
        pieces = spill.spill(rows, blocks, self._staging)
        return [(ids[at][0], (ids[at][1], counts[at], piece)) for at, piece in pieces]


def _spilled_bytes(plan: Plan, rows: pa.RecordBatch) -> int:
    """Return how many bytes of such rows a worker collects before it writes a spill file."""
    buffered = limits.BUFFER_BYTES
    if batch.refers_to_files(rows):
        buffered = limits.REFERENCE_BUFFER_BYTES
    blocks = len(all_blocks(plan)) * limits.for_rows(limits.PIECE_BYTES, plan.row_bytes)
    least = limits.for_rows(buffered, plan.row_bytes)
    return min(blocks, max(least, blocks // 8), limits.SPILL_BYTES)


def empty_pieces(plan: Plan) -> Iterator[tuple[ShardId, BlockPiece]]:
    """Yield an empty piece for each shard, so that shards without records are written too."""
    for shard in all_shards(plan):
        yield shard, (0, 0, (b"", "", 0, 0))
