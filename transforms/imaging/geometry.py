"""Geometry of resizing."""

from __future__ import annotations

import functools
from typing import NamedTuple

from recordmill.transforms.imaging.affine import Affine
from recordmill.transforms.imaging.image_options import ImageOptions

Size = tuple[int, int]  # (width, height), as Pillow has it


class ResizePlan(NamedTuple):
    """Plan that scales the centred `window` of the source to `inner` and centres it on `canvas`.

    window: (width, height) in pixels of the source.
    inner: (width, height) of the scaled window, in pixels.
    canvas: (width, height) of the result, in pixels.
    """

    window: tuple[float, float]
    inner: Size
    canvas: Size

    def transform(self, source: Size) -> Affine:
        """Return the transform from points of the source to points of the canvas."""
        return _transform(self, source)

    @property
    def corner(self) -> tuple[int, int]:
        """Offset of the left and top edge of `inner` on the canvas, in pixels."""
        return (self.canvas[0] - self.inner[0]) // 2, (self.canvas[1] - self.inner[1]) // 2

    def transposed(self) -> ResizePlan:
        """Return the plan with width and height swapped."""
        return ResizePlan(
            window=self.window[::-1], inner=self.inner[::-1], canvas=self.canvas[::-1]
        )


@functools.lru_cache(maxsize=256)  # images of one dataset often have the same sizes
def _transform(plan: ResizePlan, source: Size) -> Affine:
    window, inner = plan.window, plan.inner
    cut = Affine.shift((window[0] - source[0]) / 2, (window[1] - source[1]) / 2)
    scaled = cut.then(Affine.scale(inner[0] / window[0], inner[1] / window[1]))
    return scaled.then(Affine.shift(*plan.corner))


def plan_resize(source: Size, options: ImageOptions) -> ResizePlan:
    """Return the plan to resize an upright image of (width, height) as the options say."""
    if options.size is None:
        return ResizePlan(window=source, inner=source, canvas=source)
    width, height = source
    target = (options.size[1], options.size[0])
    across, down = target[0] / width, target[1] / height
    match options.resize_mode:
        case "crop":
            cover = max(across, down)
            window = (min(target[0] / cover, width), min(target[1] / cover, height))
            return ResizePlan(window=window, inner=target, canvas=target)
        case "pad":
            inner = _scaled(source, min(across, down))
            return ResizePlan(window=source, inner=inner, canvas=target)
        case "fit":
            inner = _scaled(source, min(across, down, 1.0))
            return ResizePlan(window=source, inner=inner, canvas=inner)
        case "stretch" | "none":
            return ResizePlan(window=source, inner=target, canvas=target)


def _scaled(source: Size, scale: float) -> Size:
    return max(1, round(source[0] * scale)), max(1, round(source[1] * scale))
