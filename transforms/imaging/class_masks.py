"""Masks of class ids: decode them, move them as the pixels of an image, encode them as PNG.

An id is never interpolated: each pixel of a moved mask is the pixel of the source that its centre
comes from.
"""

from __future__ import annotations

import io
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.ImageFile import ImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile

from recordmill.errors import Reason, RecordError
from recordmill.format.image_files import check_chunks
from recordmill.transforms.imaging.affine import IDENTITY, Affine, exif_transform
from recordmill.transforms.imaging.bit_depth import stored_bits
from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.imaging.headers import (
    format_name,
    open_image,
    orientation,
    rotated_by_loading,
)
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.imaging.pixels import load
from recordmill.transforms.imaging.png16 import encode_png, png_file

Ids = npt.NDArray[Any]  # uint8 or uint16[height, width]

_LOSSLESS = ("PNG", "GIF", "BMP", "TIFF")
_SCALED = {2: 85, 4: 17}  # by which Pillow multiplies the gray levels of a PNG of few bits
_GRAY = 0  # PNG's colour type
_DIGITS = 6  # to which coordinates are rounded, so that errors of rounding pick no other pixel
_ROWS = 256  # of a rotated mask that are moved at once
_PHOTOMETRIC, _WHITE_IS_ZERO = 262, 0  # TIFF 6.0


class ClassMask(NamedTuple):
    """A decoded mask.

    ids: uint8 or uint16[height, width], as decoded. to_upright: transform to the upright mask, if
    the file itself has an EXIF orientation that is still to be applied. is_oriented: the file has
    an orientation, so that the upright mask is meant.
    """

    ids: Ids
    to_upright: Affine = IDENTITY
    is_oriented: bool = False

    @property
    def size(self) -> Size:
        """(width, height) of the upright mask."""
        height, width = self.ids.shape
        return (height, width) if self.to_upright.a == 0 else (width, height)


class StoredMask(NamedTuple):
    """A mask as stored, before options give its levels a meaning.

    levels: uint8 or uint16[height, width], gray levels or palette indices; levels of PNGs are as
    stored, and those of one bit are 0 and 1. is_one_bit: black and white, without a palette.
    """

    levels: Ids
    is_one_bit: bool


def open_mask(file: BinaryIO, limits: ImageOptions) -> ImageFile:
    """Open a mask without decoding it. limits: for `max_pixels`.

    Raises:
        RecordError: as `headers.open_image`; UNSUPPORTED, its format is lossy.
    """
    image = open_image(file, limits)
    if (name := format_name(image)) not in _LOSSLESS:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"a {name}, which may change class ids: expected one of {', '.join(_LOSSLESS)}",
        )
    return image


def decode_mask(data: bytes, options: MaskOptions, limits: ImageOptions) -> ClassMask:
    """Return the class ids of a mask.

    Raises:
        RecordError: the file is not a valid mask, or has an id or colour without a class.
    """
    image, rotated = _loaded(data, limits)
    turn = orientation(image)
    to_upright, is_oriented = exif_transform(turn, image.size), turn != 1 or rotated != 1
    if options.colours is not None:
        ids = _ids_of_colours(image, data, options.colours)
        return ClassMask(_checked(ids, options), to_upright, is_oriented)
    levels = _levels_of(image, data)
    if levels is None:
        raise RecordError(
            Reason.UNSUPPORTED,
            "holds colours, not class ids: name the class of each colour with --mask-colours",
        )
    if options.values is not None:
        white = 255 if image.mode == "1" else 1
        levels = _ids_of_values(levels * levels.dtype.type(white), options)
    return ClassMask(_checked(levels, options), to_upright, is_oriented)


def stored_mask(data: bytes, limits: ImageOptions) -> StoredMask | None:
    """Return a mask as stored; None if it holds colours.

    Raises:
        RecordError: the file is not a valid mask.
    """
    image, _ = _loaded(data, limits)
    levels = _levels_of(image, data)
    return None if levels is None else StoredMask(levels, is_one_bit=image.mode == "1")


def _loaded(data: bytes, limits: ImageOptions) -> tuple[ImageFile, int]:
    """Return a decoded mask, and the orientation that Pillow applied to it."""
    image = open_mask(io.BytesIO(data), limits)
    rotated = rotated_by_loading(image)
    check_chunks(data)
    load(image, data, limits)
    return image, rotated


def _levels_of(image: ImageFile, data: bytes) -> Ids | None:
    if image.mode == "1":
        return np.asarray(image).astype(np.uint8)
    if isinstance(image, TiffImageFile) and image.mode != "P":
        if image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
            raise RecordError(Reason.UNSUPPORTED, "a TIFF in which 0 is white: store ids as levels")
        if stored_bits(image, data) not in (8, 16):
            raise RecordError(Reason.UNSUPPORTED, "a TIFF of other than 8 or 16 bits per pixel")
    if image.mode in ("L", "P"):
        levels = np.asarray(image)
        bits = stored_bits(image, data)
        is_scaled = image.mode == "L" and isinstance(image, PngImageFile)
        return levels // _SCALED[bits] if is_scaled and bits in _SCALED else levels
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    if image.mode in ("LA", "RGB", "RGBA"):
        channels = np.asarray(_opaque(image, data))
        if channels.ndim == 2:
            return channels
        gray = channels[..., 0]
        is_gray = bool((channels == gray[..., None]).all())
        found: Ids | None = gray if is_gray else None
        return found
    raise RecordError(
        Reason.UNSUPPORTED, f"pixels of type {image.mode}: expected 8 or 16 bits, or a palette"
    )


