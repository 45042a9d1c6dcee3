"""Annotations in COCO format: JSON files with images, annotations and categories.

Source: https://cocodataset.org/#format-data. A box is [x, y, width, height] in pixels from the left
and top edge. Several files, such as instances and captions, are merged.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import orjson
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.notes import LeftUnread, count_of
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.strict_json import to_text
from recordmill.transforms.model.annotations import (
    AREA,
    CAPTIONS,
    CAPTIONS_FIELD,
    CROWD,
    IMAGE_ID,
    IMAGE_ID_FIELD,
    KEYPOINTS,
    OBJECTS,
    SEGMENTATION,
    SIDES,
    SIDES_FIELD,
    Corners,
    ObjectCollector,
    codes,
    count_unread,
    grouped,
    objects_field,
    sides_array,
    strings,
)
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    files_of,
    is_digits,
    is_out_of_range,
    parse_numbers,
)
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationTable
from recordmill.transforms.sources.annotations.formats.coco_ids import AnnotationIds, ImageIds
from recordmill.transforms.sources.annotations.formats.named_images import (
    NamedImages,
    NamingFile,
    naming_files,
)
from recordmill.transforms.sources.files.json_members import iter_members
from recordmill.transforms.sources.folders.companions import COCO

# Fields of an annotation that are read, or that repeat other parts of the file.
_KNOWN = frozenset(
    (
        *("id", "image_id", "category_id", "bbox", "area", "iscrowd", "segmentation", "caption"),
        *("num_keypoints", "category_name", "file_name", "image_name", "width", "height"),
    )
)
_NUMBERS = ("bbox", "area", "iscrowd", "keypoints", "segmentation")  # which may be text
_HEAD = 1 << 16  # bytes
_SHOWN = 3  # categories in a note
_DIGITS = 18  # of an id that is a number
_LARGEST = 2**62  # square pixels: image sides are below 2**31


def read_coco(
    files: Sequence[Location], *, segmentation: bool = True, image_ids: bool = False
) -> AnnotationTable:
    """Read and merge all files.

    segmentation, image_ids: whether to keep segmentations and the ids of images.

    Raises:
      ConfigError: a file is invalid; the message names the file and the entry.
    """
    parser = _CocoParser(segmentation=segmentation, image_ids=image_ids)
    for file in naming_files(files, _names_in):
        parser.read(file)
    return parser.result()


def _names_in(file: Location) -> Iterator[Any]:
    """Yield the names of images in a file."""
    with file.open_input() as data:
        for *_, entry in iter_members(data, ("images",), where=str(file)):
            if isinstance(entry, dict):
                yield entry.get("file_name")


class _CocoParser:
    """Accumulates the entries of all files."""

    def __init__(self, *, segmentation: bool, image_ids: bool) -> None:
        self._segmentation = segmentation
        self._segmented = False
        self._orphans_segmented = False  # annotations without an image have segmentations
        self._files: list[str] = []
        self._images = NamedImages()
        self._unread = LeftUnread()
        self._image_ids = ImageIds() if image_ids else None
        self._sides: list[tuple[int, int] | None] = []
        self._objects = ObjectCollector(more=(CROWD, AREA, SEGMENTATION, KEYPOINTS))
        self._object_ids = AnnotationIds()
        self._captions: list[str] = []
        self._caption_ids = AnnotationIds()
        self._captioned: list[int] = []
        self._faults: dict[int, str] = {}
        self._categories: dict[Any, str] = {}  # {id: name} of the categories of all files
        self._renumbered: dict[str, None] = {}  # names with different ids in files
        self._own: dict[Any, str] = {}  # {id: name} of the current file
        self._points: dict[Any, Sequence[str]] = {}  # names of the keypoints of a category
        self._has_keypoints = False
        self._rejects: list[Reject] = []
        self._texts = 0  # annotations with numbers as text
        self._first_text = ""

    def read(self, file: NamingFile) -> None:
        """Read a file in two passes: first images and categories, then annotations."""
        ids: dict[Any, int] = {}
        counted = 0
        place, shown = file.place, file.shown
        self._own, self._points = {}, {}
        with place.open_input() as data:
            for name, number, entry in iter_members(
                data, ("images", "categories"), where=str(place)
            ):
                entry = _object(entry, number, name, place)
                if name == "images":
                    self._add_image(entry, number, ids, file)
                else:
                    self._add_category(entry, number, place)
        if not ids:
            raise ConfigError(f"{place}: expected COCO's 'images', a list of images, got none")
        self._files.append(str(place))
        self._objects.begin()
        self._object_ids.begin(shown)
        self._caption_ids.begin(shown)
        with place.open_input() as data:
            for _, number, entry in iter_members(data, ("annotations",), where=str(place)):
                self._add(_object(entry, number, "annotations", place), number, ids, shown)
                counted += 1
        if not counted:
            raise ConfigError(f"{place}: expected COCO's 'annotations', a list, got none")

    def _add_image(
        self, entry: Mapping[str, Any], number: int | None, ids: dict[Any, int], file: NamingFile
    ) -> None:
        where = f"{file.place}: images[{number}]"
        name = entry.get("file_name") or _name_of_url(entry.get("coco_url"))
        if not _is_text(name) or not name:
            raise ConfigError(f"{where}: expected a 'file_name', got {name!r}")
        key = _needed_id(entry.get("id"), where)
        index = self._images.index(name, file, where)
        if ids.setdefault(key, index) != index:
            raise ConfigError(f"{where}: the 'id' {key!r} is also the id of another image")
        if index == len(self._sides):
            self._sides.append(None)
        if self._image_ids is not None:
            self._image_ids.add(index, self._images.names[index], key)
        sides = _sides(entry)
        if sides is not None and self._sides[index] not in (None, sides):
            self._faults[index] = f"{where}: two entries give different sizes of the image"
        self._sides[index] = self._sides[index] or sides

    def _add_category(self, entry: Mapping[str, Any], number: int | None, file: Location) -> None:
        where = f"{file}: categories[{number}]"
        name, key = entry.get("name"), _needed_id(entry.get("id"), where)
        if not _is_text(name) or not name or len(name.splitlines()) > 1:
            raise ConfigError(f"{where}: expected a 'name' of one line, got {name!r}")
        if self._own.setdefault(key, name) != name:
            raise ConfigError(f"{where}: {name!r} has the 'id' {key!r} of {self._own[key]!r}")
        points = entry.get("keypoints")
        if isinstance(points, list) and points and all(map(_is_text, points)):
            self._points[key] = points
        if self._categories.setdefault(key, name) != name:
            self._renumbered.setdefault(name)

    def _add(
        self, entry: Mapping[str, Any], number: int | None, ids: Mapping[Any, int], file: str
    ) -> None:
        entry_name = f"{file}: annotations[{number}]"
        image = ids.get(_id(entry.get("image_id")))
        if image is None:
            self._orphans_segmented |= self._segmentation and bool(entry.get("segmentation"))
            why = f"its 'image_id' {_shown(entry.get('image_id'))} is not the id of an image"
            self._rejects.append(
                Reject(f"{file}#annotations[{number}]", "read", Reason.MISSING, why)
            )
            return
        if _holds_text(entry.get("bbox")) or _holds_text(entry.get("area")):
            entry = {name: _parsed(one) if name in _NUMBERS else one for name, one in entry.items()}
            if not _holds_text(entry.get("bbox")):
                self._first_text = self._first_text or entry_name
                self._texts += 1
        caption, known = entry.get("caption"), _id(entry.get("id"))
        try:
            alone = "caption" in entry and "bbox" not in entry
            if caption is not None or alone:
                if not _is_text(caption):
                    raise ValueError(f"expected a 'caption' of text, got {_shown(caption)}")
                self._captions.append(caption)
                self._captioned.append(image)
                self._caption_ids.add(known, number or 0)
            if not alone:
                self._add_object(image, entry)
                self._object_ids.add(known, number or 0)
            if not _KNOWN.issuperset(entry):
                fields = {name: entry[name] for name in entry.keys() - _KNOWN}
                if _id(entry.get("category_id")) in self._points:
                    fields.pop("keypoints", None)
                count_unread(self._unread, fields, such_as=f"one of {self._images.names[image]}")
        except ValueError as error:
            self._faults.setdefault(image, f"{entry_name}: {error}")

    def _add_object(self, image: int, entry: Mapping[str, Any]) -> None:
        corners = _corners(entry.get("bbox"))
        category = entry.get("category_id")
        name = self._own.get(_id(category))
        if name is None:
            raise ValueError(f"its 'category_id' {_shown(category)} is not the id of a category")
        area = entry.get("area")
        if area is not None and not (_is_number(area) and 0 <= area < _LARGEST):
            raise ValueError(f"expected an 'area' of 0 or more, got {_shown(area)}")
        crowd = entry.get("iscrowd")
        if crowd not in (None, 0, 1):
            raise ValueError(f"expected 'iscrowd' to be 0 or 1, got {crowd!r}")
        given = entry.get("segmentation") if self._segmentation else None
        self._segmented = self._segmented or bool(given)
        self._objects.add(
            image,
            corners,
            name,
            is_crowd=bool(crowd),
            area=area,
            segmentation=None if given is None else _as_text(given),
            keypoints=self._keypoints(entry, _id(category)) if self._points else None,
        )

    def _keypoints(self, entry: Mapping[str, Any], category: Any) -> str | None:
        """Return the keypoints of an annotation, None if it or its category has none."""
        names, given = self._points.get(category), entry.get("keypoints")
        if names is None or not given:
            return None
        if not isinstance(given, list) or len(given) != 3 * len(names):
            count = f"{len(given)} numbers" if isinstance(given, list) else _shown(given)
            raise ValueError(
                f"expected 'keypoints' of {3 * len(names)} numbers, three for each of the"
                f" {len(names)} keypoints of its category, got {count}"
            )
        if not all(map(_is_number, given)) or not {*given[2::3]} <= {0, 1, 2}:
            raise ValueError(
                "expected 'keypoints' of x, y and a visibility of 0, 1 or 2 for each, got"
                f" {_shown(given)}"
            )
        self._has_keypoints = True
        return to_text([names, given], compact=True)

    def result(self) -> AnnotationTable:
        """Return the annotations of all files."""
        count = len(self._images.names)
        faults: dict[int, str] = {}
        notes: list[str] = []
        columns: dict[str, pa.Array] = {SIDES: sides_array(self._sides)}
        fields = [SIDES_FIELD]
        corners = self._objects.corners
        if max(corners, default=0) > 0 and not is_out_of_range(corners):
            raise ConfigError(
                f"{option_name('annotations', ', '.join(self._files))}: no 'bbox' has a corner"
                " above 1: they are probably fractions of width and height; expected pixels, as in"
                " COCO"
            )
        if self._categories:
            # Without any object of an image, the cause is its id: the rejects should name it.
            has_orphans_only = self._orphans_segmented and not self._objects.images
            segmented = self._segmented or has_orphans_only
            more = (CROWD, AREA, *((SEGMENTATION,) if segmented else ()))
            more += (KEYPOINTS,) if self._has_keypoints else ()
            fields.append(objects_field(more))
            of = np.array(self._objects.images, np.int64)
            objects = self._object_ids.deduplicate(of, self._objects.content)
            points = self._objects.others.get(KEYPOINTS.name, [])
            for dropped, kept in objects.dropped.items() if self._has_keypoints else ():
                points[kept] = points[kept] or points[dropped]  # of a file of keypoints
            columns[OBJECTS] = self._objects.column(count, more, objects.kept)
            faults |= objects.faults
            notes += self._images.doubled_notes(self._objects.of_several_files(objects.kept))
        if self._captions:
            fields.append(CAPTIONS_FIELD)
            texts, of = strings(self._captions), np.array(self._captioned, np.int64)
            captions = self._caption_ids.deduplicate(of, lambda: codes(self._captions))
            columns[CAPTIONS] = grouped(texts.take(captions.kept), of[captions.kept], count)
            faults |= captions.faults
        if self._texts:
            notes.append(
                f"the numbers of {count_of(self._texts, 'annotation')} are written as text, such as"
                f" those of {self._first_text}: they were read as numbers"
            )
        if self._image_ids is not None:
            numbers = self._image_ids.column(count)
            if numbers is not None:
                columns[IMAGE_ID] = numbers
                fields.append(IMAGE_ID_FIELD)
            else:
                notes.append(
                    "image/source_id is made from keys instead of the ids of images, because"
                    f" {self._image_ids.problem}"
                )
        categories = sorted(self._categories.items(), key=lambda one: (str(type(one[0])), one[0]))
        named: dict[str, list[Any]] = {}
        for key, name in categories:
            named.setdefault(name, []).append(key)
        notes += [
            f"the categories {', '.join(map(repr, keys))} share the name {name!r}: they became one"
            " class"
            for name, keys in named.items()
            if len(keys) > 1
        ]
        if self._renumbered:
            shown = ", ".join(map(repr, [*self._renumbered][:_SHOWN]))
            notes.append(
                f"categories such as {shown} have different ids in different files, and were merged"
                " by name"
            )
        named |= {name: [] for name in self._renumbered if name not in named}
        return AnnotationTable(
            names=self._images.names,
            table=pa.record_batch(list(columns.values()), schema=pa.schema(fields)),
            faults={**faults, **self._faults},
            classes=tuple(named),
            rejects=self._rejects,
            notes=[*notes, *self._unread.notes()],
            by_stem=False,
            sources=self._images.sources,
            splits=self._images.splits,
            shared=self._images.shared,
        )


def _object(entry: Any, number: int | None, name: str, file: Location) -> Mapping[str, Any]:
    if number is None or not isinstance(entry, dict):
        what = name if number is None else f"{name}[{number}]"
        raise ConfigError(f"{file}: {what}: expected a list of objects, got {str(entry)[:40]!r}")
    return entry


def _name_of_url(url: Any) -> str | None:
    """Return FOLDER/FILE of an image URL, the name of an image in LVIS."""
    return "/".join(url.split("/")[-2:]) if isinstance(url, str) else None


def _id(value: Any) -> int | str | None:
    """Return an id, None if it is invalid.

    Accepts whole floats, which pandas writes. The text of a whole number is the same id as this
    number, unless it begins with zeros.
    """
    if isinstance(value, str) and is_digits(value) and len(value) <= _DIGITS:
        return int(value) if value == "0" or not value.startswith("0") else value
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _needed_id(value: Any, where: str) -> int | str:
    found = _id(value)
    if found is None:
        raise ConfigError(f"{where}: expected an 'id', got {_shown(value)}")
    return found


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that a float can hold."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return known and abs(value) <= sys.float_info.max


def _holds_text(value: Any) -> bool:
    """Return whether a value is text, or a list with text in it."""
    return str in map(type, value) if isinstance(value, list) else isinstance(value, str)


def _parsed(value: Any) -> Any:
    """Return numbers in place of text, also in lists; the same value if some text is no number."""
    if isinstance(value, list):
        found = [*map(_parsed, value)]
        return value if _holds_text(found) else found
    try:
        return parse_numbers([value], "a number")[0] if isinstance(value, str) else value
    except ValueError:
        return value


def _is_text(value: Any) -> TypeGuard[str]:
    """Return whether a value is text that UTF-8 can encode. JSON may contain lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    """Return a value for a message."""
    return repr(value)[:60]


