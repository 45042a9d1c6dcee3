"""Conversion of pixels of any type to 8-bit sRGB: gray, RGB or RGBA.

Conversion has two steps. `to_resampling_mode` runs before resizing and makes pixels whose values
may be averaged. `to_mode` runs on the resized image, which has fewer pixels. It applies the ICC
profile too: averaging before or after the profile is equally right.
"""

from __future__ import annotations

import functools
import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from recordmill.errors import Reason, RecordError
from recordmill.transforms.imaging.image_options import ColorMode, IntensityWindow

PILLOW_MODES: dict[ColorMode, str] = {"gray": "L", "rgb": "RGB", "rgba": "RGBA"}

_PLAIN = ("L", "RGB")
_RESAMPLING_MODES = {  # by Pillow's mode
    "CMYK": "CMYK",
    "HSV": "RGB",
    "LA": "LA",
    "La": "LA",
    "PA": "RGBA",
    "RGBA": "RGBA",
    "RGBX": "RGB",
    "RGBa": "RGBA",
    "YCbCr": "RGB",
}
_SPACES = {"L": "GRAY", "RGB": "RGB", "CMYK": "CMYK"}  # ICC's names of colour spaces
_SAME = 2  # levels: the greatest difference between common profiles of sRGB
_FULL_SCALE = (1 << 16) - 1
# Tags of TIFF 6.0.
_BITS_PER_SAMPLE, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
_UNSIGNED = (1,)
_FULL_SCALES: dict[tuple[int, ...], int] = {
    (8,): (1 << 8) - 1,
    (12,): (1 << 12) - 1,
}  # by bits per sample


def to_resampling_mode(image: Image.Image, window: IntensityWindow | None = None) -> Image.Image:
    """Return the loaded image in mode L, LA, RGB, RGBA or CMYK.

    window: (low, high), the intensities of gray images that become black (low) and white (high);
        `image` takes the lowest and the highest of the image, and None the full range of the type.

    Raises:
        RecordError: UNSUPPORTED, the pixels have no 8-bit equivalent.
    """
    mode = image.mode
    if window is not None and is_gray(mode):
        levels = np.rint(windowed_levels(image, window) * 255)
        return Image.fromarray(levels.astype(np.uint8))
    has_transparency = "transparency" in image.info
    if mode in _PLAIN:
        return image.convert({"L": "LA", "RGB": "RGBA"}[mode]) if has_transparency else image
    if mode == "1":
        return image.convert("LA" if has_transparency else "L")
    if mode == "P":
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    if mode in _RESAMPLING_MODES:
        return image if _RESAMPLING_MODES[mode] == mode else image.convert(_RESAMPLING_MODES[mode])
    if mode == "LAB":
        return _lab_to_srgb().apply(image)
    if mode == "I" or mode.startswith("I;16"):
        return _from_16_bits(image)
    if mode == "F":
        raise RecordError(
            Reason.UNSUPPORTED,
            "the pixels are floating point, which has no range of its own; --intensity-window"
            " LOW:HIGH maps a range to black and white",
        )
    raise RecordError(Reason.UNSUPPORTED, f"pixels of type {mode} have no 8-bit equivalent")


def to_mode(
    image: Image.Image, *, mode: ColorMode, background: tuple[int, int, int], profile: bytes | None
) -> Image.Image:
    """Convert an image from `to_resampling_mode` to a colour mode, and apply its ICC profile.

    Transparent pixels show `background` unless mode is rgba.
    """
    alpha = image.getchannel("A") if image.mode in ("LA", "RGBA") else None
    if alpha is not None:
        image = image.convert("L" if image.mode == "LA" else "RGB")
    transform = srgb_transform(profile, image.mode) if profile else None
    if transform is not None:
        image = transform.apply(image)
    elif image.mode == "CMYK":
        image = image.convert("RGB")
    target = "RGB" if mode == "rgba" else PILLOW_MODES[mode]
    if image.mode != target:
        image = image.convert(target)
    if mode == "rgba":
        image.putalpha(255 if alpha is None else alpha)
        return image
    if alpha is None:
        return image
    canvas = background_image(image.size, mode=mode, background=background)
    canvas.paste(image, mask=alpha)
    return canvas