def move_mask(ids: Ids, transform: Affine, size: Size, *, padding: int) -> Ids:
    """Move a mask.

    transform: from points of the mask to points of the result. size: (width, height) of the result.
    padding: id of the pixels that come from outside the mask.
    """
    height, width = ids.shape
    if transform == IDENTITY and size == (width, height):
        return ids
    back = transform.inverse()
    across, down = np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5
    if back.b == back.d == 0:
        columns, rows = _pixels(back.a * across + back.c), _pixels(back.e * down + back.f)
        return _picked(ids, rows[:, None], columns[None], padding)
    if back.a == back.e == 0:
        columns, rows = _pixels(back.b * down + back.c), _pixels(back.d * across + back.f)
        return _picked(ids, rows[None], columns[:, None], padding)
    blocks = []
    for start in range(0, size[1], _ROWS):
        some = down[start : start + _ROWS, None]
        columns = _pixels(back.a * across + back.b * some + back.c)
        rows = _pixels(back.d * across + back.e * some + back.f)
        blocks.append(_picked(ids, rows, columns, padding))
    return np.concatenate(blocks)


def encode_mask(ids: Ids) -> bytes:
    """Encode a mask as a gray PNG of 8 or 16 bits.

    With 8 bits, rows are not filtered, and only runs are compressed: masks of shapes become smaller
    than by Pillow's defaults, in a third of the time.
    """
    if ids.dtype == np.uint16:
        return encode_png(ids[..., None])
    height, width = ids.shape
    rows = np.zeros((height, width + 1), np.uint8)  # each begins with its filter, 0
    rows[:, 1:] = ids
    packer = zlib.compressobj(strategy=zlib.Z_RLE)
    body = packer.compress(rows.data) + packer.flush()
    return png_file(width, height, bits=8, colour_type=_GRAY, body=body)


def _pixels(places: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.int64]:
    return np.floor(np.round(places, _DIGITS)).astype(np.int64)


def _picked(
    ids: Ids, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], padding: int
) -> Ids:
    height, width = ids.shape
    found: Ids = ids[rows.clip(0, height - 1), columns.clip(0, width - 1)]
    outside = (rows < 0) | (rows >= height) | (columns < 0) | (columns >= width)
    if outside.any():
        found[outside] = padding
    return found


def _opaque(image: ImageFile, data: bytes) -> Image.Image:
    """Return a loaded image of 8 bits per channel without its alpha channel.

    Raises:
        RecordError: it has transparent pixels, or more bits.
    """
    if stored_bits(image, data) > 8:
        raise RecordError(Reason.UNSUPPORTED, "colours of 16 bits: expected 8 bits per channel")
    if image.mode not in ("LA", "RGBA"):
        return image
    if image.getchannel("A").getextrema() != (255, 255):
        raise RecordError(
            Reason.UNSUPPORTED,
            "has transparent pixels, which have no class: fill them with the colour of one",
        )
    return image.convert(image.mode.removesuffix("A"))


def _ids_of_colours(
    image: ImageFile, data: bytes, colours: tuple[tuple[int, int, int, int], ...]
) -> Ids:
    pixels = np.asarray(_opaque(image, data).convert("RGB")).astype(np.int32)
    packed = _packed(pixels)
    table = np.array(colours, np.int32)
    table = table[np.argsort(_packed(table))]
    keys = _packed(table)
    at = np.searchsorted(keys, packed).clip(max=len(keys) - 1)
    unknown = keys[at] != packed
    if unknown.any():
        y, x = np.argwhere(unknown)[0].tolist()
        red, green, blue = pixels[y, x].tolist()
        raise RecordError(
            Reason.BAD_VALUE,
            f"the colour {red},{green},{blue} of pixel ({x}, {y}) is not in --mask-colours",
        )
    ids: Ids = table[at, 3].astype(np.uint16 if table[:, 3].max() > 255 else np.uint8)
    return ids


def _packed(colours: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return colours[..., 0] << 16 | colours[..., 1] << 8 | colours[..., 2]


def _ids_of_values(levels: Ids, options: MaskOptions) -> Ids:
    values = np.array(options.values, np.int64)
    table = np.full(1 << 16, -1, np.int32)
    table[values] = np.arange(len(values))
    ids = table[levels]
    if ids.min(initial=0) < 0:
        level, where = _first(levels, ids < 0)
        raise RecordError(Reason.BAD_VALUE, f"the level {level} of {where} is not in --mask-values")
    return ids.astype(np.uint16 if len(values) > 256 else np.uint8)


def _checked(ids: Ids, options: MaskOptions) -> Ids:
    """Return ids in the dtype of the written mask. Raises RecordError for ids without a class."""
    highest = int(ids.max(initial=0))
    if options.classes is not None and highest >= options.classes:
        unnamed = (ids >= options.classes) & (ids != options.ignored)
        if unnamed.any():
            number, where = _first(ids, unnamed)
            raise RecordError(
                Reason.BAD_VALUE,
                f"the class id {number} of {where} has no name: there are {options.classes} names,"
                f" of ids 0 to {options.classes - 1}, and {options.ignored} is ignored",
            )
    if highest > options.top:
        number, where = _first(ids, ids > options.top)
        raise RecordError(
            Reason.BAD_VALUE,
            f"the class id {number} of {where} is above {options.top}: use --mask-depth 16",
        )
    return ids.astype(np.uint16 if options.depth == 16 else np.uint8, copy=False)


def _first(numbers: Ids, chosen: npt.NDArray[np.bool_]) -> tuple[int, str]:
    """Return the first of the chosen numbers, and the name of its pixel for messages."""
    y, x = np.argwhere(chosen)[0].tolist()
    return int(numbers[y, x]), f"pixel ({x}, {y})"
