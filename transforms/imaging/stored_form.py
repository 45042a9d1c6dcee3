"""Check whether an image file already is what the options ask for, so that its bytes are stored."""

from __future__ import annotations

from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from recordmill.transforms.imaging.bit_depth import PNG_BIT_DEPTH
from recordmill.transforms.imaging.colour import PILLOW_MODES, is_gray, srgb_transform
from recordmill.transforms.imaging.geometry import ResizePlan, plan_resize
from recordmill.transforms.imaging.headers import orientation
from recordmill.transforms.imaging.image_options import ImageOptions

_GRAY_AND_ALPHA = 4  # PNG's colour type
_MODES = {8: PILLOW_MODES, 16: {**PILLOW_MODES, "gray": "I;16"}}  # by bits per channel
# Last bytes of a complete file: EOI of JPEG, IEND chunk of PNG.
_ENDS = {"jpeg": b"\xff\xd9", "png": b"IEND\xae\x42\x60\x82"}


def complies(image: ImageFile, data: bytes, options: ImageOptions) -> bool:
    """Return whether the file already is what the options ask for, provided that it decodes."""
    if options.image_format == "jpeg":
        right_format = isinstance(image, JpegImageFile)
    elif options.image_format == "png":
        right_format = isinstance(image, PngImageFile) and _is_plain(image, data, options)
    else:
        return False
    profile = image.info.get("icc_profile")
    return (
        right_format
        and image.mode == _MODES[options.bits][options.mode]
        and plan_resize(image.size, options) == _unchanged(image.size)
        and (options.intensity_window is None or not is_gray(image.mode))
        and orientation(image) == 1
        and data.endswith(_ENDS[options.image_format])
        and not (profile and srgb_transform(profile, PILLOW_MODES[options.mode].removesuffix("A")))
    )


def _is_plain(image: PngImageFile, data: bytes, options: ImageOptions) -> bool:
    """Return whether a PNG is a single image, without a transparent colour.

    Its bits per channel are those that the options ask for, and it has no gray with alpha.
    """
    if image.is_animated or "transparency" in image.info:
        return False
    return data[PNG_BIT_DEPTH] == options.bits and data[PNG_BIT_DEPTH + 1] != _GRAY_AND_ALPHA


def _unchanged(size: tuple[int, int]) -> ResizePlan:
    return ResizePlan(window=size, inner=size, canvas=size)
