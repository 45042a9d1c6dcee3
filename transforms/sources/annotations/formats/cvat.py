"""CVAT's XML for images: one file for many images, with shapes in pixels.

Source: https://docs.cvat.ai/docs/manual/advanced/formats/format-cvat/ (an element `image` holds
elements such as `box` and `polygon`; a box may be rotated around its centre by degrees).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree
from xml.parsers import expat

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.class_names import class_order
from recordmill.notes import LeftUnread
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.strict_json import to_text
from recordmill.transforms.model.annotations import (
    OCCLUDED,
    SEGMENTATION,
    SIDES_FIELD,
    ObjectCollector,
    objects_field,
    sides_array,
)
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    around,
    ellipse,
    files_of,
    parse_numbers,
    parse_sides,
    parse_xml,
)
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationTable

_HEAD = 1 << 12  # bytes
# Elements that describe an image as a whole, and no part of it.
_NOT_SHAPES = frozenset(("tag",))


def is_cvat(file: Location) -> bool:
    """Return whether a file begins as one of CVAT."""
    with file.open_input() as data:
        return b"<annotations" in data.read(_HEAD)


def read_cvat(place: Location, *, polygons: bool) -> AnnotationTable:
    """Read a file, or the files of CVAT in a folder. polygons: whether to keep them.

    Raises:
      ConfigError: a file is invalid, or has no image.
    """
    reader = _Cvat(polygons)
    for file in files_of(place, ".xml", holds=is_cvat, noun="XML file of CVAT"):
        reader.read(file)
    return reader.result(place)


class _Cvat:
    """Accumulates the images of all files."""

    def __init__(self, polygons: bool) -> None:
        self._polygons = polygons
        self._more = (OCCLUDED, *((SEGMENTATION,) if polygons else ()))
        self._objects = ObjectCollector(more=self._more)
        self._images: dict[str, int] = {}
        self._sides: list[tuple[int, int] | None] = []
        self._faults: dict[int, str] = {}
        self._classes: dict[str, None] = {}
        self._unread = LeftUnread()

    def read(self, file: Location) -> None:
        try:
            root = parse_xml(file.read_bytes())
        except (expat.ExpatError, ValueError) as error:
            raise ConfigError(f"{file}: invalid XML: {error}") from error
        if root.tag != "annotations":
            raise ConfigError(
                f"{file}: expected CVAT's <annotations>, got <{root.tag[:40]}>; for Pascal VOC,"
                f" pass the folder of its files as {option_name('annotations')}"
            )
        names = (label.findtext("name") for label in root.iterfind("meta//labels/label"))
        self._classes |= dict.fromkeys(name for name in names if name)
        images = root.findall("image")
        repeated = Counter(image.get("name") for image in images)
        for image in images:
            name = image.get("name") or ""
            if not name:
                raise ConfigError(f"{file}: image {image.get('id')}: expected a 'name'")
            if repeated[name] > 1 and (subset := image.get("subset")):
                name = f"{subset}/{name}"  # its folder in the export of a project
            at = self._images.setdefault(name, len(self._images))
            if at < len(self._sides):
                raise ConfigError(
                    f"{file}: the name {name!r} occurs twice: remove one of the images"
                )
            self._sides.append(parse_sides(image.get("width") or "", image.get("height") or ""))
            try:
                for number, shape in enumerate(image, 1):
                    self._add(at, shape, f"shape {number} (<{shape.tag[:40]}>)", name)
            except ValueError as error:
                self._faults[at] = f"{file.name}: image {name!r}: {error}"

    def _add(self, at: int, shape: ElementTree.Element, where: str, name: str) -> None:
        """Add a shape of an image. Raises ValueError."""
        outline = _OUTLINES.get(shape.tag)
        such_as = f"one of {name}"
        if outline is None:
            if shape.tag not in _NOT_SHAPES:
                self._unread.add(f"shapes ({shape.tag[:40]})", "annotation", such_as=such_as)
            return
        label = shape.get("label") or ""
        if len(label.splitlines()) != 1:
            raise ValueError(f"{where}: expected a label of one line, got {label!r}")
        points = outline(shape.attrib, where)
        text = to_text([points], compact=True) if self._polygons else None
        occluded = shape.get("occluded") == "1"
        self._objects.add(at, around(points), label, occluded=occluded, segmentation=text)
        if not self._polygons and shape.tag != "box":
            self._unread.add("the outlines", "polygon", such_as=such_as)
        attributes = {one.get("name") or "" for one in shape.iterfind("attribute") if one.text}
        if attributes:
            self._unread.add("attributes", "annotation", such_as=such_as, names=attributes)

    def result(self, place: Location) -> AnnotationTable:
        if not self._images:
            where = option_name("annotations", place)
            raise ConfigError(f"{where}: expected <image> elements of CVAT, got none")
        columns = [sides_array(self._sides), self._objects.column(len(self._images))]
        schema = pa.schema([SIDES_FIELD, objects_field(self._more)])
        return AnnotationTable(
            names=list(self._images),
            table=pa.record_batch(columns, schema=schema),
            faults=self._faults,
            classes=tuple(dict.fromkeys([*self._classes, *class_order({*self._objects.classes})])),
            notes=self._unread.notes(),
            by_stem=False,
        )


def _numbers(given: Mapping[str, str], names: Sequence[str], where: str) -> list[float]:
    return parse_numbers([given.get(name) for name in names], f"{where}: {', '.join(names)}")


def _box(given: Mapping[str, str], where: str) -> list[float]:
    left, top, right, bottom = _numbers(given, ("xtl", "ytl", "xbr", "ybr"), where)
    if right < left or bottom < top:
        raise ValueError(f"{where}: the box has a maximum below its minimum")
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    centre = (left + right) / 2, (top + bottom) / 2
    return _turned(corners, centre, given, where)


def _ellipse(given: Mapping[str, str], where: str) -> list[float]:
    x, y, across, down = _numbers(given, ("cx", "cy", "rx", "ry"), where)
    return _turned(ellipse(x, y, across, down), (x, y), given, where)


def _turned(
    points: Sequence[tuple[float, float]],
    centre: tuple[float, float],
    given: Mapping[str, str],
    where: str,
) -> list[float]:
    """Return points, rotated clockwise around a centre by the degrees of `rotation`."""
    (degrees,) = parse_numbers([given.get("rotation", "0")], f"{where}: a rotation")
    if degrees == 0:
        return [c for point in points for c in point]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = centre
    offsets = [(right - x, down - y) for right, down in points]
    return [c for a, b in offsets for c in (x + a * cos - b * sin, y + a * sin + b * cos)]


def _polygon(given: Mapping[str, str], where: str) -> list[float]:
    texts = [text for pair in (given.get("points") or "").split(";") for text in pair.split(",")]
    numbers = parse_numbers(texts, f"{where}: points x,y;x,y;...")
    if len(numbers) < 6 or len(numbers) % 2:
        raise ValueError(f"{where}: expected three points or more, got {given.get('points')!r}")
    return numbers


_OUTLINES = {"box": _box, "polygon": _polygon, "ellipse": _ellipse}
