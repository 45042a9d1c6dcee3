"""The rows of a shard in their final order, sorted block by block and kept in slices.

The shuffle cuts a large shard into blocks, so that only the rows of one block are in memory at
a time (docs/adr/0059-a-shard-is-a-sequence-of-blocks.md).
"""

from __future__ import annotations

import bisect
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import xxhash

from recordmill.errors import RunError
from recordmill.job.staging import Staging
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
    """Rows of a shard that one task encodes. start: index of the first one in the shard."""

    start: int
    rows: pa.RecordBatch


class ShardRows:
    """The rows of a shard in their final order, without hashes, in slices of its blocks.

    Their keys are complete only after `batch.with_keys`.

    step: rows that one task encodes. digest: hash of the slices.
    """

    def __init__(self, staging: Staging, *, step: int) -> None:
        self._place = staging.place(f"spill/{uuid.uuid4().hex}.slices")
        self._step = step
        self._slices: list[pa.Buffer | tuple[int, int]] = []  # in memory, or a range of the file
        self._ends: list[int] = []  # index of the row after each slice
        self._kept = 0  # bytes of the slices in memory
        self._sink: Any = None
        self._hash = xxhash.xxh3_128()

    @classmethod
    def sort(
        cls, blocks: Mapping[int, Sequence[Piece]], staging: Staging, *, step: int, seed: int
    ) -> Self:
        """Sort the rows of a shard with `sort_block`, block by block.

        blocks: {number of a block: its pieces}; no piece is empty.
        """
        rows = cls(staging, step=step)
        try:
            for _, pieces in sorted(blocks.items()):
                with _row_budget.hold(sum(len(data) + length for data, _, _, length in pieces)):
                    rows._add(sort_block(pieces, seed=seed, staging=staging))
            if rows._sink is not None:
                rows._sink.close()
        except BaseException:
            rows.__exit__()
            raise
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sink is not None:
            self._sink.close()
            self._place.delete(missing_ok=True)

    @property
    def digest(self) -> bytes:
        return self._hash.digest()

    def chunks(self, first: int = 0) -> Iterator[Chunk]:
        """Yield the rows in chunks of `step`. first: index of the first row, a multiple of it."""
        parts: list[pa.RecordBatch] = []
        missing = self._step
        for number in range(bisect.bisect_right(self._ends, first), len(self._slices)):
            rows = self._read(number)
            at = max(first - self._ends[number] + len(rows), 0)
            while at < len(rows):
                parts.append(rows.slice(at, missing))
                at += len(parts[-1])
                missing -= len(parts[-1])
                if not missing:
                    yield Chunk(first, batch.concat(parts))
                    first += self._step
                    parts, missing = [], self._step
        if parts:
            yield Chunk(first, batch.concat(parts))

    def _add(self, rows: pa.RecordBatch) -> None:
        """Add the sorted rows of a block."""
        row_bytes = max(rows.nbytes / len(rows), 1)
        fitting = int(limits.for_rows(limits.SLICE_BYTES, row_bytes) / row_bytes)
        fitting = min(max(fitting, 1), limits.SLICE_ROWS)
        # Slices end where chunks do, if one fits, so that most chunks need not be joined.
        size = fitting // self._step * self._step or fitting
        at, end = 0, self._ends[-1] if self._ends else 0
        while at < len(rows):
            some = rows.slice(at, size - end % size)
            at, end = at + len(some), end + len(some)
            data = batch.to_buffer(batch.with_sorted_files(some))
            self._hash.update(data)
            self._keep(data)
            self._ends.append(end)

    def _keep(self, data: pa.Buffer) -> None:
        if self._sink is None and self._kept + len(data) <= limits.KEPT_BYTES:
            self._slices.append(data)
            self._kept += len(data)
            return
        if self._sink is None:
            self._place.parent.make_dirs()
            self._sink = self._place.open_scratch()
        self._slices.append((self._sink.tell(), len(data)))
        self._sink.write(data)

    def _read(self, number: int) -> pa.RecordBatch:
        kept = self._slices[number]
        if isinstance(kept, tuple):
            kept = pa.py_buffer(self._place.read_range(*kept))
        return batch.from_bytes(kept)


def sort_block(pieces: Sequence[Piece], *, seed: int, staging: Staging) -> pa.RecordBatch:
    """Return the rows of a block of a shard in their final order, without hashes.

    Raises:
      RunError: two records have the same key. Their ranks are equal, so both are in this block.
    """
    # The pieces are not joined, so that the rows are in memory only once.
    unordered = pa.Table.from_batches([spill.load(piece, staging=staging) for piece in pieces])
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
