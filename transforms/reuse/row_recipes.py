"""Recipes: hashes of all that shapes the bytes of the Example of a row.

Equal recipes mean equal bytes. A recipe covers the columns that the encoder reads, the fingerprint
of the file, the options, the classes, and the versions of Recordmill and of the libraries. It does
not cover splits, shards or order, nor the seed unless the row is augmented.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.content_hashes import digest_halves
from recordmill.format.recipes import Fingerprint, RecipesHeader
from recordmill.installed_versions import installed_version
from recordmill.job.staging import to_json
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context, Encoder, ReusableEncoder
from recordmill.transforms.reuse.row_bytes import row_bytes

_OWN = "recordmill"
_SOURCE = b"source"
_HASHED_ROWS = 1 << 12  # at a time, because their values as bytes take several times as much memory


class RowRecipes(NamedTuple):
    """Recipes of rows: recipes and sources, uint64[n, 2] each, the upper half first."""

    recipes: npt.NDArray[np.uint64]
    sources: npt.NDArray[np.uint64]


@functools.cache
def _own_version() -> str:
    return installed_version(_OWN)


def header_of(encoder: Encoder, fingerprint: Fingerprint) -> RecipesHeader | None:
    """Return the header of the recipes that an encoder gives, without digest; None without any."""
    if not isinstance(encoder, ReusableEncoder):
        return None
    return RecipesHeader(
        digest="",
        fingerprint=fingerprint,
        settings=encoder.settings(),
        versions={**encoder.versions(), _OWN: _own_version()},
    )


def can_have_recipes(encoder: Encoder, compression: str) -> bool:
    """Return whether frames can be copied one by one, so that shards get recipes.

    If so, the bytes of a shard do not depend on the rows that a task encodes together.
    """
    return isinstance(encoder, ReusableEncoder) and compression == "none"


def row_recipes(
    rows: pa.RecordBatch, *, encoder: Encoder, context: Context, fingerprint: Fingerprint
) -> RowRecipes | None:
    """Return the recipes of rows; None if they have none.

    rows: in the form in which the encoder gets them.
    """
    header = header_of(encoder, fingerprint)
    staged = batch.DATA in rows.schema.names  # whose path names no source
    if header is None or (staged and fingerprint == "stat"):
        return None
    assert isinstance(encoder, ReusableEncoder)
    names = encoder.source_columns if fingerprint == "stat" else (batch.CONTENT,)
    if not {*names} <= {*rows.schema.names}:
        return None
    rows = batch.with_keys(rows)
    inputs = encoder.inputs(rows, context)
    artifacts = {name: artifact.sha256 for name, artifact in context.artifacts.items()}
    types = {name: str(column.type) for name, column in inputs.columns.items()}
    shared = [header.to_json(), inputs.common, types, dict(context.rename), artifacts]
    # Sorted, because the order of columns does not shape bytes, but would shape the hash.
    columns = [column for _, column in sorted(inputs.columns.items())]
    prefix = hashlib.blake2b(to_json(shared)).digest()
    recipes, sources = bytearray(), bytearray()
    for start in range(0, len(rows), _HASHED_ROWS):
        some = slice(start, start + _HASHED_ROWS)
        found = _hashed(_SOURCE, [row_bytes(rows[name][some]) for name in names])
        sources += b"".join(found)
        values = [row_bytes(column[some]) for column in columns]
        recipes += b"".join(_hashed(prefix, [found, *values]))
    return RowRecipes(recipes=digest_halves(recipes), sources=digest_halves(sources))


def source_hashes(rows: pa.RecordBatch, names: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the hashes of the sources of rows, as in their recipes: uint64[n, 2].

    names: columns that identify a source.
    """
    return digest_halves(b"".join(_hashed(_SOURCE, [row_bytes(rows[name]) for name in names])))


def _hashed(prefix: bytes, columns: list[list[bytes]]) -> list[bytes]:
    blake2b = hashlib.blake2b
    return [
        blake2b(prefix + b"".join(parts), digest_size=16).digest()
        for parts in zip(*columns, strict=True)
    ]


def as_binary(hashes: npt.NDArray[np.uint64]) -> pa.Array:
    """Return hashes as binary(16)[n]. hashes: uint64[n, 2]."""
    data = pa.py_buffer(np.ascontiguousarray(hashes.astype(">u8")))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(hashes), [None, data])


def unlike(one: RecipesHeader, other: RecipesHeader) -> str | None:
    """Return why recipes of two headers can never be equal, or None."""
    if one.fingerprint != other.fingerprint:
        return f"it was made with --fingerprint {one.fingerprint}"
    libraries = sorted({*one.versions, *other.versions})
    for name in libraries:
        made, here = one.versions.get(name), other.versions.get(name)
        if made != here:
            return (
                f"it was made with {name} {made or '(none)'}, and this run has {here or '(none)'}"
            )
    if one.settings != other.settings:
        return "it was made with other options"
    return None
