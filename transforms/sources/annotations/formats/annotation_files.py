"""Annotations with a file per image, such as Pascal VOC's XML.

Source: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html (pixels count from 1,
and the last row and column are part of the box).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

import pyarrow as pa

from recordmill.errors import ConfigError, RecordError, Reject
from recordmill.format.file_content import HEAD, identify
from recordmill.notes import LeftUnread
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.transforms.model.annotations import (
    DIFFICULT,
    OBJECTS,
    OCCLUDED,
    SIDES,
    SIDES_FIELD,
    TRUNCATED,
    VIEW,
    Annotated,
    Corners,
    Indices,
    ObjectCollector,
    count_unread,
    objects_field,
    sides_array,
)
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationReader
from recordmill.transforms.sources.files.skipped_names import (
    holds_lists,
    is_project_text,
    skipped_among_media,
)
from recordmill.transforms.sources.files.walks import File, walk

AnnotationsByFile = Literal["voc", "yolo"]
_FORMATS: dict[str, AnnotationsByFile] = {".xml": "voc", ".txt": "yolo"}
# Files that describe a dataset, or list its images or classes.
_OTHER_TEXT = re.compile(
    r"(autosplit_)?(classes|class_names|labels|train|trainval|val|valid|validation|test|test-dev)(20\d\d)?\.txt",
    re.IGNORECASE,
)
# Names of folders of annotations, in upper or lower case. Paths in them are those in the folder of
# the images.
_FOLDERS = re.compile(r"labels?|annotations?|labeltxt", re.IGNORECASE)
_LISTS = (".txt", ".names", ".labels", ".yaml", ".yml")
# Elements of an object of VOC that are read, or that do not describe the object.
_KNOWN = frozenset(
    (
        *("name", "pose", "truncated", "difficult", "occluded", "bndbox"),
        *("id", "date", "deleted", "verified"),
    )
)
_FLAGS = {"": False, "0": False, "false": False, "1": True, "true": True}
_WORD = 64  # bytes at the beginning of a text
_DEPTH = 64  # maximum depth of XML elements
_DIGITS = 10  # maximum number of digits of a side
_ELLIPSE = 64  # corners of the polygon in place of an ellipse
ROUNDING = 0.01  # tolerance of fractions outside 0 to 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationFolder(AnnotationReader):
    """A folder with a file of annotations per image.

    seen: classes that were read, for formats whose files name them. They are sorted by name.
    """

    files: Sequence[File]
    seen: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)

    def labels(self) -> tuple[str, ...]:
        return self.classes or tuple(sorted(self.seen, key=str.encode))

    @property
    def more(self) -> Sequence[pa.Field]:
        return ()

    @property
    def fields(self) -> pa.Schema:
        return pa.schema([SIDES_FIELD, objects_field(self.more)])

    def read(self, which: Indices) -> Annotated:
        objects = ObjectCollector(more=self.more)
        sides: list[tuple[int, int] | None] = []
        faults: dict[int, str] = {}
        unread = LeftUnread()
        files = [self.files[at] for at in which.tolist()]
        places = [(file.path, file.size, file.mtime) for file in files]
        for row, file in enumerate(read_ahead(files, places)):
            sides.append(None)
            data = b""
            try:
                data = read_file(file.path, size=file.size, mtime=file.mtime)
                sides[row] = self.parse(data, row, objects, key=file.key, unread=unread)
            except RecordError as error:
                faults[row] = f"{file.key}: {error.detail}"
            except ValueError as error:
                content = identify(data[:HEAD])
                other = content is not None and not content.is_named(file.key)
                faults[row] = f"{file.key} is {content}" if other else f"{file.key}: {error}"
        columns = {SIDES: sides_array(sides), OBJECTS: objects.column(len(which))}
        return Annotated(
            columns=pa.record_batch(list(columns.values()), schema=self.fields),
            faults=faults,
            unread=unread,
        )

    def parse(
        self, data: bytes, row: int, objects: ObjectCollector, *, key: str, unread: LeftUnread
    ) -> tuple[int, int] | None:
        """Add the objects of a file and return its (width, height). Raises ValueError."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocReader(AnnotationFolder):
    """A folder of VOC's XML files."""

    @property
    def more(self) -> Sequence[pa.Field]:
        return (DIFFICULT, TRUNCATED, OCCLUDED, VIEW)

    def parse(
        self, data: bytes, row: int, objects: ObjectCollector, *, key: str, unread: LeftUnread
    ) -> tuple[int, int] | None:
        try:
            root = parse_xml(data)
        except (expat.ExpatError, ValueError) as error:
            raise ValueError("invalid XML") from error
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]  # without the namespace
        if root.tag != "annotation":
            raise ValueError(f"expected an XML of <annotation>, got one of <{root.tag[:40]}>")
        found = []
        for number, one in enumerate(root.iter("object"), 1):
            name = (one.findtext("name") or "").strip()
            if not name or len(name.splitlines()) > 1:
                raise ValueError(f"object {number}: expected a name of one line, got {name!r}")
            more = {field.name: _flag(one, field.name, number) for field in self.more[:3]}
            found.append((self._corners(one.find("bndbox"), number), name, one, more))
        for corners, name, one, more in found:
            self.seen.add(name)
            view = (one.findtext("pose") or "").strip()
            objects.add(row, corners, name, **more, view=view)
            others = {child.tag: _value(child) for child in one if child.tag not in _KNOWN}
            if others:
                count_unread(unread, others, such_as=f"one in {key}")
        return parse_sides(*(root.findtext(f"size/{name}") or "" for name in ("width", "height")))

    def _corners(self, box: ElementTree.Element | None, number: int) -> Corners:
        texts = [None if box is None else box.findtext(n) for n in ("xmin", "ymin", "xmax", "ymax")]
        left, top, right, bottom = parse_numbers(
            texts, f"object {number}: a 'bndbox' of four numbers"
        )
        if right < left or bottom < top:
            raise ValueError(f"object {number}: the box has a maximum below its minimum: {texts}")
        # By the definition of the format, equal corners are a box of one pixel. In practice they
        # are accidental clicks, so such a box has no area here, and is dropped and counted.
        return left - (left < right), top - (top < bottom), right, bottom


