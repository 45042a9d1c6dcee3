"""Scales pictures: the triangle filter, stretched over all the source pixels that one stands for.

It is what torchvision and `tf.image.resize(antialias=True)` do by default; bicubic and Lanczos are
sharper, but ring at edges. `cykooz_resizer` takes a quarter of Pillow's time for it, and gives the
same pixels with AVX2, with SSE4.1 and without either (ADR 23). On Linux on ARM, for which it has no
wheels, Pillow scales; pixels differ by a level here and there, so the manifest tells which it was.
"""

from __future__ import annotations

import math

from PIL import Image

from recordmill.transforms.imaging.geometry import Size

try:
    import cykooz_resizer as simd
except ModuleNotFoundError:
    simd = None

Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels

# How many pixels a pixel may stand for, each way, in one go: their weights are numbers of 16 bits.
# No side of a JPEG is as long.
_MOST = 1 << 16


def resize(image: Image.Image, size: Size, box: Box) -> Image.Image:
    """The part of a loaded picture that lies in box, at a size of (width, height).

    image: of mode L, LA, RGB, RGBA or CMYK, which the result has too. Colours count as much as
    they can be seen: what is transparent does not bleed into its surroundings.
    """
    if simd is None:
        return image.resize(size, Image.Resampling.BILINEAR, box)
    if image.mode == "LA":  # which it does not know; the luma of three equal bands is the band
        return resize(image.convert("RGBA"), size, box).convert("LA")
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    if height > _MOST * size[1]:
        lower = math.ceil(height / _MOST)
        image = _scaled(image, (image.width, lower), (0, top, image.width, bottom))
        return resize(image, size, (left, 0, right, lower))
    if width > _MOST * size[0] or (width > size[0] and height < size[1]):
        # Or else columns come first: a picture as wide as the source and as high as the result.
        narrower = max(math.ceil(width / _MOST), size[0])
        image = _scaled(image, (narrower, image.height), (left, 0, right, image.height))
        return resize(image, size, (0, top, narrower, bottom))
    return _scaled(image, size, box)


def versions() -> dict[str, str]:
    """Of what scales, if not Pillow: a different release may round differently."""
    if simd is None:
        return {}
    from importlib.metadata import version  # which encoder processes never need

    return {"cykooz-resizer": version("cykooz-resizer")}


def _scaled(image: Image.Image, size: Size, box: Box) -> Image.Image:
    left, top, right, bottom = box
    options = simd.ResizeOptions(
        resize_alg=simd.ResizeAlg.convolution(simd.FilterType.bilinear),
        crop_box=simd.CropBox(left, top, right - left, bottom - top),
    )
    result = Image.new(image.mode, size, None)
    # One that is kept would be no faster, and threads could not share it.
    simd.Resizer().resize_pil(image, result, options)
    return result
