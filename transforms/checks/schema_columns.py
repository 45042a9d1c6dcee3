"""A schema against the columns of an input, before the work."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.profile.schema_rules import FLAG, ColumnRules, SchemaRules, StringDomain, Type
from recordmill.transforms.model.data_type import Layout
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.statistics.column_statistics import type_of
from recordmill.transforms.statistics.dataset_statistics import LABEL

_TYPES: Mapping[str, Type] = {"int": "INT", "float": "FLOAT", "string": "BYTES", "bytes": "BYTES"}


def described_fields(layout: Layout, made: pa.Schema | None) -> dict[str, pa.Field]:
    """What statistics and schemas are about, by name: the user's columns, the class, and what is
    read of files that rows name.

    Raises ConfigError for a user's column that has the name of the class.
    """
    users = user_fields(layout.columns)
    fields = {field.name: field for field in [*users, *(made or [])]}
    if layout.labelled:
        if LABEL in fields:
            raise ConfigError(
                f"column {LABEL!r} has the name that the class has in schemas and statistics:"
                f" rename it, leave it out with --drop-columns {LABEL}, or do without --schema and"
                " --statistics"
            )
        fields[LABEL] = pa.field(LABEL, pa.string())
    return fields


def refuse_columns(rules: SchemaRules, layout: Layout, made: pa.Schema | None) -> None:
    """Raises ConfigError for columns that are missing, unexpected, or of another type."""
    fields = described_fields(layout, made)
    for name in rules.columns:
        if name not in fields:
            raise ConfigError(
                f"{FLAG}: the input has no column {name!r}{did_you_mean(name, fields)}; it has"
                f" {', '.join(map(repr, fields))}: mend the input, or say lifecycle_stage: PLANNED"
                " of a column that may be missing"
            )
    for field in user_fields(layout.columns):
        if field.name not in rules.columns and field.name not in rules.ignored:
            raise ConfigError(
                f"{FLAG}: the schema has no feature {field.name!r}"
                f"{did_you_mean(field.name, rules.columns)}, which is a column of the input: add"
                f" it, or leave the column out with --drop-columns"
            )
    for name, one in rules.columns.items():
        _refuse_type(one, fields[name].type)


def _refuse_type(rules: ColumnRules, kind: pa.DataType) -> None:
    found = _TYPES[type_of(kind)]
    # Whole numbers are numbers, too: a column without decimals is read as integers.
    if rules.type not in (None, found) and (rules.type, found) != ("FLOAT", "INT"):
        raise ConfigError(
            f"{FLAG}: column {rules.name!r} is of {kind}, and the schema says type: {rules.type};"
            f" expected type: {found}, or a column that is read as what the schema says"
        )
    if isinstance(rules.domain, StringDomain) and found != "BYTES":
        raise ConfigError(
            f"{FLAG}: column {rules.name!r} is of {kind}, whose values are in no string_domain"
        )
