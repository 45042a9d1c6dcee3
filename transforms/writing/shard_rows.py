"""The rows of a shard in their final order, sorted block by block.

The shuffle cuts a large shard into blocks, so that only the rows of one block are in memory at
a time (docs/adr/0059-a-shard-is-a-sequence-of-blocks.md).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from recordmill.errors import RunError
from recordmill.job.staging import Staging
from recordmill.processes import environment
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece


class _RowBudget:
    """Limits the bytes of blocks that a process sorts at a time; one block may exceed it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bytes = 0

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Wait until there is room for a block of this size, and reserve it."""
        with self._changed:
            most = limits.ROW_BYTES
            self._changed.wait_for(lambda: not self._bytes or self._bytes + size <= most)
            self._bytes += size
        try:
            yield
        finally:
            with self._changed:
                self._bytes -= size
                self._changed.notify_all()


_row_budget = _RowBudget()


class Chunk(NamedTuple):
    """Rows of a shard that one task encodes.

    start: index of the first one in the shard. digest: hash of these rows and all before them. The
      rows that follow may change it too, as Arrow pads a slice with what is behind it.
    """

    start: int
    rows: pa.RecordBatch
    digest: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardRows:
    """The rows of a shard in their final order, without hashes, sorted while they are read.

    Their keys are complete only after `batch.with_keys`.

    blocks: {number of a block: its pieces}; no piece is empty. step: rows of a chunk. context: hash
      of all else that determines the bytes of the shard.
    """

    blocks: Mapping[int, Sequence[Piece]]
    staging: Staging
    step: int
    seed: int
    context: bytes

    def digest(self) -> bytes:
        """Return the hash of the context and all rows, for which these are sorted."""
        digest = self.context
        for chunk in self.chunks():
            digest = chunk.digest
        return digest

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows in chunks of `step`.

        Raises:
          RunError: two records have the same key.
        """
        digest = xxhash.xxh3_128(self.context)
        parts: list[pa.RecordBatch] = []
        start, missing = 0, self.step

        def joined() -> Chunk:
            rows = batch.with_sorted_files(batch.concat(parts))
            digest.update(batch.to_buffer(rows))
            return Chunk(start, rows, digest.digest())

        for rows in self._sorted_blocks():
            at = 0
            while at < len(rows):
                parts.append(rows.slice(at, missing))
                at += len(parts[-1])
                missing -= len(parts[-1])
                if not missing:
                    yield joined()
                    start += self.step
                    parts, missing = [], self.step
        if parts:
            yield joined()

    def _sorted_blocks(self) -> Iterator[pa.RecordBatch]:
        blocks = [pieces for _, pieces in sorted(self.blocks.items())]
        for pieces in spill.read_ahead(blocks, staging=self.staging):
            with _row_budget.hold(sum(len(data) + length for data, _, _, length in pieces)):
                rows = sort_block(pieces, seed=self.seed, staging=self.staging)
            if batch.refers_to_files(rows):  # encoding takes so long that this costs nothing
                environment.keep_memory_low()
            yield rows


def sort_block(pieces: Sequence[Piece], *, seed: int, staging: Staging) -> pa.RecordBatch:
    """Return the rows of a block of a shard in their final order, without hashes.

    Raises:
      RunError: two records have the same key. Their ranks are equal, so both are in this block.
    """
    # The pieces are not joined, so that the rows are in memory only once.
    unordered = pa.Table.from_batches(spill.load_all(pieces, staging=staging))
    ranks = batch.order_ranks(unordered, seed=seed)
    order = batch.sort_order(ranks, unordered)
    if batch.HASH in unordered.schema.names:
        unordered = unordered.drop_columns([batch.HASH])
    rows, ranks = batch.take(unordered, order), ranks[order]
    copies = batch.copies(rows)
    rows = batch.set_column(rows, batch.COPY, pa.array(copies))
    for at in np.flatnonzero(ranks[1:] == ranks[:-1]):
        key, other = batch.keys(rows.slice(at, 2)).to_pylist()
        if key == other and copies[at] == copies[at + 1]:
            raise RunError(f"two records have the key {key!r}: keys must be unique")
    return rows
