"""Hashes of the content of records, from the bytes or numbers that encoders read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import xxhash

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class ContentHashes:
    """Collects the hash of each record: xxh3_128 of its bytes, 16 bytes, big-endian."""

    def __init__(self) -> None:
        self._hashes: list[bytes] = []

    def add(self, *data: ReadableBuffer, name: str = "") -> None:
        """Add a record. data: its bytes, in pieces. name: what gives these bytes their meaning."""
        hasher = xxhash.xxh3_128(name.encode())
        for piece in data:
            hasher.update(piece)
        self._hashes.append(hasher.digest())

    def result(self) -> pa.Array:
        """Return the hashes of all records, in the order in which they were added: binary(16)."""
        return pa.array(self._hashes, pa.binary(16))
