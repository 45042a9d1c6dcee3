"""YOLO's txt files: a file per image, whose lines are boxes, polygons or oriented boxes.

A line is a class number and fractions of the image's width and height: the centre, width and height
of a box; or the points of a polygon, of which an oriented box has four; or, if `data.yaml` has
`kpt_shape`, a box and keypoints. A last number after these is a confidence.

Sources: https://docs.ultralytics.com/datasets/detect, /segment, /obb and /pose.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from recordmill.errors import ConfigError, RecordError
from recordmill.format.split_names import canonical_split
from recordmill.notes import LeftUnread
from recordmill.option_files import parse_names
from recordmill.option_names import option_name
from recordmill.storage.files import Location, MissingError
from recordmill.storage.input_files import read_file
from recordmill.strict_json import to_text
from recordmill.transforms.model.annotations import (
    KEYPOINTS,
    SEGMENTATION,
    Corners,
    ObjectCollector,
)
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    AnnotationFolder,
    around,
    fractions_message,
    is_digits,
    is_out_of_range,
    is_prose,
    list_annotations,
    parse_numbers,
)
from recordmill.transforms.sources.folders.role_folders import is_image_folder

_NAMES = (
    "classes.txt",
    "obj.names",
    "labels.txt",
    "class_names.txt",
    "_darknet.labels",
)  # files of class names, one per line
_YAML = ("data.yaml", "dataset.yaml", "data.yml", "dataset.yml")  # of Ultralytics and Roboflow
_HAS_NAMES = re.compile(r"^[{ ]*names\s*:", re.MULTILINE)
_HAS_SPLITS = re.compile(r"^[{ ]*(train|val|valid|validation|test)\s*:", re.MULTILINE)
_KEYPOINTS = re.compile(r"^[{ ]*kpt_shape\s*:", re.MULTILINE)
_FAR = 1  # widths and heights by which a keypoint may be outside of its image
_LINE = re.compile(rb"(\xef\xbb\xbf)?\s*\S+([ \t]+[-+.\deE]+){4}")  # also with the name of a class
_LOOKED_AT = 100  # files without an image that are opened
_BOX = 4  # numbers of a box


class _Line(NamedTuple):
    """An object. polygon: its points as x, y, x, y, ...; None for a box. keypoints: their JSON."""

    corners: Corners
    name: str
    polygon: list[float] | None
    keypoints: str | None = None


class _Pose(NamedTuple):
    """The keypoints of a line.

    Attributes:
      number: Number of keypoints.
      dims: Numbers of a keypoint: x and y, or also a visibility.
      partners: Number of the keypoint that each becomes in a mirrored image; None if names tell it.
      names: {class number: names of its keypoints}, with None for all other classes. Keypoints
        without a name are named by their numbers.
    """

    number: int
    dims: int
    partners: Sequence[int] | None
    names: Mapping[int | None, Sequence[str]]

    @property
    def width(self) -> int:
        """Number of numbers in a line."""
        return self.number * self.dims

    def parse(self, texts: Sequence[str], label: int, where: str) -> str:
        """Return the keypoints in words of a line as JSON. Raises ValueError."""
        what = f"{where}: {self.number} keypoints of x, y"
        what += " and a visibility of 0, 1 or 2" if self.dims == 3 else " as fractions"
        values = parse_numbers(texts, what)
        numbers: list[float] = []
        for at in range(0, len(values), self.dims):
            x, y, *given = values[at : at + self.dims]
            visible = given[0] if given else 2 * ((x, y) != (0, 0) and min(x, y) >= 0)
            far = visible and not all(-_FAR <= one <= 1 + _FAR for one in (x, y))
            if visible not in (0, 1, 2) or far:
                shown = " ".join(texts[at : at + self.dims])
                raise ValueError(f"{what.replace(': ', ': expected ', 1)}, got {shown}")
            numbers += (x, y, visible)
        names = self.names.get(label) or self.names.get(None)
        names = names or [*map(str, range(self.number))]
        more = () if self.partners is None else (self.partners,)
        return to_text([names, numbers, *more], compact=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class YoloReader(AnnotationFolder):
    """A folder of YOLO's txt files.

    polygons: whether to keep polygons. pose: the keypoints in lines; None if they have none.
    """

    polygons: bool = False
    pose: _Pose | None = None

    @property
    def more(self) -> Sequence[pa.Field]:
        of_pose = () if self.pose is None else (KEYPOINTS,)
        return (*((SEGMENTATION,) if self.polygons else ()), *of_pose)

    def other_files(self, names: Sequence[str]) -> Mapping[str, str]:
        wanted = {*names[:_LOOKED_AT]}
        found: dict[str, str] = {}
        for name, file in zip(self.names, self.files, strict=True):
            if name in wanted:
                with contextlib.suppress(RecordError):
                    data = read_file(file.path, size=file.size, mtime=file.mtime)
                    is_other = is_prose(data) and not _LINE.match(data)
                    found |= {name: file.key} if is_other else {}
        return found

    def parse(
        self, data: bytes, row: int, objects: ObjectCollector, *, key: str, unread: LeftUnread
    ) -> None:
        try:
            lines = data.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ValueError("not UTF-8") from error
        ignored: list[str] = []
        found = [
            self._line(words, f"line {number}", ignored)
            for number, line in enumerate(lines, 1)
            if (words := line.split())
        ]
        for part in ignored:
            unread.add(part, "line", such_as=f"one in {key}")
        for corners, name, polygon, keypoints in found:
            if polygon is not None and not self.polygons:
                unread.add("the outlines", "polygon", such_as=f"one in {key}")
            text = None if polygon is None else to_text([polygon], compact=True)
            objects.add(row, corners, name, segmentation=text, keypoints=keypoints)

    def _line(self, words: Sequence[str], where: str, ignored: list[str]) -> _Line:
        """Parse a line. ignored: gets the names of parts that are not read. Raises ValueError."""
        if "," in words[0]:
            raise ValueError(f"{where}: expected numbers between spaces, got {words[0]!r}")
        number, texts = self._class(words[0], where), words[1:]
        name, keypoints = self.classes[number], None
        width = 0 if self.pose is None else self.pose.width
        has_pose = width and len(texts) in (_BOX + width, _BOX + width + 1)
        if width and not has_pose and len(texts) != _BOX:
            raise ValueError(
                f"{where}: expected a class, four numbers and {width} of keypoints, as kpt_shape"
                f" says, got {len(words)} words"
            )
        if len(texts) < _BOX:
            raise ValueError(f"{where}: expected a class and four numbers, got {len(words)} words")
        # Without a confidence, the numbers of points are even.
        if len(texts) == _BOX + width + 1 if has_pose else len(texts) % 2:
            what = f"{where}: a confidence of 0 to 1 as the last number"
            (confidence,) = parse_numbers(texts[-1:], what)
            if is_out_of_range((confidence,)):
                raise ValueError(f"{what.replace(': ', ': expected ', 1)}, got {texts[-1]}")
            ignored.append("the confidence")
            texts = texts[:-1]
        if has_pose and self.pose is not None:
            keypoints = self.pose.parse(texts[_BOX:], number, where)
            texts = texts[:_BOX]
        if len(texts) == _BOX:
            return _Line(_box(texts, where), name, None, keypoints)
        return _polygon(texts, where, name)

    def _class(self, word: str, where: str) -> int:
        number = word
        if not is_digits(word) and re.fullmatch(r"\d+\.0*", word, re.ASCII):
            number = word.partition(".")[0]  # as programs write numbers of one array
        if not is_digits(number) or len(number) > 9 or int(number) >= len(self.classes):
            last = len(self.classes) - 1
            raise ValueError(f"{where}: expected a class 0 to {last}, got {word!r}")
        return int(number)


def _box(texts: Sequence[str], where: str) -> Corners:
    what = f"{where}: four fractions"
    x, y, width, height = parse_numbers(texts, what)
    if width < 0 or height < 0 or is_out_of_range((x, y, width, height)):
        raise ValueError(fractions_message(what, texts))
    half, tall = width / 2, height / 2
    return x - half, y - tall, x + half, y + tall


def _polygon(texts: Sequence[str], where: str, name: str) -> _Line:
    what = f"{where}: the points of a polygon as fractions"
    numbers = parse_numbers(texts, what)
    if is_out_of_range(numbers):
        more = "; keypoints need kpt_shape in data.yaml"
        raise ValueError(fractions_message(what, texts) + more)
    return _Line(around(numbers), name, numbers)


class _Names(NamedTuple):
    """A file of class names. where: its path."""

    where: Location
    names: tuple[str, ...]


def open_yolo(
    folder: Location, classes: Sequence[str] | None, *, polygons: bool = False
) -> YoloReader:
    """List the txt files of a folder.

    classes: those of the numbers; by default the names in a file of the folder or around it.
    polygons: whether to keep polygons.

    Raises:
      ConfigError: there are no txt files, or no class names, or files of names are invalid.
    """
    found = list_annotations(folder, ".txt")
    texts = [*_texts(folder, found.others)]
    notes: list[str] = []
    if classes is None:
        files = [*_names(texts)]
        if not files:
            raise _no_names(folder)
        first, *rest = files
        classes = first.names
        other = next((one for one in rest if one.names != classes), None)
        if other is not None and first.where.name in _NAMES:
            notes.append(f"classes are those of {first.where}; {other.where} names others")
        elif other is not None:
            raise ConfigError(
                f"{option_name('annotations', folder)}: {first.where} and {other.where} name"
                f" different classes: {_advice(folder, other.where.parent, found.arguments)}pass"
                f" the right file as {option_name('labels_file')}"
            )
    return YoloReader(
        **found.arguments,
        classes=tuple(classes),
        notes=notes,
        declared_splits=_declared_splits(texts),
        polygons=polygons,
        pose=_pose(texts),
    )


def _advice(folder: Location, inner: Location, found: Mapping[str, Any]) -> str:
    """Return how to read two folders with classes of their own, for an error message.

    Args:
      folder: The folder of annotations.
      inner: A folder in it, with a file of class names.
      found: The files of annotations, as `list_annotations` returns them.

    Returns:
      An empty text if the inner folder has no annotations, or only them, without images.
    """
    below = inner.path.removeprefix(folder.path).strip("/")
    names = [name for name in found["names"] if name.startswith(f"{below}/")]
    labels: Mapping[str, str] = found["folders"]
    if not below or not names or not {*labels}.isdisjoint(below.split("/")):
        return ""
    commands = [(inner, inner)]
    others = {name.partition("/")[0] for name in {*found["names"]}.difference(names)}
    for of in labels:
        if others == {of}:
            images = (one for one in folder.list_dir() if is_image_folder(one.name))
            commands += [(folder / one.name, folder / of) for one in images]
    read = (f"{option_name('input', a)} {option_name('annotations', b)}" for a, b in commands)
    return (
        f"if each names those of its own folder, make a dataset of each ({', '.join(read)}), else "
    )


def _texts(folder: Location, others: Sequence[str]) -> Iterator[tuple[Location, str]]:
    """Yield the files that may name classes, with their text, the nearest first.

    others: keys of the files in the folder that hold no annotations.
    """
    places = [folder, folder.parent]
    below_labels = folder.name == "labels" and canonical_split(folder.parent.name)
    if below_labels or folder.parent.name == "labels":
        places.append(folder.parent.parent)
    inner = [key for key in others if "/" in key and key.rpartition("/")[2] in (*_NAMES, *_YAML)]
    there = [place / name for place in places for name in _NAMES]
    there += [place / name for place in places for name in _YAML]
    there += [folder / key for key in sorted(inner)]
    beside = (key for key in sorted(others) if "/" not in key and key not in _YAML)
    there += [folder / key for key in beside if key.lower().endswith((".yaml", ".yml"))]
    for place in there:
        try:
            yield place, place.read_bytes().decode("utf-8-sig")
        except (MissingError, UnicodeDecodeError):
            continue


def _names(texts: Sequence[tuple[Location, str]]) -> Iterator[_Names]:
    """Yield the names in each file that has some. Raises ConfigError."""
    for place, text in texts:
        is_yaml = place.name.lower().endswith((".yaml", ".yml"))
        if not text.strip() or (is_yaml and _HAS_NAMES.search(text) is None):
            continue
        where = option_name("annotations", place)
        read = parse_names(text, where, suffix="YAML" if is_yaml else "")
        names = tuple(one.strip() for one in read)
        repeated = next((one for one, count in Counter(names).items() if count > 1), None)
        if repeated is not None:
            numbers = [str(number) for number, one in enumerate(names) if one == repeated]
            raise ConfigError(
                f"{where}: the classes {' and '.join(numbers[:2])} have the same name"
                f" {repeated!r}: give each number a name of its own, or name the classes with"
                f" {option_name('labels_file')}"
            )
        yield _Names(place, names)


def _declared_splits(texts: Sequence[tuple[Location, str]]) -> dict[str, str]:
    """Return {folder: split} of the first YAML that names folders of splits; see `declared_notes`.

    A folder of two splits, as `val: images` beside `train: images`, is none of them.
    """
    given = next(
        (
            text
            for place, text in texts
            if place.name.lower().endswith((".yaml", ".yml")) and _HAS_SPLITS.search(text)
        ),
        None,
    )
    import yaml  # only files with paths of splits need it

    try:
        fields = yaml.safe_load(given) if given is not None else None
    except (yaml.YAMLError, RecursionError):
        return {}  # its class names, if they are read, are an error
    found: dict[str, set[str]] = {}
    for key, value in fields.items() if isinstance(fields, dict) else ():
        split = canonical_split(key) if isinstance(key, str) else None
        for path in value if isinstance(value, list) else [value]:
            if split is not None and isinstance(path, str) and not path.endswith(".txt"):
                parts = path.replace("\\", "/").split("/")
                folder = "/".join(part for part in parts if part not in ("", ".", ".."))
                found.setdefault(folder, set()).add(split)
    return {folder: min(some) for folder, some in found.items() if folder and len(some) == 1}


def _pose(texts: Sequence[tuple[Location, str]]) -> _Pose | None:
    """Return the keypoints that the first file with `kpt_shape` describes. Raises ConfigError."""
    found = ((place, text) for place, text in texts if _KEYPOINTS.search(text) is not None)
    place, text = next(found, (None, ""))
    if place is None:
        return None
    import yaml  # only files with keypoints need it

    where = option_name("annotations", place)
    try:
        given = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{where}: invalid YAML") from error
    given = given if isinstance(given, dict) else {}
    shape: Any = given.get("kpt_shape")
    partners, names = given.get("flip_idx"), given.get("kpt_names")
    is_list = isinstance(shape, list) and [*map(type, shape)] == [int, int]
    if not is_list or shape[0] < 1 or shape[1] not in (2, 3):
        raise ConfigError(
            f"{where}: expected kpt_shape: [NUMBER, 2 or 3], the number of keypoints and of the"
            f" values of each, got {shape!r}"
        )
    count = shape[0]
    if partners is not None and (
        not isinstance(partners, list) or sorted(partners, key=str) != sorted(range(count), key=str)
    ):
        raise ConfigError(
            f"{where}: expected flip_idx with each of the numbers 0 to {count - 1} once, as"
            f" kpt_shape says, got {partners!r}"
        )
    by_class = {None: names} if isinstance(names, list) else names or {}
    for one in by_class.values() if isinstance(by_class, dict) else [by_class]:
        if not isinstance(one, list) or len(one) != count or {*map(type, one)} != {str}:
            raise ConfigError(
                f"{where}: expected {count} names in kpt_names of a class, as kpt_shape says, got"
                f" {one!r}"
            )
    return _Pose(count, shape[1], partners, by_class)


def _no_names(folder: Location) -> ConfigError:
    return ConfigError(
        f"{option_name('annotations', folder)}: YOLO's files hold class numbers, and there is no"
        f" file of class names ({', '.join(itertools.chain(_NAMES, _YAML[:2]))}) in the folder or"
        f" its parent: name the classes with {option_name('labels_file')}, one per line"
    )
