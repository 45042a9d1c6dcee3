"""LabelMe's JSON: a file per image, with shapes in pixels.

Source: https://github.com/wkentaro/labelme (a rectangle has two opposite corners, a circle its
centre and a point of its edge; shapes with equal label and group are parts of one object).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from recordmill.notes import LeftUnread
from recordmill.storage.files import Location
from recordmill.strict_json import to_text
from recordmill.transforms.model.annotations import SEGMENTATION, ObjectCollector, count_unread
from recordmill.transforms.sources.annotations.annotation_files import (
    AnnotationFolder,
    around,
    ellipse,
    list_annotations,
    parse_sides,
)
from recordmill.transforms.sources.folders.companions import LABELME

_HEAD = 1 << 16  # bytes
_KNOWN = frozenset(("label", "points", "group_id", "shape_type", "mask", "flags", "description"))
_SHOWN = 60  # characters of a value in a message


def is_labelme(file: Location) -> bool:
    """Return whether a file begins as one of LabelMe."""
    with file.open_input() as data:
        return LABELME.search(data.read(_HEAD)) is not None


def open_labelme(folder: Location, *, polygons: bool) -> LabelmeReader:
    """List the JSON files of a folder. Raises ConfigError if there are none."""
    return LabelmeReader(**list_annotations(folder, ".json").arguments, polygons=polygons)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelmeReader(AnnotationFolder):
    """A folder of LabelMe's JSON files. polygons: whether to keep them."""

    polygons: bool

    @property
    def more(self) -> Sequence[pa.Field]:
        return (SEGMENTATION,) if self.polygons else ()

    def parse(
        self, data: bytes, row: int, objects: ObjectCollector, *, key: str, unread: LeftUnread
    ) -> tuple[int, int] | None:
        try:
            found = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise ValueError("invalid JSON") from error
        shapes = found.get("shapes") if isinstance(found, dict) else None
        if not isinstance(shapes, list):
            raise ValueError("expected LabelMe's 'shapes', a list")
        such_as = f"one in {key}"
        parts: dict[tuple[str, object], list[list[float]]] = {}
        for number, shape in enumerate(shapes, 1):
            if not isinstance(shape, dict):
                raise ValueError(f"shape {number}: expected an object, got {str(shape)[:_SHOWN]}")
            outline = _outline(shape, number)
            if outline is None:
                unread.add(f"shapes ({shape['shape_type']})", "annotation", such_as=such_as)
                continue
            group = shape.get("group_id")
            of = (_label(shape, number), ("shape", number) if group is None else str(group))
            parts.setdefault(of, []).append(outline)
            others = {name: shape[name] for name in shape.keys() - _KNOWN}
            if others:
                count_unread(unread, others, such_as=such_as)
        for (label, _), polygons in parts.items():
            corners = around([number for one in polygons for number in one])
            text = to_text(polygons, compact=True) if self.polygons else None
            objects.add(row, corners, label, segmentation=text)
            self.seen.add(label)
            if not self.polygons and any(len(one) != 8 for one in polygons):
                unread.add("the outlines", "polygon", such_as=such_as)
        return parse_sides(str(found.get("imageWidth")), str(found.get("imageHeight")))


def _label(shape: Mapping[str, Any], number: int) -> str:
    label = shape.get("label")
    if not isinstance(label, str) or len(label.splitlines()) != 1 or not label.strip():
        raise ValueError(f"shape {number}: expected a label of one line, got {label!r}")
    return label


def _outline(shape: Mapping[str, Any], number: int) -> list[float] | None:
    """Return the points of a shape as x, y, x, y, ...; None for points and lines."""
    kind, points = shape.get("shape_type") or "polygon", shape.get("points")
    least = {"polygon": 3, "rotation": 4, "rectangle": 2, "circle": 2, "mask": 2}.get(str(kind))
    if least is None:
        return None
    what = f"shape {number}: a {kind} of {least} points [x, y]"
    if kind == "polygon":
        what += " or more"
    is_list = isinstance(points, list) and all(isinstance(p, list) and len(p) == 2 for p in points)
    flat = [c for point in points for c in point] if is_list and points is not None else []
    valid = {*map(type, flat)} <= {int, float} and all(map(math.isfinite, flat))
    enough = len(flat) >= 2 * least if kind in ("polygon", "rectangle") else len(flat) == 2 * least
    if not valid or not enough:
        raise ValueError(f"{what.replace(': ', ': expected ', 1)}, got {str(points)[:_SHOWN]}")
    if kind == "circle":
        x, y, edge_x, edge_y = flat
        radius = math.hypot(edge_x - x, edge_y - y)
        return [c for point in ellipse(x, y, radius, radius) for c in point]
    if kind in ("rectangle", "mask"):
        left, top, right, bottom = around(flat)
        return [left, top, right, top, right, bottom, left, bottom]
    return [*map(float, flat)]
