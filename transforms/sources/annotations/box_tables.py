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
# Columns of files without a header line, as converters write them: those of keras-retinanet and
# those of the TensorFlow Object Detection API.
_ORDERS = (
    ("image", "xmin", "ymin", "xmax", "ymax", "class"),
    ("image", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"),
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
    notes: list[str] = []
    for number, row, others in _rows(file, notes, decimal):
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
        notes=[*notes, *unread.notes()],
        by_stem=by_stem,
    )


def _rows(
    file: Location, notes: list[str], decimal: str
) -> Iterator[tuple[int, dict[str, str], dict[str, str]]]:
    """Yield (row number from 1, values by meaning, values of unread columns by name).

    notes: gets a note if there is no header line. decimal: the decimal separator.
    """
    with file.open_input() as data, io.TextIOWrapper(data, "utf-8-sig", newline="") as text:
        line = 0
        try:
            first = text.readline(_LONGEST_HEADER)
            reader = csv.reader(
                itertools.chain([first], text), delimiter=_delimiter_of(first, decimal), strict=True
            )
            cells = [cell.strip() for cell in next(reader, [])]
            header = [name.lower() for name in cells]
            at = _places(header)
            rows: Iterator[list[str]] = reader
            if (order := _order_of(cells, decimal)) is not None:
                header = [*order]
                at = {meant: order.index(meant) if meant in order else None for meant in _COLUMNS}
                rows = itertools.chain([cells], reader)
                notes.append(f"there is no header line: columns are read as {', '.join(order)}")
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
            for number, cells in enumerate(rows, 1):
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


def _order_of(cells: Sequence[str], decimal: str) -> tuple[str, ...] | None:
    """Return the meanings of the columns if a first line holds values; None if it is a header."""
    for order in _ORDERS:
        if len(cells) != len(order) or not cells[0]:
            continue
        given = [cells[order.index(corner)].replace(decimal, ".") for corner in _CORNERS]
        if not any(cells[1:]):
            return order  # an image without boxes
        try:
            parse_numbers(given, "row 1: corners")
        except ValueError:
            continue
        return order
    return None


def _places(header: Sequence[str]) -> dict[str, int | None]:
    """Return {meaning: index of its column, None without one}."""
    return {
        meant: next((header.index(name) for name in usual if name in header), None)
        for meant, usual in _COLUMNS.items()
    }


def _delimiter_of(first: str, decimal: str) -> str:
    """Return the delimiter with which the first line has the columns of boxes, else a comma."""
    for one in DELIMITERS:
        cells = [cell.strip() for cell in next(csv.reader([first], delimiter=one), [])]
        places = _places([cell.lower() for cell in cells])
        named = all(places[meant] is not None for meant in _WANTED)
        if named or _order_of(cells, decimal) is not None:
            return one
    return ","
