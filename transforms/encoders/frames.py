"""Frames of annotations: the image as stored, or upright, if EXIF rotates it."""

from __future__ import annotations

from typing import Literal

from recordmill.transforms.imaging.affine import IDENTITY, Affine
from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.imaging.mask_options import Frame
from recordmill.transforms.imaging.pixels import EncodedImage


def frame_of(
    image: EncodedImage, size: Size | None, frame: Frame
) -> Literal["stored", "upright"] | None:
    """Return the frame that annotations refer to; None if they fit both.

    size: (width, height) of the annotated image, None if it is not known. frame: `auto` compares
        the size with those of the image.
    """
    if frame != "auto":
        return frame
    stored = _stored_size(image)
    if image.to_upright == IDENTITY:
        return "stored"
    if size is None or size == stored == image.source:
        return None
    return "upright" if size == image.source != stored else "stored"


def frame_transform(
    image: EncodedImage, frame: Literal["stored", "upright"]
) -> tuple[Affine, Size]:
    """Return the transform from a frame to the resized image, and the size of the frame."""
    if frame == "stored":
        return image.to_upright.then(image.to_resized), _stored_size(image)
    return image.to_resized, image.source


def _stored_size(image: EncodedImage) -> Size:
    return image.source[::-1] if image.to_upright.a == 0 else image.source
