"""The rows of a shard in their final order, sorted block by block.

The shuffle cuts a large shard into blocks, so that only the rows of one block are in memory at
a time (docs/adr/0059-a-shard-is-a-sequence-of-blocks.md).
"""

from __future__ import annotations

import dataclasses
import functools
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

CountedPiece = tuple[int, Piece]  # (number of rows, piece)


class Segment(NamedTuple):
    """Consecutive chunks of a shard, from `start` up to `stop`."""

    start: int
    stop: int


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

    start: index of the first one in the shard. digest: hash of these rows and the context. The rows
      that follow may change it too: Arrow pads a slice with the values after it.
    """

    start: int
    rows: pa.RecordBatch
    digest: bytes


class RowsDigest:
    """The digest of all rows of a shard, from those of its chunks."""

    def __init__(self, context: bytes) -> None:
        self._sum = xxhash.xxh3_128(context)

    def add(self, digest: bytes) -> None:
        """Add the digest of the next chunk."""
        self._sum.update(digest)

    def hex(self) -> str:
        """Return the digest of the chunks so far."""
        return self._sum.hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardRows:
    """The rows of a shard in their final order, without hashes, sorted while they are read.

    Their keys are complete only after `batch.with_keys`.

    blocks: {number of a block: (number of rows, piece) of its pieces}; no piece is empty. step:
      rows of a chunk. context: hash of all else that determines the bytes of the shard.
    """

    blocks: Mapping[int, Sequence[CountedPiece]]
    staging: Staging
    step: int
    seed: int
    context: bytes

    @functools.cached_property
    def chunk_count(self) -> int:
        """Number of chunks of the shard."""
        rows = sum(rows for pieces in self.blocks.values() for rows, _ in pieces)
        return -(-rows // self.step)

    @property
    def largest_block(self) -> int:
        """Number of rows of the largest block."""
        counts = (sum(rows for rows, _ in pieces) for pieces in self.blocks.values())
        return max(counts, default=0)

    def digest(self) -> str:
        """Return the hash of the context and all rows, for which these are sorted."""
        digest = RowsDigest(self.context)
        for chunk in self.chunks():
            digest.add(chunk.digest)
        return digest.hex()

    def chunks(self, some: Segment | None = None) -> Iterator[Chunk]:
        """Yield the rows in chunks of `step`. some: chunks to yield; None yields all.

        Raises:
          RunError: two records have the same key.
        """
        parts: list[pa.RecordBatch] = []
        start, end = (0, self.chunk_count) if some is None else some
        start, missing = start * self.step, self.step

        def joined() -> Chunk:
            rows = batch.with_sorted_files(batch.concat(parts))
            digest = xxhash.xxh3_128(self.context)
            digest.update(batch.to_buffer(rows))
            return Chunk(start, rows, digest.digest())

        for rows in self._sorted_blocks(start, end * self.step):
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

    def _sorted_blocks(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from index `start` up to `end` of the shard, block by block."""
        blocks: list[list[Piece]] = []
        slices: list[slice] = []
        following = 0
        for _, counted in sorted(self.blocks.items()):
            first, following = following, following + sum(rows for rows, _ in counted)
            if following > start and first < end:
                blocks.append([piece for _, piece in counted])
                slices.append(slice(max(start - first, 0), end - first))
        ahead = spill.read_ahead(blocks, staging=self.staging)
        for pieces, wanted in zip(ahead, slices, strict=True):
            with _row_budget.hold(sum(len(data) + length for data, _, _, length in pieces)):
                rows = sort_block(pieces, seed=self.seed, staging=self.staging)
            # This takes little time compared with encoding files, or with requests to a store.
            if batch.refers_to_files(rows) or not self.staging.intermediate.is_local:
                environment.keep_memory_low()
            yield rows[wanted]


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
