"""Outlines of segmentation masks in the formats of COCO: polygons, and run lengths (RLE).

Run lengths count the pixels of alternate runs of background and mask, column by column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from recordmill.format.run_lengths import decode_runs

_POINTS = 256  # drawn points of a polygon, at most
_COLUMNS = 120  # drawn columns of a mask of run lengths, at most
_RUNS = 16  # drawn runs of a column, at most
_PIXELS = 1 << 31  # pixels of a mask, at most

Points = list[list[float]]


def outlines(segmentation: bytes) -> list[Points]:
    """Return the outlines of a mask in pixels of its image; empty for other content."""
    try:
        found = json.loads(segmentation)
        if isinstance(found, dict):
            return _of_runs(found)
        arrays = [np.asarray(one, np.float64).reshape(-1, 2) for one in found]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return []
    return [one[:_POINTS].tolist() for one in arrays if np.isfinite(one).all()]


def _of_runs(mask: Mapping[str, Any]) -> list[Points]:
    """Return outlines of the runs in some columns; neighbouring runs that overlap are joined.

    Raises:
      KeyError, ValueError, TypeError, OverflowError: the run lengths are invalid.
    """
    height, width = (int(size) for size in mask["size"])
    counts = mask["counts"]
    runs = np.array(decode_runs(counts) if isinstance(counts, str) else counts, np.int64)
    if not (0 < height * width <= _PIXELS and ((runs >= 0) & (runs <= _PIXELS)).all()):
        return []
    edges = np.cumsum(runs)
    if not len(edges) or edges[-1] != height * width:
        return []
    starts, ends = edges[:-1:2], edges[1::2]
    if not len(starts):
        return []
    step = -(-width // _COLUMNS)
    open_shapes: list[_Shape] = []
    shapes: list[_Shape] = []
    column = int(starts[0]) // height // step * step  # the first with a part of the mask
    for left in range(column, int(ends[-1] - 1) // height + 1, step):
        low = min(left + step // 2, width - 1) * height
        first, stop = ends.searchsorted(low, "right"), starts.searchsorted(low + height)
        tops, bottoms = (
            np.clip(some[first:stop][:_RUNS] - low, 0, height).tolist() for some in (starts, ends)
        )
        before, open_shapes = open_shapes, []
        for top, bottom in zip(tops, bottoms, strict=True):
            if top == bottom:
                continue
            touching = next((one for one in before if one.touches(top, bottom)), None)
            if touching is None:
                shapes.append(touching := _Shape())
            else:
                before.remove(touching)
            touching.add(left, top, bottom)
            open_shapes.append(touching)
    return [shape.outline(step, width) for shape in shapes]


class _Shape:
    """Overlapping runs of consecutive columns."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int]] = []

    def touches(self, top: int, bottom: int) -> bool:
        _, last_top, last_bottom = self._runs[-1]
        return top < last_bottom and last_top < bottom

    def add(self, left: int, top: int, bottom: int) -> None:
        self._runs.append((left, top, bottom))

    def outline(self, step: int, width: int) -> Points:
        left, top, bottom = self._runs[-1]
        runs = [*self._runs, (min(left + step, width), top, bottom)]
        upper: Points = [[x, y] for x, y, _ in runs]
        return upper + [[x, y] for x, _, y in reversed(runs)]
