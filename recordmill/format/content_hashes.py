"""Hashes of the content of records, from the bytes or numbers that encoders read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PIECE = 4 << 20  # bytes read at once


def content_hash(*data: ReadableBuffer, name: str = "") -> bytes:
    """Return the hash of a record: xxh3_128 of its bytes, 16 bytes, big-endian.

    data: its bytes, in pieces. name: what gives these bytes their meaning, if they do not say so.
    """
    if len(data) == 1 and not name:
        return xxhash.xxh3_128_digest(data[0])
    hasher = xxhash.xxh3_128(name.encode())
    for piece in data:
        hasher.update(piece)
    return hasher.digest()


def file_hash(file: BinaryIO | pa.NativeFile) -> bytes:
    """Return the content hash of the rest of a file, read in pieces."""
    hasher = xxhash.xxh3_128()
    while piece := file.read(_PIECE):
        hasher.update(piece)
    return hasher.digest()


def check_of(content: bytes) -> int:
    """Return the lower half of a hash, by which a copy of the bytes is compared."""
    return int.from_bytes(content[8:], "big")


def digest_halves(digests: bytes | bytearray | memoryview) -> npt.NDArray[np.uint64]:
    """Return the halves of joined digests of 16 bytes, which sort as they do: uint64[n, 2]."""
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def hash_halves(hashes: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the halves of hashes, as `digest_halves`. hashes: binary(16)[n], without nulls."""
    start = 16 * hashes.offset
    data = memoryview(hashes.buffers()[1] or b"")
    return digest_halves(data[start : start + 16 * len(hashes)])


def find_halves(
    wanted: npt.NDArray[np.uint64], first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Return the index of each hash in a sorted table, -1 if it is not there: int64[n].

    wanted: halves of hashes, uint64[n, 2]. first, second: halves of the table, in ascending order.
    """
    at = np.searchsorted(first, wanted[:, 0])
    found = np.full(len(wanted), -1)
    pending = np.arange(len(wanted))
    while len(pending):  # more than once only if two hashes of the table have the same first half
        pending = pending[at[pending] < len(first)]
        pending = pending[first[at[pending]] == wanted[pending, 0]]
        same = second[at[pending]] == wanted[pending, 1]
        found[pending[same]] = at[pending[same]]
        pending = pending[~same]
        at[pending] += 1
    return found


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
