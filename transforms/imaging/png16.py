"""PNG files with 16 bits per channel; Pillow writes only gray ones.

Source: https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from recordmill.transforms.imaging.image16 import Pixels16

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by the number of channels
_ROWS = 64  # that are filtered at once

Bytes = npt.NDArray[np.uint8]


def encode_png(pixels: Pixels16) -> bytes:
    """Return uint16[height, width, channels] as a PNG with 16 bits per channel."""
    height, width, channels = pixels.shape
    packer = zlib.compressobj()
    packed = [packer.compress(block) for block in _filtered(pixels)]
    body = b"".join((*packed, packer.flush()))
    return png_file(width, height, bits=16, colour_type=_COLOUR_TYPES[channels], body=body)


def png_file(width: int, height: int, *, bits: int, colour_type: int, body: bytes) -> bytes:
    """Return a PNG of compressed rows. bits: per channel."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)


def versions() -> dict[str, str]:
    """Return the version of the library that compresses."""
    return {"zlib": zlib.ZLIB_RUNTIME_VERSION}


def _chunk(name: bytes, content: bytes) -> bytes:
    check = zlib.crc32(content, zlib.crc32(name))
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def _filtered(pixels: Pixels16) -> list[bytes]:
    """Return the filtered rows of an image, several at a time."""
    height, width, channels = pixels.shape
    above = np.zeros((1, 2 * width * channels), np.uint8)
    blocks = []
    for start in range(0, height, _ROWS):
        some = pixels[start : start + _ROWS].astype(">u2")
        rows = some.reshape(len(some), -1).view(np.uint8)
        blocks.append(_best(rows, np.concatenate([above, rows[:-1]]), 2 * channels))
        above = rows[-1:]
    return blocks


def _best(rows: Bytes, above: Bytes, step: int) -> bytes:
    """Filter rows, each by the filter with the smallest sum of absolute differences.

    That is the heuristic of the PNG specification, 12.7. step: bytes of a pixel.
    """
    left, corner = _shifted(rows, step), _shifted(above, step)
    mean = ((left.astype(np.uint16) + above) >> 1).astype(np.uint8)
    filtered = np.stack(
        [rows, rows - left, rows - above, rows - mean, rows - _paeth(left, above, corner)]
    )
    costs = np.abs(filtered.view(np.int8).astype(np.int16)).sum(axis=2, dtype=np.int64)
    kinds = costs.argmin(axis=0)
    chosen = filtered[kinds, np.arange(len(rows))]
    return np.concatenate([kinds[:, None].astype(np.uint8), chosen], axis=1).tobytes()


def _shifted(rows: Bytes, step: int) -> Bytes:
    """Return the byte of the pixel to the left, for each byte; 0 for the first pixel."""
    return np.pad(rows, ((0, 0), (step, 0)))[:, : rows.shape[1]]


def _paeth(left: Bytes, above: Bytes, corner: Bytes) -> Bytes:
    a, b, c = (values.astype(np.int16) for values in (left, above, corner))
    near_left, near_above, near_corner = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    return np.where(
        (near_left <= near_above) & (near_left <= near_corner),
        left,
        np.where(near_above <= near_corner, above, corner),
    )
