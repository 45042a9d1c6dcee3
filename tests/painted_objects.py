"""Images that show their objects, and COCO's annotations of these: polygons and run lengths."""

import math
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

_SUBPIXELS = 8


def star(centre: tuple[float, float], radius: float, turn: float) -> list[float]:
    """Return a star of five points: x, y, x, y, ..."""
    angles = [turn + math.pi * number / 5 for number in range(10)]
    lengths = [radius * (1 if number % 2 else 0.5) for number in range(10)]
    points = zip(angles, lengths, strict=True)
    return [
        c for a, r in points for c in (centre[0] + r * math.cos(a), centre[1] + r * math.sin(a))
    ]


def drawn(polygons: list[list[float]], size: tuple[int, int]) -> np.ndarray:
    """Draw polygons by Pillow, enlarged, and return the pixels whose centres they cover."""
    width, height = (side * _SUBPIXELS for side in size)
    canvas = Image.new("1", (width, height))
    for one in polygons:
        ImageDraw.Draw(canvas).polygon([c * _SUBPIXELS for c in one], fill=1)
    return np.asarray(canvas)[_SUBPIXELS // 2 :: _SUBPIXELS, _SUBPIXELS // 2 :: _SUBPIXELS]


def run_lengths(mask: np.ndarray) -> list[int]:
    """Return runs of background and mask, column by column."""
    flat = mask.T.ravel().astype(np.int8)
    edges = np.flatnonzero(np.diff(flat, prepend=0))
    return np.diff([0, *edges.tolist(), len(flat)]).tolist()


def compressed(runs: list[int]) -> str:
    """Return run lengths as COCO's text."""
    text = []
    for number, run in enumerate(runs):
        value = run - runs[number - 2] if number > 2 else run
        while True:
            bits, value = value & 31, value >> 5
            done = value == (-1 if bits & 16 else 0)
            text.append(chr((bits if done else bits | 32) + 48))
            if done:
                break
    return "".join(text)


def objects(seed: int, size: tuple[int, int]) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """Return the object of each pixel, uint8[height, width], 0 for none; and the annotations.

    Object 1 is a star, 2 an ellipse as run lengths, 3 two rectangles.
    """
    draw_from = np.random.default_rng(seed)
    width, height = size
    one = [star((0.3 * width, 0.3 * height), 0.27 * min(size), draw_from.uniform(0, 1))]
    left, top, right, bottom = (
        draw_from.uniform(*at) * side
        for at, side in (
            ((0.5, 0.6), width),
            ((0.5, 0.6), height),
            ((0.9, 1), width),
            ((0.9, 1), height),
        )
    )
    ellipse = Image.new("1", size)
    ImageDraw.Draw(ellipse).ellipse([left, top, right, bottom], fill=1)
    two = np.asarray(ellipse)
    x, y = draw_from.uniform(0.05, 0.1, 2) * [width, height]
    three = [
        [
            x,
            0.65 * height,
            x + 0.3 * width,
            0.65 * height,
            x + 0.3 * width,
            0.95 * height,
            x,
            0.95 * height,
        ],
        [
            0.62 * width,
            y,
            0.93 * width,
            y,
            0.93 * width,
            y + 0.3 * height,
            0.62 * width,
            y + 0.3 * height,
        ],
    ]
    masks = [drawn(one, size), two, drawn(three, size)]
    runs = run_lengths(two)
    counts = compressed(runs) if seed % 2 else runs
    segmentations = [one, {"size": [height, width], "counts": counts}, three]
    ids = np.select(masks, [1, 2, 3]).astype(np.uint8)
    annotations = []
    for number, (mask, segmentation) in enumerate(zip(masks, segmentations, strict=True)):
        rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
        x, y = int(columns[0]), int(rows[0])
        box = [x, y, int(columns[-1]) + 1 - x, int(rows[-1]) + 1 - y]
        crowd = int(isinstance(segmentation, dict))
        annotations.append(
            {"category_id": number + 1, "bbox": box, "segmentation": segmentation, "iscrowd": crowd}
        )
    return ids, annotations


def enlarged(seed: int, size: tuple[int, int], times: int) -> np.ndarray:
    """Return the object of each pixel of an image several times as large."""
    ids, annotations = objects(seed, size)
    large = np.repeat(np.repeat(ids == 2, times, 0), times, 1) * np.uint8(2)
    for number in (1, 3):
        polygons = annotations[number - 1]["segmentation"]
        scaled = [[c * times for c in one] for one in polygons]
        large[drawn(scaled, (size[0] * times, size[1] * times))] = number
    return large


def coco(images: dict[str, tuple[tuple[int, int], list[dict[str, Any]]]]) -> dict[str, Any]:
    """Return annotations as COCO has them. images: {file name: (size, annotations)}"""
    listed, found = [], []
    for number, (name, ((width, height), some)) in enumerate(images.items()):
        listed.append({"id": number, "file_name": name, "width": width, "height": height})
        found += [{"image_id": number, **one} for one in some]
    for number, one in enumerate(found):
        one["id"] = number
    categories = [{"id": number, "name": f"kind {number}"} for number in (1, 2, 3)]
    return {"images": listed, "annotations": found, "categories": categories}
