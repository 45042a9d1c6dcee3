"""Annotations of any format, opened as what they are."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.files import Location
from transforms.annotations import Book
from transforms.sources.coco import read_coco

Format = Literal["auto", "coco", "voc", "yolo", "csv"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotations:
    """Where annotations are, and what they are. segmentation: whether to keep it."""

    places: tuple[Location, ...]
    format: Format = "auto"
    segmentation: bool = True

    def __call__(self) -> Book:
        """Opens them. Raises ConfigError where they cannot be understood."""
        for place in self.places:
            if not place.exists():
                raise ConfigError(f"--annotations: {place} is not there: check the path")
        return read_coco(self.places, segmentation=self.segmentation)
