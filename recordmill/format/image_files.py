"""Opening and decoding of encoded images, in the formats that Recordmill reads.

Pillow decodes all formats but JPEG: libjpeg goes on after damaged data with a warning, which Pillow
drops and simplejpeg reports. Both contain libjpeg-turbo, and give the same pixels.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import simplejpeg
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from recordmill.errors import Reason, RecordError

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_ICON = b"\0\0\1\0"
_CHUNK_HEAD = struct.Struct(">I4s")  # length of the content and name
_CRC_BYTES = 4

# Of BMPs: bytes of the header after which compression is stated, its offset, and a value of it.
_BMP_HEADER, _BMP_COMPRESSION, _RLE4 = 40, 30, 2

# JPEG's markers before each scan, and at the end of the image; coded data cannot hold them.
_SCAN, _END = b"\xff\xda", b"\xff\xd9"
_MANY_SCANS = 100
_MOST_PASSES = 16  # decoded pixels of all scans, as a multiple of the limit of pixels
_MOST_PIXELS = 178_956_970  # the most that Pillow decodes, unless its own limit is changed
# First words of libjpeg's warnings on data that it nevertheless decodes. Its other messages are on
# what it does not support, or on details that do not change pixels (jerror.h of libjpeg-turbo).
_DAMAGES = (
    "Corrupt JPEG data",
    "Premature end of JPEG file",
    "Inconsistent progression sequence",
    "Invalid SOS parameters",
)
# Pixels of the longer side of a JPEG up to which simplejpeg may reduce by another scale that leads
# to the same size.
_SMALL = 8
_LOSSLESS = b"\xff\xc3"  # marker before the size of a lossless JPEG
_MANY_COMMENT_BLOCKS = 5000  # 1.3 MB of text

# Another one of Pillow's formats, EPS, would start Ghostscript.
_FORMATS = ("AVIF", "BMP", "GIF", "ICO", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP")
# Pillow's decoders are known to raise these for invalid content.
UNREADABLE_IMAGE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, RuntimeError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


def open_image(content: bytes) -> Image.Image:
    """Read the header of an encoded image; its pixels are decoded when they are used.

    Raises:
      UNREADABLE_IMAGE: the content is invalid, of another format, or takes minutes to decode.
    """
    check_chunks(content)
    if content.startswith(b"GIF8"):
        gif_size(io.BytesIO(content))
    image = Image.open(io.BytesIO(content), formats=_FORMATS)
    if image.format == "JPEG":
        check_scans(content, pixels=math.prod(image.size), limit=_MOST_PIXELS)
    return image


def load_image(image: Image.Image, content: bytes) -> str | None:
    """Decode the pixels of an opened image file, and return libjpeg's warning on damaged data.

    None for undamaged files, and for formats other than JPEG.

    content: of the file.

    Raises:
      UNREADABLE_IMAGE: the content is invalid, or a JPEG has no end.
    """
    damage = None
    if isinstance(image, JpegImageFile):
        # Whether decoders notice that the end is missing depends on the last bits before it.
        if image.fp is not None and content.rfind(_END, image.fp.tell()) < 0:
            raise EOFError("the JPEG has no end of image")
        damage = _load_jpeg(image, content)
    image.load()
    return damage


def _load_jpeg(image: JpegImageFile, content: bytes) -> str | None:
    """Decode a JPEG by simplejpeg, and return libjpeg's warning on damaged data.

    Pillow has to load the image if simplejpeg refuses it, or does not support it, such as CMYK.
    """
    if not image.tile or image.mode not in ("L", "RGB"):
        return None
    scale = image.decoderconfig[0] if image.decoderconfig else 1  # of `draft`
    if scale > 1 and scale * max(image.size) <= _SMALL:
        return None
    colours, channels = ("GRAY", 1) if image.mode == "L" else ("RGBX", 4)
    try:
        if scale == 1:
            pixels = simplejpeg.decode_jpeg(content, colorspace=colours)
        else:
            # Enough memory for all pixels, whatever libjpeg-turbo makes of the reduction.
            full = math.prod(scale * side for side in image.size) * channels
            pixels = simplejpeg.decode_jpeg(
                content,
                colorspace=colours,
                min_width=image.width,
                min_height=image.height,
                buffer=np.empty(full, np.uint8),
            )
    except ValueError as error:
        warning = str(error)
        return warning if warning.startswith(_DAMAGES) else None
    if pixels.shape[1::-1] != image.size:
        return None
    # Pillow takes the pixels over, instead of copying them.
    levels = pa.Array.from_buffers(pa.uint8(), pixels.size, [None, pa.py_buffer(pixels)])
    if channels > 1:
        levels = pa.FixedSizeListArray.from_arrays(levels, channels)
    image.im = Image.fromarrow(levels, image.mode, image.size).im
    image.tile = []
    return None


def has_reduced_sizes(image: JpegImageFile, content: bytes) -> bool:
    """Return whether an opened JPEG, of which no draft was made, can be decoded at a reduced size.

    A lossless one cannot: libjpeg-turbo ignores the reduction, and Pillow and simplejpeg would let
    it write beyond their memory.
    """
    assert image.fp is not None
    # The whole segment, because metadata may hold the two bytes of the marker.
    frame = (8 + 3 * image.layers, image.bits, image.height, image.width, image.layers)
    lossless = _LOSSLESS + struct.pack(">HBHHB", *frame)
    return lossless not in content[: image.fp.tell()]  # Pillow has read up to the first scan


def check_chunks(content: bytes) -> None:
    """Check what Pillow does not check, or decodes to wrong pixels, in a PNG, an icon or a BMP.

    In a PNG, and in the PNGs of an icon, this is the CRC-32 of every chunk: Pillow checks only
    those before the pixels, so that damaged pixels are decoded. In a BMP, 4-bit run lengths.
    Source: https://www.w3.org/TR/png-3/, 5.3 and 5.5.

    Raises:
      RecordError: CORRUPT, a chunk is damaged; TRUNCATED, the file ends inside a chunk;
        UNSUPPORTED, Pillow decodes the pixels wrongly.
    """
    if content.startswith(PNG_SIGNATURE):
        _check_png(memoryview(content))
    elif content.startswith(_ICON):
        for start, size in _icon_places(content):
            if content.startswith(PNG_SIGNATURE, start):
                _check_png(memoryview(content)[start : start + size])
    elif content.startswith(b"BM"):
        _check_bmp(content)


def _check_bmp(content: bytes) -> None:
    """Refuse 4-bit run lengths with an odd number of literal pixels, whose last one Pillow loses.

    Source: https://learn.microsoft.com/en-us/windows/win32/gdi/bitmap-compression
    """
    header = int.from_bytes(content[14:18], "little")
    if header < _BMP_HEADER or content[_BMP_COMPRESSION : _BMP_COMPRESSION + 1] != bytes([_RLE4]):
        return
    at = int.from_bytes(content[10:14], "little")  # of the pixels
    while at + 1 < len(content):
        count, value = content[at], content[at + 1]
        at += 2
        if count:
            continue
        if value == 1:  # the end of the bitmap
            return
        if value == 2:  # a move to another place
            at += 2
        elif value > 2:  # literal pixels, two per byte, filled up to an even number of bytes
            if value % 2:
                raise RecordError(
                    Reason.UNSUPPORTED,
                    "a BMP with 4-bit run lengths, which Pillow decodes to wrong pixels: convert it"
                    " to PNG with another program",
                )
            at += (value // 2 + 1) // 2 * 2


def _check_png(content: memoryview) -> None:
    at, end = len(PNG_SIGNATURE), len(content)
    while at + _CHUNK_HEAD.size <= end:
        length, name = _CHUNK_HEAD.unpack_from(content, at)
        stop = at + _CHUNK_HEAD.size + length
        if not name.isalpha():
            raise RecordError(Reason.CORRUPT, f"no chunk begins at byte {at} of the PNG")
        if stop + _CRC_BYTES > end:
            raise RecordError(Reason.TRUNCATED, "the PNG ends before the image is complete")
        found = zlib.crc32(content[at + 4 : stop])
        if found != int.from_bytes(content[stop : stop + _CRC_BYTES]):
            raise RecordError(
                Reason.CORRUPT,
                f"the checksum of the chunk {name.decode()} at byte {at} of the PNG does not match"
                " its content",
            )
        if name == b"IEND":
            return
        at = stop + _CRC_BYTES


def _icon_places(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield (offset, bytes) of the images of an icon.

    Source: https://learn.microsoft.com/en-us/previous-versions/ms997538(v=msdn.10)
    """
    count = int.from_bytes(content[4:6], "little")
    for entry in range(6, min(6 + 16 * count, len(content) - 15), 16):
        size, start = struct.unpack_from("<II", content, entry + 8)
        yield start, size


