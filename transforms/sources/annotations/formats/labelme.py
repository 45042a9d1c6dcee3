"""LabelMe's JSON: a file per image, with shapes in pixels, or with flags that are its classes.

Source: https://github.com/wkentaro/labelme (a rectangle has two opposite corners, a circle its
centre and a point of its edge; shapes with equal label and group are parts of one object).
"""

from __future__ import annotations

import codecs
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa

from recordmill.errors import RecordError
from recordmill.format.label_texts import join_labels
from recordmill.notes import LeftUnread, Note, count_of
from recordmill.storage.files import Location
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.strict_json import to_text
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import (
    SEGMENTATION,
    SIDES,
    ObjectCollector,
    count_unread,
    sides_array,
)
from recordmill.transforms.model.label_lists import distinct_labels
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    AnnotationFolder,
    around,
    ellipse,
    list_annotations,
    parse_sides,
)
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationTable
from recordmill.transforms.sources.folders.companions import LABELME

_HEAD = 1 << 16  # bytes
_KNOWN = frozenset(("label", "points", "group_id", "shape_type", "mask"))
_NO_SHAPES = re.compile(rb'"shapes"\s*:\s*\[\s*\]')
_FLAG = re.compile(rb'"flags"\s*:\s*\{[^{}]*:\s*true\b')
_SHOWN = 60  # characters of a value in a message


def labelme_content(file: Location) -> Literal["shapes", "flags", "nothing"] | None:
    """Return what a file of LabelMe holds, by its beginning; None for other files."""
    with file.open_input() as data:
        head = data.read(_HEAD)
    if LABELME.search(head) is None:
        return None
    if _NO_SHAPES.search(head) is None:
        return "shapes"
    return "nothing" if _FLAG.search(head) is None else "flags"


def open_labelme(folder: Location, *, polygons: bool) -> LabelmeReader:
    """List the JSON files of a folder. Raises ConfigError if there are none."""
    return LabelmeReader(**list_annotations(folder, ".json").arguments, polygons=polygons)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelmeReader(AnnotationFolder):
    """A folder of LabelMe's JSON files.

    Attributes:
      polygons: Whether to keep them.
      apart: {file: (number of its objects of shapes that do not touch, the class of the first)}.
    """

    polygons: bool
    apart: dict[str, tuple[int, str]] = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )

    def remarks(self) -> Sequence[str | Note]:
        if not self.apart:
            return self.notes
        number = sum(count for count, _ in self.apart.values())
        file = min(self.apart)
        text = f"{count_of(number, 'object')} {'was' if number == 1 else 'were'} joined from"
        text += " several shapes with the same label and group_id that do not touch, such as"
        return (*self.notes, f"{text} {self.apart[file][1]!r} in {file}")

    @property
    def more(self) -> Sequence[pa.Field]:
        return (SEGMENTATION,) if self.polygons else ()

    def parse(
        self, data: bytes, row: int, objects: ObjectCollector, *, key: str, unread: LeftUnread
    ) -> tuple[int, int] | None:
        found, shapes = _parse(data)
        such_as = f"one in {key}"
        if flags := _true_flags(found):
            unread.add("flags", "image", such_as=key, names=flags)
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
        apart = [label for (label, _), polygons in parts.items() if not _touch(polygons)]
        if apart:
            self.apart[key] = (len(apart), apart[0])
        for (label, _), polygons in parts.items():
            corners = around([number for one in polygons for number in one])
            text = to_text(polygons, compact=True) if self.polygons else None
            objects.add(row, corners, label, segmentation=text)
            self.seen.add(label)
            if not self.polygons and any(len(one) != 8 for one in polygons):
                unread.add("the outlines", "polygon", such_as=such_as)
        return _sides(found)


def read_flags(folder: Location) -> AnnotationTable:
    """Read the flags of images as their classes.

    Images without a true flag are left out, as they have no class. If several flags of an image are
    true, all images have lists of classes.

    Raises:
      ConfigError: There are no JSON files.
    """
    listed = list_annotations(folder, ".json").arguments
    unread = LeftUnread()
    names: list[str] = []
    classes: list[list[str]] = []
    sides: list[tuple[int, int] | None] = []
    faults: dict[int, str] = {}
    files = [(file.path, file.size, file.mtime) for file in listed["files"]]
    named = [*zip(listed["files"], listed["names"], strict=True)]
    for file, name in read_ahead(named, files):
        flags: list[str] = []
        size = None
        try:
            found, shapes = _parse(read_file(file.path, size=file.size, mtime=file.mtime))
            flags, size = _true_flags(found), _sides(found)
            if shapes:
                unread.add("shapes", "image", such_as=file.key)
        except RecordError as error:
            faults[len(names)] = f"{file.key}: {error.detail}"
        except ValueError as error:
            faults[len(names)] = f"{file.key}: {error}"
        if flags or len(names) in faults:
            names.append(name)
            classes.append(flags)
            sides.append(size)
    columns: dict[str, pa.Array] = {SIDES: sides_array(sides)}
    if any(len(flags) > 1 for flags in classes):
        lists = distinct_labels(pa.array(classes, pa.list_(pa.string())))
        columns |= {batch.LABELS: lists, batch.LABEL: join_labels(lists)}
    else:
        labels = [flags[0] if flags else None for flags in classes]
        columns[batch.LABEL] = pa.array(labels, pa.string())
    return AnnotationTable(
        names=names,
        rejects=listed["rejects"],
        folders=listed["folders"],
        table=pa.RecordBatch.from_pydict(columns),
        faults=faults,
        notes=unread.notes(),
    )


def _parse(data: bytes) -> tuple[Mapping[str, Any], list[Any]]:
    """Return the document in a file, and its shapes. Raises ValueError."""
    try:
        found = orjson.loads(data.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error}") from error
    shapes = found.get("shapes") if isinstance(found, dict) else None
    if not isinstance(shapes, list):
        raise ValueError("expected LabelMe's 'shapes', a list")
    return found, shapes


def _true_flags(found: Mapping[str, Any]) -> list[str]:
    """Return the names of the flags of an image that are true. Raises ValueError."""
    flags = found.get("flags") or {}
    values = flags.values() if isinstance(flags, dict) else [None]
    if not all(isinstance(value, bool) for value in values):
        raise ValueError(f"expected 'flags' of names and true or false, got {str(flags)[:_SHOWN]}")
    for name in flags:
        if len(name.splitlines()) != 1 or not name.strip():
            raise ValueError(f"expected flags with names of one line, got {name!r}")
    return [name for name, value in flags.items() if value]


def _sides(found: Mapping[str, Any]) -> tuple[int, int] | None:
    return parse_sides(str(found.get("imageWidth")), str(found.get("imageHeight")))


def _label(shape: Mapping[str, Any], number: int) -> str:
    label = shape.get("label")
    if not isinstance(label, str) or len(label.splitlines()) != 1 or not label.strip():
        raise ValueError(f"shape {number}: expected a label of one line, got {label!r}")
    return label


def _touch(outlines: Sequence[Sequence[float]]) -> bool:
    """Return whether the boxes around outlines form one connected area."""
    if len(outlines) == 1:
        return True
    left, top, right, bottom = np.array([around(one) for one in outlines]).T
    reached, last = np.zeros(len(outlines), np.bool_), [0]
    reached[0] = True
    while last:
        at = last.pop()
        near = (left <= right[at]) & (right >= left[at]) & (top <= bottom[at]) & (bottom >= top[at])
        last += np.flatnonzero(near & ~reached).tolist()
        reached |= near
    return bool(reached.all())


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
