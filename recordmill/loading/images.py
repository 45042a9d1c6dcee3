"""Pictures on their way into training: decoded, resized, varied, normalised.

What is drawn is a function of the seed that a picture comes with, of nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from recordmill.image_constants import DEGREES, FACTOR, IMAGENET_MEAN, IMAGENET_STD, LEAST_AREA
from recordmill.loading.options import Normalize

_MOVES = frozenset({"crop", "rotate"})  # pixels are taken from between others
_LEVELS = frozenset({"brightness", "contrast"})


def decode(content: Any, shape: Sequence[int | None], *, is_jpeg: bool) -> Any:
    """An encoded picture (string) to uint8[height, width, channels].

    shape: what is known of it. is_jpeg: it is JPEG, or PNG; else the content tells what it is.
    """
    channels = shape[-1] or 3
    if is_jpeg:
        picture = tf.io.decode_jpeg(content, channels=channels)
    else:
        picture = tf.io.decode_image(content, channels=channels, expand_animations=False)
    return tf.ensure_shape(picture, [*shape[:-1], channels])


def resize(picture: Any, size: tuple[int, int]) -> Any:
    """uint8[h, w, c] to uint8[*size, c], antialiased; as it is where it has that size."""
    if tuple(picture.shape[:2]) == size:
        return picture
    return _levels(tf.image.resize(picture, size, antialias=True))


def augment(picture: Any, wanted: Collection[str], seed: Any) -> Any:
    """Varies uint8[h, w, c], or all frames of uint8[n, h, w, c] alike, by int64[2] of seed; shape
    and dtype stay.
    """
    draws = tf.random.stateless_uniform([8], seed)
    if _MOVES & {*wanted}:
        picture = _moved(picture, wanted, draws)
    elif "flip" in wanted:
        picture = tf.where(draws[0] < 0.5, picture, picture[..., ::-1, :])
    if not _LEVELS & {*wanted}:
        return picture
    colour = tf.cast(picture[..., :3], tf.float32)
    if "brightness" in wanted:
        colour = tf.clip_by_value(colour * _factor(draws[1]), 0.0, 255.0)
    if "contrast" in wanted:
        mean = tf.reduce_mean(colour)
        colour = mean + (colour - mean) * _factor(draws[2])
    return tf.concat([_levels(colour), picture[..., 3:]], -1)


def normalize(pixels: Any, how: Normalize) -> Any:
    """uint8[...] to float32[...]: `unit` [0, 1], `signed` [-1, 1], `imagenet` less the mean and
    over the deviation of ImageNet's channels.
    """
    values = tf.cast(pixels, tf.float32)
    if how == "signed":
        return values / 127.5 - 1.0
    unit = values / 255.0
    return unit if how == "unit" else (unit - IMAGENET_MEAN) / IMAGENET_STD


def _moved(picture: Any, wanted: Collection[str], draws: Any) -> Any:
    """Flipped, turned and cropped at once, so that levels are interpolated once.

    Offsets from the centre of what comes out are turned and shrunk, mirrored, shrunk to the part
    that a crop keeps, and moved to where it is: all of it lies inside the picture.
    """
    shape = tf.shape(picture)[-3:-1]
    height, width = (tf.cast(side, tf.float32) for side in (shape[0], shape[1]))
    mirror = tf.where(draws[0] < 0.5, 1.0, -1.0) if "flip" in wanted else tf.constant(1.0)
    side, across, down = tf.constant(1.0), tf.constant(0.0), tf.constant(0.0)
    if "crop" in wanted:
        side = tf.sqrt(LEAST_AREA + (1 - LEAST_AREA) * draws[3])
        across, down = (draws[4] - 0.5) * (1 - side) * width, (draws[5] - 0.5) * (1 - side) * height
    cos, sin = tf.constant(1.0), tf.constant(0.0)
    if "rotate" in wanted:
        angle = (2 * draws[6] - 1) * math.radians(DEGREES)
        longest = tf.maximum(width / height, height / width)
        zoom = tf.cos(angle) + tf.abs(tf.sin(angle)) * longest
        cos, sin = tf.cos(angle) / zoom, tf.sin(angle) / zoom
    # Where the pixel (x, y) of what comes out is taken from: x and y, a row each.
    a = [mirror * side * cos, mirror * side * sin]
    b = [-side * sin, side * cos]
    centre_x, centre_y = (width - 1) / 2, (height - 1) / 2
    a.append(centre_x + across - a[0] * centre_x - a[1] * centre_y)
    b.append(centre_y + down - b[0] * centre_x - b[1] * centre_y)
    frames = tf.reshape(picture, tf.concat([[-1], tf.shape(picture)[-3:]], 0))
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(frames, tf.float32),
        transforms=tf.stack([*a, *b, 0.0, 0.0])[None],
        output_shape=shape,
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="NEAREST",
    )
    moved = tf.reshape(moved, tf.shape(picture))
    return tf.ensure_shape(_levels(moved), picture.shape)


def _factor(draw: Any) -> Any:
    return 1 - FACTOR + 2 * FACTOR * draw


def _levels(values: Any) -> Any:
    return tf.cast(tf.clip_by_value(tf.round(values), 0.0, 255.0), tf.uint8)
