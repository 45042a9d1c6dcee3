"""The tasks of encoder processes, the same for every kind of data: check rows, or make Examples."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reject
from recordmill.format.example import encode_frames
from recordmill.format.framing import gzip_member
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Check, Context, Encoder, RowOutcome

# With its first arrays Arrow imports other modules: now, and not in each process that is forked.
pa.array(np.zeros(1))
pa.array([0])


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedChunk:
    """Framed Examples of the kept rows, ready to be appended to a shard.

    data: the frames, for gzip one member. lengths: int64[k] of each frame, uncompressed. kept:
    int64[k], its row in the chunk. names: of the Examples, where they are not one to a row: then
    `lengths` is theirs, and `kept` the rows that went into them; filled, objects: as in `Encoded`.
    """

    data: bytes
    lengths: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    rejects: Sequence[Reject]
    filtered: Sequence[tuple[str, str]]
    names: Sequence[str] | None = None
    filled: tuple[int, int] | None = None
    objects: tuple[int, int] | None = None


def pack_encoder(encoder: Encoder, context: Context) -> bytes:
    """What every task of a run needs, pickled once."""
    return pickle.dumps((encoder, context), protocol=pickle.HIGHEST_PROTOCOL)


@functools.lru_cache(maxsize=4)
def _unpack_encoder(packed: bytes) -> tuple[Encoder, Context]:
    encoder, context = pickle.loads(packed)
    return encoder, context


def encode_chunk(packed: bytes, rows: bytes, compression: str) -> EncodedChunk:
    """Loads, encodes, frames and compresses rows (as IPC bytes)."""
    encoder, context = _unpack_encoder(packed)
    table = batch.from_bytes(rows)
    with naming(table):
        encoded = encoder.encode(table, context)
        names = [context.name(feature) for feature in encoded.columns.schema.names]
        steps = {context.name(feature): count for feature, count in encoded.steps.items()}
        frames = encode_frames(encoded.columns.rename_columns(names), steps)
    data = frames.data
    if compression == "gzip" and len(frames.lengths):
        data = gzip_member(data)
    return EncodedChunk(
        data=data,
        lengths=frames.lengths,
        kept=encoded.rows.kept,
        rejects=encoded.rows.rejects,
        filtered=encoded.rows.filtered,
        names=None if encoded.names is None else encoded.names.to_pylist(),
        filled=encoded.filled,
        objects=encoded.objects,
    )


def check_rows(check: Check, rows: bytes) -> RowOutcome:
    """Runs a check on rows (as IPC bytes)."""
    table = batch.from_bytes(rows)
    with naming(table):
        return check.check(table)


def encode_columns(packed: bytes, rows: bytes) -> tuple[bytes, Sequence[Reject]]:
    """Loads and encodes rows (as IPC bytes): the features of the kept ones, beside our columns."""
    encoder, context = _unpack_encoder(packed)
    table = batch.from_bytes(rows)
    with naming(table):
        encoded = encoder.encode(table, context)
    kept = table.take(pa.array(encoded.rows.kept))
    ours = [name for name in kept.schema.names if name.startswith("__")]
    columns = {
        name: kept[name] for name in ours if name not in (batch.PATH, batch.SIZE, batch.MTIME)
    }
    features = {context.name(name): encoded.columns[name] for name in encoded.columns.schema.names}
    return batch.to_bytes(pa.RecordBatch.from_pydict({**columns, **features})), encoded.rows.rejects


@contextmanager
def naming(rows: pa.RecordBatch) -> Iterator[None]:
    """Whoever looks for a bug is told with which rows it shows."""
    try:
        yield
    except Exception as error:
        keys = rows[batch.KEY].to_pylist()
        error.add_note(f"in {len(keys)} rows, from {keys[:1]} to {keys[-1:]}")
        raise
