"""A batch: the element of every PCollection on the road, a `pyarrow.RecordBatch` of records.

Columns that start with two underscores are ours, all others the user's. A record's key is hashed
once; what splits, balances and orders it are ranks, mixed from that hash with a salt each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from recordmill.transforms.model.xxh3 import hash_texts

KEY = "__key__"  # string: unique and stable name of the record
LABEL = "__label__"  # string, nullable: the class as text
GROUP = "__group__"  # string, nullable: records of a group never part
SPLIT = "__split__"  # string, nullable: as the input says; dictionary<string>: as assigned
CLASSES = "__classes__"  # list<string>: those of a record that is of several, each once
STRATUM = "__stratum__"  # string: what is alike to a stratified split, where that is no class
COPY = "__copy__"  # int32: 0 the record, 1.. an oversampled copy
HASH = "__hash__"  # uint64: xxh3_64 of the key

# A reference to a file; a batch that has these is loaded inside the shard writer.
PATH = "__path__"  # string: where to open it
DATA = "__data__"  # string: the name of a staged file; encoders get its `__path__`
SIZE = "__size__"  # int64: bytes
MTIME = "__mtime__"  # int64: nanoseconds since the epoch

ROWS = 1 << 16  # rows of a batch, at most

UInt64Array = npt.NDArray[np.uint64]


def hash_strings(values: pa.Array | pa.ChunkedArray) -> UInt64Array:
    """xxh3_64 of each string's UTF-8 bytes: uint64[n]; 0 for null."""
    column = values.cast(pa.large_binary())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not len(column):
        return np.zeros(0, np.uint64)
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    text = memoryview(data or b"")[edges[0] : edges[-1]]
    found = hash_texts(text, edges - edges[0])
    if column.null_count:
        found[np.asarray(column.is_null())] = 0
    return found


def salt(seed: int, purpose: str) -> int:
    """A 64-bit constant that keeps the ranks of one purpose independent of all others."""
    return int(xxhash.xxh3_64_intdigest(purpose.encode(), seed=seed & (2**64 - 1)))


