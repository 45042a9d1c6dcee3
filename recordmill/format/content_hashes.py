"""Hashes of the content of records, from the bytes or numbers that encoders read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def content_hash(*data: ReadableBuffer, name: str = "") -> bytes:
    """Return the hash of a record: xxh3_128 of its bytes, 16 bytes, big-endian.

    data: its bytes, in pieces. name: what gives these bytes their meaning, if they do not say so.
    """
    hasher = xxhash.xxh3_128(name.encode())
    for piece in data:
        hasher.update(piece)
    return hasher.digest()


def digest_halves(digests: bytes | memoryview) -> npt.NDArray[np.uint64]:
    """Return the halves of joined digests of 16 bytes, which sort as they do: uint64[n, 2]."""
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def hash_halves(hashes: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the halves of hashes, as `digest_halves`. hashes: binary(16)[n], without nulls."""
    start = 16 * hashes.offset
    data = memoryview(hashes.buffers()[1] or b"")
    return digest_halves(data[start : start + 16 * len(hashes)])


def array_name(dtype: str, shape: Sequence[int]) -> str:
    """Return the name that gives the bytes of an array their meaning."""
    return f"{dtype}{tuple(map(int, shape))}"


class ContentHashes:
    """Collects the hash of each record."""

    def __init__(self) -> None:
        self._hashes: list[bytes] = []

    def add(self, *data: ReadableBuffer, name: str = "") -> None:
        """Add a record, as for `content_hash`."""
        self._hashes.append(content_hash(*data, name=name))

    def result(self) -> pa.Array:
        """Return the hashes of all records, in the order in which they were added: binary(16)."""
        return pa.array(self._hashes, pa.binary(16))
