"""Check of the columns of an input against a schema, before any row is read."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_names import option_name
from recordmill.profile.schema_rules import FLAG, ColumnRules, SchemaRules, StringDomain, Type
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.statistics.column_statistics import type_of
from recordmill.transforms.statistics.dataset_statistics import LABEL

_TYPES: Mapping[str, Type] = {"int": "INT", "float": "FLOAT", "string": "BYTES", "bytes": "BYTES"}


def profiled_fields(layout: Layout, made: pa.Schema | None) -> dict[str, pa.Field]:
    """Return {name: field} of the columns that statistics and schemas cover.

    They are the user's columns, the class, and `made`: columns read from headers of files.

    Raises:
      ConfigError: a column of the user has the name that is reserved for the class.
    """
    users = user_fields(layout.columns)
    fields = {field.name: field for field in [*users, *(made or [])]}
    if layout.labelled:
        if LABEL in fields:
            raise ConfigError(
                f"column {LABEL!r} has the name that is reserved for the class in schemas and"
                f" statistics: rename it, or drop it with {option_name('drop_columns', LABEL)}"
            )
        fields[LABEL] = pa.field(LABEL, pa.string())
    return fields


def check_columns(rules: SchemaRules, layout: Layout, made: pa.Schema | None) -> None:
    """Check that the input has the columns of the schema, with their types.

    Raises:
      ConfigError: a column is missing, unexpected, or of another type.
    """
    fields = profiled_fields(layout, made)
    for name in rules.columns:
        if name not in fields:
            raise ConfigError(
                f"{FLAG}: the input has no column {name!r}{did_you_mean(name, fields)}; it has"
                f" {', '.join(map(repr, fields))}: correct the input, or set lifecycle_stage:"
                " PLANNED for a column that may be missing"
            )
    for field in user_fields(layout.columns):
        if field.name not in rules.columns and field.name not in rules.ignored:
            raise ConfigError(
                f"{FLAG}: the schema has no feature"
                f" {field.name!r}{did_you_mean(field.name, rules.columns)}, which is a column of"
                f" the input: add it, or drop the column with {option_name('drop_columns')}"
            )
    for name, one in rules.columns.items():
        _check_type(one, fields[name].type)


def _check_type(rules: ColumnRules, kind: pa.DataType) -> None:
    found = _TYPES[type_of(kind)]
    # Integers satisfy FLOAT: a column of numbers without decimals is read as integers.
    if rules.type not in (None, found) and (rules.type, found) != ("FLOAT", "INT"):
        raise ConfigError(
            f"{FLAG}: column {rules.name!r} has type {kind}, and the schema says type:"
            f" {rules.type}; expected type: {found} in the schema, or a column of that type"
        )
    if isinstance(rules.domain, StringDomain) and found != "BYTES":
        raise ConfigError(
            f"{FLAG}: column {rules.name!r} has type {kind}, which cannot have a string_domain"
        )
