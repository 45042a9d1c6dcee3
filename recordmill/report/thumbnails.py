"""Small JPEGs for a page, as data URIs."""

from __future__ import annotations

import base64
import dataclasses
import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.format.image_files import UNREADABLE_IMAGE, open_image

SIDE = 112  # pixels of the longer side
_QUALITY = 72
_STRIP = 4  # frames of a clip that are drawn
_TAILS = (0.5, 99.5)  # percentiles of an array that are drawn black and white


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thumbnail:
    """A small image.

    uri: a data URI. width, height: of the thumbnail, in pixels.
    brightness: mean of the grey levels, 0 to 255.
    """

    uri: str
    width: int
    height: int
    brightness: float


def of_encoded(content: bytes) -> Thumbnail | None:
    """Return the thumbnail of an encoded image; None if it cannot be decoded."""
    try:
        with open_image(content) as image:
            image.draft("RGB", (SIDE, SIDE))  # JPEGs are decoded at a fraction of their size
            return of_image(image)
    except UNREADABLE_IMAGE:
        return None


def of_array(array: npt.NDArray[Any]) -> Thumbnail | None:
    """Return an array of 2 dimensions, or of 3 with 1, 3 or 4 channels last, as a thumbnail.

    Of an array of more dimensions the middle slice of each leading one is drawn. Numbers but uint8
    are scaled so that the percentiles 0.5 and 99.5 are black and white. None if it has no pixels,
    or numbers that cannot be drawn.
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
    if array.dtype != np.uint8:
        values = array.astype(np.float64)
        finite = values[np.isfinite(values)]
        low, high = np.percentile(finite, _TAILS) if finite.size else (0.0, 1.0)
        scaled = (values - low) * (255 / ((high - low) or 1.0))
        array = np.clip(np.nan_to_num(scaled), 0, 255).astype(np.uint8)
    image = Image.fromarray(np.ascontiguousarray(array))
    factor = SIDE // max(image.size)
    if factor > 1:  # each number stays a square
        image = image.resize(
            (image.width * factor, image.height * factor), Image.Resampling.NEAREST
        )
    return of_image(image)


def of_image(image: Image.Image) -> Thumbnail:
    """Return the thumbnail of an image."""
    image = as_rgb(image)
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.save(content, "JPEG", quality=_QUALITY)
    encoded = base64.b64encode(content.getvalue()).decode("ascii")
    return Thumbnail(
        uri=f"data:image/jpeg;base64,{encoded}",
        width=image.width,
        height=image.height,
        brightness=float(np.asarray(image.convert("L")).mean()),
    )


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


def strip_of(count: int) -> list[int]:
    """Return the numbers of the frames that are drawn of a clip with `count` frames."""
    drawn = min(count, _STRIP)
    return [number * count // drawn for number in range(drawn)]
