"""Annotations in a CSV file with a box per row: image, class and corners, found by column name."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.format.class_names import class_order
from recordmill.notes import LeftUnread
from recordmill.option_files import DELIMITERS
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model.annotations import (
    OBJECTS,
    SIDES,
    SIDES_FIELD,
    ObjectCollector,
    count_unread,
    objects_field,
    sides_array,
)
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.sources.annotations.annotation_files import (
    fractions_message,
    is_out_of_range,
    parse_numbers,
    parse_sides,
)
from recordmill.transforms.sources.annotations.annotation_table import AnnotationTable
from recordmill.transforms.sources.row_formats.values.value_parsing import decimal_hint

# Usual names of the columns, in lower case, the most usual first.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "image": ("filename", "file_name", "image", "path", "file", "image_path", "imageid"),
    "class": ("class", "label", "labelname", "category"),
    "xmin": ("xmin", "x1", "x_min", "left"),
    "ymin": ("ymin", "y1", "y_min", "top"),
    "xmax": ("xmax", "x2", "x_max", "right"),
    "ymax": ("ymax", "y2", "y_max", "bottom"),
    "width": ("width", "image_width"),
    "height": ("height", "image_height"),
}
# Names of columns that are read, or that only number rows, images and classes.
_KNOWN = frozenset(itertools.chain(*_COLUMNS.values())).union(
    ("id", "image_id", "class_id", "category_id", "label_id", "area", "unnamed: 0")
)
_NOTHING = ("", "0", "0.0", "false")  # values that do not count as unread
_SHOWN = 100  # characters of a header in a message
_LONGEST_HEADER = 1 << 20  # characters
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_WANTED = ("image", "class", *_CORNERS)


def read_boxes(file: Location, *, fractions: bool = False, decimal: str = ".") -> AnnotationTable:
    """Read a CSV file of boxes. Commas, semicolons or tabs separate its columns.

    fractions: whether corners are fractions of width and height instead of pixels. decimal: the
    decimal separator.

    Raises:
      ConfigError: the file is not such a CSV, or all corners in pixels are at most 1.
    """
    objects = ObjectCollector()
    images: dict[str, int] = {}
    sides: list[tuple[int, int] | None] = []
    faults: dict[int, str] = {}
    rejects: list[Reject] = []
    by_stem = False
    unread = LeftUnread()
    for number, row, others in _rows(file):
        name = row["image"]
        if not name:
            why = f"row {number}: names no image"
            rejects.append(Reject(f"{file.name}#{number}", "read", Reason.BAD_VALUE, why))
            continue
        by_stem = by_stem or row["by_stem"] != ""
        at = images.setdefault(name, len(images))
        if at == len(sides):
            sides.append(parse_sides(row["width"], row["height"]))
        written = [row[corner] for corner in _CORNERS]
        given = written if decimal == "." else [text.replace(decimal, ".") for text in written]
        if not row["class"] and not any(given):
            continue  # an image without boxes
        try:
            what = f"row {number}: four {'fractions' if fractions else 'numbers'}"
            left, top, right, bottom = parse_numbers(given, what)
            if fractions and is_out_of_range((left, top, right, bottom)):
                raise ValueError(fractions_message(what, given))
            if right < left or bottom < top:
                raise ValueError(
                    f"row {number}: the box has a maximum below its minimum: {', '.join(given)}"
                )
            if not row["class"] or len(row["class"].splitlines()) > 1:
                raise ValueError(f"row {number}: expected a class of one line")
        except ValueError as error:
            hint = next(filter(None, map(decimal_hint, given)), "")
            faults.setdefault(at, f"{file.name}: {error}{hint}")
            continue
        objects.add(at, (left, top, right, bottom), row["class"])
        if others:
            count_unread(unread, others, such_as=f"one of {name}")
    if not images:
        raise ConfigError(f"{option_name('annotations')}: {file} has no row that names an image")
    if not fractions and objects.corners and not is_out_of_range(objects.corners):
        raise ConfigError(
            f"{option_name('annotations')}: {file} has no corner above 1, so corners are probably"
            f" fractions: pass {option_name('box_units', 'fractions')}"
        )
    renames = LabelSpelling().add(pa.array(objects.classes, pa.string())).renames()
    objects.classes[:] = [renames.get(name) or name for name in objects.classes]
    columns = {SIDES: sides_array(sides), OBJECTS: objects.column(len(images))}
    return AnnotationTable(
        names=list(images),
        table=pa.record_batch(
            list(columns.values()), schema=pa.schema([SIDES_FIELD, objects_field()])
        ),
        faults=faults,
        classes=tuple(class_order(set(objects.classes))),
        rejects=rejects,
        notes=unread.notes(),
        by_stem=by_stem,
    )


def _rows(file: Location) -> Iterator[tuple[int, dict[str, str], dict[str, str]]]:
    """Yield (row number from 1, values by meaning, values of unread columns by name)."""
    with file.open_input() as data, io.TextIOWrapper(data, "utf-8-sig", newline="") as text:
        line = 0
        try:
            first = text.readline(_LONGEST_HEADER)
            reader = csv.reader(
                itertools.chain([first], text), delimiter=_delimiter_of(first), strict=True
            )
            header = [name.strip().lower() for name in next(reader, [])]
            at = _places(header)
            lacking = [_COLUMNS[meant][0] for meant in _WANTED if at[meant] is None]
            if lacking:
                shown = ", ".join(header)
                shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."
                raise ConfigError(
                    f"{option_name('annotations')}: {file} has no column {', '.join(lacking)}; it"
                    f" has {shown or 'none'}"
                )
            others = [
                (name, place) for place, name in enumerate(header) if name and name not in _KNOWN
            ]
            ids = at["image"] is not None and header[at["image"]] == "imageid"
            for number, cells in enumerate(reader, 1):
                line = reader.line_num
                if not cells:
                    continue
                row = {
                    meant: cells[place].strip() if place is not None and place < len(cells) else ""
                    for meant, place in at.items()
                }
                unread = {
                    name: cells[place]
                    for name, place in others
                    if place < len(cells) and cells[place].strip().lower() not in _NOTHING
                }
                yield number, {**row, "by_stem": "yes" if ids else ""}, unread
        except (csv.Error, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{option_name('annotations')}: {file} is not CSV in UTF-8, at line {line + 1}"
            ) from error


def _places(header: Sequence[str]) -> dict[str, int | None]:
    """Return {meaning: index of its column, None without one}."""
    return {
        meant: next((header.index(name) for name in usual if name in header), None)
        for meant, usual in _COLUMNS.items()
    }


def _delimiter_of(first: str) -> str:
    """Return the delimiter with which the first line has the columns of boxes, else a comma."""
    for one in DELIMITERS:
        names = [name.strip().lower() for name in next(csv.reader([first], delimiter=one), [])]
        places = _places(names)
        if all(places[meant] is not None for meant in _WANTED):
            return one
    return ","