def _value(element: ElementTree.Element) -> Any:
    """Return the text of an element, or {name: value} of its children; None if it is empty."""
    if element.tag == "attributes":  # as CVAT writes them
        return {one.findtext("name") or "": _text(one.findtext("value")) for one in element}
    if len(element):
        return {one.tag: _value(one) for one in element}
    return _text(element.text)


def _text(text: str | None) -> str | None:
    text = (text or "").strip()
    return None if text.lower() in ("", "0", "false") else text


def parse_xml(data: bytes) -> ElementTree.Element:
    """Parse an XML document.

    Raises:
      ValueError, ExpatError: it is not valid, is nested deeply, or declares a document type, whose
        entities could crash the parser.
    """
    builder = ElementTree.TreeBuilder()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEPTH:
            raise ValueError(f"elements in more than {_DEPTH} others")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: object) -> None:
        raise ValueError("a document type declaration")

    parser = expat.ParserCreate(namespace_separator="}")  # URI}TAG
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.Parse(data, True)
    return builder.close()


def _flag(one: ElementTree.Element, name: str, number: int) -> bool:
    text = (one.findtext(name) or "").strip()
    if text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    try:
        (degree,) = parse_numbers([text], name)
    except ValueError:
        degree = -1
    if not 0 <= degree <= 1:  # a fraction is the hidden part of the object
        raise ValueError(f"object {number}: expected '{name}' to be 0 or 1, got {text[:40]!r}")
    return degree > 0


def open_voc(folder: Location) -> VocReader:
    """List the XML files of a folder. Raises ConfigError if there are none."""
    return VocReader(**list_annotations(folder, ".xml").arguments)


def format_by_key(key: str) -> AnnotationsByFile | None:
    """Return the format of a file with the annotations of an image, None for other files."""
    return _FORMATS.get(_annotation_end(key) or "")


def _annotation_end(key: str) -> str | None:
    """Return the extension of a file with the annotations of an image, None for other files."""
    folder, _, name = key.rpartition("/")
    if is_project_text(name) or _OTHER_TEXT.fullmatch(name) or holds_lists(folder):
        return None
    lower = name.lower()
    return next((end for end in (*_FORMATS, ".json") if lower.endswith(end)), None)


def is_prose(head: bytes) -> bool:
    """Return whether a text begins with a word instead of a number, unlike files of YOLO."""
    if identify(head) is not None:  # the reader names the content
        return False
    words = head[:_WORD].decode("utf-8-sig", "replace").split()
    return bool(words) and not words[0][0].isdigit() and words[0][0] not in "+-."


class ListedAnnotations(NamedTuple):
    """Files of a folder. arguments: for its reader. others: keys of the other files."""

    arguments: dict[str, Any]
    others: list[str]


