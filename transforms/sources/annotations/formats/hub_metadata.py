"""Boxes in the metadata of image folders of the Hugging Face hub: `metadata.jsonl`.

A line names an image beside the file, and holds lists of boxes and categories:
{"file_name": "1.jpg", "objects": {"bbox": [[x, y, width, height]], "categories": [0]}}; or a list
of objects with one of each. Boxes are in pixels.

Source: https://huggingface.co/docs/datasets/image_dataset#object-detection.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.format.class_names import class_order
from recordmill.format.file_content import HEAD
from recordmill.notes import LeftUnread, Note
from recordmill.option_names import option_name
from recordmill.storage.files import Location, MissingError
from recordmill.transforms.model.annotations import (
    OBJECTS,
    SIDES,
    SIDES_FIELD,
    Corners,
    ObjectCollector,
    count_unread,
    objects_field,
    sides_array,
)
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    distinct_folders,
    files_of,
    is_out_of_range,
)
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationTable
from recordmill.transforms.sources.annotations.formats.named_images import SPLIT, unread_splits
from recordmill.transforms.sources.folders.companions import METADATA
from recordmill.transforms.sources.row_formats.reading.json_documents import refuse_document

NAME = METADATA[0]  # in CSV, there are no lists of boxes
CATEGORIES = ("categories", "category", "labels", "label", "classes", "class")
_KNOWN = frozenset(("bbox", "id", "area", *CATEGORIES))
_CARD = "README.md"  # whose first lines are YAML between lines of dashes
_HEAD = 1 << 16  # bytes
_SHOWN = 60  # characters of a value in a message
_FEW = 3  # numbers of categories in a note


def holds_objects(file: Location) -> bool:
    """Return whether the first lines of a metadata file have objects."""
    with file.open_input() as data:
        return file.name == NAME and b'"objects"' in data.read(_HEAD)


def read_metadata(places: Sequence[Location], classes: Sequence[str] | None) -> AnnotationTable:
    """Read the metadata of folders.

    Args:
      places: Files, or folders of them.
      classes: Names of the categories that are numbers; by default those in the card of the
        dataset, or else the numbers themselves.

    Raises:
      ConfigError: There is no such file, or none of its lines has objects.
    """
    files = [one for place in places for one in files_of(place, NAME)]
    reader = _Metadata(classes if classes is not None else _names_in_card(files))
    for file, folder in zip(files, distinct_folders(files), strict=True):
        reader.read(file, f"{folder}/" if folder else "")
    return reader.result(files)


class _Metadata:
    """Accumulates the lines of all files."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self._names = names
        self._images: dict[str, int] = {}
        self._sides: list[tuple[int, int] | None] = []
        self._objects = ObjectCollector()
        self._faults: dict[int, str] = {}
        self._rejects: list[Reject] = []
        self._unread = LeftUnread()
        self._has_objects = False
        self._numbers: set[int] = set()  # categories that are numbers
        self._divided: Location | None = None  # the first file with splits

    def read(self, file: Location, folder: str) -> None:
        """Read a file. folder: prefix of the names of its images."""
        with file.open_input() as data:
            start = data.read(HEAD).decode("utf-8-sig", "replace")
            refuse_document(start, f"{option_name('annotations')}: {file}")
            data.seek(0)
            for number, line in enumerate(data, 1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if not line.strip():
                    continue
                shown = f"{folder}{file.name}"
                try:
                    row = orjson.loads(line)
                    name = row["file_name"]
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    name = row = None
                if not isinstance(name, str) or not name:
                    why = "expected a JSON object with a 'file_name'"
                    reject = Reject(f"{shown}#{number}", "read", Reason.BAD_VALUE, why)
                    self._rejects.append(reject)
                    continue
                at = self._images.setdefault(folder + name, len(self._images))
                if at < len(self._sides):
                    why = f"{shown}: line {number}: another line names {name!r}, too"
                    self._faults.setdefault(at, why)
                    continue
                if row.get(SPLIT) and self._divided is None:
                    self._divided = file
                width, height = row.get("width"), row.get("height")
                is_size = type(width) is type(height) is int and min(width, height) > 0
                self._sides.append((width, height) if is_size else None)
                try:
                    self._add(at, row.get("objects"), name)
                except ValueError as error:
                    self._faults[at] = f"{shown}: line {number}: {error}"

    def _add(self, at: int, objects: Any, name: str) -> None:
        """Add the objects of an image. Raises ValueError."""
        lists = _as_lists(objects)
        self._has_objects = self._has_objects or "bbox" in lists
        for corners, label in parse_objects(lists, self._names):
            self._objects.add(at, corners, label)
        others = {field: value for field, value in lists.items() if field not in _KNOWN}
        key = next((one for one in CATEGORIES if one in lists), CATEGORIES[0])
        self._numbers.update(one for one in lists.get(key, []) if type(one) is int)
        if others:
            count_unread(self._unread, others, such_as=f"those of {name}")

    def _unread_splits(self) -> str:
        also = f" {option_name('drop_columns', 'objects')}"
        return unread_splits(self._divided, has_rows=True, also=also) if self._divided else ""

    def result(self, files: Sequence[Location]) -> AnnotationTable:
        where = option_name("annotations", ", ".join(map(str, files)))
        corners = self._objects.corners
        if not self._has_objects and not self._faults:
            raise ConfigError(
                f"{where}: no line has 'objects' with boxes in 'bbox'; captions are in lines with"
                " texts such as 'file_name' and 'caption' or 'text'"
            )
        if max(corners, default=0) > 0 and not is_out_of_range(corners):
            raise ConfigError(
                f"{where}: no 'bbox' has a corner above 1: they are probably fractions of width and"
                " height; expected pixels"
            )
        found = {*self._objects.classes}
        classes = class_order(found) if self._names is None else self._names
        columns = [sides_array(self._sides), self._objects.column(len(self._images))]
        fields = [SIDES_FIELD, objects_field()]
        assert [field.name for field in fields] == [SIDES, OBJECTS]
        return AnnotationTable(
            names=list(self._images),
            table=pa.record_batch(columns, schema=pa.schema(fields)),
            faults=self._faults,
            classes=tuple(dict.fromkeys([*classes, *class_order(found)])),
            rejects=self._rejects,
            notes=[*number_notes(self._names, self._numbers), *self._unread.notes()],
            unread_splits=self._unread_splits(),
            by_stem=False,
        )


def number_notes(names: Sequence[str] | None, numbers: Collection[int]) -> list[Note]:
    """Return a note if categories are numbers without names.

    Args:
      names: Names of categories that are numbers; None without any.
      numbers: Categories of objects that are numbers.
    """
    if names is not None or not numbers:
        return []
    shown = ", ".join(map(str, sorted(numbers)[:_FEW])) + (", ..." if len(numbers) > _FEW else "")
    text = f"the classes of boxes are numbers without names ({shown}), and are named by their"
    return [Note("annotations", f"{text} numbers: {option_name('labels_file')} names them")]


def parse_objects(objects: Any, names: Sequence[str] | None) -> list[tuple[Corners, str]]:
    """Return the boxes of an image and their classes.

    Args:
      objects: Lists of boxes and of categories in an object, or a list of objects; or None.
      names: Names of categories that are numbers; None if the numbers are their names.

    Raises:
      ValueError: They are invalid.
    """
    lists = _as_lists(objects)
    key = next((one for one in CATEGORIES if one in lists), CATEGORIES[0])
    boxes, categories = lists.get("bbox", []), lists.get(key, [])
    if not isinstance(boxes, list) or not isinstance(categories, list):
        raise ValueError(f"expected lists of 'bbox' and {key!r}")
    if len(boxes) != len(categories):
        raise ValueError(f"{len(boxes)} boxes in 'bbox', but {len(categories)} in {key!r}")
    return [(_corners(box), _class(one, names)) for box, one in zip(boxes, categories, strict=True)]


def _as_lists(objects: Any) -> Mapping[str, Any]:
    """Return {name: list of values of all objects}. Raises ValueError."""
    if objects is None:
        return {}
    if isinstance(objects, list) and all(isinstance(one, dict) for one in objects):
        keys = dict.fromkeys(key for one in objects for key in one)
        return {key: [one.get(key) for one in objects] for key in keys}
    if not isinstance(objects, dict):
        raise ValueError(f"expected 'objects' with 'bbox', got {str(objects)[:_SHOWN]}")
    return objects


def _class(given: Any, names: Sequence[str] | None) -> str:
    """Return the class of an object. Raises ValueError."""
    if isinstance(given, str) and given and len(given.splitlines()) == 1:
        return given
    if type(given) is not int or given < 0:
        raise ValueError(f"expected a category as a number or a text of one line, got {given!r}")
    if names is None:
        return str(given)
    if given >= len(names):
        raise ValueError(f"expected a category 0 to {len(names) - 1}, got {given}")
    return names[given]


def _corners(box: Any) -> Corners:
    is_box = isinstance(box, list) and len(box) == 4 and {*map(type, box)} <= {int, float}
    if not is_box or min(box[2:]) < 0 or not all(map(math.isfinite, box)):
        raise ValueError(f"expected a 'bbox' of [x, y, width, height], got {str(box)[:_SHOWN]}")
    x, y, width, height = map(float, box)
    return x, y, x + width, y + height


def _names_in_card(files: Sequence[Location]) -> tuple[str, ...] | None:
    """Return the names of categories in the card of the dataset; None without a card or names."""
    import yaml  # only datasets with a card need it

    for folder in dict.fromkeys([*(file.parent for file in files), files[0].parent.parent]):
        try:
            text = (folder / _CARD).read_bytes().decode()
            _, header, *_ = text.split("---\n", 2)
            card = yaml.safe_load(header)
        except (MissingError, ValueError, yaml.YAMLError, RecursionError):
            continue
        found = next(_class_labels(card), None)
        if found is not None:
            return found
    return None


def _class_labels(node: Any) -> Iterator[tuple[str, ...]]:
    """Yield the names of the ClassLabel features of categories in a card."""
    for one in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _class_labels(one)
    if not isinstance(node, dict) or node.get("name") not in CATEGORIES:
        return
    kinds = [node.get(key) for key in ("dtype", "sequence", "list")]
    for kind in kinds:
        label = kind.get("class_label") if isinstance(kind, Mapping) else None
        names = label.get("names") if isinstance(label, Mapping) else None
        if isinstance(names, Mapping) and [*map(str, names)] == [*map(str, range(len(names)))]:
            yield tuple(map(str, names.values()))
