"""Tasks of encoder processes that every data type shares: check rows, and encode Examples."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reject, Stage
from recordmill.format.example_facts import ExampleFacts
from recordmill.format.ledger import Counted, Reduced, add_counted
from recordmill.processes import by_value
from recordmill.processes.row_tasks import NO_FAULTS, Faults, RowTask
from recordmill.processes.shared_memory import allocate
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
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
from recordmill.transforms.model.file_ranges import RANGES
from recordmill.transforms.reuse.stored_frames import StoredFrame, take_stored

T = TypeVar("T")

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
    content, sizes, filled, objects, dropped_objects, reduced, noted: as in `Encoded`.
    facts: facts about each Example as text, if Examples can be reused.
    reused: number of Examples that were taken from an earlier dataset.
    """

    data: bytes | bytearray | memoryview
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
    noted: Counted = dataclasses.field(default_factory=dict)
    facts: Sequence[str | None] | None = None
    reused: int = 0


def pack_encoder(encoder: Encoder, context: Context) -> bytes:
    """Return the encoder and its context as bytes, pickled once for all tasks of a run."""
    return by_value.dumps((encoder, context))


@functools.lru_cache(maxsize=4)
def _unpack_encoder(packed: bytes) -> tuple[Encoder, Context]:
    encoder, context = pickle.loads(packed)
    return encoder, context


def row_task(
    function: Callable[..., T],
    *args: Any,
    rows: pa.RecordBatch,
    task_limits: TaskLimits = DEFAULT_LIMITS,
) -> RowTask[T]:
    """Return the task `function(*args, rows, faults=...)` of an encoder process.

    function: one of the functions below that take `faults`. rows: passed as an Arrow IPC stream.
    """
    # No PickleBuffer of a memoryview: the collector of CPython 3.11 crashes on cycles with both.
    packed = batch.to_bytes(rows)
    return RowTask(
        count=len(rows),
        call=lambda faults: functools.partial(function, *args, packed, faults=dict(faults)),
        trial=functools.partial(_try_rows, function, args, packed),
        limits=task_limits,
    )


def _try_rows(function: Callable[..., Any], args: Sequence[Any], rows: bytes, some: range) -> None:
    """Call a function on the rows of a range, for a crash of this process."""
    table = batch.from_bytes(rows).slice(some.start, len(some))
    function(*args, batch.to_bytes(table))


def leave_out(
    rows: pa.RecordBatch, faults: Faults, stage: Stage
) -> tuple[pa.RecordBatch, RowOutcome]:
    """Return the rows without those of faults, and the outcome of all."""
    if not faults:
        return rows, RowOutcome(kept=np.arange(len(rows)))
    kept = np.array([row for row in range(len(rows)) if row not in faults], np.int64)
    keys = batch.keys(rows)
    rejects = [
        Reject(keys[row].as_py(), stage, fault.reason, fault.detail)
        for row, fault in sorted(faults.items())
    ]
    return rows.take(pa.array(kept)), RowOutcome(kept=kept, rejects=rejects)


def encode_chunk(
    packed: bytes, compression: str, rows: bytes, *, faults: Faults = NO_FAULTS
) -> EncodedChunk:
    """Load, encode, frame and compress rows, or take their frames from earlier datasets.

    packed: result of `pack_encoder`. compression: `none` or `gzip`. rows: an Arrow IPC stream, with
    the places of stored frames, if there are any. faults: rows to reject without encoding them.
    """
    encoder, context = _unpack_encoder(packed)
    table, before = leave_out(batch.with_keys(batch.from_bytes(rows)), faults, "encode")
    table, stored = take_stored(table)
    if stored:
        others = np.setdiff1d(np.arange(len(table)), [*stored])
        made = _encode(encoder, context, table.take(pa.array(others))) if len(others) else _NOTHING
        chunk = _with_stored(made, others, stored, table)
    else:
        # Otherwise only the compressed frames are in the result.
        chunk = _encode(encoder, context, table, lends=compression == "none")
    data = chunk.data
    if compression == "gzip" and len(chunk.lengths):
        data = gzip_member(data)
    return dataclasses.replace(
        chunk,
        data=data,
        kept=before.kept[chunk.kept],
        rejects=[*before.rejects, *chunk.rejects],
    )


def _encode(
    encoder: Encoder, context: Context, rows: pa.RecordBatch, *, lends: bool = False
) -> EncodedChunk:
    """Encode and frame rows. lends: the frames are in the result of the task as they are."""
    with rows_in_tracebacks(rows):
        encoded = encoder.encode(rows, context)
        names = [context.name(feature) for feature in encoded.columns.schema.names]
        steps = {context.name(feature): count for feature, count in encoded.steps.items()}
        columns = encoded.columns.rename_columns(names)
        frames = encode_frames(columns, steps, allocate=allocate if lends else None)
    facts = encoded.facts
    return EncodedChunk(
        data=frames.data,
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
        noted=encoded.noted,
        facts=None if facts is None else [one.to_text() for one in facts],
    )


_NOTHING = EncodedChunk(
    data=b"",
    lengths=np.zeros(0, np.int64),
    kept=np.zeros(0, np.int64),
    rejects=(),
    filtered=(),
    facts=(),
)


