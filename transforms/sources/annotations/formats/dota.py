"""DOTA's txt files: a file per image, whose lines are oriented boxes in pixels.

A line has the x and y of four corners, the name of the class and a difficulty; the first two lines
of a file may describe the image (`imagesource:...`, `gsd:...`).

Source: https://captain-whu.github.io/DOTA/dataset.html.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from recordmill.notes import LeftUnread
from recordmill.storage.files import Location
from recordmill.strict_json import to_text
from recordmill.transforms.model.annotations import DIFFICULT, SEGMENTATION, ObjectCollector
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    AnnotationFolder,
    around,
    list_annotations,
    parse_numbers,
)
from recordmill.transforms.sources.folders.companions import DOTA

_HEAD = 1 << 16  # bytes
_OF_IMAGE = ("imagesource:", "gsd:")
_CORNERS = 8  # numbers of a box
_DIFFICULTIES = ("0", "1", "2")


def is_dota(file: Location) -> bool:
    """Return whether a file begins as one of DOTA."""
    with file.open_input() as data:
        head = data.read(_HEAD)
    return head.startswith(_OF_IMAGE[0].encode()) or DOTA.search(head) is not None


def open_dota(folder: Location, *, polygons: bool) -> DotaReader:
    """List the txt files of a folder. Raises ConfigError if there are none."""
    return DotaReader(**list_annotations(folder, ".txt").arguments, polygons=polygons)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DotaReader(AnnotationFolder):
    """A folder of DOTA's txt files. polygons: whether to keep the corners of oriented boxes."""

    polygons: bool

    @property
    def more(self) -> Sequence[pa.Field]:
        return (DIFFICULT, SEGMENTATION) if self.polygons else (DIFFICULT,)

    def parse(
        self, data: bytes, row: int, objects: ObjectCollector, *, key: str, unread: LeftUnread
    ) -> None:
        try:
            lines = data.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ValueError("not UTF-8") from error
        found = []
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].lower().startswith(_OF_IMAGE):
                continue
            where = f"line {number}"
            if len(words) not in (_CORNERS + 1, _CORNERS + 2):
                raise ValueError(
                    f"{where}: expected x and y of four corners, a class and a difficulty, got"
                    f" {len(words)} words"
                )
            corners = parse_numbers(words[:_CORNERS], f"{where}: x and y of four corners")
            name, difficulty = words[_CORNERS], (*words[_CORNERS + 1 :], "0")[0]
            if difficulty not in _DIFFICULTIES:
                raise ValueError(f"{where}: expected a difficulty of 0, 1 or 2, got {difficulty!r}")
            found.append((corners, name, difficulty != "0"))
        for corners, name, difficult in found:
            text = to_text([corners], compact=True) if self.polygons else None
            objects.add(row, around(corners), name, difficult=difficult, segmentation=text)
            self.seen.add(name)
            if not self.polygons and not _is_upright(corners):
                unread.add("the outlines", "polygon", such_as=f"one in {key}")


def _is_upright(corners: Sequence[float]) -> bool:
    """Return whether four corners are those of a box with horizontal and vertical edges."""
    return len({*corners[::2]}) <= 2 and len({*corners[1::2]}) <= 2
