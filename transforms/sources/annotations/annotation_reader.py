"""Opening of annotations in any supported format."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.sources.annotations.format_detection import (
    AnnotationFormat,
    GuessedFormat,
    guess_format,
)
from recordmill.transforms.sources.annotations.formats.annotation_files import open_voc
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationReader
from recordmill.transforms.sources.annotations.formats.box_tables import box_files, read_boxes
from recordmill.transforms.sources.annotations.formats.captions import read_captions
from recordmill.transforms.sources.annotations.formats.coco import coco_files, read_coco
from recordmill.transforms.sources.annotations.formats.cvat import read_cvat
from recordmill.transforms.sources.annotations.formats.dota import open_dota
from recordmill.transforms.sources.annotations.formats.hub_metadata import read_metadata
from recordmill.transforms.sources.annotations.formats.labelme import open_labelme, read_flags
from recordmill.transforms.sources.annotations.formats.yolo import open_yolo


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

    @property
    def resolved_format(self) -> AnnotationFormat:
        """The format, detected if it is auto. Raises ConfigError as `_guessed`."""
        return self._guessed.format

    @functools.cached_property
    def _guessed(self) -> GuessedFormat:
        """The format, detected if it is auto, and the tables of captions in its folder.

        Raises:
          ConfigError: a place does not exist, or the format cannot be detected.
        """
        for place in self.places:
            if not place.exists():
                raise ConfigError(
                    f"{option_name('annotations')}: {place} does not exist: check the path"
                )
        if self.format != "auto":
            return GuessedFormat(self.format)
        return guess_format(self.places[0])

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
        reader = _TRAITS[found].open(self)
        return dataclasses.replace(reader, notes=[*reader.notes, *self._guessed.notes()])


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
