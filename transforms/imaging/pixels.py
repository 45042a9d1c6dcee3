"""A picture file in, a picture file out: upright, in one colour mode, resized, encoded anew.

    >>> process(data, ImageOptions(size=(224, 224))).data[:3]
    b'\\xff\\xd8\\xff'

What comes first is what is cheap: the header, then as few decoded pixels as will do, then resizing;
turning and colours follow on the small picture.
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
from PIL.PngImagePlugin import PngImageFile

from recordmill.errors import Reason, RecordError
from recordmill.image_constants import IMAGENET_MEAN, IMAGENET_STD
from recordmill.transforms.imaging.affine import IDENTITY, Affine, upright
from recordmill.transforms.imaging.augment import augment
from recordmill.transforms.imaging.colour import (
    PILLOW_MODES,
    blank,
    mixable,
    srgb_transform,
    to_mode,
)
from recordmill.transforms.imaging.geometry import ResizePlan, Size, plan_resize
from recordmill.transforms.imaging.headers import (
    DECODE_ERRORS,
    Header,
    broken,
    name_of,
    open_picture,
    orientation,
    read_header,
)
from recordmill.transforms.imaging.image_options import JPEG_SIDE, ImageOptions
from recordmill.transforms.imaging.resample import resize

__all__ = ["Header", "ImageOptions", "Picture", "decode", "encode", "process", "read_header"]

# A JPEG is decoded at 1/2, 1/4 or 1/8 as long as that leaves this many times the pixels needed,
# each way. Over the 167 photos of the test data that moves results by 0.44 levels on average at
# the very most (`fit` to 16x16; 0.02 at 128x128); with a margin of 1 it would be up to 1.5.
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

# How files end that were written to their end: JPEG's EOI, PNG's IEND chunk.
_ENDS = {"jpeg": b"\xff\xd9", "png": b"IEND\xae\x42\x60\x82"}
_PNG_BIT_DEPTH = 24  # where a PNG's bits per channel stand, in its first chunk


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """An encoded picture; `format` is jpeg, png or raw, sides are in pixels.

    source: (width, height) of the file's picture, upright. turn: from the picture as it is stored
    to the one upright. moves: from that to the one resized. varied: from that to this one.
    """

    data: bytes
    format: str
    height: int
    width: int
    channels: int
    source: Size
    turn: Affine = IDENTITY
    moves: Affine = IDENTITY
    varied: Affine = IDENTITY


def process(
    data: bytes,
    options: ImageOptions,
    augmentations: Sequence[str] = (),
    generator: np.random.Generator | None = None,
) -> Picture:
    """Decodes a picture and encodes it as asked for, or passes its bytes on where they comply.

    Augmentations need a generator.

    Raises:
        RecordError: the picture is bad; its reason and detail say how.
        Filtered: it is smaller than `min_size`.
    """
    image = _open(data, options)
    if not augmentations and _complies(image, data, options):
        _load(image, options)
        return _picture(data, _Finished(image, image.size), options)
    result = _finish(image, options)
    if augmentations:
        if generator is None:
            raise ValueError(f"augmentations {augmentations} need a generator, got None")
        changed, step = augment(result.image, augmentations, generator)
        result = result._replace(image=changed, varied=step)
    return _picture(encode(result.image, options), result, options)


def decode(data: bytes, options: ImageOptions) -> Image.Image:
    """The picture upright, in the mode asked for, resized; without metadata. Raises as `process`.

    Of an animation it is the first frame.
    """
    return _finish(_open(data, options), options).image


def encode(image: Image.Image, options: ImageOptions) -> bytes:
    """The bytes of a decoded picture.

    Raises RecordError (UNSUPPORTED) where JPEG cannot hold its sides.
    """
    if options.is_raw:
        return _raw(image, options)
    out = io.BytesIO()
    if options.image_format == "png":
        image.save(out, "PNG")
        return out.getvalue()
    check_sides(image.size)
    image.save(out, "JPEG", quality=options.quality)
    return out.getvalue()


def check_sides(size: Size) -> None:
    """Raises RecordError (UNSUPPORTED) where JPEG cannot hold a picture."""
    width, height = size
    if max(size) > JPEG_SIDE:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"{width}x{height} pixels, more than the {JPEG_SIDE} a side of a JPEG",
        )


def _raw(image: Image.Image, options: ImageOptions) -> bytes:
    if options.normalize == "none":
        return image.tobytes()
    pixels = np.asarray(image, np.float32)
    match options.normalize:
        case "unit":
            pixels = pixels / np.float32(255)
        case "signed":
            pixels = pixels / np.float32(127.5) - np.float32(1)
        case _:
            pixels = (pixels / np.float32(255) - _MEAN) / _STD
    return pixels.astype("<f4", copy=False).tobytes()


class _Finished(NamedTuple):
    """A picture as it will be encoded; source and the rest: as `Picture` has them."""

    image: Image.Image
    source: Size
    turn: Affine = IDENTITY
    moves: Affine = IDENTITY
    varied: Affine = IDENTITY


def _picture(data: bytes, made: _Finished, options: ImageOptions) -> Picture:
    return Picture(
        data=data,
        format=options.image_format,
        height=made.image.height,
        width=made.image.width,
        channels=options.channels,
        source=made.source,
        turn=made.turn,
        moves=made.moves,
        varied=made.varied,
    )


def _complies(image: ImageFile, data: bytes, options: ImageOptions) -> bool:
    """Whether the file is, byte for byte, what would be asked of it, if it also decodes."""
    if options.image_format == "jpeg":
        right_format = isinstance(image, JpegImageFile)
    elif options.image_format == "png":
        right_format = isinstance(image, PngImageFile) and _is_plain(image, data)
    else:
        return False
    profile = image.info.get("icc_profile")
    return (
        right_format
        and orientation(image) == 1
        and image.mode == PILLOW_MODES[options.mode]
        and plan_resize(image.size, options) == _as_it_is(image.size)
        and data.endswith(_ENDS[options.image_format])
        and not (profile and srgb_transform(profile, image.mode.removesuffix("A")))
    )


def _is_plain(image: PngImageFile, data: bytes) -> bool:
    """Whether a PNG is one picture of 8 bits per channel, without a colour that stands for none,
    and every chunk's checksum is right: stricter readers than Pillow look at those.
    """
    if image.is_animated or "transparency" in image.info or data[_PNG_BIT_DEPTH] != 8:
        return False
    try:
        PngImageFile(io.BytesIO(data)).verify()
    except DECODE_ERRORS:
        return False
    return True


def _as_it_is(size: tuple[int, int]) -> ResizePlan:
    return ResizePlan(window=size, inner=size, canvas=size)


def _open(data: bytes, options: ImageOptions) -> ImageFile:
    """Opens a picture, and loads it unless it is a JPEG, which may be loaded smaller."""
    image = open_picture(io.BytesIO(data), options)
    if not isinstance(image, JpegImageFile):
        _load(image, options)  # a PNG may tell its orientation after its pixels
    return image


def _finish(image: ImageFile, options: ImageOptions) -> _Finished:
    turn = orientation(image)
    sideways = turn >= 5
    stored = image.size
    source = stored[::-1] if sideways else stored
    standing = plan_resize(source, options)
    plan = standing.turned() if sideways else standing
    profile = image.info.get("icc_profile")
    full = _draft(image, plan, options)
    _load(image, options)
    result = _resize(mixable(image), plan, stored=stored, full=full)
    if turn != 1:
        result = result.transpose(UPRIGHT[turn])
    result = to_mode(result, mode=options.mode, background=options.background, profile=profile)
    if standing.canvas != standing.inner:
        result = _pad(result, standing, options)
    result.info = {}  # or else Pillow would write comments and profiles along
    return _Finished(result, source, upright(turn, stored), standing.moves(source))


def _draft(image: ImageFile, plan: ResizePlan, options: ImageOptions) -> tuple[float, float]:
    """Has a JPEG decoded at a fraction of its size where that will do.

    Returns the (width, height) that the picture takes of what will be decoded.
    """
    if not isinstance(image, JpegImageFile):
        return image.size
    # The luma that JPEG stores is the gray that would be computed, unless a profile says otherwise.
    mode = "L" if options.mode == "gray" and not image.info.get("icc_profile") else None
    needed = (
        math.ceil(_DRAFT_MARGIN * plan.inner[0] * image.width / plan.window[0]),
        math.ceil(_DRAFT_MARGIN * plan.inner[1] * image.height / plan.window[1]),
    )
    drafted = image.draft(mode, needed)
    return image.size if drafted is None else drafted[1][2:]


def _load(image: ImageFile, options: ImageOptions) -> None:
    """Decodes. The one call of Pillow's that bad bytes may break, so that bugs stay bugs."""
    if image.mode == "L":
        # A GIF's gray frame keeps the palette of the other frames, and Pillow 12 applies it.
        image.palette = None
    try:
        image.load()
    except DECODE_ERRORS as error:
        raise broken(name_of(image), error, options) from error


def _resize(
    image: Image.Image, plan: ResizePlan, *, stored: Size, full: tuple[float, float]
) -> Image.Image:
    """Cuts out the window and scales it in one go.

    full: the (width, height) that the stored picture takes of the decoded one, which may end in
    pixels that stand for a part of one.
    """
    width = plan.window[0] * full[0] / stored[0]
    height = plan.window[1] * full[1] / stored[1]
    if plan.inner == image.size == (width, height):
        return image
    left, top = (full[0] - width) / 2, (full[1] - height) / 2
    box = (left, top, min(left + width, image.width), min(top + height, image.height))
    return resize(image, plan.inner, box)


def _pad(image: Image.Image, plan: ResizePlan, options: ImageOptions) -> Image.Image:
    canvas = blank(plan.canvas, mode=options.mode, background=options.background)
    canvas.paste(image, plan.corner)
    return canvas
