"""Decodes, resizes, augments and normalizes images for training.

Random changes are a function of the seed that is passed with an image, and of nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from recordmill.image_constants import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    MAX_DEGREES,
    MAX_LEVEL_CHANGE,
    MIN_CROP_AREA,
)
from recordmill.loading.options import Normalize

_WARPS = frozenset({"crop", "rotate"})  # augmentations that interpolate between pixels
_COLOUR = frozenset({"brightness", "contrast"})


def decode(content: Any, shape: Sequence[int | None], *, dtype: Any, is_jpeg: bool) -> Any:
    """Decode an encoded image (string) to uint8[height, width, channels], or to uint16[...].

    shape: its declared shape.
    dtype: tf.uint8, or tf.uint16 for a PNG with 16 bits per channel.
    is_jpeg: whether the dataset stores JPEG; otherwise the format is detected by the content.
    """
    channels = shape[-1] or 3
    if dtype == tf.uint16:
        image = tf.io.decode_png(content, channels=channels, dtype=dtype)
    elif is_jpeg:
        image = tf.io.decode_jpeg(content, channels=channels)  # it decodes PNG, too
    else:
        image = tf.io.decode_image(content, channels=channels, expand_animations=False)
    return tf.ensure_shape(image, [*shape[:-1], channels])


def resize(image: Any, size: tuple[int, int]) -> Any:
    """Resize [h, w, c] to [*size, c] with antialiasing, unless it has that size.

    The dtype, uint8 or uint16, does not change.
    """
    if tuple(image.shape[:2]) == size:
        return image
    return _rounded(tf.image.resize(image, size, antialias=True), image.dtype)


def decode_mask(content: Any, shape: Sequence[int | None], *, dtype: Any) -> Any:
    """Decode a mask (string) to uint8[height, width, 1], or to uint16[...]. shape: as declared."""
    mask = tf.io.decode_png(content, channels=1, dtype=dtype)
    return tf.ensure_shape(mask, [*shape[:-1], 1])


def resize_mask(mask: Any, size: tuple[int, int]) -> Any:
    """Resize [h, w, 1] to [*size, 1] by the nearest pixel."""
    return tf.image.resize(mask, size, method="nearest")


def augment_mask(mask: Any, augmentations: Collection[str], seed: Any) -> Any:
    """Move a mask [h, w, 1], or several [n, h, w, 1], as `augment` does with an image."""
    draws = tf.random.stateless_uniform([8], seed)
    if _WARPS & {*augmentations}:
        return _warp(mask, augmentations, draws, interpolation="NEAREST")
    if "flip" in augmentations:
        return tf.where(draws[0] < 0.5, mask, mask[..., ::-1, :])
    return mask


def augment(image: Any, augmentations: Collection[str], seed: Any) -> Any:
    """Apply random augmentations to uint8[h, w, c], or to a clip uint8[n, h, w, c]; or to uint16.

    All frames of a clip change in the same way. Shape and dtype do not change. seed: int64[2].
    """
    draws = tf.random.stateless_uniform([8], seed)
    if _WARPS & {*augmentations}:
        image = _warp(image, augmentations, draws)
    elif "flip" in augmentations:
        image = tf.where(draws[0] < 0.5, image, image[..., ::-1, :])
    if not _COLOUR & {*augmentations}:
        return image
    colour = tf.cast(image[..., :3], tf.float32)
    if "brightness" in augmentations:
        colour = tf.clip_by_value(colour * _factor(draws[1]), 0.0, float(image.dtype.max))
    if "contrast" in augmentations:
        mean = tf.reduce_mean(colour)
        colour = mean + (colour - mean) * _factor(draws[2])
    return tf.concat([_rounded(colour, image.dtype), image[..., 3:]], -1)


def normalize(pixels: Any, how: Normalize) -> Any:
    """Convert uint8[...] or uint16[...] to float32[...].

    how: `unit` scales to [0, 1], `signed` to [-1, 1]; `imagenet` subtracts the mean of ImageNet's
      channels and divides by their standard deviation.
    """
    values, top = tf.cast(pixels, tf.float32), pixels.dtype.max
    if how == "signed":
        return values / (top / 2) - 1.0
    unit = values / float(top)
    return unit if how == "unit" else (unit - IMAGENET_MEAN) / IMAGENET_STD


def _warp(
    image: Any, augmentations: Collection[str], draws: Any, *, interpolation: str = "BILINEAR"
) -> Any:
    """Flip, rotate and crop in one transform, so that pixels are interpolated only once.

    The transform maps the offset of an output pixel from the centre to one of the input: it is
    rotated and scaled so that no corner leaves the image, mirrored, scaled to the size of the crop,
    and moved to the crop's centre.
    """
    shape = tf.shape(image)[-3:-1]
    height, width = (tf.cast(side, tf.float32) for side in (shape[0], shape[1]))
    mirror = tf.where(draws[0] < 0.5, 1.0, -1.0) if "flip" in augmentations else tf.constant(1.0)
    side, across, down = tf.constant(1.0), tf.constant(0.0), tf.constant(0.0)
    if "crop" in augmentations:
        side = tf.sqrt(MIN_CROP_AREA + (1 - MIN_CROP_AREA) * draws[3])
        across, down = (draws[4] - 0.5) * (1 - side) * width, (draws[5] - 0.5) * (1 - side) * height
    cos, sin = tf.constant(1.0), tf.constant(0.0)
    if "rotate" in augmentations:
        angle = (2 * draws[6] - 1) * math.radians(MAX_DEGREES)
        longest = tf.maximum(width / height, height / width)
        zoom = tf.cos(angle) + tf.abs(tf.sin(angle)) * longest
        cos, sin = tf.cos(angle) / zoom, tf.sin(angle) / zoom
    # Rows of the affine matrix: the input's x and y for the output pixel (x, y).
    a = [mirror * side * cos, mirror * side * sin]
    b = [-side * sin, side * cos]
    centre_x, centre_y = (width - 1) / 2, (height - 1) / 2
    a.append(centre_x + across - a[0] * centre_x - a[1] * centre_y)
    b.append(centre_y + down - b[0] * centre_x - b[1] * centre_y)
    frames = tf.reshape(image, tf.concat([[-1], tf.shape(image)[-3:]], 0))
    warped = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(frames, tf.float32),
        transforms=tf.stack([*a, *b, 0.0, 0.0])[None],
        output_shape=shape,
        fill_value=0.0,
        interpolation=interpolation,
        fill_mode="NEAREST",
    )
    warped = tf.reshape(warped, tf.shape(image))
    return tf.ensure_shape(_rounded(warped, image.dtype), image.shape)


def _factor(draw: Any) -> Any:
    return 1 - MAX_LEVEL_CHANGE + 2 * MAX_LEVEL_CHANGE * draw


def _rounded(values: Any, dtype: Any) -> Any:
    return tf.cast(tf.clip_by_value(tf.round(values), 0.0, float(dtype.max)), dtype)
