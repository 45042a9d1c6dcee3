"""Reading of a label column: as classes, as numbers to predict, or as a column like any other."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.input_facts import ColumnRoles
from recordmill.option_names import option_name
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.values.odd_values import LIST
from recordmill.transforms.sources.row_formats.values.text_columns import as_text
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser
from recordmill.transforms.sources.rows.reading.row_sections import LabelColumn


def with_several(
    roles: ColumnRoles, column_types: ColumnTypes, separator: str | None, *, where: str
) -> ColumnRoles:
    """Return the roles for a label column that may hold several labels: lists, or separated texts.

    column_types: of the columns. separator: of --label-separator. where: the input, for messages.

    Raises:
      ConfigError: the items of the lists are not labels, some values are not lists, or there is
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
