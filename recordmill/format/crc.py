"""CRC32C of many rows at once.

A CRC is affine over XOR: what a byte changes in it depends on that byte, and on how many follow.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
CRCs = npt.NDArray[np.uint32]


@functools.lru_cache(maxsize=1 << 12)
def changes(following: int) -> CRCs:
    """What XOR of a byte with 0..255 does to the CRC, given how many bytes follow: uint32[256]."""
    value = google_crc32c.value
    none = value(bytes(1 + following))
    table = np.zeros(256, np.uint32)
    for bit in range(8):
        of_bit = value(bytes([1 << bit]) + bytes(following)) ^ none
        table[1 << bit : 2 << bit] = table[: 1 << bit] ^ np.uint32(of_bit)
    return table


def crcs_of_alike(
    rows: Bytes, stretches: Sequence[tuple[int, int]], *, start: int, stop: int
) -> CRCs:
    """CRC32C of the bytes from start to stop of each row: uint32[n], n > 0.

    rows: uint8[n, width], one after another in memory. stretches: (first, end) of the bytes between
      in which they differ.
    """
    count, width = rows.shape
    one = rows[0]
    crcs = np.full(count, google_crc32c.value(one[start:stop].tobytes()), np.uint32)
    for first, end in stretches:
        size = end - first
        items = np.ndarray((count,), f"V{size}", rows, first, (width,)).copy()
        for at, byte in enumerate(items.view(np.uint8).reshape(count, size).T, first):
            differing = byte ^ one[at]
            if differing.any():
                crcs ^= changes(stop - 1 - at).take(differing)
    return crcs
