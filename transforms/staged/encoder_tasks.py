"""Tasks of encoder processes that every data type shares: check rows, and encode Examples."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reject
from recordmill.format.ledger import Reduced
from recordmill.tfrecord.example import encode_frames
from recordmill.tfrecord.framing import gzip_member
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import (
    ContentReader,
    Context,
    Encoder,
    RowCheck,
    RowOutcome,
)

# Arrow imports further modules for its first arrays. Import them before the processes are forked.
pa.array(np.zeros(1))
pa.array([0])


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedChunk:
    """Framed Examples of a chunk of rows, ready to be appended to a shard.

    data: the frames; one gzip member if the shard is compressed.
    lengths: int64[k], bytes of each frame before compression.
    kept: int64[k], index in the chunk of the row of each Example.
    rejects: rows that could not be encoded. filtered: (key, option) of rows that an option
      excludes.
    names: names of the Examples, if an Example is not made of exactly one row. Then `lengths` has
      an entry per name, and `kept` lists all rows that went into them.
    content, sizes, filled, objects, dropped_objects, reduced: as in `Encoded`.
    """

    data: bytes
    lengths: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    rejects: Sequence[Reject]
    filtered: Sequence[tuple[str, str]]
    names: Sequence[str] | None = None
    content: pa.Array | None = None
    sizes: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    filled: tuple[int, int] | None = None
    objects: tuple[int, int] | None = None
    dropped_objects: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    reduced: Reduced = dataclasses.field(default_factory=Reduced)


def pack_encoder(encoder: Encoder, context: Context) -> bytes:
    """Return the encoder and its context as bytes, pickled once for all tasks of a run."""
    return pickle.dumps((encoder, context), protocol=pickle.HIGHEST_PROTOCOL)


@functools.lru_cache(maxsize=4)
def _unpack_encoder(packed: bytes) -> tuple[Encoder, Context]:
    encoder, context = pickle.loads(packed)
    return encoder, context


def encode_chunk(packed: bytes, rows: bytes, compression: str) -> EncodedChunk:
    """Load, encode, frame and compress rows.

    packed: result of `pack_encoder`. rows: an Arrow IPC stream. compression: `none` or `gzip`.
    """
    encoder, context = _unpack_encoder(packed)
    table = batch.with_keys(batch.from_bytes(rows))
    with rows_in_tracebacks(table):
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
        content=encoded.content,
        sizes=encoded.sizes,
        filled=encoded.filled,
        objects=encoded.objects,
        dropped_objects=encoded.dropped_objects,
        reduced=encoded.reduced,
    )


def check_rows(
    check: RowCheck | None, content: ContentReader | None, rows: bytes
) -> tuple[RowOutcome, bytes | None]:
    """Check rows, and read their content.

    rows: an Arrow IPC stream.

    Returns:
      The outcome, and the columns of `content` as an Arrow IPC stream; None without `content`.
    """
    table = batch.from_bytes(rows)
    with rows_in_tracebacks(table):
        outcome = RowOutcome(kept=np.arange(len(table))) if check is None else check.check(table)
        if content is None:
            return outcome, None
        read, columns = content.read(batch.choose(table, outcome.kept))
    return RowOutcome(
        kept=outcome.kept[read.kept],
        rejects=[*outcome.rejects, *read.rejects],
        filtered=[*outcome.filtered, *read.filtered],
    ), batch.to_bytes(pa.RecordBatch.from_pydict(columns))


def encode_columns(packed: bytes, rows: bytes) -> tuple[bytes, Sequence[Reject]]:
    """Load and encode rows, and return their features as columns.

    packed: result of `pack_encoder`. rows: an Arrow IPC stream.

    Returns:
      An Arrow IPC stream of the kept rows, with their system columns (except those of the file)
      and a column per feature, and the rejects.
    """
    encoder, context = _unpack_encoder(packed)
    table = batch.from_bytes(rows)
    with rows_in_tracebacks(table):
        encoded = encoder.encode(table, context)
    kept = table.take(pa.array(encoded.rows.kept))
    system = [name for name in kept.schema.names if name.startswith("__")]
    columns = {
        name: kept[name] for name in system if name not in (batch.PATH, batch.SIZE, batch.MTIME)
    }
    features = {context.name(name): encoded.columns[name] for name in encoded.columns.schema.names}
    return batch.to_bytes(pa.RecordBatch.from_pydict({**columns, **features})), encoded.rows.rejects


@contextmanager
def rows_in_tracebacks(rows: pa.RecordBatch) -> Iterator[None]:
    """Add the keys of the processed rows to the traceback of any exception."""
    try:
        yield
    except Exception as error:
        keys = batch.keys(rows).to_pylist()
        error.add_note(f"in {len(keys)} rows, from {keys[:1]} to {keys[-1:]}")
        raise
