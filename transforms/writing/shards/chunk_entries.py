"""Entries of encoded chunks, in the journals of drafts and in segments of shards.

An entry is a header (bytes of the fields and of the chunk, hash of the chunk, digest of its rows),
the fields (an Arrow stream of one row), and a hash of both. In a segment, the fields include the
columns of the rows that the index needs, and the recipes.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from recordmill.errors import Reject
from recordmill.format.content_hashes import hash_halves
from recordmill.format.ledger import Counted, Reduced
from recordmill.job.staging import to_json
from recordmill.transforms.model import batch
from recordmill.transforms.reuse.row_recipes import RowRecipes, as_binary
from recordmill.transforms.staged.encoder_tasks import EncodedChunk
from recordmill.transforms.writing.shards.ordered_encoding import RowChunk
from recordmill.transforms.writing.shards.shard_outcome import indexed_columns

# Bytes of the fields, bytes of the chunk, their hash, digest of the rows.
_HEADER = struct.Struct("<QQ16s16s")
_SUM = 8  # bytes of the hash of an entry
_MOST = 1 << 30  # bytes of the fields of a chunk; more is damage

_INTEGERS = pa.list_(pa.int64())
_HASH = pa.binary(16)
_FIELDS = pa.schema(
    {
        "lengths": _INTEGERS,
        "kept": _INTEGERS,  # null: all rows in order
        "names": pa.list_(pa.string()),
        "content": pa.list_(_HASH),
        "width": _INTEGERS,
        "height": _INTEGERS,
        "facts": pa.list_(pa.string()),
        "others": pa.string(),
    }
)
_OTHERS = (
    "rejects",
    "filtered",
    "filled",
    "objects",
    "dropped_objects",
    "reduced",
    "noted",
    "reused",
)
# Further fields in a segment: an Arrow stream of the rows, and their recipes.
_ROW_FIELDS = pa.schema(
    {
        "rows": pa.binary(),
        "refers": pa.bool_(),
        "recipes": pa.list_(_HASH),
        "sources": pa.list_(_HASH),
    }
)


class StoredChunk(NamedTuple):
    """A chunk and the content of its entry. digest: of its rows. rows: None in a journal."""

    digest: bytes
    encoded: EncodedChunk
    rows: RowChunk | None


def entry_of(chunk: EncodedChunk, digest: bytes, *, rows: RowChunk | None = None) -> bytes:
    """Return the entry of a chunk. digest: of its rows. rows: given for a segment."""
    columns = _fields(chunk)
    schema = _FIELDS
    if rows is not None:
        columns += _row_fields(rows)
        schema = pa.schema([*_FIELDS, *_ROW_FIELDS])
    fields = batch.to_bytes(pa.RecordBatch.from_arrays(columns, schema=schema))
    data_hash = xxhash.xxh3_128_digest(chunk.data)
    entry = _HEADER.pack(len(fields), len(chunk.data), data_hash, digest) + fields
    return entry + xxhash.xxh3_64_digest(entry)


def read_entries(entries: BinaryIO, data: BinaryIO) -> Iterator[StoredChunk]:
    """Yield the chunks of entries, up to the first incomplete or damaged one.

    data: file with the bytes of the chunks; the same file if each follows its entry.
    """
    while True:
        header = entries.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        size, length, data_hash, digest = _HEADER.unpack(header)
        if size > _MOST:
            return
        fields, checksum = entries.read(size), entries.read(_SUM)
        if xxhash.xxh3_64_digest(header + fields) != checksum:
            return
        content = data.read(length)
        if xxhash.xxh3_128_digest(content) != data_hash:
            return
        found = batch.from_bytes(fields)
        rows = _rows(found, digest) if "rows" in found.schema.names else None
        yield StoredChunk(digest, _chunk(content, found), rows)


def _fields(chunk: EncodedChunk) -> list[pa.Array]:
    in_order = np.array_equal(chunk.kept, np.arange(len(chunk.lengths)))
    others = {
        field.name: getattr(chunk, field.name)
        for field in dataclasses.fields(chunk)
        if field.name in _OTHERS
    }
    sizes = chunk.sizes or (None, None)
    values: dict[str, Any] = {
        "lengths": chunk.lengths,
        "kept": None if in_order else chunk.kept,
        "names": chunk.names,
        "content": chunk.content,
        "width": sizes[0],
        "height": sizes[1],
        "facts": chunk.facts,
        "others": to_json(others).decode(),
    }
    return [_one(values[field.name], field.type) for field in _FIELDS]


def _row_fields(rows: RowChunk) -> list[pa.Array]:
    recipes = rows.recipes()
    values = {
        "rows": batch.to_bytes(indexed_columns(rows.rows)),
        "refers": rows.refers,
        "recipes": None if recipes is None else as_binary(recipes.recipes),
        "sources": None if recipes is None else as_binary(recipes.sources),
    }
    return [_one(values[field.name], field.type) for field in _ROW_FIELDS]


def _one(values: Any, kind: pa.DataType) -> pa.Array:
    """Return an array with one value: a list, or a scalar."""
    if values is None or not pa.types.is_list(kind):
        return pa.array([values], kind)
    return pa.ListArray.from_arrays(
        pa.array([0, len(values)], pa.int32()), pa.array(values, kind.value_type)
    )


def _numbers(fields: pa.RecordBatch, name: str) -> Any:
    found = fields[name][0]
    return np.asarray(found.values) if found.is_valid else None


def _chunk(data: bytes, fields: pa.RecordBatch) -> EncodedChunk:
    lengths, kept, width, height = (
        _numbers(fields, name) for name in ("lengths", "kept", "width", "height")
    )
    others = json.loads(fields["others"][0].as_py())
    names, content = fields["names"][0], fields["content"][0]
    return EncodedChunk(
        data=data,
        lengths=lengths,
        kept=np.arange(len(lengths)) if kept is None else kept,
        rejects=[Reject(**one) for one in others["rejects"]],
        filtered=[(key, option) for key, option in others["filtered"]],
        names=names.as_py(),
        content=content.values if content.is_valid else None,
        sizes=None if width is None else (width, height),
        filled=_pair(others["filled"]),
        objects=_pair(others["objects"]),
        dropped_objects=_counted(others["dropped_objects"]),
        reduced=Reduced(**others["reduced"]),
        noted=_counted(others["noted"]),
        facts=fields["facts"][0].as_py(),
        reused=others["reused"],
    )


def _rows(fields: pa.RecordBatch, digest: bytes) -> RowChunk:
    recipes = None
    if fields["recipes"][0].is_valid:
        recipes = RowRecipes(
            *(hash_halves(fields[name][0].values) for name in ("recipes", "sources"))
        )
    rows = batch.from_bytes(fields["rows"][0].as_buffer())
    return RowChunk(
        rows=rows,
        inputs=rows.select([]),
        recipes=lambda: recipes,
        digest=digest,
        refers=fields["refers"][0].as_py(),
    )


def _counted(found: dict[str, list[Any]]) -> Counted:
    return {reason: (count, key) for reason, (count, key) in found.items()}


def _pair(found: list[int] | None) -> tuple[int, int] | None:
    return None if found is None else (found[0], found[1])
