"""Boxes in tables that hold images, as on the Hugging Face hub.

A column `objects` has lists of `bbox` (x, y, width, height in pixels) and of categories.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.format.class_names import class_order
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.transforms.model.annotations import (
    OBJECTS,
    SIDES,
    SIDES_FIELD,
    ObjectCollector,
    objects_field,
)
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.annotations.annotated_files import AnnotatedRows
from recordmill.transforms.sources.annotations.formats.annotation_files import is_digits
from recordmill.transforms.sources.annotations.formats.hub_metadata import (
    CATEGORIES,
    number_notes,
    parse_objects,
)
from recordmill.transforms.sources.annotations.object_labels import ObjectLabels, ObjectRules
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.row_formats.columnar.columnar import ColumnarFile
from recordmill.transforms.sources.row_formats.reading.row_file import RowFile
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.rows.columns.hub_features import features_of
from recordmill.transforms.sources.rows.columns.record_columns import InvalidRows

NAME = "objects"
_SCHEMA = pa.schema([objects_field(), SIDES_FIELD])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectColumns:
    """The column `objects` of a table.

    Attributes:
      columns: Columns to read: `objects`, a list of structs, or lists in a struct.
      names: Names of the categories by their numbers; None if neither an option nor the metadata
        of the table names them.
      given: Whether an option names them.
      numbered: Whether categories are numbers.
      rules: For images with objects.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...] | None = None
    numbered: bool = dataclasses.field(default=False, compare=False)
    given: bool = False
    rules: ObjectRules = ObjectRules()  # noqa: RUF009, it is frozen

    def __post_init__(self) -> None:
        if self.rules.need_counts or self.rules.image_class is not None:
            raise ConfigError(
                f"{option_name('image_class')}, {option_name('balance')} and"
                f" {option_name('stratify')} need the boxes before the images are read, and those"
                f" of the input are in the column {NAME!r} of tables: write them to a"
                f" metadata.jsonl beside image files, and pass it as {option_name('annotations')};"
                " or leave these options out"
            )

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns that `read` returns."""
        return _SCHEMA

    def check(self, key: str, file: RowFile) -> None:
        """Check that a further file has the same columns, and the same names of categories.

        Raises:
          ConfigError: They differ.
        """
        names = self.names if self.given else None
        if object_columns(file, names, self.rules) != self:
            raise ConfigError(
                f"the boxes in column {NAME!r} of {key} have another form, or other names of"
                " categories in the metadata, than those of the first file: make a dataset of each,"
                f" or name the categories with {option_name('labels_file')}"
            )

    def fields(self, types: ColumnTypes) -> list[pa.Field]:
        """Return the fields to read. types: of the columns of the files."""
        return [types[name].field(name) for name in self.columns if name in types]

    def read(self, rows: pa.RecordBatch) -> tuple[list[pa.Array], InvalidRows]:
        """Return the annotations of rows, and the rows to reject."""
        problems: dict[int, str] = {}
        objects = ObjectCollector()
        for row, given in enumerate(self._values(rows)):
            try:
                found = parse_objects(given, self.names)
            except ValueError as error:
                problems[row] = f"column {NAME!r}: {error}"
                continue
            for corners, label in found:
                objects.add(row, corners, label)
        wrong = np.zeros(len(rows), np.bool_)
        wrong[[*problems]] = True
        columns = [objects.column(len(rows)), pa.nulls(len(rows), SIDES_FIELD.type)]
        return columns, InvalidRows(wrong, lambda row: RejectCause(Reason.BAD_VALUE, problems[row]))

    def _values(self, rows: pa.RecordBatch) -> Iterator[object]:
        """Yield the objects of each row."""
        lists = {name.removeprefix(f"{NAME}."): rows[name].to_pylist() for name in self.columns}
        if NAME in lists:
            yield from lists[NAME]
            return
        for values in zip(*lists.values(), strict=True):
            found = dict(zip(lists, values, strict=True))
            yield None if None in values else found

    def classes(self, found: set[str]) -> tuple[str, ...]:
        """Return the classes in the order of their numbers. found: those of the objects."""
        labels = ObjectLabels(self.rules)
        return labels.classes(self.names or tuple(class_order(found)))

    def notes(self, found: set[str]) -> list[Note]:
        """Return a note on numbers without names. found: classes of the objects."""
        numbers = [int(name) for name in found if is_digits(name)] if self.numbered else []
        return number_notes(self.names, numbers)

    def apply(self, rows: pa.RecordBatch) -> Iterator[ListingPart]:
        """Yield rows with the columns of `read`, by the rules."""
        held = [OBJECTS, SIDES]
        blank = np.zeros(len(rows), np.bool_)
        joined = AnnotatedRows(rows.drop_columns(held), rows.select(held), blank=blank)
        for part in joined.parts(ObjectLabels(self.rules), "keep", lambda _: "", keep=""):
            some = None if part.rows is None else part.rows.select(rows.schema.names)
            yield dataclasses.replace(part, rows=some)


def object_columns(
    file: RowFile, names: Sequence[str] | None, rules: ObjectRules
) -> ObjectColumns | None:
    """Return the columns of boxes of a table; None without any.

    Args:
      file: The first table of the input.
      names: Names of the categories, if an option gives them.
      rules: For images with objects.
    """
    if not isinstance(file, ColumnarFile):
        return None
    schema = file.arrow_schema
    if NAME not in schema.names:
        return None
    kind = schema.field(NAME).type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    kind = kind.value_type if is_list else kind
    if not pa.types.is_struct(kind):
        return None
    members = [field.name for field in kind]
    category = next((name for name in CATEGORIES if name in members), None)
    if "bbox" not in members or category is None:
        return None
    columns = (NAME,) if is_list else (f"{NAME}.bbox", f"{NAME}.{category}")
    given = names is not None
    if names is None:
        names = next(_names_of(features_of(schema).get(NAME), category), None)
    known = None if names is None else tuple(names)
    values = kind.field(category).type
    while pa.types.is_list(values) or pa.types.is_large_list(values):
        values = values.value_type
    numbered = pa.types.is_integer(values)
    return ObjectColumns(columns=columns, names=known, given=given, numbered=numbered, rules=rules)


def _names_of(feature: object, category: str, *, inside: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield the names of a ClassLabel in the feature of a category."""
    if isinstance(feature, list):
        for one in feature:
            yield from _names_of(one, category, inside=inside)
    if not isinstance(feature, Mapping):
        return
    names = feature.get("names")
    if inside and feature.get("_type") == "ClassLabel" and isinstance(names, list):
        yield tuple(map(str, names))
    for name, one in feature.items():
        yield from _names_of(one, category, inside=inside or name == category)
