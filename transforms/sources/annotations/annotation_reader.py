"""Opening of annotations in any supported format."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Literal, get_args

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.sources.annotations.annotation_files import (
    format_by_name,
    open_voc,
    open_yolo,
)
from recordmill.transforms.sources.annotations.annotation_table import AnnotationReader
from recordmill.transforms.sources.annotations.box_tables import read_boxes
from recordmill.transforms.sources.annotations.coco import read_coco
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, walk

AnnotationFormat = Literal["auto", "coco", "voc", "yolo", "csv"]
_OTHERS = 0.1  # largest ratio of files of another format, such as texts, to annotations
_EXTENSIONS: dict[str, AnnotationFormat] = {
    "json": "coco",
    "csv": "csv",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotations:
    """Location and format of annotations; calling it opens them.

    places: files of COCO, or one CSV file, or one folder of VOC or YOLO files.
    segmentation: whether to keep segmentations.
    units: of the corners in a CSV file. decimal: decimal separator of such a file.
    classes: of YOLO, in the order of their numbers, if no file in the folder names them.
    image_ids: whether to keep COCO's ids of images.
    """

    places: tuple[Location, ...]
    format: AnnotationFormat = "auto"
    segmentation: bool = True
    units: Literal["pixels", "fractions"] = "pixels"
    decimal: str = "."
    classes: tuple[str, ...] | None = None
    image_ids: bool = False

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

    @property
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
        return found == "yolo" or self.units == "fractions"

    def __call__(self) -> AnnotationReader:
        """Open the annotations. Raises ConfigError if they cannot be parsed."""
        found = self.resolved_format
        if self.decimal != "." and found != "csv":
            raise ConfigError(
                f"{option_name('decimal', self.decimal)}: applies to CSV, and"
                f" {option_name('annotations')} are of {found}: leave the option out"
            )
        if found == "coco":
            return read_coco(self.places, segmentation=self.segmentation, image_ids=self.image_ids)
        if len(self.places) > 1:
            raise ConfigError(
                f"{option_name('annotations')}: expected one path for {found}, got"
                f" {len(self.places)}"
            )
        (place,) = self.places
        if place.is_dir() != (found in ("voc", "yolo")):
            what = "a folder" if found in ("voc", "yolo") else "a file"
            raise ConfigError(
                f"{option_name('annotations')}: expected {what} of {found}, got {place}"
            )
        if found == "csv":
            return read_boxes(place, fractions=self.units == "fractions", decimal=self.decimal)
        return open_voc(place) if found == "voc" else open_yolo(place, self.classes)


def guess_format(place: Location) -> AnnotationFormat:
    """Return the format of annotations, by the extension of a file, or of the files in a folder.

    Raises:
      ConfigError: no extension is that of annotations, or the folder holds two formats.
    """
    if not place.is_dir():
        found = _EXTENSIONS.get(place.name.rpartition(".")[2].lower())
        if found is not None:
            return found
    else:
        counts: Counter[AnnotationFormat] = Counter()
        for finding in walk(place, skipped_among_media, depth=1):
            if isinstance(finding, File):
                by_name = format_by_name(finding.key.rpartition("/")[2])
                counts.update([] if by_name is None else [by_name])
        if counts:
            (most, count), *others = counts.most_common()
            if others and others[0][1] > count * _OTHERS:
                raise ConfigError(
                    f"{option_name('annotations', place)}: the folder holds {counts['voc']} .xml"
                    f" and {counts['yolo']} .txt files: name the format with"
                    f" {option_name('annotation_format')}, voc or yolo"
                )
            return most
    raise ConfigError(
        f"{option_name('annotations', place)}: expected a .json or .csv file, or a folder of .xml"
        f" or .txt files; name the format with {option_name('annotation_format')}"
    )
