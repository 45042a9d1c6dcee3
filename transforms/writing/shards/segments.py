"""Segments of shards: consecutive chunks, which one worker encodes into one file.

The file of a segment has an entry for each chunk (`chunk_entries`), followed by the chunk. Its name
begins as those of the shard's drafts, with which it is deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from typing import BinaryIO, NamedTuple, Self

import pyarrow as pa

from recordmill.job.staging import DRAFTS, Staging
from recordmill.storage.files import MissingError
from recordmill.transforms.model import batch, limits
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.encoder_tasks import EncodedChunk
from recordmill.transforms.staged.spill import Piece
from recordmill.transforms.writing.shards.chunk_entries import StoredChunk, entry_of, read_entries
from recordmill.transforms.writing.shards.ordered_encoding import RowChunk
from recordmill.transforms.writing.shards.shard_rows import Segment, ShardRows
from recordmill.transforms.writing.shards.shuffle import BlockPiece, ShardId, all_shards


class ShardWork(NamedTuple):
    """A shard to write.

    pieces: its pieces, packed by `pack_pieces`. segments: empty if one worker writes the whole
    shard. attempt: unique prefix of the names of its claims.
    """

    shard: ShardId
    pieces: Piece
    segments: tuple[Segment, ...]
    attempt: str

    @property
    def units(self) -> tuple[Segment | None, ...]:
        """Units that workers claim: the segments, or None for the whole shard."""
        return self.segments or (None,)

    def claim_name(self, segment: Segment | None) -> str:
        """Return the name of the claim of a segment, or of the whole shard, in `CLAIMS`."""
        return f"{self.attempt}-{'all' if segment is None else segment.start}"


def divide(rows: ShardRows, plan: Plan, split: str) -> tuple[Segment, ...]:
    """Return the segments of a shard of a split; empty if it is not divided."""
    if len(all_shards(plan)) >= limits.SEGMENTS:
        return ()
    tasks = sum(-(-one.records // one.task_rows) for one in plan.splits.values())
    size = min(max(tasks // limits.SEGMENTS, 1), limits.SEGMENT_TASKS)
    # The first and the last block of a segment are sorted for its neighbours as well.
    block_bytes = rows.largest_block * plan.row_bytes
    estimate = plan.splits[split].estimate
    task_bytes = rows.step * (estimate.record_bytes + estimate.input_bytes)
    size = max(size, round(limits.SEGMENT_BLOCKS * block_bytes / max(task_bytes, 1)))
    chunks = rows.chunk_count
    if chunks <= size:
        return ()
    return tuple(Segment(at, min(at + size, chunks)) for at in range(0, chunks, size))


_PIECES = pa.schema(
    {
        "block": pa.int64(),
        "rows": pa.int64(),
        "data": pa.binary(),
        "file": pa.string(),
        "offset": pa.int64(),
        "length": pa.int64(),
    }
)


def pack_pieces(pieces: Sequence[BlockPiece], staging: Staging) -> Piece:
    """Return the pieces of a shard as one piece, in a file of staging if they are large."""
    flat = [(block, rows, *piece) for block, rows, piece in pieces]
    columns = zip(*flat, strict=True) if flat else [()] * len(_PIECES)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, _PIECES.types, strict=True)]
    data = batch.to_bytes(pa.RecordBatch.from_arrays(arrays, schema=_PIECES))
    ((_, packed),) = spill.put_bytes(data, (0, len(data)), staging)
    return packed


def unpack_pieces(packed: Piece, staging: Staging) -> list[BlockPiece]:
    """Return the pieces of `pack_pieces`."""
    found = batch.from_bytes(spill.get_bytes(packed, staging))
    columns = [column.to_pylist() for column in found.columns]
    return [(block, rows, tuple(piece)) for block, rows, *piece in zip(*columns, strict=True)]


class SegmentFile:
    """Writes the file of a segment. prefix: of its name."""

    def __init__(self, staging: Staging, prefix: str) -> None:
        self.name = f"{DRAFTS}/{prefix}{uuid.uuid4().hex}.segment"
        self._place = staging.place(self.name)
        self._sink: BinaryIO

    def __enter__(self) -> Self:
        self._place.parent.make_dirs()
        self._sink = self._place.open_scratch()
        return self

    def __exit__(self, *_: object) -> None:
        self._sink.close()

    def append(self, rows: RowChunk, encoded: EncodedChunk) -> None:
        """Write the next chunk."""
        self._sink.write(entry_of(encoded, rows.digest, rows=rows))
        self._sink.write(encoded.data)


def segment_files(staging: Staging) -> dict[str, str]:
    """Return {prefix: name in staging} of the largest file of each segment."""
    found = staging.place(DRAFTS).list_if_exists()
    files = [entry for entry in found if entry.name.endswith(".segment")]
    return {
        f"{entry.name.rpartition('-')[0]}-": f"{DRAFTS}/{entry.name}"
        for entry in sorted(files, key=lambda entry: entry.size)
    }


def stored_chunks(staging: Staging, name: str | None) -> Generator[StoredChunk]:
    """Yield the chunks of a segment's file, up to the first incomplete or damaged one.

    There are none if the name is None or the file is missing.
    """
    if name is None:
        return
    try:
        with staging.place(name).open_input() as file:
            yield from read_entries(file, file)
    except MissingError:
        return
