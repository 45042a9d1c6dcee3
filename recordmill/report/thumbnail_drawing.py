"""Draws thumbnails, as small JPEGs in data URIs."""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.format.image_files import UNREADABLE_IMAGE, open_image
from recordmill.report.mask_drawing import tinted
from recordmill.report.thumbnails import ARRAY, Thumbnail

SIDE = 112  # pixels of the longer side
LARGE_SIDE = 160  # of a record's only image
_QUALITY = 72
_LEVELS = 12  # a side of the grey levels by which thumbnails are compared
_TAILS = (0.5, 99.5)  # percentiles of an array that have the lowest and the highest colour
# Seven colours of Matplotlib's viridis, evenly spaced.
_STOPS = np.array(
    [(68, 1, 84), (68, 58, 131), (49, 104, 142), (33, 145, 140), (53, 183, 121), (144, 215, 67),
     (253, 231, 37)], np.float64,
)  # fmt: skip
_COLOURS = np.stack(
    [np.interp(np.arange(256), np.linspace(0, 255, len(_STOPS)), one) for one in _STOPS.T], axis=1
).astype(np.uint8)


def of_encoded(
    content: bytes,
    *,
    side: int = SIDE,
    pixels: int | None = None,
    masks: Sequence[tuple[bytes, int]] = (),
) -> Thumbnail | None:
    """Return the thumbnail of an encoded image; None if it cannot be decoded.

    side: pixels of the longer side. pixels: images with more are not decoded. masks: as for
      `mask_drawing.tinted`.
    """
    try:
        with open_image(content) as image:
            mode, width = image.mode, image.width
            if pixels is not None and width * image.height > pixels:
                return None
            image.draft("RGB", (side, side))  # JPEGs are decoded at a fraction of their size
            return _reduced(image, mode=mode, width=width, side=side, masks=masks)
    except UNREADABLE_IMAGE:
        return None


def of_array(array: npt.NDArray[Any], *, is_image: bool = False) -> Thumbnail | None:
    """Return an array of 2 dimensions, or of 3 with 1, 3 or 4 channels last, as a thumbnail.

    Of an array of more dimensions the middle slice of each leading one is drawn. Numbers other
    than uint8 are scaled so that the percentiles 0.5 and 99.5 have the lowest and the highest
    colour. Pixels of gray images have levels of gray instead. None if it has no pixels, or numbers
    that cannot be drawn.
    """
    if array.dtype.kind not in "buif" or not array.size:
        return None
    has_channels = array.ndim > 2 and array.shape[-1] in (1, 3, 4)
    while array.ndim > (3 if has_channels else 2):
        array = array[len(array) // 2]
    if array.ndim < 2:
        return None
    if has_channels:
        array = array[..., 0] if array.shape[-1] == 1 else array[..., :3]
    array, colours = coloured(array, is_image=is_image)
    image = Image.fromarray(np.ascontiguousarray(array))
    width = image.width
    factor = SIDE // max(image.size)
    if factor > 1:  # each number stays a square
        image = image.resize(
            (image.width * factor, image.height * factor), Image.Resampling.NEAREST
        )
    drawn = _reduced(image, mode=ARRAY, width=width, side=SIDE)
    return dataclasses.replace(drawn, colours=colours)


def coloured(
    array: npt.NDArray[Any], *, is_image: bool = False
) -> tuple[npt.NDArray[np.uint8], tuple[float, float] | None]:
    """Return an array as pixels, and the values that have the lowest and the highest colour.

    array: [height, width], or [height, width, 3]; uint8 stays as it is. is_image: as for
    `of_array`.
    """
    if array.dtype == np.uint8:
        return array, None
    values = array.astype(np.float64) / 4  # differences of the largest numbers are finite
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, _TAILS) if finite.size else (0.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that nearly are equal
        scaled = (values - low) * (np.float64(255) / ((high - low) or 1.0))
    levels = np.clip(np.nan_to_num(scaled), 0, 255).astype(np.uint8)
    if is_image:
        return levels, None
    pixels = _COLOURS[levels] if levels.ndim == 2 else levels
    if not finite.size:
        return pixels, None
    return pixels, (float(low) * 4 + 0.0, float(high) * 4 + 0.0)  # -0.0 becomes 0.0


def of_drawing(image: Image.Image) -> Thumbnail:
    """Return a drawing of an array as a thumbnail."""
    return _reduced(image, mode=ARRAY, width=image.width, side=SIDE)


def _reduced(
    image: Image.Image,
    *,
    mode: str,
    width: int,
    side: int,
    masks: Sequence[tuple[bytes, int]] = (),
) -> Thumbnail:
    """Return the thumbnail of an image. mode, width: those that it had before it was reduced."""
    brightness = _brightness_of_16_bits(image)
    image = as_rgb(image)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    tinted(image, masks).save(content, "JPEG", quality=_QUALITY)
    encoded = base64.b64encode(content.getvalue()).decode("ascii")
    grey = image.convert("L")
    return Thumbnail(
        uri=f"data:image/jpeg;base64,{encoded}",
        width=image.width,
        height=image.height,
        mode=mode,
        scale=image.width / width,
        brightness=float(np.asarray(grey).mean()) if brightness is None else brightness,
        levels=np.asarray(grey.resize((_LEVELS, _LEVELS), Image.Resampling.BOX), np.float32),
    )


def _brightness_of_16_bits(image: Image.Image) -> float | None:
    """Return the mean grey level, 0 to 255, of 16-bit gray, which is drawn by its own range.

    None for other images.
    """
    return float(np.asarray(image).mean()) / 257 if image.mode.startswith("I;16") else None


def as_rgb(image: Image.Image) -> Image.Image:
    """Convert an image to RGB: transparent pixels are white, 16-bit gray is scaled by its range."""
    if image.mode.startswith(("I", "F")):
        levels = np.asarray(image).astype(np.float64)
        low, high = float(levels.min()), float(levels.max())
        image = Image.fromarray(((levels - low) * (255 / ((high - low) or 1))).astype(np.uint8))
    elif image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        whole = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", whole.size, "white"), whole)
    return image.convert("RGB")