def gif_size(file: BinaryIO) -> tuple[int, int]:
    """Return (width, height) of the area that the screen and the first frame of a GIF cover.

    Pillow may allocate the pixels of the frame when it opens the file, so this size is checked
    first. It also appends comments block by block, which takes time quadratic in their size.
    Source: https://www.w3.org/Graphics/GIF/spec-gif89a.txt, 18 to 24.

    Raises:
      RecordError: the comments have megabytes.
    """
    file.seek(6)
    screen = file.read(7).ljust(7, b"\0")
    width, height, flags = struct.unpack("<HHB2x", screen)
    if flags & 128:
        file.seek(3 << (flags & 7) + 1, io.SEEK_CUR)
    comment_blocks = 0
    while (start := file.read(1)) not in (b"", b";"):
        if start == b",":
            left, top, frame_width, frame_height = struct.unpack(
                "<4H", file.read(8).ljust(8, b"\0")
            )
            return max(width, left + frame_width), max(height, top + frame_height)
        if start != b"!":
            continue
        is_comment = file.read(1) == b"\xfe"
        while (size := file.read(1)) not in (b"", b"\0"):
            file.seek(size[0], io.SEEK_CUR)
            comment_blocks += is_comment
            if comment_blocks > _MANY_COMMENT_BLOCKS:
                raise RecordError(Reason.CORRUPT, "the comments of the GIF have megabytes")
    return width, height


def check_scans(data: bytes, *, pixels: int, limit: int) -> None:
    """Raise RecordError for a JPEG with so many scans that it takes minutes to decode.

    A progressive JPEG is decoded once for each of its scans; encoders write about ten.

    limit: --max-pixels.
    """
    scans = data.count(_SCAN)
    if scans > _MANY_SCANS and scans * pixels > _MOST_PASSES * limit:
        raise RecordError(
            Reason.TOO_MANY_PIXELS,
            f"a JPEG of {scans} scans of {pixels} pixels, more than {_MOST_PASSES} times"
            f" --max-pixels {limit}",
        )
