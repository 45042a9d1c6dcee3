"""Processing of image files: decode, turn upright, convert, resize, augment, encode.

    >>> process(data, ImageOptions(size=(224, 224))).data[:3]
    b'\\xff\\xd8\\xff'

Cheap steps come first: the header, then the decoding of as few pixels as needed, then resizing.
Rotation and colour conversion run on the resized image.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import TiffImageFile

from recordmill.errors import Reason, RecordError
from recordmill.format.image_files import (
    check_chunks,
    check_scans,
    has_reduced_sizes,
    load_image,
)
from recordmill.format.ledger import Noted
from recordmill.image_constants import IMAGENET_MEAN, IMAGENET_STD
from recordmill.transforms.imaging.affine import IDENTITY, Affine, exif_transform
from recordmill.transforms.imaging.augment import AnyImage, augment
from recordmill.transforms.imaging.bit_depth import (
    correct_raw_modes,
    highest_level,
    stored_bits,
    to_16_bits,
)
from recordmill.transforms.imaging.colour import (
    background_image,
    is_gray,
    to_mode,
    to_resampling_mode,
)
from recordmill.transforms.imaging.geometry import ResizePlan, Size, plan_resize
from recordmill.transforms.imaging.headers import (
    DECODE_ERRORS,
    Header,
    decode_error,
    format_name,
    open_image,
    orientation,
    read_header,
    rotated_by_loading,
)
from recordmill.transforms.imaging.image16 import TOP, Image16
from recordmill.transforms.imaging.image_options import JPEG_SIDE, ImageOptions
from recordmill.transforms.imaging.png16 import encode_png
from recordmill.transforms.imaging.resample import resize
from recordmill.transforms.imaging.stored_form import complies
from recordmill.transforms.imaging.tiff_pixels import unread_pixels
from recordmill.transforms.imaging.unread_parts import unread_parts

__all__ = ["EncodedImage", "Header", "ImageOptions", "decode", "encode", "process", "read_header"]

# A JPEG is decoded at 1/2, 1/4 or 1/8 of its size as long as that leaves this many times the pixels
# needed per axis. Over 167 photos the result changes by at most 0.44 levels on average (`fit` to
# 16x16; 0.02 at 128x128); with a margin of 1 it would change by up to 1.5.
_DRAFT_MARGIN = 3

UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # by EXIF's orientation

_MEAN = np.array(IMAGENET_MEAN, np.float32)
_STD = np.array(IMAGENET_STD, np.float32)

_SCAN = b"\xff\xda"  # JPEG's marker before each scan

_TOP_OF_8_BITS = 255


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedImage:
    """Encoded image, and the transforms that led to it.

    data: content of the file, or the raw pixels.
    format: jpeg, png or raw.
    height, width: in pixels.
    source: (width, height) of the upright image before resizing.
    reduced: if the file has more bits per channel than were read, the highest level in it, scaled
        to 0 to 65535; else None. None with depth 8, which asks for it.
    noted: findings that notes report.
    to_upright: transform from the image as stored to the upright one.
    to_resized: transform from the upright image to the resized one.
    to_augmented: transform of the augmentations, from the resized image to this one.
    """

    data: bytes
    format: str
    height: int
    width: int
    channels: int
    source: Size
    reduced: int | None = None
    noted: Sequence[Noted] = ()
    to_upright: Affine = IDENTITY
    to_resized: Affine = IDENTITY
    to_augmented: Affine = IDENTITY


def process(
    data: bytes,
    options: ImageOptions,
    augmentations: Sequence[str] = (),
    generator: np.random.Generator | None = None,
) -> EncodedImage:
    """Decode an image and encode it as the options say; compliant files pass through unchanged.

    Augmentations require a generator.

    Raises:
        RecordError: the image is invalid; its reason and detail say why.
        Filtered: it is smaller than `min_size`.
    """
    image, rotated = _open(data, options)
    if not augmentations and complies(image, data, options):
        damage = load(image, data, options)
        noted = _noted(image, data, options, damage=damage)
        finished = _Finished(image, image.size, noted=noted)
        return _encoded_image(data, finished, options)
    result = _finish(image, data, options, rotated)
    if augmentations:
        if generator is None:
            raise ValueError(f"augmentations {augmentations} need a generator, got None")
        changed, step = augment(result.image, augmentations, generator)
        result = result._replace(image=changed, to_augmented=step)
    return _encoded_image(encode(result.image, options), result, options)


def decode(data: bytes, options: ImageOptions) -> AnyImage:
    """Return the image upright, converted and resized, without metadata.

    An animation yields its first frame. With a depth of 16 the result is an `Image16`, except of
    files with 8 bits.

    Raises:
        RecordError, Filtered: as `process`.
    """
    image, rotated = _open(data, options)
    return _finish(image, data, options, rotated).image


def encode(image: AnyImage, options: ImageOptions) -> bytes:
    """Encode a decoded image.

    Raises:
        RecordError: UNSUPPORTED, a side is too long for JPEG.
    """
    if options.bits == 16 and isinstance(image, Image.Image):
        image = Image16.of_8_bits(image)
    if options.is_raw:
        return _raw(image, options)
    if isinstance(image, Image16):
        return encode_png(image.pixels)
    out = io.BytesIO()
    if options.image_format == "png":
        image.save(out, "PNG")
        return out.getvalue()
    check_sides(image.size)
    image.save(out, "JPEG", quality=options.quality)
    return out.getvalue()


def check_sides(size: Size) -> None:
    """Check that JPEG can hold an image of (width, height).

    Raises:
        RecordError: UNSUPPORTED, a side is too long.
    """
    width, height = size
    if max(size) > JPEG_SIDE:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"{width}x{height} pixels: the sides of a JPEG have at most {JPEG_SIDE}",
        )


def _raw(image: AnyImage, options: ImageOptions) -> bytes:
    if isinstance(image, Image16):
        levels, top = image.pixels, TOP
        if options.normalize == "none":
            return levels.astype("<u2", copy=False).tobytes()
        pixels = levels.astype(np.float32)
    elif options.normalize == "none":
        return image.tobytes()
    else:
        pixels, top = np.asarray(image, np.float32), 255
    match options.normalize:
        case "unit":
            pixels = pixels / np.float32(top)
        case "signed":
            pixels = pixels / np.float32(top / 2) - np.float32(1)
        case _:
            pixels = (pixels / np.float32(top) - _MEAN) / _STD
    return pixels.astype("<f4", copy=False).tobytes()


class _Finished(NamedTuple):
    """Image ready for encoding, with the attributes of `EncodedImage`."""

    image: AnyImage
    source: Size
    reduced: int | None = None
    noted: Sequence[Noted] = ()
    to_upright: Affine = IDENTITY
    to_resized: Affine = IDENTITY
    to_augmented: Affine = IDENTITY


def _encoded_image(data: bytes, made: _Finished, options: ImageOptions) -> EncodedImage:
    return EncodedImage(
        data=data,
        format=options.image_format,
        height=made.image.height,
        width=made.image.width,
        channels=options.channels,
        source=made.source,
        reduced=made.reduced,
        noted=made.noted,
        to_upright=made.to_upright,
        to_resized=made.to_resized,
        to_augmented=made.to_augmented,
    )


def _open(data: bytes, options: ImageOptions) -> tuple[ImageFile, int]:
    """Open an image, and load it unless it is a JPEG, which may be loaded at a reduced size.

    Returns the image, and the orientation that Pillow applied when it loaded it.
    """
    image = open_image(io.BytesIO(data), options)
    rotated = rotated_by_loading(image)
    if isinstance(image, JpegImageFile):
        if not _has_one_scan(image, data):
            check_scans(data, pixels=math.prod(image.size), limit=options.max_pixels)
    else:
        check_chunks(data)
        load(image, data, options)  # a PNG may store its orientation after its pixels
    return image, rotated


def _has_one_scan(image: JpegImageFile, data: bytes) -> bool:
    """Return whether the first scan holds all components, so that libjpeg reads no other.

    Pillow has just read the header of the first scan, which takes 8 + 2 * components bytes (ISO/IEC
    10918-1, B.2.3). Searching the data for scans would take as long as a twentieth of decoding it.
    """
    components = image.layers
    assert image.fp is not None
    start = image.fp.tell() - 8 - 2 * components
    header = data[start : start + 5] if start > 0 else b""
    is_first = header[:2] == _SCAN and header[4:] == bytes([components])
    return is_first and "progressive" not in image.info


def _finish(image: ImageFile, data: bytes, options: ImageOptions, rotated: int) -> _Finished:
    """Return an opened image as the options say. rotated: as `_open` returned it."""
    turn = orientation(image)
    swaps_sides = turn >= 5
    stored = image.size
    source = stored[::-1] if swaps_sides else stored
    upright_plan = plan_resize(source, options)
    plan = upright_plan.transposed() if swaps_sides else upright_plan
    profile = image.info.get("icc_profile")
    full = _draft(image, data, plan, options)
    damage = load(image, data, options)
    window = options.intensity_window
    fine = to_16_bits(image, data, window) if options.bits == 16 else None
    found = to_resampling_mode(image, window) if fine is None else fine
    reduced = _reduced(image, data, options) if fine is None else None
    result = _resize(found, plan, stored=stored, full=full)
    if turn != 1:
        result = result.transpose(UPRIGHT[turn])
    if isinstance(result, Image16):
        result = result.to_mode(options.mode, options.background)
    else:
        result = to_mode(result, mode=options.mode, background=options.background, profile=profile)
        result.info = {}  # Pillow would write comments and profiles
    if upright_plan.canvas != upright_plan.inner:
        result = _pad(result, upright_plan, options)
    return _Finished(
        result,
        source,
        reduced,
        _noted(image, data, options, damage=damage),
        exif_transform(turn, stored) if rotated == 1 else _rotation(rotated, source),
        upright_plan.transform(source),
    )


def _rotation(orientation: int, upright: Size) -> Affine:
    """Return the transform from an image as stored to the upright image of (width, height)."""
    return exif_transform(orientation, upright[::-1] if orientation >= 5 else upright)


def _noted(
    image: ImageFile, data: bytes, options: ImageOptions, *, damage: str | None
) -> Sequence[Noted]:
    """Return the findings on a loaded image that notes report. damage: as `load` returned it."""
    found: list[Noted] = [] if damage is None else ["damaged_image"]
    found += unread_parts(image, data)
    window = options.intensity_window
    if window is not None and not is_gray(image.mode):
        found.append("window_unused")
    elif isinstance(window, tuple) and image.mode == "L" and window[1] > _TOP_OF_8_BITS:
        found.append("window_beyond")
    return found


def _reduced(image: ImageFile, data: bytes, options: ImageOptions) -> int | None:
    """Return the highest level of a loaded image of which Pillow reads 8 bits of more."""
    is_windowed = options.intensity_window is not None and is_gray(image.mode)
    if options.depth == "8" or is_windowed or stored_bits(image, data) <= 8:
        return None
    return highest_level(image)


def _draft(
    image: ImageFile, data: bytes, plan: ResizePlan, options: ImageOptions
) -> tuple[float, float]:
    """Let libjpeg decode a JPEG at a reduced size if that is large enough.

    Returns the (width, height) that the full image takes in the decoded image.
    """
    if not isinstance(image, JpegImageFile) or not has_reduced_sizes(image, data):
        return image.size
    # Without a profile, the luma that JPEG stores is the gray that would be computed.
    mode = "L" if options.mode == "gray" and not image.info.get("icc_profile") else None
    needed = (
        math.ceil(_DRAFT_MARGIN * plan.inner[0] * image.width / plan.window[0]),
        math.ceil(_DRAFT_MARGIN * plan.inner[1] * image.height / plan.window[1]),
    )
    drafted = image.draft(mode, needed)
    return image.size if drafted is None else drafted[1][2:]


def load(image: ImageFile, data: bytes, options: ImageOptions) -> str | None:
    """Decode an opened image, and return the damage of pixels that could be decoded nevertheless.

    All errors for bad bytes are caught here, so that other exceptions remain bugs.

    Raises:
        RecordError: the pixels cannot be decoded, or `options` rejects damaged ones.
    """
    if image.mode == "L":
        # A gray frame of a GIF keeps the palette of the other frames, and Pillow 12 applies it.
        image.palette = None
    try:
        correct_raw_modes(image)
        damage = load_image(image, data)
    except DECODE_ERRORS as error:
        if isinstance(image, TiffImageFile) and (pixels := unread_pixels(data)):
            raise RecordError(Reason.UNSUPPORTED, f"a TIFF of {pixels}") from error
        raise decode_error(format_name(image), error, options) from error
    except RuntimeError as error:
        if format_name(image) != "AVIF":  # libavif alone reports bad bytes so
            raise
        raise decode_error("AVIF", error, options) from error
    if damage is not None and options.damaged == "reject":
        raise RecordError(Reason.CORRUPT, f"the {format_name(image)} is damaged: {damage}")
    return damage


def _resize(
    image: AnyImage, plan: ResizePlan, *, stored: Size, full: tuple[float, float]
) -> AnyImage:
    """Crop the window and scale it in one step.

    full: (width, height) that the stored image takes in the decoded one; not an integer if the last
        pixels cover only a part of a reduced one.
    """
    width = plan.window[0] * full[0] / stored[0]
    height = plan.window[1] * full[1] / stored[1]
    if plan.inner == image.size == (width, height):
        return image
    left, top = (full[0] - width) / 2, (full[1] - height) / 2
    box = (left, top, min(left + width, image.width), min(top + height, image.height))
    if isinstance(image, Image16):
        return image.resize(plan.inner, box)
    return resize(image, plan.inner, box)


def _pad(image: AnyImage, plan: ResizePlan, options: ImageOptions) -> AnyImage:
    if isinstance(image, Image16):
        size, behind = plan.canvas, options.background
        return image.padded(size, corner=plan.corner, mode=options.mode, behind=behind)
    canvas = background_image(plan.canvas, mode=options.mode, background=options.background)
    canvas.paste(image, plan.corner)
    return canvas
