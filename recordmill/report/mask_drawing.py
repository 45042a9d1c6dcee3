"""Draws masks over images, semi-transparent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.format.image_files import UNREADABLE_IMAGE, open_image
from recordmill.format.manifest import Manifest

OBJECTS = "image/object/mask"
_OPACITY = 0.5
_MODES = ("L", "I;16")


def _colour(number: int) -> list[int]:
    """Return the colour of a class id in Pascal VOC's colour map.

    Source: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html
    """
    return [
        sum((number >> 3 * place + channel & 1) << 7 - place for place in range(8))
        for channel in range(3)
    ]


_COLOURS = np.array([_colour(number) for number in range(256)], np.float32)


def masks_of(record: Any, manifest: Manifest, *, objects: bool) -> list[tuple[bytes, int]]:
    """Return the masks of a record, and the number by which each is multiplied for its colour.

    objects: whether to return masks of objects, too.
    """
    renamed = manifest.options.get("rename") or {}
    of_objects = renamed.get(OBJECTS, OBJECTS)
    found: list[tuple[bytes, int]] = []
    for name, feature in manifest.features.items():
        if feature.kind == "mask" and (objects or name != of_objects):
            several = list_of(record[name])
            numbers = range(1, len(several) + 1) if name == of_objects else [1] * len(several)
            found += zip(several, numbers, strict=True)
    return found


def list_of(value: Any) -> list[bytes]:
    """Return one mask, or several, as a list."""
    return [value] if isinstance(value, bytes) else list(np.ravel(value))


def read_ids(content: bytes) -> npt.NDArray[Any] | None:
    """Return the class ids of a mask: [height, width]; None if it cannot be decoded."""
    try:
        with open_image(content) as image:
            return np.asarray(image) if image.mode in _MODES else None
    except UNREADABLE_IMAGE:
        return None


def class_ids(value: Any) -> npt.NDArray[np.int64]:
    """Return the different class ids in the mask of a record; none if it is not readable."""
    counts = np.zeros(0, np.int64)
    for content in list_of(value):
        ids = read_ids(content)
        if ids is not None:
            found = np.bincount(np.ravel(ids), minlength=len(counts))
            found[: len(counts)] += counts
            counts = found
    return np.flatnonzero(counts)


def tinted(image: Image.Image, masks: Sequence[tuple[bytes, int]]) -> Image.Image:
    """Return an RGB image with masks in the colours of their ids; 0 has none."""
    pixels = None
    for content, factor in masks:
        ids = read_ids(content)
        if ids is None:
            continue
        if pixels is None:
            pixels = np.asarray(image, np.float32).copy()
        rows = (np.arange(image.height) + 0.5) * ids.shape[0] / image.height
        columns = (np.arange(image.width) + 0.5) * ids.shape[1] / image.width
        small = ids[rows.astype(np.int64)[:, None], columns.astype(np.int64)].astype(np.int64)
        inside = small > 0
        colours = _COLOURS[small[inside] * factor % len(_COLOURS)]
        pixels[inside] = pixels[inside] * (1 - _OPACITY) + colours * _OPACITY
    return image if pixels is None else Image.fromarray(pixels.astype(np.uint8))
