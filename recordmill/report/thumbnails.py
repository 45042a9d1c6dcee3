"""Small images of a page."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

ARRAY = "array"  # the mode of an array
_STRIP = 4  # frames of a clip that are drawn


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thumbnail:
    """A small image.

    uri: a data URI. width, height: of the thumbnail, in pixels.
    mode: Pillow's name of the colour mode of the image; ARRAY for an array.
    scale: thumbnail pixels per pixel of the image.
    brightness: mean of the grey levels, 0 to 255.
    levels: grey levels of the image reduced to 12 x 12: float32[12, 12].
    colours: values of an array that have the lowest and the highest colour; None for an image.
    """

    uri: str
    width: int
    height: int
    mode: str
    scale: float
    brightness: float
    levels: npt.NDArray[np.float32]
    colours: tuple[float, float] | None = None


def strip_of(count: int) -> list[int]:
    """Return the numbers of the frames that are drawn of a clip with `count` frames."""
    drawn = min(count, _STRIP)
    return [number * count // drawn for number in range(drawn)]