def list_annotations(folder: Location, end: str) -> ListedAnnotations:
    """List the files of annotations in a folder.

    Args:
      folder: The folder.
      end: End of their names, in lower case.

    Raises:
      ConfigError: There are none.
    """
    files: list[File] = []
    others: list[str] = []
    rejects: list[Reject] = []
    for finding in walk(folder, skipped_among_media, depth=1):
        if isinstance(finding, Reject):
            rejects.append(finding)
        elif isinstance(finding, File) and _annotation_end(finding.key) == end:
            files.append(finding)
        elif isinstance(finding, File) and finding.key.lower().endswith(_LISTS):
            others.append(finding.key)
    if not files:
        raise ConfigError(
            f"{option_name('annotations')}: found no {end} file in {folder}: check the path"
        )
    names = [file.key.rpartition(".")[0] for file in files]
    inside = {part for name in names for part in name.split("/")[:-1]}
    folders = sorted(filter(_FOLDERS.fullmatch, inside))
    tops = {name.partition("/")[0] if "/" in name else "" for name in names}
    alone = (tops.pop() or None) if len(tops) == 1 else None
    return ListedAnnotations(
        {
            "files": files,
            "names": names,
            "rejects": rejects,
            "folders": dict.fromkeys(folders, ""),
            "folder": alone,
            "folder_is_known": alone in folders,
        },
        others,
    )


def distinct_folders(files: Sequence[Location]) -> list[str]:
    """Return the ends of the paths of the folders around files, long enough to differ.

    They are empty if all files are in one folder.
    """
    folders = [file.parent.path.strip("/").split("/") for file in files]
    count = len({*map(tuple, folders)})
    if count == 1:
        return [""] * len(files)
    least = next(
        n for n in itertools.count(1) if len({tuple(one[-n:]) for one in folders}) == count
    )
    return ["/".join(one[-least:]) for one in folders]


def files_of(
    place: Location,
    *ends: str,
    holds: Callable[[Location], bool] = lambda file: True,
    noun: str | None = None,
) -> list[Location]:
    """Return a file, or the files below a folder.

    Args:
      place: The file or folder.
      ends: Names of the files in a folder, or their extensions with a dot, in lower case.
      holds: Returns whether a file in a folder has the format.
      noun: Noun for the files, for messages.

    Raises:
      ConfigError: A folder has none.
    """
    if not place.is_dir():
        return [place]
    found = [
        Location.parse(item.path)
        for item in walk(place, skipped_among_media, depth=1)
        if isinstance(item, File) and _has_end(item.key.rpartition("/")[2].lower(), ends)
    ]
    if not (found := [*filter(holds, found)]):
        shown = noun or f"{' or '.join(ends)} file"
        raise ConfigError(
            f"{option_name('annotations')}: found no {shown} in {place}: check the path"
        )
    return found


def _has_end(name: str, ends: Sequence[str]) -> bool:
    """Return whether a name is one of `ends`, or has an extension in it."""
    return any(name.endswith(one) if one.startswith(".") else name == one for one in ends)


def around(numbers: Sequence[float]) -> Corners:
    """Return the corners of the box around points x, y, x, y, ..."""
    across, down = numbers[::2], numbers[1::2]
    return min(across), min(down), max(across), max(down)


def ellipse(x: float, y: float, across: float, down: float) -> list[tuple[float, float]]:
    """Return the points of the polygon in place of an ellipse.

    Args:
      x: Of the centre.
      y: Of the centre.
      across: Horizontal radius.
      down: Vertical radius.
    """
    turns = (2 * math.pi * number / _ELLIPSE for number in range(_ELLIPSE))
    return [(x + across * math.cos(turn), y + down * math.sin(turn)) for turn in turns]


def is_out_of_range(fractions: Iterable[float]) -> bool:
    """Return whether a number is outside 0 to 1 by more than rounding."""
    return any(not -ROUNDING <= one <= 1 + ROUNDING for one in fractions)


def fractions_message(what: str, texts: Sequence[Any]) -> str:
    """Return the message for fractions outside 0 to 1."""
    return f"{_expected(what, texts)}: fractions of width and height are 0 to 1"


def parse_sides(width: str, height: str) -> tuple[int, int] | None:
    """Parse (width, height) in pixels; None if a text is invalid."""
    texts = (width.strip(), height.strip())
    if not all(is_digits(text) and len(text) <= _DIGITS for text in texts):
        return None
    found = (int(texts[0]), int(texts[1]))
    return found if min(found) > 0 and max(found) < 2**31 else None


def is_digits(text: str) -> bool:
    """Return whether a text consists of ASCII digits."""
    return text.isascii() and text.isdecimal()


def parse_numbers(texts: Sequence[Any], what: str) -> list[float]:
    """Parse finite numbers. Raises ValueError with a message about `what`."""
    try:
        # float() would accept underscores and digits of any script.
        found = [float(text) if text.isascii() and "_" not in text else math.nan for text in texts]
    except (AttributeError, ValueError):
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise ValueError(_expected(what, texts))
    return found


def _expected(what: str, texts: Sequence[Any]) -> str:
    where, _, rest = what.partition(": ")
    return f"{where}: expected {rest}, got {', '.join(map(str, texts))}"
