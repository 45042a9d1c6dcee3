"""Bits per channel of image files, and their pixels with 16 bits.

Pillow reads colour with 8 bits: of 16 it keeps the high byte. The low byte is read by decoding the
file again as if its bytes had the other order.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.AvifImagePlugin import AvifImageFile
from PIL.ImageFile import ImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import TiffImageFile

from recordmill.transforms.imaging.colour import (
    gray_levels,
    is_gray,
    srgb_transform,
    windowed_levels,
)
from recordmill.transforms.imaging.image16 import TOP, Image16, Pixels16
from recordmill.transforms.imaging.image_options import IntensityWindow

PNG_BIT_DEPTH = 24  # offset of the bits per channel in a PNG

# Tags of TIFF 6.0.
_BITS_PER_SAMPLE, _PLANAR_CONFIGURATION, _SAMPLE_FORMAT = 258, 284, 339
_SEPARATE = 2  # planes of one channel each
_SIGNED = (2,)
_SIGNED_8 = "I;8S"  # Pillow's name of signed integers of 8 bits

_NATIVE = "L" if sys.byteorder == "little" else "B"
# Pillow's names of numbers in the byte order of the machine, by those of other orders.
_NATIVE_MODES = {
    "F;32F": "F;32NF",
    "F;32BF": "F;32NF",
    "I;16S": "I;16NS",
    "I;16BS": "I;16NS",
    "I;32B": "I;32N",
    "I;32S": "I;32NS",
    "I;32BS": "I;32NS",
}
_HIGH = {"L": "L", "B": "B", "N": _NATIVE}  # Pillow's names of byte orders
_LOW = {"L": "B", "B": "L", "N": "B" if _NATIVE == "L" else "L"}


def stored_bits(image: ImageFile, data: bytes) -> int:
    """Return the bits per channel of an image file; at most 8 means that Pillow reads all of them.

    data: content of the file.
    """
    match image:
        case PngImageFile():
            return data[PNG_BIT_DEPTH]
        case TiffImageFile():
            return _tiff_bits(image)
        case PpmImageFile():
            return _pnm_range(data)[0].bit_length()
        case Jpeg2KImageFile():
            return _jpeg2000_bits(data)
        case AvifImageFile():
            return _avif_bits(data)
    return 8


def can_keep_16_bits(image: ImageFile, head: bytes) -> bool:
    """Return whether `to_16_bits` returns more than 8 bits per channel of an opened image file.

    head: first bytes of the file, at least 64 KiB unless it is shorter.
    """
    if stored_bits(image, head) <= 8 or _needs_8_bits(image):
        return False
    if is_gray(image.mode):
        return True
    match image:
        case PngImageFile():
            return True
        case TiffImageFile():
            return not _is_separate(image) or _has_plain_planes(image)
        case PpmImageFile():
            return head.startswith(b"P6")
    return False


def highest_level(image: Image.Image) -> int:
    """Return the highest level of the colours of a loaded image, scaled to 0 to 65535.

    The low byte of colours is unknown, and taken to be 255.
    """
    if image.mode == "I" or image.mode.startswith("I;16"):
        values, full = gray_levels(image)
        return int(values.max()) * TOP // full
    bands = image.getbands()
    ranges: Any = image.getextrema()
    highest = [
        high
        for band, (_, high) in zip(bands, np.reshape(ranges, (-1, 2)), strict=True)
        if band != "A"
    ]
    return int(max(highest)) << 8 | 0xFF


def to_16_bits(
    image: ImageFile, data: bytes, window: IntensityWindow | None = None
) -> Image16 | None:
    """Return the pixels of a loaded image with 16 bits, at the size at which it was loaded.

    None if Pillow reads only 8 bits of it, or a colour profile has to be applied, which Pillow does
    with 8 bits.

    data: content of the file.
    window: as for `to_resampling_mode`.

    Raises:
        RecordError: UNSUPPORTED, the pixels are not from 0 to 65535.
    """
    if _needs_8_bits(image):
        return None
    if window is not None and is_gray(image.mode):
        levels = windowed_levels(image, window)
        return Image16(np.rint(levels * TOP).astype(np.uint16)[..., None])
    if image.mode == "I" or image.mode.startswith("I;16"):
        return _gray(image)
    if stored_bits(image, data) <= 8:
        return None
    match image:
        case PngImageFile():
            return _from_png(image, data)
        case TiffImageFile():
            return _from_tiff(image, data)
        case PpmImageFile():
            return _from_pnm(image, data)
    return None


def correct_raw_modes(image: ImageFile) -> None:
    """Correct what Pillow takes the bytes of a TIFF for, before it is loaded.

    Separate planes of 16 bits are taken for 8-bit pixels, and signed integers of 8 bits for
    unsigned ones. Compressed numbers of 32 bits are taken to have the byte order of the file, but
    libtiff returns them in that of the machine.
    """
    if not isinstance(image, TiffImageFile) or not image.tile:
        return
    if image.mode == "L" and image.tag_v2.get(_SAMPLE_FORMAT) == _SIGNED:
        image._mode = "I"
        _rename_raw_modes(image, lambda _: _SIGNED_8)
    if image.tile[0].codec_name != "raw":
        _rename_raw_modes(image, lambda name: _NATIVE_MODES.get(name, name))
    elif _is_separate(image) and _tiff_bits(image) == 16:
        _set_raw_modes(image, _byte_order(image))


def _needs_8_bits(image: ImageFile) -> bool:
    """Return whether a colour profile has to be applied, which Pillow does with 8 bits."""
    profile = image.info.get("icc_profile")
    return bool(profile and srgb_transform(profile, "L" if is_gray(image.mode) else "RGB"))


def _gray(image: ImageFile) -> Image16:
    values, full = gray_levels(image)
    levels = ((values.astype(np.uint32) * TOP + full // 2) // full).astype(np.uint16)
    key = image.info.get("transparency")
    if key is None:
        return Image16(levels[..., None])
    return _with_alpha(levels[..., None], values == key)


def _from_png(image: PngImageFile, data: bytes) -> Image16 | None:
    again = PngImageFile(io.BytesIO(data))
    (tile,) = again.tile
    if tile.args == "LA;16B":  # four bytes of a pixel, in their order
        again.tile = [tile._replace(args="RGBA")]
        return Image16(np.asarray(again).view(">u2").astype(np.uint16))
    again.tile = [tile._replace(args=str(tile.args)[:-1] + "L")]
    pixels = _joined(image, again)
    key = image.info.get("transparency")
    if key is None:
        return Image16(pixels)
    return _with_alpha(pixels, (pixels == np.array(key)).all(axis=2))


def _from_tiff(image: TiffImageFile, data: bytes) -> Image16 | None:
    high, low = TiffImageFile(io.BytesIO(data)), TiffImageFile(io.BytesIO(data))
    name, _, order = _raw_mode(high).partition(";16")
    if _is_separate(high):
        if not _has_plain_planes(high):
            return None
        order = _byte_order(high)
    elif name not in ("RGB", "RGBA", "RGBX", "RGBa"):
        return None
    _set_raw_modes(high, _HIGH[order])
    _set_raw_modes(low, _LOW[order])
    pixels = _joined(high, low)
    return Image16(_unweighted(pixels) if name == "RGBa" else pixels)


def _tiff_bits(image: TiffImageFile) -> int:
    bits: Any = image.tag_v2.get(_BITS_PER_SAMPLE, (1,))
    return int(np.max(bits))


def _is_separate(image: TiffImageFile) -> bool:
    return bool(image.tag_v2.get(_PLANAR_CONFIGURATION) == _SEPARATE)


def _has_plain_planes(image: TiffImageFile) -> bool:
    """Return whether separate planes are uncompressed; of others Pillow reads only 8 bits."""
    return image.mode in ("RGB", "RGBA") and image.tile[0].codec_name == "raw"


def _byte_order(image: TiffImageFile) -> str:
    return "L" if image.tag_v2.prefix == b"II" else "B"


def _raw_mode(image: TiffImageFile) -> str:
    args: Any = image.tile[0].args
    return str(args[0])


def _set_raw_modes(image: TiffImageFile, order: str) -> None:
    """Set the byte order of the 16-bit pixels in all tiles; colours are not divided by alpha."""

    def ordered(name: str) -> str:
        name = name.partition(";")[0].replace("RGBa", "RGBA")
        suffix = order.removesuffix("L") if name == "I" else order
        return f"{name};16{suffix}"

    _rename_raw_modes(image, ordered)


def _rename_raw_modes(image: TiffImageFile, rename: Callable[[str], str]) -> None:
    def renamed(args: Any) -> tuple[Any, ...]:
        return (rename(args[0]), *args[1:])

    image.tile = [tile._replace(args=renamed(tile.args)) for tile in image.tile]


def _from_pnm(image: PpmImageFile, data: bytes) -> Image16 | None:
    full, offset = _pnm_range(data)
    if not data.startswith(b"P6"):
        return None
    count = image.width * image.height * 3
    values = np.frombuffer(data, ">u2", count, offset).astype(np.uint32)
    levels = (values.clip(0, full) * np.uint32(TOP) + np.uint32(full // 2)) // np.uint32(full)
    return Image16(levels.astype(np.uint16).reshape(image.height, image.width, 3))


def _joined(high: ImageFile, low: ImageFile) -> Pixels16:
    pixels: Pixels16 = np.asarray(high).astype(np.uint16) << np.uint16(8) | np.asarray(low)
    return pixels


def _with_alpha(pixels: Pixels16, transparent: npt.NDArray[np.bool_]) -> Image16:
    alpha = np.where(transparent, 0, TOP).astype(np.uint16)
    return Image16(np.concatenate([pixels, alpha[..., None]], axis=2))


def _unweighted(pixels: Pixels16) -> Pixels16:
    """Divide colours by alpha."""
    alpha = pixels[..., 3:].astype(np.float32)
    colours = pixels[..., :3] * (TOP / np.where(alpha > 0, alpha, 1))
    levels = np.rint(colours).clip(0, TOP).astype(np.uint16)
    return np.concatenate([levels, pixels[..., 3:]], axis=2)


def _pnm_range(data: bytes) -> tuple[int, int]:
    """Return the highest value of a PNM, and the offset of its pixels."""
    (tile,) = PpmImageFile(io.BytesIO(data)).tile
    if isinstance(tile.args, tuple) and isinstance(tile.args[-1], int) and len(tile.args) == 2:
        return tile.args[1], tile.offset
    return (TOP if tile.args == "I;16B" else 255), tile.offset


def _jpeg2000_bits(data: bytes) -> int:
    """Return the bits of the first component. Source: ISO/IEC 15444-1, A.5.1 (SIZ)."""
    at = data.find(b"\xff\x4f\xff\x51") + 42
    return (data[at] & 0x7F) + 1 if at < len(data) else 8


def _avif_bits(data: bytes) -> int:
    """Return the bits of an AVIF: 8, 10 or 12. Source: AV1 in ISOBMFF, 2.3.3 (av1C)."""
    at = data.find(b"av1C") + 6
    flags = data[at] if at < len(data) else 0
    return (12 if flags & 0x20 else 10) if flags & 0x40 else 8
