"""Batches: `pyarrow.RecordBatch`es of records, with system columns and the user's columns.

System columns start with two underscores. The key of a record is hashed once. Splits, balancing and
order use ranks, each mixed from that hash with a salt of its own.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from recordmill.format.xxh3 import hash_strings as hash_strings
from recordmill.tfrecord.flat_arrays import hash_order

KEY = "__key__"  # string: unique and stable name of the record; null: see `with_keys`
LABEL = "__label__"  # string, nullable: name of the class
GROUP = "__group__"  # string, nullable: all records of a group are in one split
SPLIT = "__split__"  # string, nullable: from the input; dictionary<string>: as assigned
LABELS = "__all_labels__"  # list<string>: labels of a record that may have several (`label_lists`)
CLASSES = "__classes__"  # list<string>: distinct classes of a record that has several
STRATUM = "__stratum__"  # string: stratum of a stratified split, where it is not the class
COPY = "__copy__"  # int32: 0 for the record itself, 1.. for oversampled copies
HASH = "__hash__"  # uint64: xxh3_64 of the key
UNIT = "__unit__"  # uint64: hash of a key by content without its number; decides the split
PLACE = "__place__"  # PLACES, or string: lineage of a row whose key does not name it
SOURCE = "__source__"  # string, or PLACES: lineage of a row with a key by content
CONTENT = "__content__"  # binary(16): hash of the content of a row, whatever its key and label
FACTS = "__facts__"  # string, nullable: facts on an image decoded before, `ExampleFacts` as JSON
NEAR = "__near__"  # uint64 or list of uint32[128]: hash that is similar for similar content

# A reference to a file. Encoder processes open it when a shard is written.
PATH = "__path__"  # string: path or URI
DATA = "__data__"  # string: name of a staged file; encoders get its `__path__`
OFFSET = "__offset__"  # int64: place of the row's bytes in the staged file; null: not in it
LENGTH = "__length__"  # int64: number of these bytes
CHECK = "__check__"  # uint64: a hash of these bytes, see `content_hashes.check_of`
SIZE = "__size__"  # int64: bytes
MTIME = "__mtime__"  # int64: nanoseconds since the epoch

# File and number of a row, in 12 bytes. As text, FILE#ROW, they were a fifth of the staged bytes.
PLACES = pa.struct({"file": pa.dictionary(pa.int32(), pa.string()), "row": pa.int64()})

UInt64Array = npt.NDArray[np.uint64]


def salt(seed: int, purpose: str) -> int:
    """Return a 64-bit constant that makes the ranks of a purpose independent of all others."""
    return int(xxhash.xxh3_64_intdigest(purpose.encode(), seed=seed & (2**64 - 1)))


def mix(values: UInt64Array, salt: int) -> UInt64Array:
    """Map uint64[n] by a bijection with random-looking outputs (Stafford's Mix13 of SplitMix64)."""
    x = values + np.uint64(salt)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def scale(ranks: UInt64Array, parts: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the interval of each rank, of `parts` equal intervals of [0, 2^64): int64[n]."""
    high = ranks >> np.uint64(32)
    return ((high * np.asarray(parts).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def with_hash(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with the column `__hash__`."""
    return rows.append_column(HASH, pa.array(hash_strings(rows[KEY])))


def without_hash(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows without the column `__hash__`."""
    return rows.drop_columns([HASH]) if HASH in rows.schema.names else rows


def hashes(rows: pa.RecordBatch) -> UInt64Array:
    """Return the column `__hash__`, computed if the batch does not have it: uint64[n]."""
    if HASH in rows.schema.names:
        return np.asarray(rows[HASH])
    return hash_strings(rows[KEY])


def unit_hashes(rows: pa.RecordBatch) -> UInt64Array:
    """Return the hash of the group, or of the key if a row has no group: uint64[n].

    Rows of equal hash are always in the same split. Equal rows have the same hash, though their
    keys by content have different numbers.
    """
    own = np.asarray(rows[UNIT]) if UNIT in rows.schema.names else hashes(rows)
    if GROUP not in rows.schema.names or rows[GROUP].null_count == len(rows):
        return own
    codes, groups = encode(rows[GROUP])
    # The salt makes the group "a" and the key "a" different units.
    by_group = mix(hash_strings(groups), salt(0, "group"))
    return np.where(codes >= 0, by_group[codes], own)


def without_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with nulls in place of keys that follow from content, the inverse of `with_keys`.

    To write and to reorder nulls takes a tenth of the time that it takes for keys.
    """
    return set_column(rows, KEY, pa.nulls(len(rows), pa.string()))


def with_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with all keys: a null stands for the hash of the content, as hex."""
    return set_column(rows, KEY, keys(rows)) if rows[KEY].null_count else rows


def keys(rows: pa.RecordBatch) -> pa.Array:
    """Return the column `__key__` as in `with_keys`: string[n]."""
    column = rows[KEY]
    if not column.null_count or CONTENT not in rows.schema.names:
        return column
    by_content = hex_of(rows[CONTENT])
    return by_content if column.null_count == len(column) else pc.coalesce(column, by_content)


def keyed_by_content(rows: pa.RecordBatch) -> bool:
    """Return whether the keys of rows follow from their content; they all do, or none does."""
    if CONTENT not in rows.schema.names or not len(rows):
        return False
    first = rows.slice(0, 1)
    return bool(first[KEY][0].as_py() == hex_of(first[CONTENT])[0].as_py())


def lineage(rows: pa.RecordBatch) -> pa.Array:
    """Return the name of each row for messages, FILE#ROW if its key is by content: string[n]."""
    return place_names(rows[SOURCE if SOURCE in rows.schema.names else KEY])


def named_by_lineage(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with their places as keys, which rejects name, if their keys are by content."""
    return set_column(rows, KEY, lineage(rows)) if SOURCE in rows.schema.names else rows


def places(
    files: Sequence[str],
    numbers: npt.NDArray[np.int64],
    file_of: npt.NDArray[np.int32] | None = None,
) -> pa.Array:
    """Return the places of rows: PLACES[n].

    Args:
      files: Keys of the files.
      numbers: Row numbers, int64[n].
      file_of: Index of the file of each row, int32[n]; None if all rows are in the first file.
    """
    codes = np.zeros(len(numbers), np.int32) if file_of is None else file_of
    column = pa.DictionaryArray.from_arrays(codes, pa.array(files))
    return pa.StructArray.from_arrays([column, pa.array(numbers)], fields=[*PLACES])


def place_names(column: pa.Array) -> pa.Array:
    """Return places as FILE#ROW; names are returned unchanged. string[n]."""
    if column.type != PLACES:
        return column
    files, numbers = column.flatten()
    rows = numbers.cast(pa.string())
    if len(files.dictionary) == 1:  # the usual case; joining texts takes three times as long
        return pc.binary_replace_slice(rows, 0, 0, f"{files.dictionary[0]}#")
    return pc.binary_join_element_wise(files.cast(pa.string()), rows, "#")


def with_sorted_files(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose dictionary of files is sorted, so that it depends on the rows alone."""
    for name in (SOURCE, PLACE):
        if name in rows.schema.names and rows[name].type == PLACES:
            files, numbers = rows[name].flatten()
            if len(files.dictionary) == 1:
                continue
            codes, values = encode(files)
            order = np.asarray(pc.sort_indices(values))
            ranks = np.empty(len(order), np.int32)
            ranks[order] = np.arange(len(order))
            files = pa.DictionaryArray.from_arrays(ranks[codes], values.take(pa.array(order)))
            found = pa.StructArray.from_arrays([files, numbers], fields=[*PLACES])
            rows = set_column(rows, name, found)
    return rows


def strata(rows: pa.RecordBatch) -> pa.Array:
    """Return the stratum of each row, by default its label: string[n], nullable."""
    return rows[STRATUM if STRATUM in rows.schema.names else LABEL]


def copies(rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
    """Return the column `__copy__`, zeros if the batch does not have it: int32[n]."""
    if COPY in rows.schema.names:
        return np.asarray(rows[COPY])
    return np.zeros(len(rows), np.int32)


def order_ranks(rows: pa.RecordBatch, *, seed: int) -> UInt64Array:
    """Return the ranks that order a dataset, a function of (seed, key, copy): uint64[n]."""
    turned = hashes(rows) + copies(rows).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mix(turned, salt(seed, "order"))


def sort_order(ranks: UInt64Array, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the indices that sort rows by (rank, key, copy): int64[n]."""
    order = hash_order(ranks)
    ordered = ranks[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    names = [name for name in (KEY, CONTENT) if name in rows.schema.names]
    named = concat(pa.table(rows.select(names)).combine_chunks().to_batches())
    columns = {"rank": ranks, "key": keys(named), "copy": copies(rows)}
    by = [(name, "ascending") for name in columns]
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=by)).astype(np.int64)


def encode(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Dictionary-encode a column: codes int64[n] (-1 for null), and the distinct values."""
    coded = column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    values = coded.dictionary
    if coded.type == column.type:  # it was a dictionary, which may have values without rows
        used = np.zeros(len(values) + 1, np.bool_)
        used[codes] = True
        if not used[:-1].all():
            codes = np.append(np.cumsum(used[:-1]) - 1, -1)[codes]
            values = values.filter(pa.array(used[:-1]))
    return codes, values


def decode(codes: npt.NDArray[np.int64], values: Sequence[str | None]) -> pa.Array:
    """Return the values of codes as `encode` returns them, of which -1 is null: string[n]."""
    return pa.array([*values, None], pa.string()).take(pa.array(codes % (len(values) + 1)))


def refers_to_files(rows: pa.RecordBatch) -> bool:
    """Return whether rows name files, which encoders read."""
    return not {PATH, DATA}.isdisjoint(rows.schema.names)


def complete(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Add the columns of label, group, split (null) and copy (0) that are missing.

    `__hash__` is dropped: it may be that of an earlier key.
    """
    rows = without_hash(rows)
    for name in (LABEL, GROUP, SPLIT):
        if name not in rows.schema.names or pa.types.is_null(rows.schema.field(name).type):
            rows = set_column(rows, name, pa.nulls(len(rows), pa.string()))
    return set_column(rows, COPY, pa.array(copies(rows)))


def set_column(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """Return the rows with a column replaced or added."""
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)


def constant(text: str, count: int) -> pa.DictionaryArray:
    """Return an array of `count` equal strings, dictionary-encoded in a byte each."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([text]))


def hex_of(hashes: pa.Array | UInt64Array) -> pa.Array:
    """Return hashes as hex: string[n]. hashes: binary(16)[n] without nulls, or uint64[n]."""
    if isinstance(hashes, np.ndarray):
        width, data = 8, hashes.astype(">u8").data
    else:
        width = hashes.type.byte_width
        start = width * hashes.offset
        data = memoryview(hashes.buffers()[1] or b"")[start : start + width * len(hashes)]
    offsets = np.arange(len(hashes) + 1, dtype=np.int32) * (2 * width)
    return pa.StringArray.from_buffers(
        len(hashes), pa.py_buffer(offsets), pa.py_buffer(hexlify(data))
    )


def hash_rows(rows: pa.RecordBatch) -> tuple[UInt64Array, UInt64Array]:
    """Return two independent hashes of each row over all columns: (uint64[n], uint64[n]).

    Their sums over all rows identify an input, whatever the order of its rows.
    """
    first = second = np.zeros(len(rows), np.uint64)
    for name in sorted(rows.schema.names):
        values = _hash_column(rows[name])
        first = mix(first ^ values, salt(1, name))
        second = mix(second ^ values, salt(2, name))
    return first, second


def _hash_column(column: pa.Array) -> UInt64Array:
    """Hash each value by itself, whichever other rows are in the batch."""
    if pa.types.is_temporal(column.type):  # Python has no type for nanoseconds
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
    """Return rows as an Arrow IPC stream, or file; of a slice only its own rows are written.

    form: `pa.ipc.new_stream` or `pa.ipc.new_file`.
    """
    measured = pa.MockOutputStream()  # a buffer that grows would be copied several times
    write(rows, measured, form)
    data = pa.allocate_buffer(measured.size())
    write(rows, pa.FixedSizeBufferWriter(data), form)
    return data


def write(rows: pa.RecordBatch, sink: Any, form: Callable[..., Any] = pa.ipc.new_stream) -> None:
    """Write rows to a sink as an Arrow IPC stream, or file."""
    with form(sink, rows.schema) as writer:
        writer.write_batch(rows)


def to_bytes(rows: pa.RecordBatch) -> bytes:
    """Return rows as bytes of an Arrow IPC stream."""
    return bytes(to_buffer(rows))


def from_bytes(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """Return the rows of an Arrow IPC stream, the inverse of `to_bytes`."""
    return pa.ipc.open_stream(data).read_next_batch()


def take(rows: pa.RecordBatch | pa.Table, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return rows in the given order, as indices that are all in range.

    A table is not joined first: its chunks are gathered column by column, which saves memory.
    """
    short = len(rows) < 1 << 32  # Arrow is faster with indices of 32 bits
    indices = pa.array(order.astype(np.uint32) if short else order)
    columns: dict[str, pa.Array] = {}
    for name in rows.schema.names:
        values = _of_one_size(rows[name])
        if values is not None and values.type.byte_width * len(order) < 1 << 31:
            columns[name] = _take_of_one_size(values, indices)
    others = rows.drop_columns(list(columns)) if columns else rows
    if others.num_columns:
        taken = pc.take(others, indices, boundscheck=False)
        taken = taken if isinstance(taken, pa.RecordBatch) else concat(taken.to_batches())
        if not columns:
            return taken
        columns |= zip(taken.schema.names, taken.columns, strict=True)
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in rows.schema.names], schema=rows.schema
    )


def _of_one_size(texts: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return texts that all have the same size as values of this size, which are taken faster.

    Returns None if they have not, if one is null, and for columns of other types.
    """
    if not pa.types.is_string(texts.type):
        return None
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    size, found = 0, []
    for chunk in chunks if len(texts) and not texts.null_count else ():
        _, offsets, data = chunk.buffers()
        edges = np.frombuffer(offsets, np.int32, len(chunk) + 1, chunk.offset * 4)
        if len(chunk) and not size:
            size = int(edges[1] - edges[0])
        if not size or edges[-1] - edges[0] != size * len(chunk) or (np.diff(edges) != size).any():
            return None
        values = [None, data.slice(int(edges[0]))]
        found.append(pa.Array.from_buffers(pa.binary(size), len(chunk), values))
    return pa.chunked_array(found) if found else None


def _take_of_one_size(values: pa.ChunkedArray, indices: pa.Array) -> pa.Array:
    """Return some of the texts that are values of one size: string[n]."""
    taken = pc.take(values, indices, boundscheck=False).combine_chunks()
    size = values.type.byte_width
    edges = np.arange(0, (len(taken) + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(taken), [None, pa.py_buffer(edges), taken.buffers()[1]]
    )


def choose(rows: pa.RecordBatch | pa.Array, kept: npt.NDArray[np.int64]) -> Any:
    """Return the kept rows or values, without a copy if all are kept. kept: int64[m], ascending."""
    return rows if len(kept) == len(rows) else rows.take(pa.array(kept))


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches of the same schema into one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