def _sides(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return (width, height) in pixels, None if they are missing or invalid."""
    width, height = _id(entry.get("width")), _id(entry.get("height"))
    if isinstance(width, int) and isinstance(height, int) and 0 < width < 2**31 > height > 0:
        return width, height
    return None


def _as_text(segmentation: Any) -> str:
    """Return a segmentation as JSON. Raises ValueError for an invalid value."""
    try:
        return orjson.dumps(segmentation).decode()
    except orjson.JSONEncodeError as error:
        raise ValueError(f"expected a 'segmentation' of numbers, got {error}") from error


def _corners(box: Any) -> Corners:
    if not (
        isinstance(box, list) and len(box) == 4 and all(map(_is_number, box)) and min(box[2:]) >= 0
    ):
        raise _box_error(box)
    x, y, width, height = map(float, box)
    corners = (x, y, x + width, y + height)
    if not all(map(math.isfinite, corners)):
        raise _box_error(box)
    return corners


def _box_error(given: Any) -> ValueError:
    return ValueError(f"expected a 'bbox' of [x, y, width, height], got {_shown(given)}")


def coco_files(place: Location) -> list[Location]:
    """Return a file, or the files of COCO with boxes or captions in a folder and those below it.

    Raises:
      ConfigError: there are none.
    """
    return files_of(place, ".json", holds=has_boxes_or_captions, noun="JSON file of COCO")


def has_boxes_or_captions(file: Location) -> bool:
    """Return whether the first annotation of a file is a box or a caption.

    Others in a folder of COCO only name images (`image_info_test2017.json`), or describe masks in
    other files (`panoptic_val2017.json`).
    """
    if not is_coco(file):
        return False
    with file.open_input() as data:
        first = next(iter_members(data, ("annotations",), where=str(file)), None)
    return (
        first is not None
        and isinstance(first[2], dict)
        and not {"bbox", "caption"}.isdisjoint(first[2])
    )


def is_coco(file: Location) -> bool:
    """Return whether a file begins as one of COCO."""
    with file.open_input() as data:
        return COCO.search(data.read(_HEAD)) is not None