def _with_stored(
    made: EncodedChunk,
    others: npt.NDArray[np.int64],
    stored: Mapping[int, StoredFrame],
    rows: pa.RecordBatch,
) -> EncodedChunk:
    """Return a chunk with the frames of earlier datasets in their places.

    made: the other rows, encoded. others: int64[n], their indices in `rows`. stored: {index of a
    row: its frame}.
    """
    assert made.facts is not None
    ends = np.cumsum(made.lengths)
    frames = {
        row: made.data[end - length : end]
        for row, end, length in zip(
            others[made.kept].tolist(), ends.tolist(), made.lengths.tolist(), strict=True
        )
    } | {row: one.data for row, one in stored.items()}
    kept = np.array(sorted(frames), np.int64)
    order = np.argsort(np.concatenate([others[made.kept], np.array([*stored], np.int64)]))
    sizes = [one.size for one in stored.values() if one.size is not None]
    facts = [ExampleFacts.from_text(one.facts) for one in stored.values()]
    objects, dropped = made.objects, made.dropped_objects
    reduced, noted = made.reduced, made.noted
    keys, copies = rows[batch.KEY], batch.copies(rows)
    for row, fact in zip(stored, facts, strict=True):
        objects = add_pairs(objects, fact.objects)
        if fact.dropped_objects or fact.reduced or fact.noted:
            key = keys[row].as_py()
            counts = {reason: (n, key) for reason, n in fact.dropped_objects.items()}
            dropped = add_counted(dropped, counts)
            if not copies[row]:
                reduced = reduced.plus(fact.reduced_of(key))
                noted = add_counted(noted, fact.noted_of(key))
    content = None
    if batch.CONTENT not in rows.schema.names:
        hashes = pa.array([one.content for one in stored.values()], pa.binary(16))
        content = hashes if made.content is None else pa.concat_arrays([made.content, hashes])
        content = content.take(pa.array(order))
    return dataclasses.replace(
        made,
        data=b"".join([frames[row] for row in kept.tolist()]),
        lengths=np.array([len(frames[row]) for row in kept.tolist()], np.int64),
        kept=kept,
        content=content,
        sizes=_joined_sizes(made.sizes, sizes, order) if sizes else None,
        objects=objects,
        dropped_objects=dropped,
        reduced=reduced,
        noted=noted,
        facts=[[*made.facts, *(one.facts for one in stored.values())][at] for at in order],
        reused=len(stored),
    )


def _joined_sizes(
    made: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None,
    stored: Sequence[tuple[int, int]],
    order: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    found = np.array(stored, np.int64).T
    if made is not None:
        found = np.concatenate([np.stack(made), found], axis=1)
    return found[0][order], found[1][order]


def add_pairs(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the sum of two pairs, of which either may be missing."""
    return (one[0] + other[0], one[1] + other[1]) if one and other else one or other


def check_rows(
    check: RowCheck | None,
    content: ContentReader | None,
    rows: bytes,
    *,
    faults: Faults = NO_FAULTS,
) -> tuple[RowOutcome, bytes | None]:
    """Check rows, and read their content.

    rows: an Arrow IPC stream. faults: rows to reject without reading them.

    Returns:
      The outcome, and the columns of `content` as an Arrow IPC stream; None without `content`.
    """
    table, before = leave_out(batch.from_bytes(rows), faults, "check")
    with rows_in_tracebacks(table):
        outcome = RowOutcome(kept=np.arange(len(table))) if check is None else check.check(table)
        if content is None:
            return _after(before, outcome), None
        read, columns = content.read(batch.choose(table, outcome.kept))
    columns_read = batch.to_bytes(pa.RecordBatch.from_pydict(columns))
    return _after(before, _after(outcome, read)), columns_read


def _after(first: RowOutcome, second: RowOutcome) -> RowOutcome:
    """Return the outcome of two steps, of which the second gets the rows that the first kept."""
    return RowOutcome(
        kept=first.kept[second.kept],
        rejects=[*first.rejects, *second.rejects],
        filtered=[*first.filtered, *second.filtered],
    )


_OF_FILES = (batch.PATH, batch.SIZE, batch.MTIME, *RANGES.names)  # not of decoded records


def encode_columns(
    packed: bytes, rows: bytes, *, faults: Faults = NO_FAULTS
) -> tuple[bytes, Sequence[Reject], Sequence[tuple[str, str]]]:
    """Load and encode rows, and return their features as columns.

    packed: result of `pack_encoder`. rows: an Arrow IPC stream. faults: rows to reject without
    encoding them.

    Returns:
      An Arrow IPC stream of the kept rows, with their system columns (except those of the file),
      `__facts__` and a column per feature; the rejects; and (key, option that excludes it) of
      filtered rows.
    """
    encoder, context = _unpack_encoder(packed)
    table, before = leave_out(batch.from_bytes(rows), faults, "encode")
    with rows_in_tracebacks(table):
        encoded = encoder.encode(table, context)
    kept = table.take(pa.array(encoded.rows.kept))
    system = [name for name in kept.schema.names if name.startswith("__")]
    columns = {name: kept[name] for name in system if name not in _OF_FILES}
    features = {context.name(name): encoded.columns[name] for name in encoded.columns.schema.names}
    if encoded.facts is not None:
        columns[batch.FACTS] = pa.array([one.to_text() for one in encoded.facts], pa.string())
    made = batch.to_bytes(pa.RecordBatch.from_pydict({**columns, **features}))
    return made, [*before.rejects, *encoded.rows.rejects], encoded.rows.filtered


@contextmanager
def rows_in_tracebacks(rows: pa.RecordBatch) -> Iterator[None]:
    """Add the keys of the processed rows to the traceback of any exception."""
    try:
        yield
    except Exception as error:
        keys = batch.keys(rows).to_pylist()
        error.add_note(f"in {len(keys)} rows, from {keys[:1]} to {keys[-1:]}")
        raise
