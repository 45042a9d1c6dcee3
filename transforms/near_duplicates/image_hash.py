"""Perceptual hash of images: 64 bits of a discrete cosine transform.

The method is pHash (C. Zauner, "Implementation and Benchmarking of Perceptual Image Hash
Functions", 2010), whose bits are the signs of the lowest 8 x 8 frequencies beside their median. Of
each image:

1. 128 rows are taken, row i at floor((2 i + 1) height / 256), so the rows of a smaller image
   repeat. Sums of four neighbouring rows give 32 rows.
2. If it is wider than 512 pixels, 512 columns are taken in the same way.
3. Grey is 19 R + 38 G + 7 B (BT.601 in 64ths). Alpha is ignored.
4. Frequency (u, v) is the sum of grey times C32(u, row) times Cn(v, column), with
   Cn(k, x) = round(1024 cos(pi (2 x + 1) k / (2 n))). In a row of C of even k > 0 the middle value,
   or each of the two middle values, is lowered so that the row sums to 0. A flat image then has no
   frequencies.
5. Bit 8 u + v, counted from the highest, is 1 if frequency (u, v) exceeds the 32nd smallest of all
   64. So a flat image has the highest bit alone; a black one, which would have none, gets it too.

Numbers are integers below 2^53 throughout, so that float64 is exact and any order of summation
gives the same bits. docs/near-duplicates.md has recall and precision.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from recordmill.transforms.model.batch import UInt64Array

IMAGE_HASH = "dct-64/1"  # name of the hash; another number where bits change
FLAT = np.uint64(1 << 63)  # hash of an image of one colour

_ROWS, _SUMMED = 32, 4
_COLUMNS = 512  # OpenBLAS starts no threads for products of this size
_SIDE = 8
_GREY = (19, 38, 7)


def hash_pixels(pixels: npt.NDArray[np.uint8]) -> np.uint64:
    """Return the perceptual hash of an image.

    pixels: uint8[height, width, channels], grey, RGB or RGBA.

    Raises:
      ValueError: the array has another shape or type, or no pixels.
    """
    if (
        pixels.dtype != np.uint8
        or pixels.ndim != 3
        or pixels.shape[2] not in (1, 3, 4)
        or not pixels.size
    ):
        raise ValueError(
            "expected pixels as uint8[height, width, 1, 3 or 4], got"
            f" {pixels.dtype}{list(pixels.shape)}"
        )
    height, width, channels = pixels.shape
    rows = pixels.take(_centres(height, _ROWS * _SUMMED), axis=0)
    rows = rows.reshape(_ROWS, _SUMMED, width * channels)
    sums = rows[:, 0].astype(np.uint16)
    for row in range(1, _SUMMED):
        sums += rows[:, row]
    if width > _COLUMNS:
        sums = sums.reshape(_ROWS, width, channels).take(_centres(width, _COLUMNS), axis=1)
    grey = sums.reshape(_ROWS, -1).astype(np.float64)
    by_column = _column_weights(min(width, _COLUMNS), channels)
    half = _ROWS // 2
    across = np.concatenate([grey[:half] @ by_column, grey[half:] @ by_column])
    frequencies = (_cosines(_ROWS) @ across).ravel()
    middle = np.partition(frequencies, _SIDE * _SIDE // 2 - 1)[_SIDE * _SIDE // 2 - 1]
    found = np.uint64(int.from_bytes(np.packbits(frequencies > middle).tobytes(), "big"))
    return found or FLAT


def hamming(a: UInt64Array, b: UInt64Array) -> npt.NDArray[np.uint8]:
    """Return the number of bits in which hashes differ, uint8[n]."""
    bits: npt.NDArray[np.uint8] = np.bitwise_count(a ^ b)
    return bits


@functools.lru_cache(maxsize=256)
def _centres(size: int, count: int) -> npt.NDArray[np.int64]:
    """Return the places of `count` evenly spaced pixels of `size`, int64[count]."""
    return (2 * np.arange(count) + 1) * size // (2 * count)


@functools.lru_cache(maxsize=256)
def _cosines(size: int) -> npt.NDArray[np.float64]:
    """Return the weights of the lowest frequencies over `size` values, float64[8, size]."""
    angles = np.outer(np.arange(_SIDE), 2 * np.arange(size) + 1) * (np.pi / (2 * size))
    weights: npt.NDArray[np.float64] = np.rint(1024 * np.cos(angles))
    middle = [(size - 1) // 2, size // 2]
    for row in weights[2::2]:
        excess = row.sum()
        row[np.unique(middle)] -= excess if size % 2 else excess / 2
    for row in weights[1::2]:
        row[size - size // 2 :] = -row[: size // 2][::-1]
        row[size // 2 : size - size // 2] = 0
    return weights


@functools.lru_cache(maxsize=256)
def _column_weights(width: int, channels: int) -> npt.NDArray[np.float64]:
    """Return the weights of the values of a row, float64[width * channels, 8]."""
    grey = (sum(_GREY),) if channels == 1 else (*_GREY, 0)[:channels]
    weights = _cosines(width).T[:, None, :] * np.array(grey)[None, :, None]
    return np.ascontiguousarray(weights.reshape(width * channels, _SIDE))
