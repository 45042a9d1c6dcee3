"""Images with 16 bits per channel, for which Pillow has no mode of colour.

`Image16` has the methods of Pillow's images that processing needs, so that both take the same
steps. Filters run on one channel at a time, in float32, and round to the nearest level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.imaging.image_options import ColorMode

Pixels16 = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.floating[Any]]
_Filter = Callable[[Image.Image], Image.Image]

TOP = (1 << 16) - 1
EXPANSION = 257  # of 8 bits to 16: 0 to 255 become 0 to 65535

# Rec. 601 luma in 16.16 fixed point, as in Pillow's conversion of 8 bits.
_LUMA = np.array([19595, 38470, 7471], np.uint32)
_HALF = 0x8000


class Image16:
    """An image of uint16[height, width, channels]: gray, gray and alpha, RGB or RGBA."""

    def __init__(self, pixels: Pixels16) -> None:
        self.pixels = pixels

    @classmethod
    def of_8_bits(cls, image: Image.Image) -> Image16:
        """Return an image of mode L, RGB or RGBA with its levels multiplied by 257."""
        levels = np.asarray(image).reshape(image.height, image.width, -1)
        return cls(levels.astype(np.uint16) * np.uint16(EXPANSION))

    @property
    def size(self) -> Size:
        """(width, height) in pixels."""
        return self.width, self.height

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self.pixels.shape[0])

    @property
    def has_alpha(self) -> bool:
        """True if the last channel is alpha."""
        return self.pixels.shape[2] in (2, 4)

    def resize(self, size: Size, box: tuple[float, float, float, float]) -> Image16:
        """Return the part inside `box` resized to (width, height) with an antialiased triangle."""
        linear = Image.Resampling.BILINEAR
        return self._filtered(size, lambda band: band.resize(size, linear, box))

    def transform(
        self,
        size: Size,
        method: Image.Transform,
        data: tuple[float, ...],
        resample: Image.Resampling,
    ) -> Image16:
        """Return the image transformed as `PIL.Image.Image.transform` does it."""
        return self._filtered(size, lambda band: band.transform(size, method, data, resample))

    def transpose(self, method: Image.Transpose) -> Image16:
        """Return the image flipped or turned as `PIL.Image.Image.transpose` does it."""
        pixels = self.pixels
        match method:
            case Image.Transpose.FLIP_LEFT_RIGHT:
                pixels = pixels[:, ::-1]
            case Image.Transpose.FLIP_TOP_BOTTOM:
                pixels = pixels[::-1]
            case Image.Transpose.TRANSPOSE:
                pixels = pixels.swapaxes(0, 1)
            case Image.Transpose.TRANSVERSE:
                pixels = pixels[::-1, ::-1].swapaxes(0, 1)
            case _:
                turns = {
                    Image.Transpose.ROTATE_90: 1,
                    Image.Transpose.ROTATE_180: 2,
                    Image.Transpose.ROTATE_270: 3,
                }
                pixels = np.rot90(pixels, turns[method])
        return Image16(np.ascontiguousarray(pixels))

    def to_mode(self, mode: ColorMode, background: tuple[int, int, int]) -> Image16:
        """Convert to a colour mode; transparent pixels show `background` unless mode is rgba.

        background: (red, green, blue) with 8 bits.
        """
        alpha = self.pixels[..., -1:] if self.has_alpha else None
        colour = self.pixels[..., :-1] if self.has_alpha else self.pixels
        if mode == "gray" and colour.shape[2] == 3:
            colour = _luma(colour)
        elif mode != "gray" and colour.shape[2] == 1:
            colour = np.repeat(colour, 3, axis=2)
        if mode == "rgba":
            opaque = np.full((*colour.shape[:2], 1), TOP, np.uint16)
            return Image16(np.concatenate([colour, opaque if alpha is None else alpha], axis=2))
        if alpha is None:
            return Image16(colour)
        behind = background_levels(mode, background).astype(np.float32)
        return Image16(_levels(behind + (colour - behind) * (alpha / np.float32(TOP))))

    def padded(
        self, size: Size, *, corner: tuple[int, int], mode: ColorMode, behind: tuple[int, int, int]
    ) -> Image16:
        """Return an image of (width, height) filled with `behind`, with this one at `corner`."""
        width, height = size
        canvas = np.empty((height, width, self.pixels.shape[2]), np.uint16)
        canvas[:] = background_levels(mode, behind)
        left, top = corner
        canvas[top : top + self.height, left : left + self.width] = self.pixels
        return Image16(canvas)

    def brightened(self, factor: float) -> Image16:
        """Return the image with all levels but alpha multiplied by a factor."""
        return self._blended(0, factor)

    def contrasted(self, factor: float) -> Image16:
        """Return the image with the distance of all levels from their mean multiplied."""
        colour = self.pixels[..., :-1] if self.has_alpha else self.pixels
        gray = _luma(colour) if colour.shape[2] == 3 else colour
        return self._blended(round(float(gray.mean(dtype=np.float64))), factor)

    def _blended(self, centre: int, factor: float) -> Image16:
        values = centre + (self.pixels.astype(np.float32) - centre) * np.float32(factor)
        levels = _levels(values)
        if self.has_alpha:
            levels[..., -1] = self.pixels[..., -1]
        return Image16(levels)

    def _filtered(self, size: Size, apply: _Filter) -> Image16:
        """Apply a filter to every channel; colours are weighted by alpha."""
        count = self.pixels.shape[2]
        result = np.empty((size[1], size[0], count), np.uint16)
        colours = count - 1 if self.has_alpha else count
        weight = made = None
        if self.has_alpha:
            weight = self.pixels[..., -1].astype(np.float32)
            made = np.asarray(apply(Image.fromarray(weight)))
            result[..., -1] = _levels(made)
            weight = weight / np.float32(TOP)
        for channel in range(colours):
            band = self.pixels[..., channel].astype(np.float32)
            if weight is None or made is None:
                result[..., channel] = _levels(np.asarray(apply(Image.fromarray(band))))
                continue
            changed = np.asarray(apply(Image.fromarray(band * weight)))
            share = np.where(made > 0, made, 1) / np.float32(TOP)
            result[..., channel] = _levels(np.where(made > 0, changed / share, 0))
        return Image16(result)


def background_levels(mode: ColorMode, background: tuple[int, int, int]) -> Pixels16:
    """Return the opaque background, (red, green, blue) with 8 bits, as uint16[channels]."""
    colour = np.array(background, np.uint16) * np.uint16(EXPANSION)
    if mode == "gray":
        return _luma(colour)
    return np.append(colour, np.uint16(TOP)) if mode == "rgba" else colour


def _luma(colour: Pixels16) -> Pixels16:
    """Return the luma, uint16[..., 1], of RGB: the sum of weights keeps it within 32 bits."""
    luma = colour[..., :1] * _LUMA[0]
    for channel in (1, 2):
        luma += colour[..., channel : channel + 1] * _LUMA[channel]
    rounded: Pixels16 = ((luma + np.uint32(_HALF)) >> np.uint32(16)).astype(np.uint16)
    return rounded


def _levels(values: Floats) -> Pixels16:
    return np.rint(values).clip(0, TOP).astype(np.uint16)
