"""Pieces: the rows of a batch that go to one shard, inline or in a spill file.

Small plans carry their pieces through the shuffle. In large ones a worker collects rows up to a
limit, orders them by shard, writes one file into staging and sends only where each piece stands, so
that the shuffle holds a few bytes per piece whatever the size of the data.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.flat_arrays import stable_order
from recordmill.job.staging import Staging
from recordmill.transforms.model import batch
from recordmill.transforms.staged.arrow_files import read_range

BUFFER = 64 << 20  # bytes a worker collects before it spills
BUCKETS = 64  # in which rows meet that have a value in common
_INLINE = 1 << 20  # bytes of rows that go to buckets inline

# (b"IPC stream", "", 0, 0) inline, (b"", file, offset, length) spilled: tuples have a fast coder.
Piece = tuple[bytes, str, int, int]


def cut(
    rows: pa.RecordBatch | pa.Table, shards: npt.NDArray[np.int64]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields (shard, its rows), by ascending shard: shards int64[n], n > 0."""
    order = stable_order(shards)
    found = shards[order]
    starts = [0, *(np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()]
    ordered = batch.take(rows, order)
    for start, end in itertools.pairwise([*starts, len(ordered)]):
        yield int(found[start]), ordered.slice(start, end - start)


def inline(rows: pa.RecordBatch) -> Piece:
    """A piece that carries its rows."""
    return batch.to_bytes(rows), "", 0, 0


def spill(
    rows: pa.RecordBatch | pa.Table, shards: npt.NDArray[np.int64], staging: Staging
) -> list[tuple[int, Piece]]:
    """Writes rows into one new file, ordered by shard; the pieces exist once it is closed."""
    name = f"spill/{uuid.uuid4().hex}.arrows"
    place = staging.place(name)
    place.parent.make_dirs()
    pieces: list[tuple[int, Piece]] = []
    with place.open_output() as sink:
        for shard, part in cut(rows, shards):
            start = sink.tell()
            batch.write(part, sink)  # with its schema and dictionaries: it is read alone
            pieces.append((shard, (b"", name, start, sink.tell() - start)))
    return pieces


def into_buckets(rows: pa.RecordBatch, by: str, staging: Staging) -> list[tuple[int, Piece]]:
    """(bucket, piece) of rows, by the hash of the column `by` (string); few rows go inline."""
    if not len(rows):
        return []
    buckets = batch.scale(batch.hash_strings(rows[by]), BUCKETS)
    if rows.nbytes > _INLINE:
        return spill(rows, buckets, staging)
    return [(bucket, inline(part)) for bucket, part in cut(rows, buckets)]


def load(piece: Piece, *, staging: Staging) -> pa.RecordBatch:
    """Reads the rows of a piece back."""
    data, name, offset, length = piece
    return batch.from_bytes(data or read_range(staging.place(name), offset, length))
