"""Resampling of images with an antialiased triangle (bilinear) filter.

It is the default of torchvision and the filter of `tf.image.resize(antialias=True)`. Bicubic and
Lanczos are sharper, but ring at edges. `cykooz_resizer` takes a quarter of Pillow's time and gives
the same pixels with AVX2, with SSE4.1 and with neither (ADR 23). It has no wheels for Linux on ARM,
where Pillow is used; pixels may then differ by one level, so the manifest names the library.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from PIL import Image

from recordmill.installed_versions import installed_version
from recordmill.transforms.imaging.geometry import Size

try:
    import cykooz_resizer as simd
except ModuleNotFoundError:
    simd = None

Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels

# The greatest factor of reduction per axis in one step, because weights have 16 bits. No side of a
# JPEG is as long.
_MOST = 1 << 16


def resize(image: Image.Image, size: Size, box: Box) -> Image.Image:
    """Return the part of a loaded image inside `box`, resized to (width, height).

    image: in mode L, LA, RGB, RGBA or CMYK, which the result has too. Colours are weighted by
        alpha, so transparent pixels do not bleed into their neighbours.
    """
    if simd is None:
        return image.resize(size, Image.Resampling.BILINEAR, box)
    if image.mode == "LA":  # not supported; converting to RGBA and back is exact
        return resize(image.convert("RGBA"), size, box).convert("LA")
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    if height > _MOST * size[1]:
        lower = math.ceil(height / _MOST)
        image = _scaled(image, (image.width, lower), (0, top, image.width, bottom))
        return resize(image, size, (left, 0, right, lower))
    if width > _MOST * size[0] or (width > size[0] and height < size[1]):
        # Reduce the width first: the library would resize vertically first, which is slower here.
        narrower = max(math.ceil(width / _MOST), size[0])
        image = _scaled(image, (narrower, image.height), (left, 0, right, image.height))
        return resize(image, size, (0, top, narrower, bottom))
    return _scaled(image, size, box)


def versions() -> dict[str, str]:
    """Return the version of the resizing library: releases may round differently.

    Empty if images are resized with Pillow.
    """
    return {} if simd is None else {"cykooz-resizer": _version()}


@functools.cache
def _version() -> str:
    return installed_version("cykooz-resizer")


@functools.cache
def _bilinear() -> Any:
    return simd.ResizeOptions(resize_alg=simd.ResizeAlg.convolution(simd.FilterType.bilinear))


def _scaled(image: Image.Image, size: Size, box: Box) -> Image.Image:
    left, top, right, bottom = box
    options = _bilinear().copy()
    options.crop_box = simd.CropBox(left, top, right - left, bottom - top)
    result = Image.new(image.mode, size, None)
    # A shared Resizer would be no faster, and is not thread-safe.
    simd.Resizer().resize_pil(image, result, options)
    return result
