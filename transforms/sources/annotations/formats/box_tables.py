"""Annotations in CSV files with a box per row: image, class and corners, found by column name."""

from __future__ import annotations

import csv
import functools
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
    SIDES_FIELD,
    Corners,
    ObjectCollector,
    count_unread,
    objects_field,
    sides_array,
)
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.sources.annotations.formats.annotation_files import (
    files_of,
    fractions_message,
    is_out_of_range,
    parse_numbers,
    parse_sides,
)
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationTable
from recordmill.transforms.sources.annotations.formats.named_images import (
    SPLIT,
    NamedImages,
    NamingFile,
    naming_files,
    unread_splits,
)
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
    SPLIT: (SPLIT,),
}
# Names of columns that are read, or that only number rows, images and classes.
_KNOWN = frozenset(itertools.chain(*_COLUMNS.values())).union(
    ("id", "image_id", "class_id", "category_id", "label_id", "area", "unnamed: 0", SPLIT)
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


def box_files(place: Location, *, decimal: str = ".") -> list[Location]:
    """Return a file, or the CSV files of boxes in a folder and those below it.

    Raises:
      ConfigError: There are none.
    """
    holds = functools.partial(holds_boxes, decimal=decimal)
    return files_of(place, ".csv", holds=holds, noun="CSV file of boxes")


def holds_boxes(file: Location, decimal: str = ".") -> bool:
    """Return whether the first line of a table has the columns of boxes."""
    with file.open_input() as data:
        first = data.read(_LONGEST_HEADER).decode("utf-8-sig", "replace").partition("\n")[0]
    return _delimiter_of(first, decimal) is not None


def read_boxes(
    files: Sequence[Location], *, fractions: bool = False, decimal: str = "."
) -> AnnotationTable:
    """Read and merge CSV files of boxes. Commas, semicolons or tabs separate their columns.

    fractions: whether corners are fractions of width and height instead of pixels. decimal: the
    decimal separator.

    Raises:
      ConfigError: a file is not such a CSV, or all corners in pixels are at most 1.
    """
    reader = _BoxTables(fractions=fractions, decimal=decimal)
    for file in naming_files(files, reader.names_in):
        reader.read(file)
    return reader.result(files)


class _BoxTables:
    """Accumulates the rows of all files."""

    def __init__(self, *, fractions: bool, decimal: str) -> None:
        self._fractions, self._decimal = fractions, decimal
        self._objects = ObjectCollector()
        self._images = NamedImages()
        self._sides: list[tuple[int, int] | None] = []
        self._faults: dict[int, str] = {}
        self._rejects: list[Reject] = []
        self._by_stem = False
        self._unread = LeftUnread()
        self._notes: list[str] = []
        self._divided: Location | None = None  # the first file with a column of splits
        self._rows = 0

    def names_in(self, file: Location) -> Iterator[str]:
        """Yield the names of images in a file."""
        return (row["image"] for _, row, _ in _rows(file, [], self._decimal))

    def read(self, file: NamingFile) -> None:
        """Read a file. Raises ConfigError if it is not a CSV of boxes."""
        named = False
        self._objects.begin()
        for number, row, others in _rows(file.place, self._notes, self._decimal):
            if not row["image"]:
                why = f"row {number}: names no image"
                reject = Reject(f"{file.shown}#{number}", "read", Reason.BAD_VALUE, why)
                self._rejects.append(reject)
                continue
            named = True
            self._rows += 1
            if row[SPLIT] and self._divided is None:
                self._divided = file.place
            self._by_stem = self._by_stem or row["by_stem"] != ""
            at = self._images.index(row["image"], file, f"{file.place}: row {number}")
            if at == len(self._sides):
                self._sides.append(parse_sides(row["width"], row["height"]))
            if not row["class"] and not any(row[corner] for corner in _CORNERS):
                continue  # an image without boxes
            try:
                corners = self._corners(row, number)
            except ValueError as error:
                hint = next(filter(None, map(decimal_hint, self._given(row))), "")
                self._faults.setdefault(at, f"{file.shown}: {error}{hint}")
                continue
            self._objects.add(at, corners, row["class"])
            if others:
                count_unread(self._unread, others, such_as=f"one of {row['image']}")
        if not named:
            raise ConfigError(
                f"{option_name('annotations')}: {file.place} has no row that names an image"
            )

    def _unread_splits(self) -> str:
        has_rows = self._rows == len(self._images.names)
        return unread_splits(self._divided, has_rows=has_rows) if self._divided else ""

    def _given(self, row: Mapping[str, str]) -> list[str]:
        """Return the corners in a row, with decimal points."""
        return [row[corner].replace(self._decimal, ".") for corner in _CORNERS]

    def _corners(self, row: Mapping[str, str], number: int) -> Corners:
        """Return the corners of a box. Raises ValueError."""
        given = self._given(row)
        what = f"row {number}: four {'fractions' if self._fractions else 'numbers'}"
        left, top, right, bottom = parse_numbers(given, what)
        if self._fractions and is_out_of_range((left, top, right, bottom)):
            raise ValueError(fractions_message(what, given))
        if right < left or bottom < top:
            raise ValueError(
                f"row {number}: the box has a maximum below its minimum: {', '.join(given)}"
            )
        if not row["class"] or len(row["class"].splitlines()) > 1:
            raise ValueError(f"row {number}: expected a class of one line")
        return left, top, right, bottom

    def result(self, files: Sequence[Location]) -> AnnotationTable:
        """Return the annotations of all files. Raises ConfigError for units that do not fit."""
        objects = self._objects
        if not self._fractions and objects.corners and not is_out_of_range(objects.corners):
            where, *more = map(str, files)
            has = f"{', '.join([where, *more])} {'have' if more else 'has'}"
            raise ConfigError(
                f"{option_name('annotations')}: {has} no corner above 1, so corners are probably"
                f" fractions: pass {option_name('box_units', 'fractions')}"
            )
        renames = LabelSpelling().add(pa.array(objects.classes, pa.string())).renames()
        objects.classes[:] = [renames.get(name) or name for name in objects.classes]
        columns = [sides_array(self._sides), objects.column(len(self._images.names))]
        notes = self._images.doubled_notes(objects.of_several_files())
        return AnnotationTable(
            names=self._images.names,
            table=pa.record_batch(columns, schema=pa.schema([SIDES_FIELD, objects_field()])),
            faults=self._faults,
            classes=tuple(class_order(set(objects.classes))),
            rejects=self._rejects,
            notes=[*dict.fromkeys(self._notes), *notes, *self._unread.notes()],
            unread_splits=self._unread_splits(),
            by_stem=self._by_stem,
            sources=self._images.sources,
            splits=self._images.splits,
            shared=self._images.shared,
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
            delimiter = _delimiter_of(first, decimal) or ","
            reader = csv.reader(itertools.chain([first], text), delimiter=delimiter, strict=True)
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
                    f" has {shown or 'none'}; a table of captions has columns such as image and"
                    " caption"
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


def _delimiter_of(first: str, decimal: str) -> str | None:
    """Return the delimiter with which the first line has the columns of boxes, None without."""
    for one in DELIMITERS:
        cells = [cell.strip() for cell in next(csv.reader([first], delimiter=one), [])]
        places = _places([cell.lower() for cell in cells])
        named = all(places[meant] is not None for meant in _WANTED)
        if named or _order_of(cells, decimal) is not None:
            return one
    return None
