"""The type of the pixels of a TIFF, for those that Pillow cannot read, or reads wrongly.

Source: TIFF 6.0, with its SampleFormat.
"""

from __future__ import annotations

import io
from typing import BinaryIO

from PIL.TiffImagePlugin import ImageFileDirectory_v2, TiffImageFile

from recordmill.transforms.imaging.tiff_directories import TAG_ERRORS, numbers_of, read_directory

_BITS_PER_SAMPLE, _SAMPLES_PER_PIXEL, _SAMPLE_FORMAT = 258, 277, 339
_FORMATS = {
    1: "integers",
    2: "signed integers",
    3: "floating point",
    5: "complex integers",
    6: "complex floating point",
}
_FLOATS = 3
_UNSIGNED = 1
_PHOTOMETRIC, _RGB, _YCBCR = 262, 2, 6
_EXTRA_SAMPLES = 338
_PLANAR_CONFIGURATION, _SEPARATE = 284, 2
_COMPRESSION, _UNCOMPRESSED = 259, 1
_WIDTH, _HEIGHT = 256, 257
_STRIPS, _TILES = (273, 279), (324, 325)  # their offsets, and their bytes
_READABLE = (1, 3)  # numbers of channels of 8 bits that Pillow always has a mode for
# The last is said of separate planes.
_UNKNOWN = ("unknown pixel mode", "samples per pixel", "string index out of range")


def is_unknown_type(error: BaseException) -> bool:
    """Return whether Pillow raised an exception because it has no mode for the pixels of a TIFF."""
    text = str(error).lower()
    return any(phrase in text for phrase in _UNKNOWN)


def misread_pixels(image: TiffImageFile) -> str | None:
    """Return the type of the pixels of an opened TIFF that Pillow reads wrongly; None for others.

    Of uncompressed YCbCr it reads four bytes per pixel, or takes the planes for RGB.
    """
    tags = image.tag_v2
    try:
        is_ycbcr = numbers_of(tags.get(_PHOTOMETRIC, 0))[0] == _YCBCR
        is_plain = numbers_of(tags.get(_COMPRESSION, _UNCOMPRESSED))[0] == _UNCOMPRESSED
    except TAG_ERRORS:
        return None
    if is_ycbcr and is_plain:
        return "YCbCr without compression, which Pillow cannot read: convert it to RGB"
    return None


def unread_pixels(data: bytes) -> str | None:
    """Return the type of the pixels of a TIFF that Pillow could not decode, if it is complete.

    None if it is compressed, so that it may be damaged, or ends early, or its tags are broken.
    """
    file = io.BytesIO(data)
    try:
        tags = read_directory(file)
        is_whole = _is_whole(tags, size=len(data))
    except TAG_ERRORS:
        return None
    return tiff_pixels(file) if is_whole else None


def _is_whole(tags: ImageFileDirectory_v2, *, size: int) -> bool:
    """Return whether all bytes of uncompressed pixels are in a file of `size` bytes."""
    if numbers_of(tags.get(_COMPRESSION, _UNCOMPRESSED))[0] != _UNCOMPRESSED:
        return False
    starts, lengths = _STRIPS if _STRIPS[0] in tags else _TILES
    places = zip(numbers_of(tags[starts]), numbers_of(tags[lengths]), strict=True)
    sizes = [length for start, length in places if start + length <= size]
    width, height, channels, bits = (
        numbers_of(tags.get(tag, 1))[0]
        for tag in (_WIDTH, _HEIGHT, _SAMPLES_PER_PIXEL, _BITS_PER_SAMPLE)
    )
    return sum(sizes) * 8 >= width * height * channels * bits


def tiff_pixels(file: BinaryIO) -> str | None:
    """Return the type of a TIFF's pixels and how to convert it; None if its tags are broken."""
    try:
        tags = read_directory(file)
        bits = numbers_of(tags.get(_BITS_PER_SAMPLE, 1))
        formats = numbers_of(tags.get(_SAMPLE_FORMAT, 1))
        channels = numbers_of(tags.get(_SAMPLES_PER_PIXEL, 1))[0]
        is_rgb = numbers_of(tags.get(_PHOTOMETRIC, 0))[0] == _RGB
        is_separate = numbers_of(tags.get(_PLANAR_CONFIGURATION, 1))[0] == _SEPARATE
    except TAG_ERRORS:
        return None
    if len(set(bits)) != 1 or len(set(formats)) != 1 or formats[0] not in _FORMATS:
        return None
    if not 8 <= bits[0] <= 128 or not 1 <= channels <= 1 << 16:
        return None
    has_extra = _EXTRA_SAMPLES in tags
    is_broken = (channels in _READABLE and not has_extra) or (channels < len("RGB") and is_rgb)
    is_plain = bits[0] == 8 and formats[0] == _UNSIGNED
    if is_plain and is_broken:
        return None
    plural = "channel" if channels == 1 else "channels"
    text = f"{bits[0]}-bit {_FORMATS[formats[0]]} in {channels} {plural}"
    if is_separate and channels > 1:
        text += ", in separate planes"
    if formats[0] == _FLOATS:
        return (
            f"{text}; Pillow reads only 32-bit floating point in 1 channel: convert the file to"
            " that, and use --intensity-window LOW:HIGH"
        )
    if is_plain:
        return f"{text}, which Pillow cannot read: write 1 of them (gray) or 3 (RGB) to a file"
    return f"{text}, which Pillow cannot read"
