"""Random augmentations of images that keep their class, size and mode.

Random numbers are a function of (seed, key, copy), not of the order of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from PIL import Image, ImageEnhance

from recordmill.errors import ConfigError
from recordmill.image_constants import MAX_DEGREES, MAX_LEVEL_CHANGE, MIN_CROP_AREA
from recordmill.option_names import option_name
from recordmill.transforms.imaging.affine import IDENTITY, Affine
from recordmill.transforms.imaging.image16 import Image16
from recordmill.transforms.imaging.resample import resize

# The changed image, and the transform from points of the original to points of it.
AnyImage = Image.Image | Image16
Augmented = tuple[AnyImage, Affine]
# A string, because numpy imports its random module when it is used, and most jobs do not.
Augmentation = Callable[[AnyImage, "np.random.Generator"], Augmented]


def crop(image: AnyImage, generator: np.random.Generator) -> Augmented:
    """Crop a random part with the aspect ratio of the image, and resize it to the original size."""
    side = math.sqrt(generator.uniform(MIN_CROP_AREA, 1))
    width, height = image.width * side, image.height * side
    left = generator.uniform(0, image.width - width)
    top = generator.uniform(0, image.height - height)
    box = (left, top, min(left + width, image.width), min(top + height, image.height))
    cut = Affine.shift(-left, -top).then(Affine.scale(1 / side, 1 / side))
    if isinstance(image, Image16):
        return image.resize(image.size, box), cut
    return resize(image, image.size, box), cut


def flip(image: AnyImage, generator: np.random.Generator) -> Augmented:
    """Flip the image horizontally with probability 1/2."""
    if generator.random() < 0.5:
        return image, IDENTITY
    mirrored = Affine(-1, 0, image.width, 0, 1, 0)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), mirrored


def rotate(image: AnyImage, generator: np.random.Generator) -> Augmented:
    """Rotate around the centre by a random angle, and zoom in until no corner is empty."""
    angle = math.radians(generator.uniform(-MAX_DEGREES, MAX_DEGREES))
    width, height = image.size
    zoom = math.cos(angle) + abs(math.sin(angle)) * max(width / height, height / width)
    cos, sin = math.cos(angle) / zoom, math.sin(angle) / zoom
    # Map (x, y) of the result to the source: rotate and shrink the offset from the centre.
    across = (cos, sin, width / 2 * (1 - cos) - height / 2 * sin)
    down = (-sin, cos, height / 2 * (1 - cos) + width / 2 * sin)
    linear = Image.Resampling.BILINEAR
    turned = image.transform(image.size, Image.Transform.AFFINE, across + down, linear)
    return turned, Affine(*across, *down).inverse()


def brightness(image: AnyImage, generator: np.random.Generator) -> Augmented:
    """Multiply all levels by a random factor."""
    factor = generator.uniform(1 - MAX_LEVEL_CHANGE, 1 + MAX_LEVEL_CHANGE)
    if isinstance(image, Image16):
        return image.brightened(factor), IDENTITY
    return ImageEnhance.Brightness(image).enhance(factor), IDENTITY


def contrast(image: AnyImage, generator: np.random.Generator) -> Augmented:
    """Multiply the distance of all levels from the mean by a random factor."""
    factor = generator.uniform(1 - MAX_LEVEL_CHANGE, 1 + MAX_LEVEL_CHANGE)
    if isinstance(image, Image16):
        return image.contrasted(factor), IDENTITY
    return ImageEnhance.Contrast(image).enhance(factor), IDENTITY


# In the order in which they are applied; the order in the option does not matter.
AUGMENTATIONS: Mapping[str, Augmentation] = {
    "crop": crop,
    "flip": flip,
    "rotate": rotate,
    "brightness": brightness,
    "contrast": contrast,
}


def check_names(names: Iterable[str]) -> None:
    """Check the names of augmentations.

    Raises:
        ConfigError: an augmentation does not exist.
    """
    for name in names:
        if name not in AUGMENTATIONS:
            raise ConfigError(
                f"{option_name('augment')}: expected some of {', '.join(AUGMENTATIONS)}, got"
                f" {name!r}"
            )


def augment(image: AnyImage, names: Iterable[str], generator: np.random.Generator) -> Augmented:
    """Apply the named augmentations, each once, in the order of `AUGMENTATIONS`."""
    wanted = frozenset(names)
    moved = IDENTITY
    for name, apply in AUGMENTATIONS.items():
        if name in wanted:
            image, step = apply(image, generator)
            moved = moved.then(step)
    return image, moved
