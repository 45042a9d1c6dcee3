"""Opening of annotations in any supported format."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from recordmill.errors import ConfigError
from recordmill.format.file_content import HEAD, identify
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    format_by_key,
    open_voc,
)
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationReader
from recordmill.transforms.sources.annotations.formats.box_tables import (
    box_files,
    holds_boxes,
    read_boxes,
)
from recordmill.transforms.sources.annotations.formats.captions import holds_captions, read_captions
from recordmill.transforms.sources.annotations.formats.coco import coco_files, is_coco, read_coco
from recordmill.transforms.sources.annotations.formats.cvat import is_cvat, read_cvat
from recordmill.transforms.sources.annotations.formats.dota import is_dota, open_dota
from recordmill.transforms.sources.annotations.formats.hub_metadata import (
    METADATA,
    NAME,
    read_metadata,
)
from recordmill.transforms.sources.annotations.formats.labelme import (
    labelme_content,
    open_labelme,
    read_flags,
)
from recordmill.transforms.sources.annotations.formats.yolo import open_yolo
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, walk

AnnotationFormat = Literal[
    "auto", "coco", "voc", "yolo", "labelme", "flags", "dota", "cvat", "hub", "csv", "captions"
]
_OTHERS = 0.1  # largest ratio of files of another format, such as texts, to annotations
_WORD = 64  # bytes at the beginning of a text
_FEW_TEXTS = 5  # files that are opened to find whether they are captions, or of LabelMe
_LOOKED_AT = 100  # JSON and CSV files of a folder that are opened to find its format
_ENDS: Mapping[str, str] = {"voc": ".xml", "yolo": ".txt", "labelme": ".json"}
_EXTENSIONS: dict[str, AnnotationFormat] = {
    "json": "coco",
    "jsonl": "hub",
    "xml": "cvat",
    "csv": "csv",
    "tsv": "captions",
    "txt": "captions",
    "token": "captions",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotations:
    """Location and format of annotations; calling it opens them.

    places: files of COCO, CSV or the hub, or folders of them; or one file of CVAT; or one folder of
      files of another format.
    segmentation: whether to keep segmentations.
    units: of the corners in a CSV file. decimal: decimal separator of such a file.
    classes: of YOLO, in the order of their numbers, if no file in the folder names them.
    image_ids: whether to keep COCO's ids of images.
    polygons: whether to keep polygons of formats with a file per image.
    """

    places: tuple[Location, ...]
    format: AnnotationFormat = "auto"
    segmentation: bool = True
    units: Literal["pixels", "fractions"] = "pixels"
    decimal: str = "."
    classes: tuple[str, ...] | None = None
    image_ids: bool = False
    polygons: bool = False

    def __post_init__(self) -> None:
        if self.format not in get_args(AnnotationFormat):
            raise ConfigError(
                f"{option_name('annotation_format')}: expected one of"
                f" {', '.join(get_args(AnnotationFormat))}, got {self.format!r}"
            )

    @property
    def where(self) -> str:
        """Names of the files or folders for messages, with their parents if names are equal."""
        names = [place.name for place in self.places]
        if len({*names}) < len(names):
            names = [f"{place.parent.name}/{place.name}" for place in self.places]
        return ", ".join(names)

    @functools.cached_property
    def resolved_format(self) -> AnnotationFormat:
        """The format, guessed if it is auto.

        Raises:
          ConfigError: a place does not exist, or the format cannot be guessed.
        """
        for place in self.places:
            if not place.exists():
                raise ConfigError(
                    f"{option_name('annotations')}: {place} does not exist: check the path"
                )
        return self.format if self.format != "auto" else guess_format(self.places[0])

    @property
    def has_fractions(self) -> bool:
        """True if corners are fractions of width and height. Raises ConfigError."""
        found = self.resolved_format
        if self.units == "fractions" and found != "csv":
            raise ConfigError(
                f"{option_name('box_units')}: {found} defines the units of corners: leave the"
                " option out"
            )
        return _TRAITS[found].fractions or self.units == "fractions"

    @property
    def polygon_fractions(self) -> bool:
        """True if points of polygons are fractions of width and height. Raises ConfigError."""
        return _TRAITS[self.resolved_format].fractions

    @property
    def has_polygons(self) -> bool:
        """True if the format has polygons. Raises ConfigError."""
        return _TRAITS[self.resolved_format].polygons

    def __call__(self) -> AnnotationReader:
        """Open the annotations. Raises ConfigError if they cannot be parsed."""
        found = self.resolved_format
        if self.decimal != "." and found != "csv":
            raise ConfigError(
                f"{option_name('decimal', self.decimal)}: applies to CSV, and"
                f" {option_name('annotations')} are of {found}: leave the option out"
            )
        if not _TRAITS[found].several and len(self.places) > 1:
            raise ConfigError(
                f"{option_name('annotations')}: expected one path for {found}, got"
                f" {len(self.places)}"
            )
        in_folder = _TRAITS[found].in_folder
        wrong = [one for one in self.places if in_folder not in (None, one.is_dir())]
        if wrong:
            what = "a folder" if in_folder else "a file"
            raise ConfigError(
                f"{option_name('annotations')}: expected {what} of {found}, got {wrong[0]}"
            )
        return _TRAITS[found].open(self)


class _Traits(NamedTuple):
    """Properties of a format.

    Attributes:
      open: Opens annotations.
      in_folder: Whether annotations are the files of a folder; None if both are possible.
      several: Whether several places may be given.
      fractions: Whether numbers are fractions of the width and the height.
      polygons: Whether objects may have polygons.
    """

    open: Callable[[Annotations], AnnotationReader]
    in_folder: bool | None
    several: bool = False
    fractions: bool = False
    polygons: bool = False


def _open_coco(given: Annotations) -> AnnotationReader:
    files = [file for place in given.places for file in coco_files(place)]
    return read_coco(files, segmentation=given.segmentation, image_ids=given.image_ids)


def _open_voc(given: Annotations) -> AnnotationReader:
    return open_voc(given.places[0])


def _open_yolo(given: Annotations) -> AnnotationReader:
    return open_yolo(given.places[0], given.classes, polygons=given.polygons)


def _open_labelme(given: Annotations) -> AnnotationReader:
    return open_labelme(given.places[0], polygons=given.polygons)


def _open_flags(given: Annotations) -> AnnotationReader:
    return read_flags(given.places[0])


def _open_dota(given: Annotations) -> AnnotationReader:
    return open_dota(given.places[0], polygons=given.polygons)


def _open_cvat(given: Annotations) -> AnnotationReader:
    return read_cvat(given.places[0], polygons=given.polygons)


def _open_hub(given: Annotations) -> AnnotationReader:
    return read_metadata(given.places, given.classes)


def _open_csv(given: Annotations) -> AnnotationReader:
    fractions = given.units == "fractions"
    files = [one for place in given.places for one in box_files(place, decimal=given.decimal)]
    return read_boxes(files, fractions=fractions, decimal=given.decimal)


def _open_captions(given: Annotations) -> AnnotationReader:
    return read_captions(given.places)


_TRAITS: Mapping[AnnotationFormat, _Traits] = {
    "coco": _Traits(_open_coco, in_folder=None, several=True, polygons=True),
    "voc": _Traits(_open_voc, in_folder=True),
    "yolo": _Traits(_open_yolo, in_folder=True, fractions=True, polygons=True),
    "labelme": _Traits(_open_labelme, in_folder=True, polygons=True),
    "flags": _Traits(_open_flags, in_folder=True),
    "dota": _Traits(_open_dota, in_folder=True, polygons=True),
    "cvat": _Traits(_open_cvat, in_folder=None, polygons=True),
    "hub": _Traits(_open_hub, in_folder=None, several=True),
    "csv": _Traits(_open_csv, in_folder=None, several=True),
    "captions": _Traits(_open_captions, in_folder=None, several=True),
}


def guess_format(place: Location) -> AnnotationFormat:
    """Return the format of annotations, by the extension of a file, or of the files in a folder.

    A folder without files of VOC, YOLO and LabelMe may hold files of COCO, the Hugging Face hub or
    CSV. LabelMe's files without any shape are read for their flags.

    Raises:
      ConfigError: no extension is that of annotations, or the folder holds two formats.
    """
    if not place.is_dir():
        found = _EXTENSIONS.get(place.name.rpartition(".")[2].lower())
        may_be = found in ("csv", "hub")
        found = "captions" if may_be and holds_captions(place) else found
    else:
        files = _FolderFiles.of(place)
        found = files.format_per_image(place)
        if found in (None, "labelme") or (found == "yolo" and files.are_prose):
            found = files.format_of_all() or found
        is_prose = found == "yolo" and files.are_prose
        if (is_prose or found is None) and (table := files.table_of_captions) is not None:
            raise ConfigError(
                f"{option_name('annotations', place)}: {table.name} in the folder holds the"
                f" captions of many images: pass {option_name('annotations', table)}"
            )
        if is_prose:
            raise ConfigError(
                f"{option_name('annotations', place)}: .txt files such as {files.texts[0]} hold no"
                f" boxes of YOLO: if they are captions, {option_name('captions_from')} .txt"
                f" reads them beside the images of {option_name('input')}"
            )
    if found is None:
        raise ConfigError(
            f"{option_name('annotations', place)}: expected a .json, .jsonl, .xml, .csv or .txt"
            " file, or a folder of such files; name the format with"
            f" {option_name('annotation_format')}"
        )
    return found


class _FolderFiles(NamedTuple):
    """Files in a folder that may hold annotations.

    Attributes:
      counts: Number of files with the annotations of an image, by format.
      xml: The first XML file of them.
      texts: The first .txt files of them.
      documents: JSON files.
      tables: CSV files.
      metadata: The first file of metadata of the hub.
    """

    counts: Counter[AnnotationFormat]
    xml: Location | None
    texts: Sequence[Location]
    documents: Sequence[Location]
    tables: Sequence[Location]
    metadata: Location | None

    @classmethod
    def of(cls, folder: Location) -> _FolderFiles:
        """List a folder."""
        counts: Counter[AnnotationFormat] = Counter()
        by_end: dict[str, list[Location]] = {"xml": [], "txt": [], "json": [], "csv": []}
        metadata: Location | None = None
        json_files = 0
        for finding in walk(folder, skipped_among_media, depth=1):
            if not isinstance(finding, File):
                continue
            name = finding.key.rpartition("/")[2]
            by_name = format_by_key(finding.key)
            counts.update([] if by_name is None else [by_name])
            if metadata is None and name in METADATA:
                metadata = Location.parse(finding.path)
            end = name.rpartition(".")[2].lower()
            json_files += end == "json"
            is_other = by_name is None and end in ("xml", "txt")
            if end in by_end and len(by_end[end]) < _LOOKED_AT and not is_other:
                by_end[end].append(Location.parse(finding.path))
        if counts and any(map(labelme_content, by_end["json"][:_FEW_TEXTS])):
            counts["labelme"] = json_files
        return cls(
            counts=counts,
            xml=next(iter(by_end["xml"]), None),
            texts=by_end["txt"][:_FEW_TEXTS],
            documents=by_end["json"],
            tables=by_end["csv"],
            metadata=metadata,
        )

    @property
    def are_prose(self) -> bool:
        """True if the texts are not of YOLO."""
        return all(map(_is_prose, self.texts))

    @property
    def table_of_captions(self) -> Location | None:
        """The first table of captions."""
        return next(filter(holds_captions, (*self.tables, *self.texts)), None)

    def format_per_image(self, folder: Location) -> AnnotationFormat | None:
        """Return the format of the files with the annotations of an image; None without any.

        Raises:
          ConfigError: They have two formats.
        """
        counts = self.counts
        if len(counts) > 1 and "yolo" in counts and self.are_prose:
            counts = Counter({name: count for name, count in counts.items() if name != "yolo"})
        if not counts:
            return None
        (most, count), *others = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        if others and others[0][1] > count * _OTHERS:
            names = [most, *(name for name, _ in others)]
            held = [f"{counts[name]} {_ENDS[name]}" for name in names]
            raise ConfigError(
                f"{option_name('annotations', folder)}: the folder holds"
                f" {', '.join(held[:-1])} and {held[-1]} files: name the format with"
                f" {option_name('annotation_format')}, {', '.join(names[:-1])} or {names[-1]}"
            )
        if most == "yolo":
            return "dota" if any(map(is_dota, self.texts)) else most
        return "cvat" if self.xml is not None and is_cvat(self.xml) else most

    def format_of_all(self) -> AnnotationFormat | None:
        """Return the format of the files with the annotations of many images, or of LabelMe."""
        flagged = []
        for document in self.documents:
            if is_coco(document):
                return "coco"
            content = labelme_content(document)
            if content == "shapes":
                return "labelme"
            flagged += [] if content is None else [content == "flags"]
        if flagged:
            return "flags" if any(flagged) else "labelme"
        if self.metadata is not None and holds_captions(self.metadata):
            return "captions"
        if self.metadata is not None and self.metadata.name == NAME:
            return "hub"
        return "csv" if any(map(holds_boxes, self.tables)) else None


def _is_prose(file: Location) -> bool:
    """Return whether a text begins with a word instead of a number, unlike files of YOLO."""
    with file.open_input() as data:
        head = data.read(HEAD)
    if identify(head) is not None:  # the reader names the content
        return False
    words = head[:_WORD].decode("utf-8", "replace").split()
    return bool(words) and not words[0][0].isdigit() and words[0][0] not in "+-."
