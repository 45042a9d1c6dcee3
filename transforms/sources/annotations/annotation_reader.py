"""Annotations of any format, opened as what they are."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from recordmill.errors import ConfigError
from recordmill.storage.files import Location
from recordmill.transforms.model.annotations import AnnotationReader
from recordmill.transforms.sources.annotations.annotation_files import open_voc, open_yolo
from recordmill.transforms.sources.annotations.box_tables import read_boxes
from recordmill.transforms.sources.annotations.coco import read_coco
from recordmill.transforms.sources.files.folders import filtered_by
from recordmill.transforms.sources.files.walks import File, walk

Format = Literal["auto", "coco", "voc", "yolo", "csv"]
_EXTENSIONS: dict[str, Format] = {"json": "coco", "csv": "csv", "xml": "voc", "txt": "yolo"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotations:
    """Where annotations are, and what they are.

    segmentation: whether to keep it. units: of the corners in a CSV file. classes: of YOLO, in the
    order of their numbers, where no file beside it names them.
    """

    places: tuple[Location, ...]
    format: Format = "auto"
    segmentation: bool = True
    units: Literal["pixels", "fractions"] = "pixels"
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise ConfigError(
                f"--annotation-format: expected one of {', '.join(get_args(Format))}, got"
                f" {self.format!r}"
            )

    @property
    def what(self) -> Format:
        """Their format. Raises ConfigError where it cannot be told."""
        for place in self.places:
            if not place.exists():
                raise ConfigError(f"--annotations: {place} is not there: check the path")
        return self.format if self.format != "auto" else guess(self.places[0])

    @property
    def has_fractions(self) -> bool:
        """Whether corners are fractions of the sides. Raises ConfigError, as `what`."""
        found = self.what
        if self.units == "fractions" and found != "csv":
            raise ConfigError(f"--box-units: {found} says what its corners are: leave it out")
        return found == "yolo" or self.units == "fractions"

    def __call__(self) -> AnnotationReader:
        """Opens them. Raises ConfigError where they cannot be understood."""
        found = self.what
        if found == "coco":
            return read_coco(self.places, segmentation=self.segmentation)
        if len(self.places) > 1:
            raise ConfigError(f"--annotations: expected one place for {found}, got several")
        (place,) = self.places
        if place.is_dir() != (found in ("voc", "yolo")):
            what = "a folder" if found in ("voc", "yolo") else "a file"
            raise ConfigError(f"--annotations: expected {what} of {found}, got {place}")
        if found == "csv":
            return read_boxes(place, fractions=self.units == "fractions")
        return open_voc(place) if found == "voc" else open_yolo(place, self.classes)


def guess(place: Location) -> Format:
    """What annotations are, by the extension of the file, or of the first in a folder.

    Raises ConfigError where that tells nothing.
    """
    if not place.is_dir():
        found = _EXTENSIONS.get(place.name.rpartition(".")[2].lower())
        if found in ("coco", "csv"):
            return found
    else:
        for finding in walk(place, filtered_by, depth=1):
            extension = finding.key.rpartition(".")[2].lower() if isinstance(finding, File) else ""
            if extension in ("xml", "txt"):
                return _EXTENSIONS[extension]
    raise ConfigError(
        f"--annotations {place}: expected a .json or .csv file, or a folder of .xml or .txt files;"
        " say what it is with --annotation-format"
    )
