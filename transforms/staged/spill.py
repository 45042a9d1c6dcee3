"""Pieces of the shuffle: the rows of a batch that go to one shard, inline or in a spill file.

In a small dataset the elements of the shuffle carry the rows. In a large one, a worker collects
rows up to a limit, orders them by shard, writes one spill file into staging, and sends only the
offset of each piece. The shuffle then holds a few bytes per piece, whatever the size of the data.
Each piece in a file is followed by its checksum.
"""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.job.staging import Staging
from recordmill.storage.files import results_of_each
from recordmill.tfrecord.flat_arrays import stable_order
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged import mapped_files
from recordmill.transforms.staged.arrow_files import PIECE_SUM, piece_sum, read_piece

T = TypeVar("T")

# (b"IPC stream", "", 0, 0) inline, (b"", file, offset, length) spilled. Beam's coder for tuples is
# fast.
Piece = tuple[bytes, str, int, int]


def split_by_shard(
    rows: pa.RecordBatch | pa.Table, shards: npt.NDArray[np.int64]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (shard, its rows) by ascending shard.

    shards: int64[n] with n > 0, the shard of each row.
    """
    order = stable_order(shards)
    found = shards[order]
    starts = [0, *(np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()]
    ordered = batch.take(rows, order)
    for start, end in itertools.pairwise([*starts, len(ordered)]):
        yield int(found[start]), ordered.slice(start, end - start)


def inline(rows: pa.RecordBatch) -> Piece:
    """Return a piece that carries its rows."""
    return batch.to_bytes(rows), "", 0, 0


def spill(
    rows: pa.RecordBatch | pa.Table, shards: npt.NDArray[np.int64], staging: Staging
) -> list[tuple[int, Piece]]:
    """Write rows into one new spill file, ordered by shard, and return [(shard, piece)].

    shards: int64[n], the shard of each row. The pieces are returned only once the file is closed.
    """
    name = f"spill/{uuid.uuid4().hex}.arrows"
    place = staging.place(name)
    place.parent.make_dirs()
    pieces: list[tuple[int, Piece]] = []
    start = 0
    with place.open_scratch() as sink:
        for shard, part in split_by_shard(rows, shards):
            # With schema and dictionaries, as each piece is read alone; written at once, because a
            # stream would take the interpreter's lock for each column.
            data = batch.to_buffer(part)
            sink.write(data)
            sink.write(piece_sum(data))
            pieces.append((shard, (b"", name, start, len(data))))
            start += len(data) + PIECE_SUM
    return pieces


def into_buckets(rows: pa.RecordBatch, by: str, staging: Staging) -> list[tuple[int, Piece]]:
    """Return [(bucket, piece)] of rows, by a hash of the string column `by`.

    Small batches go inline, large ones through a spill file.
    """
    if not len(rows):
        return []
    buckets = batch.scale(batch.hash_strings(rows[by]), limits.PARTITIONS)
    return into_pieces(rows, buckets, staging)


def into_pieces(
    rows: pa.RecordBatch, shards: npt.NDArray[np.int64], staging: Staging
) -> list[tuple[int, Piece]]:
    """Return [(shard, piece)] of rows, inline up to `INLINE_BYTES`, else in a spill file."""
    if rows.nbytes > limits.INLINE_BYTES:
        return spill(rows, shards, staging)
    return [(shard, inline(part)) for shard, part in split_by_shard(rows, shards)]


def put_bytes(data: bytes, edges: Sequence[int], staging: Staging) -> list[tuple[int, Piece]]:
    """Return [(part, piece)] of the parts of some bytes, inline up to `PART_INLINE_BYTES`.

    edges: where each part starts and the last ends. Empty parts are left out.
    """
    parts = [(n, edge) for n, edge in enumerate(itertools.pairwise(edges)) if edge[0] < edge[1]]
    if len(data) <= limits.PART_INLINE_BYTES:
        return [(number, (data[start:end], "", 0, 0)) for number, (start, end) in parts]
    name = f"spill/{uuid.uuid4().hex}.bytes"
    staging.place(name).parent.make_dirs()
    pieces: list[tuple[int, Piece]] = []
    with staging.place(name).open_scratch() as sink:
        for number, (start, end) in parts:
            part = data[start:end]
            pieces.append((number, (b"", name, sink.tell(), len(part))))
            sink.write(part)
            sink.write(piece_sum(part))
    return pieces


def get_bytes(piece: Piece, staging: Staging) -> bytes:
    """Return the bytes of a piece of `put_bytes`."""
    data, name, offset, length = piece
    return data or read_piece(staging.place(name), offset, length).to_pybytes()


def get_all_bytes(pieces: Iterable[Piece], staging: Staging) -> list[bytes]:
    """Return the bytes of pieces of `put_bytes`; those in a store are read in parallel."""
    return _of_all(get_bytes, pieces, staging)


def load(piece: Piece, *, staging: Staging) -> pa.RecordBatch:
    """Read the rows of a piece."""
    data, name, offset, length = piece
    return batch.from_bytes(data or read_piece(staging.place(name), offset, length))


def load_all(pieces: Iterable[Piece], *, staging: Staging) -> list[pa.RecordBatch]:
    """Read the rows of pieces; those in a store are read in parallel."""
    return _of_all(load, pieces, staging)


def _of_all(read: Callable[..., T], pieces: Iterable[Piece], staging: Staging) -> list[T]:
    found = list(pieces)
    call = functools.partial(read, staging=staging)
    if sum(name != "" for _, name, _, _ in found) < 2:
        return [*map(call, found)]
    return [*results_of_each(call, found, at=staging.intermediate)]


def read_ahead(groups: Sequence[Sequence[Piece]], *, staging: Staging) -> Iterable[Sequence[Piece]]:
    """Return groups of pieces; in a store, the next group is read while one is processed.

    Iterate over the result as over that of `input_files.read_ahead`.
    """
    ranges = (
        (index, staging.place(name), offset, length + PIECE_SUM)
        for index, pieces in enumerate(groups)
        for _, name, offset, length in pieces
        if name
    )
    return mapped_files.read_ahead(groups, ranges, most=1)
