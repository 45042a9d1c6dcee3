"""Boxes as pixels: pictures with one drawn in white, and where the white is afterwards."""

import io

import numpy as np
from PIL import Image

_HALF = 127.5


def mask(size, box, *, turn=1):
    """A PNG: black, and white where the box (whole pixels) is on the picture as it is stored."""
    image = Image.new("RGB", size)
    image.paste((255, 255, 255), tuple(map(int, box)))
    exif = Image.Exif()
    exif[0x0112] = turn
    out = io.BytesIO()
    image.save(out, "PNG", exif=exif)
    return out.getvalue()


def white(data):
    """(xmin, ymin, xmax, ymax) of what is white on a picture, in pixels and fractions of them.

    An edge is where levels pass through the half on their way from pixel to pixel.
    """
    with Image.open(io.BytesIO(data)) as image:
        levels = np.asarray(image.convert("L")).astype(float)
    rows, columns = levels.max(axis=1), levels.max(axis=0)
    (left, right), (top, bottom) = _ends(columns), _ends(rows)
    return np.array([left, top, right, bottom])


def _ends(levels):
    above = np.flatnonzero(levels > _HALF)
    first, last = above[0], above[-1]
    start, end = 0.0, float(len(levels))
    if first > 0:
        before, after = levels[first - 1], levels[first]
        start = first - 0.5 + (_HALF - before) / (after - before)
    if last < len(levels) - 1:
        before, after = levels[last], levels[last + 1]
        end = last + 0.5 + (before - _HALF) / (before - after)
    return start, end


def iou(one, other):
    """Intersection over union of two boxes."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    sides = np.clip(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0, None)
    shared = np.prod(sides)
    return shared / (np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - shared)


def boxes_of(example):
    """Boxes of a written Example, float64[n, 4] in pixels of its image."""
    names = [f"image/object/bbox/{name}" for name in ("xmin", "ymin", "xmax", "ymax")]
    (width,), (height,) = example["image/width"], example["image/height"]
    corners = np.stack([np.asarray(example[name], float) for name in names], axis=1)
    return corners * [width, height, width, height]
