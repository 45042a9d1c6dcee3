"""Parts of image files that are not read, or are taken as stored, for notes.

These are pages and frames of animations after the first, bands, and levels of HDR.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from PIL.AvifImagePlugin import AvifImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from recordmill.format.ledger import Noted
from recordmill.transforms.imaging.headers import DECODE_ERRORS
from recordmill.transforms.imaging.tiff_directories import has_further_pages, numbers_of

HDR = {16: "PQ", 18: "HLG"}  # TransferCharacteristics of ITU-T H.273
_AVIF_HEAD = 1 << 16  # bytes in which the properties of an AVIF are searched for
# Tags of TIFF 6.0.
_PHOTOMETRIC, _SAMPLES_PER_PIXEL, _EXTRA_SAMPLES = 262, 277, 338
_RGB = 2
_OPAQUE = 255


def unread_parts(image: ImageFile, data: bytes) -> Iterator[Noted]:
    """Yield the parts of a loaded image that are not read, or are taken as stored.

    data: content of the file.
    """
    if _has_unread_bands(image):
        yield "unread_bands"
    if _has_unknown_band(image):
        yield "unknown_band"
    if _has_high_range(image, data):
        yield "high_range"
    if _has_further_images(image, data):
        yield "pages"


def _has_further_images(image: ImageFile, data: bytes) -> bool:
    """Return whether an image file holds several images.

    Previews do not count, nor the images that cameras put after a JPEG, nor the sizes of an icon.

    data: content of the file.
    """
    match image:
        case PngImageFile() | WebPImageFile() | AvifImageFile():
            return image.is_animated
        case TiffImageFile():
            return image.is_animated and has_further_pages(io.BytesIO(data))
        case GifImageFile():
            try:
                return GifImageFile(io.BytesIO(data)).is_animated
            except DECODE_ERRORS:
                return False  # the first frame is intact, as it was read
    return False


def _has_unread_bands(image: ImageFile) -> bool:
    """Return whether an opened image has more channels than Pillow reads of it."""
    if not isinstance(image, TiffImageFile):
        return False
    channels = numbers_of(image.tag_v2.get(_SAMPLES_PER_PIXEL, 1))[0]
    return channels > len(image.getbands())


def _has_unknown_band(image: ImageFile) -> bool:
    """Return whether a loaded image has a fourth band of unknown meaning that is not opaque.

    Without the tag ExtraSamples, Pillow and libtiff take it as alpha, although it is often near
    infrared. A band that is opaque everywhere has no effect.
    """
    if not isinstance(image, TiffImageFile) or image.mode != "RGBA":
        return False
    tags = image.tag_v2
    if numbers_of(tags.get(_PHOTOMETRIC, 0))[0] != _RGB or _EXTRA_SAMPLES in tags:
        return False
    opaque = image.getchannel("A").histogram()[_OPAQUE]
    return opaque < image.width * image.height


def _has_high_range(image: ImageFile, data: bytes) -> bool:
    """Return whether a PNG or AVIF has levels of HDR (PQ or HLG), which are taken as those of sRGB.

    Both hold code points of ITU-T H.273: PNG in the chunk cICP (PNG 3, 11.3.2.6), AVIF in the box
    colr of the type nclx (ISO/IEC 14496-12, 12.1.5).

    data: content of the file.
    """
    match image:
        case PngImageFile():
            at = data.find(b"\0\0\0\x04cICP", 0, data.find(b"IDAT"))
            return at >= 0 and data[at + 9] in HDR
        case AvifImageFile():
            at = data.find(b"colrnclx", 0, _AVIF_HEAD)
            return at >= 0 and int.from_bytes(data[at + 10 : at + 12], "big") in HDR
    return False
