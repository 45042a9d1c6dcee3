"""Small pictures for tests, each of its own colour and with a figure in it."""

import pathlib

import numpy as np
from PIL import Image


def make_picture(path: pathlib.Path, number: int, *, size: tuple[int, int] = (40, 30)) -> None:
    """Writes one picture; `size` is (width, height)."""
    generator = np.random.default_rng(number)
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[:] = generator.integers(0, 255, 3)
    pixels[size[1] // 4 : size[1] // 2, size[0] // 4 :] = generator.integers(0, 255, 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, quality=90)


def make_folder(root: pathlib.Path, classes: dict[str, int]) -> pathlib.Path:
    """Writes `classes[label]` pictures per class folder; returns the root."""
    number = 0
    for label, count in classes.items():
        for i in range(count):
            make_picture(root / label / f"{i:03d}.jpg", number)
            number += 1
    return root
