"""Decodes, resizes and augments images in NumPy, as `recordmill.loading.images` does in TensorFlow.

Random changes are the same for the same seed; levels differ by rounding.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image

from recordmill.errors import RecordError
from recordmill.format.image_files import UNREADABLE_IMAGE, open_image
from recordmill.image_constants import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    MAX_DEGREES,
    MAX_LEVEL_CHANGE,
    MIN_CROP_AREA,
)
from recordmill.loading.options import Normalize
from recordmill.tfrecord.decode import ExampleError

Pixels = npt.NDArray[Any]

_JPEG = b"\xff\xd8"
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_JPEG_COLOURS = {1: "GRAY", 3: "RGB"}
_DAMAGED = (*UNREADABLE_IMAGE, RecordError)

# Constants of Philox4x32-10. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3.
_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_LOW = (1 << 32) - 1
_SCRAMBLE = 0x3EC8F720, 0x02461E29  # key with which TensorFlow scrambles seeds


def draws(seed: int, number: int) -> list[float]:
    """Return eight numbers in [0, 1), those of `tf.random.stateless_uniform` for [seed, number]."""
    words = (seed & _LOW, seed >> 32 & _LOW, number & _LOW, number >> 32 & _LOW)
    mixed = _philox(words, _SCRAMBLE)
    found: list[float] = []
    for block in range(2):
        found += [
            (word & 0x7FFFFF) / (1 << 23)
            for word in _philox((block, 0, mixed[2], mixed[3]), (mixed[0], mixed[1]))
        ]
    return found


def _philox(counter: Sequence[int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    one, two, three, four = counter
    first, second = key
    for _ in range(_ROUNDS):
        left, right = _MULTIPLIERS[0] * one, _MULTIPLIERS[1] * three
        one, two, three, four = (
            *(right >> 32 ^ two ^ first, right & _LOW),
            *(left >> 32 ^ four ^ second, left & _LOW),
        )
        first, second = first + _WEYL[0] & _LOW, second + _WEYL[1] & _LOW
    return one, two, three, four


def decode(content: bytes, *, channels: int) -> Pixels:
    """Decode an image to uint8[height, width, channels]; to uint16[...] if it is gray with 16 bits.

    Raises:
      ExampleError: it cannot be decoded.
    """
    try:
        if content.startswith(_JPEG) and channels in _JPEG_COLOURS:
            # With the fast transform, as TensorFlow: the pixels are those of `recordmill.load`.
            return np.asarray(
                simplejpeg.decode_jpeg(content, colorspace=_JPEG_COLOURS[channels], fastdct=True)
            )
        with open_image(content) as image:
            is_deep = image.mode.startswith("I") and channels == 1
            pixels = np.asarray(image if is_deep else image.convert(_MODES[channels]))
    except _DAMAGED as error:
        raise ExampleError(f"an image cannot be decoded: {error}") from error
    if is_deep:
        pixels = pixels.astype(np.uint16)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def decode_mask(content: bytes) -> Pixels:
    """Decode a mask to uint8[height, width, 1], or to uint16[...].

    Raises:
      ExampleError: it cannot be decoded.
    """
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            pixels = np.asarray(image)
    except _DAMAGED as error:
        raise ExampleError(f"a mask cannot be decoded: {error}") from error
    return pixels.astype(np.uint8 if pixels.dtype == np.uint8 else np.uint16)[..., None]


def resize(image: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize [h, w, c] to [*size, c] with antialiasing, unless it has that size."""
    if image.shape[:2] == size:
        return image
    width_height = size[1], size[0]
    if image.dtype == np.uint8:
        levels = np.squeeze(image, -1) if image.shape[-1] == 1 else image
        found = np.asarray(Image.fromarray(levels).resize(width_height, Image.Resampling.BILINEAR))
        return found.reshape(*size, image.shape[-1])
    return _by_channel(image, lambda one: one.resize(width_height, Image.Resampling.BILINEAR))