def mix(values: UInt64Array, salt: int) -> UInt64Array:
    """A bijection of uint64[n] whose outputs look random (Stafford's variant 13, as SplitMix64)."""
    x = values + np.uint64(salt)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def scale(ranks: UInt64Array, parts: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Maps ranks in [0, 2^64) to equal intervals 0 .. parts-1, in their order: int64[n]."""
    high = ranks >> np.uint64(32)
    return ((high * np.asarray(parts).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def with_hash(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Adds the `__hash__` column."""
    return rows.append_column(HASH, pa.array(hash_strings(rows[KEY])))


def hashes(rows: pa.RecordBatch) -> UInt64Array:
    """The `__hash__` column as uint64[n], computed where the batch does not carry it."""
    if HASH in rows.schema.names:
        return np.asarray(rows[HASH])
    return hash_strings(rows[KEY])


def unit_hashes(rows: pa.RecordBatch) -> UInt64Array:
    """What is split together: the hash of the group, of the key where there is no group."""
    own = hashes(rows)
    if GROUP not in rows.schema.names or rows[GROUP].null_count == len(rows):
        return own
    codes, groups = encode(rows[GROUP])
    # A salt of its own, so that the group "a" and the key "a" are not the same unit.
    by_group = mix(hash_strings(groups), salt(0, "group"))
    return np.where(codes >= 0, by_group[codes], own)


def strata(rows: pa.RecordBatch) -> pa.Array:
    """What a stratified split has the same mix of everywhere: string[n], nullable."""
    return rows[STRATUM if STRATUM in rows.schema.names else LABEL]


def copies(rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
    """The `__copy__` column as int32[n]; zeros where the batch does not carry it."""
    if COPY in rows.schema.names:
        return np.asarray(rows[COPY])
    return np.zeros(len(rows), np.int32)


def order_ranks(rows: pa.RecordBatch, *, seed: int) -> UInt64Array:
    """The rank that orders a dataset: a function of (seed, key, copy)."""
    turned = hashes(rows) + copies(rows).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mix(turned, salt(seed, "order"))


def sort_order(ranks: UInt64Array, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Indices that sort rows by (rank, key, copy): int64[n]."""
    order = np.argsort(ranks)
    ordered = ranks[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    columns = {"rank": ranks, "key": rows[KEY], "copy": copies(rows)}
    keys = [(name, "ascending") for name in columns]
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=keys)).astype(np.int64)


def encode(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Dictionary-encodes: codes int64[n] (-1 for null) and the distinct values."""
    coded = column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    values = coded.dictionary
    if coded.type == column.type:  # a dictionary may have values that no row has
        used = np.zeros(len(values) + 1, np.bool_)
        used[codes] = True
        if not used[:-1].all():
            codes = np.append(np.cumsum(used[:-1]) - 1, -1)[codes]
            values = values.filter(pa.array(used[:-1]))
    return codes, values


def complete(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Adds those of label, group, split and copy that are missing: nulls, and copy 0."""
    for name in (LABEL, GROUP, SPLIT):
        if name not in rows.schema.names:
            rows = rows.append_column(name, pa.nulls(len(rows), pa.string()))
    return set_column(rows, COPY, pa.array(copies(rows)))


def set_column(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """Replaces the column, or adds it."""
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)


def constant(text: str, count: int) -> pa.DictionaryArray:
    """The same string n times, in a byte each."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([text]))


def hash_rows(rows: pa.RecordBatch) -> tuple[UInt64Array, UInt64Array]:
    """Two independent hashes of each whole row, whatever its columns: (uint64[n], uint64[n]).

    Summed over all rows they tell whether two inputs are the same, in whatever order they come.
    """
    first = second = np.zeros(len(rows), np.uint64)
    for name in sorted(rows.schema.names):
        values = _hash_column(rows[name])
        first = mix(first ^ values, salt(1, name))
        second = mix(second ^ values, salt(2, name))
    return first, second


def _hash_column(column: pa.Array) -> UInt64Array:
    """Hashes each value by itself, so that it does not matter which rows share its batch."""
    if pa.types.is_temporal(column.type):  # in nanoseconds, Python has no value for it
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    if pa.types.is_integer(column.type):
        numbers = mix(np.asarray(column.fill_null(0)).astype(np.uint64), salt(0, "integer"))
        return np.where(np.asarray(column.is_valid()), numbers, np.uint64(0))
    if pa.types.is_string(column.type):
        codes, values = encode(column)
        return np.append(hash_strings(values), np.uint64(0))[codes]
    texts = [None if value is None else repr(value) for value in column.to_pylist()]
    return hash_strings(pa.array(texts, pa.string()))


def to_buffer(rows: pa.RecordBatch, form: Callable[..., Any] = pa.ipc.new_stream) -> pa.Buffer:
    """One self-describing Arrow IPC stream, or file; a slice takes its own rows only, not its
    parent's.
    """
    measured = pa.MockOutputStream()  # a stream that grows is copied again and again
    write(rows, measured, form)
    data = pa.allocate_buffer(measured.size())
    write(rows, pa.FixedSizeBufferWriter(data), form)
    return data


def write(rows: pa.RecordBatch, sink: Any, form: Callable[..., Any] = pa.ipc.new_stream) -> None:
    """`to_buffer`, to where it belongs."""
    with form(sink, rows.schema) as writer:
        writer.write_batch(rows)


def to_bytes(rows: pa.RecordBatch) -> bytes:
    """`to_buffer`, as what pickles."""
    return bytes(to_buffer(rows))


def from_bytes(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """The inverse of `to_bytes`."""
    return pa.ipc.open_stream(data).read_next_batch()


def take(rows: pa.RecordBatch | pa.Table, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Rows in an order, of batches that have not been joined: that is done column by column."""
    taken = rows.take(pa.array(order))
    return taken if isinstance(taken, pa.RecordBatch) else concat(taken.to_batches())


def choose(rows: pa.RecordBatch | pa.Array, kept: npt.NDArray[np.int64]) -> Any:
    """The rows, or values, that were kept: int64[m], ascending; mostly that is all of them."""
    return rows if len(kept) == len(rows) else rows.take(pa.array(kept))


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins batches of one schema into one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
