"""Detection of the format of annotations from the names and the content of files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from recordmill.errors import ConfigError
from recordmill.format.file_content import HEAD
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    format_by_key,
    is_prose,
)
from recordmill.transforms.sources.annotations.formats.box_tables import holds_boxes
from recordmill.transforms.sources.annotations.formats.captions import holds_captions
from recordmill.transforms.sources.annotations.formats.coco import has_boxes_or_captions, is_coco
from recordmill.transforms.sources.annotations.formats.cvat import is_cvat
from recordmill.transforms.sources.annotations.formats.dota import is_dota
from recordmill.transforms.sources.annotations.formats.hub_metadata import (
    NAME,
    holds_objects,
)
from recordmill.transforms.sources.annotations.formats.labelme import labelme_content
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, walk
from recordmill.transforms.sources.folders.companions import METADATA

AnnotationFormat = Literal[
    "auto", "coco", "voc", "yolo", "labelme", "flags", "dota", "cvat", "hub", "csv", "captions"
]
_RARE = 0.1  # highest ratio of files of a rare format to those of the main one, to ignore them
_OF_FOLDER = 5  # text files, or XML files, that are opened in each folder
_IN_ALL = 20  # text files, XML files, or files of LabelMe, that are opened in all folders
_LOOKED_AT = 100  # JSON and CSV files of a folder that are opened to find its format
_EXTENSIONS: dict[str, AnnotationFormat] = {
    "json": "coco",
    "jsonl": "hub",
    "xml": "cvat",
    "csv": "csv",
    "tsv": "captions",
    "txt": "captions",
    "token": "captions",
}
_SHOWN = 3  # names in a note
_TEXTS = ("yolo", "dota")  # formats of text files
_ONE_FILE = ("coco", "cvat", "csv", "hub")  # formats of files with many images
_ARRAY = re.compile(rb"(\xef\xbb\xbf)?\s*\[")
_VOC = re.compile(rb"<(\w+:)?annotation\b")
# A line with a class and a box, and perhaps more.
_YOLO = re.compile(rb"\A(\xef\xbb\xbf)?\s*\d+(\.\d*)?([ \t]+[-+.\deE]+){4}")


class GuessedFormat(NamedTuple):
    """A format, and tables of captions that are in the same folder.

    Attributes:
      format: The format.
      captions: Tables of captions that are not read.
    """

    format: AnnotationFormat
    captions: Sequence[Location] = ()

    def notes(self) -> Iterator[str]:
        """Yield a note on the tables of captions, which are not read."""
        if self.captions:
            names = ", ".join(one.name for one in self.captions[:_SHOWN])
            more = ", ..." if len(self.captions) > _SHOWN else ""
            given = option_name("annotations", self.captions[0])
            others = f"other files hold annotations of {self.format}"
            if self.format == "captions":
                others = f"{' or '.join(METADATA)} holds captions, too"
            yield (
                f"captions in {names}{more} were not read, because {others}: {given} reads these"
                " captions instead"
            )


def guess_format(place: Location) -> GuessedFormat:
    """Return the format of annotations: of a file by its extension, of a folder by its files.

    Files of LabelMe of which none has shapes are read for their flags.

    Raises:
      ConfigError: Neither extensions nor contents are those of annotations, or the folder holds
        several formats.
    """
    file = None if place.is_dir() else _of_file(place)
    found = _of_folder(place) if place.is_dir() else file and GuessedFormat(file)
    if found is None:
        raise ConfigError(
            f"{option_name('annotations', place)}: expected a .json, .jsonl, .xml, .csv or .txt"
            " file, or a folder of such files; name the format with"
            f" {option_name('annotation_format')}"
        )
    return found


def _of_file(place: Location) -> AnnotationFormat | None:
    found = _EXTENSIONS.get(place.name.rpartition(".")[2].lower())
    if found in ("coco", "csv", "hub") and holds_captions(place):
        return "captions"
    if found == "coco" and _ARRAY.match(head := _head(place)):  # its reader describes what is wrong
        return "hub" if b'"objects"' in head else "captions"
    return found


def _of_folder(place: Location) -> GuessedFormat | None:
    """Return the format of the files in a folder, None if it is unknown. Raises ConfigError."""
    files = _FolderFiles.of(place)
    found = [*files.formats()]
    if len(found) > 1:  # the JSON of other tools may have members of COCO
        found = [one for one in found if one.format != "coco" or has_boxes_or_captions(one.first)]
    if len(found) > 1:
        raise ConfigError(_several_message(place, found))
    if found:
        form = found[0].format
        tables = [*files.tables, *files.lines, *(() if form in _TEXTS else files.texts)]
        tables += files.documents if form == "coco" else []
        return GuessedFormat(form, [*filter(holds_captions, tables)])
    tables = [*files.tables, *files.lines, *files.texts, *files.documents]
    if any(map(holds_captions, files.metadata)):
        others = [one for one in tables if one.name not in METADATA]
        return GuessedFormat("captions", [*filter(holds_captions, others)])
    if (table := next(filter(holds_captions, tables), None)) is not None:
        raise ConfigError(
            f"{option_name('annotations', place)}: {table.name} in the folder holds the"
            f" captions of many images: pass {option_name('annotations', table)}"
        )
    if files.counts["txt"] and not (files.texts and all(map(_is_prose, files.texts))):
        return GuessedFormat("yolo")  # its reader describes what is wrong
    if files.counts["xml"]:
        return GuessedFormat("voc")
    if files.texts:
        raise ConfigError(
            f"{option_name('annotations', place)}: .txt files such as {files.texts[0]} hold no"
            f" boxes of YOLO: if they are captions, {option_name('captions_from')} .txt"
            f" reads them beside the images of {option_name('input')}"
        )
    return GuessedFormat("hub") if any(one.name == NAME for one in files.metadata) else None


class _Found(NamedTuple):
    """Files of a format.

    Attributes:
      format: The format.
      number: Number of its files, estimated from those that were opened.
      first: One of them.
    """

    format: AnnotationFormat
    number: int
    first: Location

    def described(self, folder: Location) -> str:
        """Return a description for messages."""
        key = str(self.first).removeprefix(str(folder)).lstrip("/")
        if self.number == 1:
            return f"{key} ({self.format})"
        return f".{_end(self.first)} files such as {key} ({self.format})"


def _several_message(folder: Location, found: Sequence[_Found]) -> str:
    """Return the error message for a folder with several formats."""
    held = [one.described(folder) for one in found]
    names = [one.format for one in found]
    alone = [one.first for one in found if one.number == 1 and one.format in _ONE_FILE]
    way = f", or pass {option_name('annotations', alone[0])}" if alone else ""
    return (
        f"{option_name('annotations', folder)}: the folder holds annotations of several formats,"
        f" {', '.join(held[:-1])} and {held[-1]}: name the format with"
        f" {option_name('annotation_format')}, {', '.join(names[:-1])} or {names[-1]}{way}"
    )


class _FolderFiles(NamedTuple):
    """Files in a folder that may hold annotations.

    Attributes:
      counts: Number of files by extension, without text files of a project.
      xml: XML files, the first of each folder.
      texts: Text files that are not empty, the first of each folder.
      documents: JSON files.
      tables: CSV files.
      lines: Files of JSON lines.
      metadata: The first metadata file of the hub, if any.
    """

    counts: Counter[str]
    xml: Sequence[Location]
    texts: Sequence[Location]
    documents: Sequence[Location]
    tables: Sequence[Location]
    lines: Sequence[Location]
    metadata: Sequence[Location]

    @classmethod
    def of(cls, folder: Location) -> _FolderFiles:
        """List a folder."""
        counts: Counter[str] = Counter()
        by_end: dict[str, list[Location]] = {
            end: [] for end in ("xml", "txt", "json", "csv", "jsonl")
        }
        of_folder: Counter[tuple[str, str]] = Counter()
        metadata: list[Location] = []
        for finding in walk(folder, skipped_among_media, depth=1):
            if not isinstance(finding, File):
                continue
            inside, _, name = finding.key.rpartition("/")
            if not metadata and name in METADATA:
                metadata.append(Location.parse(finding.path))
            end = name.rpartition(".")[2].lower()
            per_image = end in ("xml", "txt")
            if end not in by_end or (per_image and format_by_key(finding.key) is None):
                continue
            counts[end] += 1
            if per_image and (of_folder[inside, end] >= _OF_FOLDER or not finding.size):
                continue
            of_folder[inside, end] += 1
            if len(by_end[end]) < (_IN_ALL if per_image else _LOOKED_AT):
                by_end[end].append(Location.parse(finding.path))
        return cls(
            counts=counts,
            xml=by_end["xml"],
            texts=by_end["txt"],
            documents=by_end["json"],
            tables=by_end["csv"],
            lines=by_end["jsonl"],
            metadata=metadata,
        )

    def formats(self) -> Iterator[_Found]:
        """Yield the formats that the content of the files has, except captions."""
        labelme, coco = self._of_documents()
        dota = self._of_images("dota", self.texts, is_dota)
        yolo = self._of_images("yolo", self.texts, _holds_yolo)
        voc = self._of_images("voc", self.xml, _holds_voc)
        of_images = [one for one in (voc, dota or yolo, labelme) if one is not None]
        of_images.sort(key=lambda one: (-one.number, one.format))
        yield from (one for one in of_images if one.number > _RARE * of_images[0].number)
        of_all: list[tuple[AnnotationFormat, list[Location]]] = [
            ("coco", coco),
            ("cvat", [*filter(is_cvat, self.xml)]),
            ("csv", [*filter(holds_boxes, self.tables)]),
            ("hub", [*filter(holds_objects, self.metadata)]),
        ]
        yield from (_Found(name, len(files), files[0]) for name, files in of_all if files)

    def _of_images(
        self,
        name: AnnotationFormat,
        files: Sequence[Location],
        is_of_format: Callable[[Location], bool],
    ) -> _Found | None:
        """Return the files of a format with a file per image. files: a sample of an extension."""
        if not (found := [*filter(is_of_format, files)]):
            return None
        number = self.counts[_end(found[0])] * len(found) // len(files)
        return _Found(name, max(number, 1), found[0])

    def _of_documents(self) -> tuple[_Found | None, list[Location]]:
        """Return the files of LabelMe, and those of COCO."""
        coco: list[Location] = []
        contents: dict[str, Location] = {}  # {content of a file of LabelMe: the first such file}
        number = 0  # of files of LabelMe
        for document in self.documents:
            if is_coco(document):
                coco.append(document)
            elif (content := labelme_content(document)) is not None:
                number += 1
                contents.setdefault(content, document)
                if "shapes" in contents and number >= _IN_ALL:
                    break
        if not contents:
            return None, coco
        found = next(one for one in ("shapes", "flags", "nothing") if one in contents)
        name: AnnotationFormat = "flags" if found == "flags" else "labelme"
        return _Found(name, max(self.counts["json"] - len(coco), 1), contents[found]), coco


def _end(place: Location) -> str:
    return place.name.rpartition(".")[2].lower()


def _head(file: Location) -> bytes:
    with file.open_input() as data:
        return data.read(HEAD)


def _holds_voc(file: Location) -> bool:
    return _VOC.search(_head(file)) is not None


def _holds_yolo(file: Location) -> bool:
    return _YOLO.search(_head(file)) is not None


def _is_prose(file: Location) -> bool:
    return is_prose(_head(file))