def resize_mask(mask: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize [h, w, 1] to [*size, 1] by the nearest pixel."""
    rows, columns = (
        ((np.arange(side) + 0.5) * (given / side)).astype(np.int64)
        for side, given in zip(size, mask.shape[:2], strict=True)
    )
    resized: Pixels = mask[rows[:, None], columns]
    return resized


def augment(image: Pixels, augmentations: Collection[str], drawn: Sequence[float]) -> Pixels:
    """Apply random augmentations to uint8[h, w, c], or to a clip uint8[n, h, w, c]; or to uint16.

    All frames of a clip change in the same way. drawn: of `draws`.
    """
    image = _moved(image, augmentations, drawn, Image.Resampling.BILINEAR)
    if not {"brightness", "contrast"} & {*augmentations}:
        return image
    top = np.iinfo(image.dtype).max
    colour = image[..., :3].astype(np.float32)
    if "brightness" in augmentations:
        colour = np.clip(colour * _factor(drawn[1]), 0, top)
    if "contrast" in augmentations:
        mean = colour.mean()
        colour = mean + (colour - mean) * _factor(drawn[2])
    colour = np.clip(np.rint(colour), 0, top).astype(image.dtype)
    return np.concatenate([colour, image[..., 3:]], -1)


def augment_mask(mask: Pixels, augmentations: Collection[str], drawn: Sequence[float]) -> Pixels:
    """Move a mask [h, w, 1], or several [n, h, w, 1], as `augment` does with an image."""
    return _moved(mask, augmentations, drawn, Image.Resampling.NEAREST)


def normalize(pixels: Pixels, how: Normalize) -> npt.NDArray[np.float32]:
    """Convert uint8[...] or uint16[...] to float32[...], as `images.normalize` does."""
    values: npt.NDArray[np.float32] = pixels.astype(np.float32)
    top = np.float32(np.iinfo(pixels.dtype).max)
    if how == "signed":
        values /= top / 2
        values -= 1
        return values
    values /= top
    if how == "imagenet":
        values -= np.array(IMAGENET_MEAN, np.float32)
        values /= np.array(IMAGENET_STD, np.float32)
    return values


def _moved(
    image: Pixels, augmentations: Collection[str], drawn: Sequence[float], by: Image.Resampling
) -> Pixels:
    """Flip, rotate and crop, with the transform of `images.augment`."""
    is_mirrored = "flip" in augmentations and drawn[0] >= 0.5
    if not {"crop", "rotate"} & {*augmentations}:
        return image[..., ::-1, :] if is_mirrored else image
    height, width = image.shape[-3:-1]
    mirror = -1.0 if is_mirrored else 1.0
    side, across, down = 1.0, 0.0, 0.0
    if "crop" in augmentations:
        side = math.sqrt(MIN_CROP_AREA + (1 - MIN_CROP_AREA) * drawn[3])
        across, down = (drawn[4] - 0.5) * (1 - side) * width, (drawn[5] - 0.5) * (1 - side) * height
    cos, sin = 1.0, 0.0
    if "rotate" in augmentations:
        angle = (2 * drawn[6] - 1) * math.radians(MAX_DEGREES)
        zoom = math.cos(angle) + abs(math.sin(angle)) * max(width / height, height / width)
        cos, sin = math.cos(angle) / zoom, math.sin(angle) / zoom
    # Rows of the affine matrix. Pillow's origin is the corner of the first pixel, not its centre.
    a, b = mirror * side * cos, mirror * side * sin
    d, e = -side * sin, side * cos
    c = width / 2 + across - a * width / 2 - b * height / 2
    f = height / 2 + down - d * width / 2 - e * height / 2
    matrix = a, b, c, d, e, f

    def moved(one: Image.Image) -> Image.Image:
        return one.transform(one.size, Image.Transform.AFFINE, matrix, by)

    return _by_channel(image, moved)


def _by_channel(image: Pixels, change: Callable[[Image.Image], Image.Image]) -> Pixels:
    """Change each channel [..., h, w, c] as an image of float32, and round the result."""
    levels = np.moveaxis(image.astype(np.float32), -1, -3)
    planes = levels.reshape(-1, *levels.shape[-2:])
    changed = np.stack([np.asarray(change(Image.fromarray(plane))) for plane in planes])
    changed = np.clip(np.rint(changed), 0, np.iinfo(image.dtype).max).astype(image.dtype)
    return np.moveaxis(changed.reshape(*levels.shape[:-2], *changed.shape[-2:]), -3, -1)


def _factor(drawn: float) -> np.float32:
    return np.float32(1 - MAX_LEVEL_CHANGE + 2 * MAX_LEVEL_CHANGE * drawn)
