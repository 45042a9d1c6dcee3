"""The type of the pixels of a TIFF, for those that Pillow cannot open.

Source: TIFF 6.0, with its SampleFormat.
"""

from __future__ import annotations

from typing import BinaryIO

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
_PHOTOMETRIC, _RGB = 262, 2
_READABLE = (1, 3)  # numbers of channels of 8 bits that Pillow always has a mode for
# The last is said of separate planes.
_UNKNOWN = ("unknown pixel mode", "samples per pixel", "string index out of range")


def is_unknown_type(error: BaseException) -> bool:
    """Return whether Pillow raised an exception because it has no mode for the pixels of a TIFF."""
    text = str(error).lower()
    return any(phrase in text for phrase in _UNKNOWN)


def tiff_pixels(file: BinaryIO) -> str | None:
    """Return the type of a TIFF's pixels and how to convert it; None if its tags are broken."""
    try:
        tags = read_directory(file)
        bits = numbers_of(tags.get(_BITS_PER_SAMPLE, 1))
        formats = numbers_of(tags.get(_SAMPLE_FORMAT, 1))
        channels = numbers_of(tags.get(_SAMPLES_PER_PIXEL, 1))[0]
        is_rgb = numbers_of(tags.get(_PHOTOMETRIC, 0))[0] == _RGB
    except TAG_ERRORS:
        return None
    if len(set(bits)) != 1 or len(set(formats)) != 1 or formats[0] not in _FORMATS:
        return None
    if not 8 <= bits[0] <= 128 or not 1 <= channels <= 1 << 16:
        return None
    is_broken = channels in _READABLE or (channels < len("RGB") and is_rgb)
    if bits[0] == 8 and is_broken:
        return None
    plural = "channel" if channels == 1 else "channels"
    text = f"{bits[0]}-bit {_FORMATS[formats[0]]} in {channels} {plural}"
    if formats[0] == _FLOATS:
        return (
            f"{text}; Pillow reads only 32-bit floating point in 1 channel: convert the file to"
            " that, and use --intensity-window LOW:HIGH"
        )
    if bits[0] == 8:
        return f"{text}, which Pillow cannot read: write 1 of them (gray) or 3 (RGB) to a file"
    return f"{text}, which Pillow cannot read"
