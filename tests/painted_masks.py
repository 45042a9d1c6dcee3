"""Images that show their own masks: each class has a colour, so pixels say where a mask belongs."""

import io
import pathlib

import numpy as np
from PIL import Image, ImageDraw

COLOURS = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)  # by class id
IGNORE = 255
_UPSAMPLED = 4


def shapes(seed: int, size: tuple[int, int]) -> np.ndarray:
    """Draw three shapes, and return their class ids: uint8[height, width]. size: (width, height)"""
    draw_from = np.random.default_rng(seed)
    width, height = size
    canvas = Image.new("L", size)
    draw = ImageDraw.Draw(canvas)

    def point(low: float, high: float) -> tuple[float, float]:
        return tuple(draw_from.uniform(low, high, 2) * [width, height])

    draw.polygon([point(0, 0.4), (0.9 * width, 0.1 * height), point(0.6, 0.9)], fill=1)
    centre, radius = point(0.3, 0.6), 0.22 * min(size)
    draw.ellipse([*(c - radius for c in centre), *(c + radius for c in centre)], fill=2)
    left, top = point(0.1, 0.3)
    draw.rectangle([left, 0.65 * height, 0.6 * width, 0.9 * height - 0.1 * top], fill=3)
    return np.asarray(canvas)


def painted(ids: np.ndarray) -> Image.Image:
    return Image.fromarray(COLOURS[ids])


def png(image: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", **options)
    return out.getvalue()


def turned_png(image: Image.Image, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return png(image, exif=exif)


def write(folder: pathlib.Path, name: str, content: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def opened(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def shown_ids(content: bytes) -> np.ndarray:
    """Return the class whose colour is nearest to each pixel of an image."""
    pixels = opened(content).astype(int)
    return np.abs(pixels[:, :, None] - COLOURS.astype(int)).sum(-1).argmin(-1)


def iou(one: np.ndarray, other: np.ndarray) -> float:
    """Return the smallest ratio of intersection and union of a class that either has."""
    assert one.shape == other.shape
    return min(
        float(
            ((one == number) & (other == number)).sum()
            / ((one == number) | (other == number)).sum()
        )
        for number in np.union1d(one, other)
    )


def resized(ids, size, mode, *, enlarged=1):
    """Resize a mask independently, by PIL's affine transform of the mask, several times as large.

    enlarged: how many times as large as the image the mask is.
    """
    times = enlarged if enlarged > 1 else _UPSAMPLED
    height, width = (side // enlarged for side in ids.shape)
    down, across = size[0] / height, size[1] / width
    match mode:
        case "none":
            scales, canvas, inner = (1, 1), (width, height), (width, height)
        case "stretch":
            scales, canvas, inner = (across, down), size[::-1], size[::-1]
        case "crop":
            scales = (max(across, down),) * 2
            canvas = size[::-1]
            inner = (width * scales[0], height * scales[1])
        case _:
            scale = min(across, down, 1 if mode == "fit" else np.inf)
            inner = (round(width * scale), round(height * scale))
            scales = (inner[0] / width, inner[1] / height)
            canvas = inner if mode == "fit" else size[::-1]
    left, top = ((a - b) / 2 for a, b in zip(canvas, inner, strict=True))
    if mode == "pad":
        left, top = int(left), int(top)
    large = Image.fromarray(ids + np.uint8(1)).resize(
        (width * times, height * times), Image.Resampling.NEAREST
    )
    to_source = [times / scales[0], 0, -left * times / scales[0]]
    to_source += [0, times / scales[1], -top * times / scales[1]]
    moved = large.transform(canvas, Image.Transform.AFFINE, to_source, Image.Resampling.NEAREST)
    return np.asarray(moved) - np.uint8(1)  # 0 was outside, and becomes 255
