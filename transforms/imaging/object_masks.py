"""Masks of objects, drawn from the segmentations of COCO: polygons, and run lengths (RLE).

A polygon is drawn in the written image, not moved as pixels: a pixel belongs to it if its centre
lies inside, by the even-odd rule. Several polygons of an object are united.

Source: https://cocodataset.org/#format-data
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from recordmill.errors import Reason, RecordError
from recordmill.format.run_lengths import decode_runs
from recordmill.tfrecord.decode import ExampleError, byte_strings
from recordmill.transforms.imaging.affine import Affine, Floats
from recordmill.transforms.imaging.class_masks import Ids, move_mask, stored_mask
from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.imaging.image_options import ImageOptions

_LARGEST = 1e9  # pixels: coordinates and run lengths are below
_CROSSINGS = 1 << 20  # crossings of edges and rows that are computed at once


def draw_object(
    segmentation: str | None, transform: Affine, *, frame: Size | None, size: Size
) -> Ids:
    """Draw the mask of an object: uint8[height, width], 1 inside.

    segmentation: JSON of polygons or run lengths, in pixels of the annotated image. transform: from
        points of the annotated image to points of the result. frame, size: (width, height) of both;
        the frame is None if it is stated by run lengths alone.

    Raises:
        RecordError: the segmentation is missing or invalid.
    """
    found = None if segmentation is None else orjson.loads(segmentation)
    if isinstance(found, dict):
        return move_mask(_of_runs(found, frame), transform, size, padding=0)
    if not isinstance(found, list) or not found:
        raise RecordError(Reason.BAD_VALUE, "has no segmentation")
    mask = np.zeros(size[::-1], np.bool_)
    for polygon in found:
        _add_polygon(mask, transform.points(_points(polygon)))
    return mask.view(np.uint8)


def _points(polygon: Any) -> Floats:
    """Return the points of a polygon: float64[n, 2]. Raises RecordError."""
    is_list = isinstance(polygon, list) and len(polygon) % 2 == 0 and len(polygon) >= 6
    if not is_list or not all(type(one) in (int, float) for one in polygon):
        raise RecordError(
            Reason.BAD_VALUE,
            "has an invalid segmentation: expected polygons [x, y, x, y, x, y, ...] of at least"
            f" three points, got {str(polygon)[:60]}",
        )
    points = np.array([float(one) if abs(one) < _LARGEST else np.nan for one in polygon])
    if not np.isfinite(points).all():
        raise RecordError(
            Reason.BAD_VALUE, "has an invalid segmentation: a number that is no place in an image"
        )
    return points.reshape(-1, 2)


def _add_polygon(mask: npt.NDArray[np.bool_], points: Floats) -> None:
    """Set the pixels whose centres are inside a polygon.

    Each edge toggles, in each row whose centre it crosses, the pixels to its right.
    """
    height, width = mask.shape
    starts, ends = points, np.roll(points, -1, axis=0)
    # Rows from the first whose centre is at or below the upper end, to before the lower end.
    rows = np.ceil(np.stack([starts[:, 1], ends[:, 1]]) - 0.5).clip(0, height).astype(np.int64)
    first, stop = rows.min(axis=0), rows.max(axis=0)
    top, bottom = int(first.min()), int(stop.max())
    if top >= bottom:
        return
    toggles = np.zeros((bottom - top, width + 1), np.uint8)
    edges = np.flatnonzero(stop > first)
    counts = (stop - first)[edges]
    blocks = np.cumsum(counts) // _CROSSINGS
    for block in np.unique(blocks).tolist():
        some, times = edges[blocks == block], counts[blocks == block]
        edge = np.repeat(some, times)
        row = np.arange(len(edge)) - np.repeat(np.cumsum(times) - times, times) + first[edge]
        (x, y), (end_x, end_y) = starts[edge].T, ends[edge].T
        crossing = x + (row + 0.5 - y) * ((end_x - x) / (end_y - y))
        column = np.ceil(crossing - 0.5).clip(0, width).astype(np.int64)
        np.add.at(toggles, (row - top, column), 1)  # modulo 256, which keeps parity
    inside = np.cumsum(toggles[:, :-1], axis=1, dtype=np.uint8) & 1
    mask[top:bottom] |= inside.view(np.bool_)


def _of_runs(mask: dict[str, Any], frame: Size | None) -> Ids:
    """Return run lengths as uint8[height, width]. Raises RecordError."""
    width, height = _stated_size(mask) if frame is None else frame
    if mask.get("size") != [height, width]:
        raise RecordError(
            Reason.BAD_VALUE,
            f"has run lengths for a size of {str(mask.get('size'))[:40]}: expected [{height},"
            f" {width}], the image's height and width",
        )
    counts = mask.get("counts")
    try:
        runs = decode_runs(counts) if isinstance(counts, str) else counts
        if not isinstance(runs, list) or not all(
            type(one) is int and 0 <= one < _LARGEST for one in runs
        ):
            raise ValueError("expected run lengths of 0 or more")
    except ValueError as error:
        raise RecordError(Reason.BAD_VALUE, f"has invalid run lengths: {error}") from error
    total = sum(runs)
    if total != height * width:
        raise RecordError(
            Reason.BAD_VALUE,
            f"has run lengths of {total} pixels: expected {height * width}, those of the image",
        )
    levels = np.arange(len(runs), dtype=np.uint8) & 1
    return np.repeat(levels, runs).reshape(width, height).T


def _stated_size(mask: dict[str, Any]) -> Size:
    """Return the (width, height) that run lengths are for. Raises RecordError."""
    size = mask.get("size")
    if isinstance(size, list) and len(size) == 2 and all(type(one) is int for one in size):
        return size[1], size[0]
    raise RecordError(
        Reason.BAD_VALUE,
        f"has run lengths for a size of {str(size)[:40]}: expected [height, width]",
    )


def decode_object_masks(data: bytes, limits: ImageOptions) -> list[Ids]:
    """Return the masks of the objects of an image: uint8[height, width] each, 1 inside.

    data: a BytesList of images, in which 0 is outside. limits: for `max_pixels`.

    Raises:
        RecordError: one is not a valid mask.
    """
    try:
        contents = byte_strings(data)
    except ExampleError as error:
        raise RecordError(Reason.BAD_VALUE, f"the masks of its objects: {error}") from error
    masks = []
    for number, content in enumerate(contents, 1):
        try:
            mask = stored_mask(content, limits)
        except RecordError as error:
            raise RecordError(
                error.reason, f"the mask of object {number}: {error.detail}"
            ) from error
        if mask is None:
            raise RecordError(Reason.UNSUPPORTED, f"the mask of object {number} holds colours")
        masks.append((mask.levels > 0).view(np.uint8))
    return masks
