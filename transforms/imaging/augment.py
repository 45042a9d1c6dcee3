"""Small random changes to a picture that keep its meaning, its size and its mode.

What is drawn is a function of (seed, key, copy), never of the order in which pictures come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import xxhash
from PIL import Image, ImageEnhance

from recordmill.errors import ConfigError
from recordmill.image_constants import DEGREES, FACTOR, LEAST_AREA
from recordmill.transforms.imaging.affine import IDENTITY, Affine
from recordmill.transforms.imaging.resample import resize

# Also tells where the points of the picture go.
Changed = tuple[Image.Image, Affine]
Augmentation = Callable[[Image.Image, np.random.Generator], Changed]


def crop(image: Image.Image, generator: np.random.Generator) -> Changed:
    """Enlarges a random part, of the picture's proportions, to the whole."""
    side = math.sqrt(generator.uniform(LEAST_AREA, 1))
    width, height = image.width * side, image.height * side
    left = generator.uniform(0, image.width - width)
    top = generator.uniform(0, image.height - height)
    box = (left, top, min(left + width, image.width), min(top + height, image.height))
    cut = Affine.shift(-left, -top).then(Affine.scale(1 / side, 1 / side))
    return resize(image, image.size, box), cut


def flip(image: Image.Image, generator: np.random.Generator) -> Changed:
    """Mirrors left and right, every second time."""
    if generator.random() < 0.5:
        return image, IDENTITY
    mirrored = Affine(-1, 0, image.width, 0, 1, 0)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), mirrored


def rotate(image: Image.Image, generator: np.random.Generator) -> Changed:
    """Turns around the centre and enlarges until no corner is empty: no pixel is made up."""
    angle = math.radians(generator.uniform(-DEGREES, DEGREES))
    width, height = image.size
    zoom = math.cos(angle) + abs(math.sin(angle)) * max(width / height, height / width)
    cos, sin = math.cos(angle) / zoom, math.sin(angle) / zoom
    # Where the pixel (x, y) comes from: the turned and shrunk offset from the centre.
    across = (cos, sin, width / 2 * (1 - cos) - height / 2 * sin)
    down = (-sin, cos, height / 2 * (1 - cos) + width / 2 * sin)
    linear = Image.Resampling.BILINEAR
    turned = image.transform(image.size, Image.Transform.AFFINE, across + down, linear)
    return turned, Affine(*across, *down).inverse()


def brightness(image: Image.Image, generator: np.random.Generator) -> Changed:
    """Scales all levels."""
    factor = generator.uniform(1 - FACTOR, 1 + FACTOR)
    return ImageEnhance.Brightness(image).enhance(factor), IDENTITY


def contrast(image: Image.Image, generator: np.random.Generator) -> Changed:
    """Scales the distance of all levels from the mean."""
    factor = generator.uniform(1 - FACTOR, 1 + FACTOR)
    return ImageEnhance.Contrast(image).enhance(factor), IDENTITY


# In the order in which they are applied, whatever order they are named in.
AUGMENTATIONS: Mapping[str, Augmentation] = {
    "crop": crop,
    "flip": flip,
    "rotate": rotate,
    "brightness": brightness,
    "contrast": contrast,
}


def check_names(names: Iterable[str]) -> None:
    """Raises ConfigError for an augmentation that there is not."""
    for name in names:
        if name not in AUGMENTATIONS:
            raise ConfigError(
                f"--augment: expected some of {', '.join(AUGMENTATIONS)}, got {name!r}"
            )


def augment(image: Image.Image, names: Iterable[str], generator: np.random.Generator) -> Changed:
    """Applies the named augmentations, each once, in a fixed order."""
    wanted = frozenset(names)
    moved = IDENTITY
    for name, apply in AUGMENTATIONS.items():
        if name in wanted:
            image, step = apply(image, generator)
            moved = moved.then(step)
    return image, moved


def generator_for(seed: int, *, key: str, copy: int) -> np.random.Generator:
    """The source of randomness of one copy of one record; the same on every machine."""
    digest = xxhash.xxh3_128_intdigest(f"{seed}/{copy}/{key}".encode("utf-8", "surrogateescape"))
    return np.random.Generator(np.random.PCG64(digest))
