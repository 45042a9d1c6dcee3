"""CRC32C checksums: masked as TFRecord stores them, and of many rows at once.

A CRC is affine over XOR: how much one byte changes the CRC depends only on that byte's value and on
the number of bytes after it. Rows that differ in few bytes therefore need one full CRC and a table
lookup per differing byte.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt

from recordmill.tfrecord.flat_arrays import Bytes

CRCs = npt.NDArray[np.uint32]

_MASK_DELTA = 0xA282EAD8


def masked_crc32c(data: bytes) -> int:
    """Return the checksum that TFRecord stores: CRC32C, rotated and offset, as a uint32.

    Source: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
    """
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def mask_crcs(crcs: CRCs) -> CRCs:
    """Mask CRC32C values as `masked_crc32c` does: uint32[n] to uint32[n]."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(_MASK_DELTA)


@functools.lru_cache(maxsize=1 << 12)
def crc_changes(bytes_after: int) -> CRCs:
    """Return how XORing a byte with each of 0..255 changes the CRC32C, as uint32[256].

    bytes_after: the number of bytes that follow the changed byte.
    """
    value = google_crc32c.value
    zero = value(bytes(1 + bytes_after))
    table = np.zeros(256, np.uint32)
    for bit in range(8):
        change = value(bytes([1 << bit]) + bytes(bytes_after)) ^ zero
        table[1 << bit : 2 << bit] = table[: 1 << bit] ^ np.uint32(change)
    return table


def crcs_of_similar_rows(
    rows: Bytes, differing: Sequence[tuple[int, int]], *, start: int, stop: int
) -> CRCs:
    """Return the CRC32C of the bytes start..stop of every row: uint32[n], n > 0.

    rows: uint8[n, width], contiguous in memory.
    differing: the (start, stop) byte ranges in which rows differ; all other bytes are equal in all
      rows.
    """
    count, width = rows.shape
    first = rows[0]
    crcs = np.full(count, google_crc32c.value(first[start:stop].tobytes()), np.uint32)
    for begin, end in differing:
        size = end - begin
        values = np.ndarray((count,), f"V{size}", rows, begin, (width,)).copy()
        for at, column in enumerate(values.view(np.uint8).reshape(count, size).T, begin):
            change = column ^ first[at]
            if change.any():
                crcs ^= crc_changes(stop - 1 - at).take(change)
    return crcs
