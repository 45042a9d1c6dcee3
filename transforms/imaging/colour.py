"""From any pixel type to 8-bit sRGB: gray, RGB or RGBA.

Two steps, because resampling stands between them: `mixable` makes pixels whose values may be
averaged; `to_mode` does what is cheaper on the small picture and means the same there. A profile
is applied after resampling: which encoding neighbours are mixed in is arbitrary either way.
"""

from __future__ import annotations

import functools
import io

import numpy as np
from PIL import Image, ImageCms

from recordmill.errors import Reason, RecordError
from recordmill.transforms.imaging.image_options import ColorMode

PILLOW_MODES: dict[ColorMode, str] = {"gray": "L", "rgb": "RGB", "rgba": "RGBA"}

_PLAIN = ("L", "RGB")
_MIXABLE = {  # by Pillow's mode
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
_SPACES = {"L": "GRAY", "RGB": "RGB", "CMYK": "CMYK"}  # ICC's names of what a profile describes
_SAME = 2  # levels: profiles of sRGB differ by that much among themselves
_FULL_SCALE = (1 << 16) - 1


def mixable(image: Image.Image) -> Image.Image:
    """The picture in L, LA, RGB, RGBA or CMYK, loaded.

    Raises RecordError (UNSUPPORTED) for pixels without an 8-bit meaning.
    """
    mode = image.mode
    seen_through = "transparency" in image.info
    if mode in _PLAIN:
        return image.convert({"L": "LA", "RGB": "RGBA"}[mode]) if seen_through else image
    if mode == "1":
        return image.convert("LA" if seen_through else "L")
    if mode == "P":
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    if mode in _MIXABLE:
        return image if _MIXABLE[mode] == mode else image.convert(_MIXABLE[mode])
    if mode == "LAB":
        return _lab_to_srgb().apply(image)
    if mode == "I" or mode.startswith("I;16"):
        return _from_16_bits(image)
    kind = "floating point" if mode == "F" else mode
    raise RecordError(Reason.UNSUPPORTED, f"pixels of type {kind} have no 8-bit meaning")


def to_mode(
    image: Image.Image, *, mode: ColorMode, background: tuple[int, int, int], profile: bytes | None
) -> Image.Image:
    """A mixable picture in the mode asked for, its ICC profile applied."""
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
    canvas = blank(image.size, mode=mode, background=background)
    canvas.paste(image, mask=alpha)
    return canvas


def blank(
    size: tuple[int, int], *, mode: ColorMode, background: tuple[int, int, int]
) -> Image.Image:
    """A picture of nothing but (opaque) background."""
    red, green, blue = background
    if mode == "gray":
        # Rec. 601 luma in 16.16 fixed point, as Pillow's own conversion.
        return Image.new("L", size, (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16)
    return Image.new(PILLOW_MODES[mode], size, background)


@functools.lru_cache(maxsize=32)
def srgb_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """From pixels of an ICC profile, in mode L, RGB or CMYK, to RGB in sRGB.

    None where nothing is to be done: it is sRGB already, or it is no profile for such pixels (then
    they are taken for sRGB, as browsers do).
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
    # Profiles of sRGB go by many names; what one does to a grid of colours tells them all.
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


def _from_16_bits(image: Image.Image) -> Image.Image:
    """Scaled to 8 bits, where Pillow would clip."""
    values = np.asarray(image)
    low, high = values.min(), values.max()
    tags = getattr(image, "tag_v2", {})
    full = 4095 if tags.get(258) == (12,) else _FULL_SCALE  # TIFF's BitsPerSample
    if low < 0 or high > _FULL_SCALE:
        raise RecordError(
            Reason.UNSUPPORTED, f"integer pixels from {low} to {high}: expected 0 to {_FULL_SCALE}"
        )
    gray = Image.fromarray(((values.astype(np.uint32) * 255 + full // 2) // full).astype(np.uint8))
    key = image.info.get("transparency")
    if key is None:
        return gray
    alpha = Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8))
    return Image.merge("LA", (gray, alpha))
