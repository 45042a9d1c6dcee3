"""Reading of a label column: as classes, as numbers to predict, or as a column like any other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.job.input_facts import ColumnRoles
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.files.number_labels import (
    NUMBERS,
    LabelType,
    beyond_float32,
)
from recordmill.transforms.sources.files.references import Unlabelled, no_label
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.odd_values import LIST
from recordmill.transforms.sources.row_formats.row_file import Rows
from recordmill.transforms.sources.row_formats.text_columns import as_text
from recordmill.transforms.sources.row_formats.value_parsing import ValueParser, type_mismatch
from recordmill.transforms.sources.rows.record_columns import (
    InvalidRows,
    is_null,
    place_of_values,
    user_field,
)
from recordmill.transforms.sources.rows.row_sections import LabelColumn


def with_target(roles: ColumnRoles, label_type: LabelType | None, *, where: str) -> ColumnRoles:
    """Return the roles with the label column as `label_type` reads it; None reads classes.

    where: the input, for messages.

    Raises:
      ConfigError: there is no label column to read numbers from.
    """
    if label_type in (None, "class"):
        return roles
    if label_type == "none":
        return dataclasses.replace(roles, label=None)
    if roles.label is None:
        raise ConfigError(
            f"{option_name('label_type', label_type)}: no label column was found in {where}: name"
            f" it with {option_name('label_column')}"
        )
    return dataclasses.replace(roles, label=None, target=roles.label)


def with_several(
    roles: ColumnRoles, column_types: ColumnTypes, separator: str | None, *, where: str
) -> ColumnRoles:
    """Return the roles for a label column that may hold several labels: lists, or separated texts.

    column_types: of the columns. separator: of --label-separator. where: the input, for messages.

    Raises:
      ConfigError: the items of the lists are no labels, few values are no lists, or there is
        nothing to separate.
    """
    if roles.label is None:
        if separator is not None:
            raise ConfigError(
                f"{option_name('label_separator', separator)}: no column of classes was found in"
                f" {where}: name it with {option_name('label_column')}"
            )
        return roles
    kind = column_types[roles.label].field(roles.label).type
    if not is_list(kind):
        odd = column_types[roles.label].odd
        if odd is not None and odd.kind == LIST:
            raise ConfigError(
                f"most values of the label column {roles.label!r} of {where} are lists, but not"
                f" {odd.value!r} in {odd.file}#{odd.row}: write each value as a list of labels"
            )
        return dataclasses.replace(roles, separator=separator)
    if separator is not None:
        raise ConfigError(
            f"{option_name('label_separator', separator)}: the column {roles.label!r} of {where}"
            f" has lists already ({kind}): leave the option out"
        )
    as_text(pa.array([], kind.value_type), roles.label)
    return dataclasses.replace(roles, label=None, labels=roles.label)


def untyped_label(header: ColumnTypes, roles: ColumnRoles, decimal: str) -> LabelColumn | None:
    """Return the column of classes if the files do not declare its type; None otherwise.

    decimal: the decimal separator.
    """
    if roles.label is None or header[roles.label].types:
        return None
    return LabelColumn(roles.label, LabelSpelling(decimal=decimal, separator=roles.separator))


def with_spelling(
    roles: ColumnRoles, spelling: LabelSpelling | None, value_parser: ValueParser
) -> ColumnRoles:
    """Return the roles with the spelling of labels. spelling: None if labels have a type."""
    if roles.classes is None:
        return roles
    missing = value_parser.spellings(roles.classes)
    renames = (spelling or LabelSpelling()).renames(missing)
    return dataclasses.replace(roles, renames=tuple(renames.items()))


def holds_values(roles: ColumnRoles, column_types: ColumnTypes) -> bool:
    """Return whether the labels are numbers or booleans, by the type or the texts of the column."""
    if roles.classes is None:
        return False
    found = column_types[roles.classes]
    if found.labels is not None:
        return found.labels.of_values
    kind = found.field(roles.classes).type
    kind = kind.value_type if is_list(kind) else kind
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(numeric or pa.types.is_boolean(kind))


def number_field(
    field: pa.Field, label_type: LabelType | None, *, unlabelled: Unlabelled, where: str
) -> pa.Field:
    """Return the field of a column of numbers to predict, given its field in the input.

    unlabelled: whether rows without a number are kept. where: the input, for messages.

    Raises:
      ConfigError: values of its type are not numbers.
    """
    kind = NUMBERS[str(label_type)]
    try:
        pa.array([], field.type).cast(kind)
    except pa.ArrowNotImplementedError as error:
        raise ConfigError(
            f"{option_name('label_type', label_type)}: the column {field.name!r} has type"
            f" {field.type} in {where}, which holds no numbers: name another one with"
            f" {option_name('label_column')}"
        ) from error
    nullable = field.nullable and unlabelled == "keep"
    return user_field(field.with_type(kind).with_nullable(nullable))


def read_numbers(
    rows: Rows, name: str, label_type: LabelType | None, value_parser: ValueParser
) -> Rows:
    """Return rows with a column as numbers, null if missing; rows of other values are rejected."""
    kind = NUMBERS[str(label_type)]
    column = value_parser.mask_missing(name, rows.columns[name])
    values, unfit = value_parser.cast_or_null(column, kind)
    misfits = {
        row: type_mismatch(name, kind, column[row].as_py())
        for row in np.flatnonzero(unfit).tolist()
    }
    values = value_parser.mask_missing(name, values)
    return rows.replace(batch.set_column(rows.columns, name, values), misfits)


def rows_without_number(rows: Rows, name: str) -> InvalidRows:
    """Return the rows without a number in the column of numbers to predict."""

    def missing(row: int) -> RejectCause:
        return no_label(f"a number in {place_of_values(name)}, row {rows.numbers[row]}")

    return InvalidRows(is_null(rows.columns[name]), missing)


def rows_out_of_range(rows: Rows, name: str) -> InvalidRows:
    """Return the rows with a number to predict that float32 cannot hold."""
    values = rows.columns[name]

    def too_large(row: int) -> RejectCause:
        number = values[row].as_py()
        detail = f"row {rows.numbers[row]}: column {name!r}: {number:g} is not a finite float32"
        return RejectCause(Reason.BAD_VALUE, detail)

    return InvalidRows(beyond_float32(values), too_large)
