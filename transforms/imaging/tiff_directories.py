"""The directories of a TIFF, one for each image in it: its first image may not be the one meant.

Sources: TIFF 6.0, with its Supplements; DNG 1.7 (tags and values); Exif 2.32 for `SubIFDs`.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from PIL.TiffImagePlugin import ImageFileDirectory_v2

_SUBFILE_TYPE, _PHOTOMETRIC, _SUB_IFDS, _DNG_VERSION = 254, 262, 330, 50706
_REDUCED, _MASK = 1, 4  # bits of NewSubfileType
_SENSOR = {32803, 34892}  # values of PhotometricInterpretation: colour filter array, linear raw
_CR2 = b"CR\x02"  # at offset 8
_BIG = 43  # of BigTIFF, in the bytes where others have 42
_MOST = 64  # directories; a loop ends there
# Exceptions of Pillow's for broken tags, and those of values that are not numbers.
TAG_ERRORS = (KeyError, OSError, OverflowError, SyntaxError, TypeError, ValueError, struct.error)


def read_directory(file: BinaryIO, at: int | None = None) -> ImageFileDirectory_v2:
    """Return the tags of an image of a TIFF. at: the place of its directory; None for the first.

    Raises:
        one of `TAG_ERRORS`: they are broken.
    """
    file.seek(0)
    head = file.read(8)
    tags = ImageFileDirectory_v2(head + file.read(8) if _BIG in head[2:4] else head)
    file.seek(tags.next if at is None else at)
    tags.load(file)
    return tags


def preview_problem(file: BinaryIO) -> str | None:
    """Return why the first image of a TIFF is not the full image.

    None if it is, or if its tags are broken.
    """
    try:
        file.seek(8)
        is_cr2 = file.read(len(_CR2)) == _CR2
        first = read_directory(file)
        is_preview = bool(_number(first, _SUBFILE_TYPE) & _REDUCED)
        is_raw = is_cr2 or _DNG_VERSION in first or _is_of_sensor(first)
        if not is_raw and _SUB_IFDS in first:
            inner = [read_directory(file, at) for at in numbers_of(first[_SUB_IFDS])[:_MOST]]
            is_raw = is_preview or any(map(_is_of_sensor, inner))
        if is_raw:
            return (
                "a camera raw file, such as DNG, NEF, CR2 or ARW, of which only a preview"
                " could be read: convert it to TIFF, PNG or JPEG first"
            )
        if is_preview and first.next:
            return (
                "a TIFF whose first image is a preview of another: write the full image to a"
                " file of its own"
            )
    except TAG_ERRORS:
        pass  # opening it gives the reason
    return None


def has_further_pages(file: BinaryIO) -> bool:
    """Return whether a TIFF has pages after the first, beside previews and masks of it."""
    try:
        tags = read_directory(file)
        for _ in range(_MOST):
            if not tags.next:
                return False
            tags = read_directory(file, tags.next)
            if not _number(tags, _SUBFILE_TYPE) & (_REDUCED | _MASK):
                return True
    except TAG_ERRORS:
        pass  # what follows cannot be read
    return False


def _is_of_sensor(tags: ImageFileDirectory_v2) -> bool:
    return _number(tags, _PHOTOMETRIC) in _SENSOR


def _number(tags: ImageFileDirectory_v2, tag: int) -> int:
    return numbers_of(tags.get(tag, 0))[0]


def numbers_of(value: Any) -> tuple[int, ...]:
    """Return the numbers of a tag, which Pillow returns alone if there is one."""
    return tuple(int(one) for one in value) if isinstance(value, tuple) else (int(value),)