def background_image(
    size: tuple[int, int], *, mode: ColorMode, background: tuple[int, int, int]
) -> Image.Image:
    """Return an image filled with the (opaque) background."""
    red, green, blue = background
    if mode == "gray":
        # Rec. 601 luma in 16.16 fixed point, as in Pillow's conversion.
        return Image.new("L", size, (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16)
    return Image.new(PILLOW_MODES[mode], size, background)


@functools.lru_cache(maxsize=32)
def srgb_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the transform from an ICC profile, in mode L, RGB or CMYK, to RGB in sRGB.

    None if no transform is needed: the profile is sRGB, or it is invalid for such pixels (they are
        then taken to be sRGB, as in browsers).
    """
    try:
        source = ImageCms.getOpenProfile(io.BytesIO(profile))
        if source.profile.xcolor_space.strip() != _SPACES[mode]:
            return None
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None
    if mode == "CMYK":
        return transform
    # Profiles of sRGB have many names: recognise them by their effect on a grid of colours.
    levels = np.arange(0, 256, 15).astype(np.uint8)
    if mode == "L":
        colours = np.repeat(levels[None, :, None], 3, axis=2)
    else:
        colours = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(1, -1, 3)
    probe = Image.fromarray(colours).convert(mode)
    changed = np.asarray(transform.apply(probe)).astype(np.int16) - colours
    return None if np.abs(changed).max() <= _SAME else transform


@functools.lru_cache(maxsize=1)
def _lab_to_srgb() -> ImageCms.ImageCmsTransform:
    lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    return ImageCms.buildTransform(lab, srgb, "LAB", "RGB")


def is_gray(mode: str) -> bool:
    """Return whether a mode of Pillow has one channel of intensities, and no alpha."""
    return mode in ("L", "I", "F") or mode.startswith("I;16")


def windowed_levels(image: Image.Image, window: IntensityWindow) -> npt.NDArray[np.float64]:
    """Map the intensities of a gray image inside a window to 0 to 1, linearly; NaN is black.

    An image of one intensity is black if the window is its own range.
    """
    with np.errstate(invalid="ignore"):  # of signalling NaN
        values = _intensities(image).astype(np.float64)
    if window == "image":
        finite = values[np.isfinite(values)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
        high = high if high > low else low + 1
    else:
        low, high = window
    values = np.nan_to_num(values, nan=low)
    levels = np.clip((values - low) / (high - low), 0, 1)
    return 1 - levels if _has_white_zero(image) else levels


def gray_levels(image: Image.Image) -> tuple[npt.NDArray[Any], int]:
    """Return the integers of a gray image of up to 16 bits, 0 for black, and the one that is white.

    Raises:
        RecordError: UNSUPPORTED, they are not from 0 to 65535.
    """
    values = _intensities(image)
    low, high = values.min(), values.max()
    tags = getattr(image, "tag_v2", {})
    full = _FULL_SCALES.get(tags.get(_BITS_PER_SAMPLE, ()), _FULL_SCALE)
    if low < 0 or high > _FULL_SCALE:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"integer pixels from {low} to {high}: expected 0 to {_FULL_SCALE};"
            " --intensity-window LOW:HIGH maps a range to black and white",
        )
    return full - values if _has_white_zero(image) else values, full


def _has_white_zero(image: Image.Image) -> bool:
    """Return whether 0 is white in a TIFF; Pillow inverts such pixels only if they have 8 bits."""
    tags = getattr(image, "tag_v2", {})
    return image.mode != "L" and tags.get(_PHOTOMETRIC) == 0


def _intensities(image: Image.Image) -> npt.NDArray[Any]:
    """Return the numbers of a gray image; Pillow takes unsigned ones of 32 bits for signed ones."""
    values = np.asarray(image)
    tags = getattr(image, "tag_v2", {})
    is_unsigned = tags.get(_SAMPLE_FORMAT, _UNSIGNED) == _UNSIGNED
    if image.mode == "I" and tags.get(_BITS_PER_SAMPLE) == (32,) and is_unsigned:
        return values.view(np.uint32)
    return values


def _from_16_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit gray to 8 bits; Pillow would clip it."""
    values, full = gray_levels(image)
    gray = Image.fromarray(((values.astype(np.uint32) * 255 + full // 2) // full).astype(np.uint8))
    key = image.info.get("transparency")
    if key is None:
        return gray
    alpha = Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8))
    return Image.merge("LA", (gray, alpha))
