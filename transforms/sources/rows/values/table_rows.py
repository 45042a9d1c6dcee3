"""Source of table rows: a record per row, with all columns as its values."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model.source import Parts
from recordmill.transforms.model.user_columns import check_types
from recordmill.transforms.model.usual_columns import quoted
from recordmill.transforms.sources.row_formats.values.column_types import ColumnType, ColumnTypes
from recordmill.transforms.sources.row_formats.values.nested import KINDS, columns_of, is_pattern
from recordmill.transforms.sources.row_formats.values.sample_times import (
    check_time_format,
    type_of_format,
)
from recordmill.transforms.sources.rows.columns.column_checks import ColumnAdvice
from recordmill.transforms.sources.rows.columns.record_columns import user_field
from recordmill.transforms.sources.rows.reading.record_layout import RowLayout
from recordmill.transforms.sources.rows.values.record_rows import RecordRows

TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableRows(RecordRows):
    """Lists the sections of files of rows and reads table rows from them.

    types: (column, name in `TYPES`) pairs. Other columns get the narrowest type that holds all
      their values. A row with a value of another type is rejected.
    time_formats: (column, format) pairs of the columns with times in a format of strptime.
    expected: like `types`, but only for columns of text files that `types` does not name.
    used: columns that features are made of; they must exist.
    """

    _infers_nullability: ClassVar[bool] = True
    _checks_numbers: ClassVar[bool] = False  # `TableCheck` does, after clipping them
    _takes_formats: ClassVar[bool] = True  # of columns
    types: tuple[tuple[str, str], ...] = ()
    time_formats: tuple[tuple[str, str], ...] = ()
    expected: tuple[tuple[str, str], ...] = ()
    used: tuple[str, ...] = ()

    def _check_together(self) -> None:
        super()._check_together()
        for column, time_format in self.time_formats:
            check_time_format(time_format)
            if "%" not in time_format:
                raise ConfigError(
                    f"{option_name('time_format')} {column}={time_format}: expected a format such"
                    " as %d.%m.%Y"
                )
            if column in dict(self.types):
                raise ConfigError(
                    f"{option_name('types', column)}: {option_name('time_format')} gives the type"
                    " of this column: leave one of them out"
                )

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> RowLayout:
        layout = super().layout(parts, keep, facts=facts)
        formats = _by_name(self.time_formats, layout.columns.names)
        return dataclasses.replace(layout, time_formats=formats)

    def _roles(self, names: Sequence[str], of_path: Collection[str] = ()) -> ColumnRoles:
        roles = super()._roles(names, of_path)
        user_columns = roles.user_columns(names)
        given = (*self.types, *self.time_formats)
        declared = [column for column, _ in given if column != roles.label]
        for column in (*declared, *self.used):
            pattern = is_pattern(column) and columns_of([column], user_columns)
            if column not in user_columns and not pattern and column not in KINDS:
                what = "is not a feature column" if column in names else "does not exist"
                near = did_you_mean(column, user_columns)
                raise ConfigError(
                    f"column {column!r} of {self.input} {what}{near}: the feature columns are "
                    f"{quoted(user_columns)}"
                )
        if roles.weight in self.used:
            raise ConfigError(
                f"{option_name('weight_column', roles.weight)}: is the weight of records, and"
                " another option makes a feature of it: leave one of them out"
            )
        if not user_columns:
            raise ConfigError(f"{self.input} has no feature column: it has {quoted(names)}")
        return roles

    def _user_fields(
        self, user_columns: Sequence[str], column_types: ColumnTypes, roles: ColumnRoles
    ) -> list[pa.Field]:
        self._refuse_decimal_classes(column_types, roles)
        declared = {n: TYPES[kind] for n, kind in _by_name(self.types, user_columns).items()}
        formats = _by_name(self.time_formats, user_columns)
        declared |= {name: type_of_format(one) for name, one in formats.items()}
        typed = {*declared, *dict(self.expected)}
        for name in columns_of(self.used, column_types):
            if not column_types[name].types and name not in typed:
                raise ConfigError(
                    f"column {name!r} of {self.input} has no value in any row: no feature can be"
                    " made of it"
                )
        others = [name for name in user_columns if name not in declared and name != roles.target]
        check_types((column_types[name].field(name) for name in others), declarable=True)
        fields = []
        for name in user_columns:
            if name == roles.target:
                fields.append(self._number_field(name, column_types[name]))
            elif name in declared:
                field = column_types[name].field_as(name, declared[name])
                if name in formats and pa.types.is_temporal(field.type):
                    raise ConfigError(
                        f"{option_name('time_format', name)}: the column has type {field.type} in"
                        f" {self.input}: leave it out"
                    )
                if name in formats:
                    field = field.with_type(pa.string())
                fields.append(self._declared_field(field, declared[name]))
            else:
                fields.append(self._expected_field(name, column_types[name]))
        return fields

    @property
    def _advice(self) -> ColumnAdvice:
        return ColumnAdvice(
            has_types=True,
            has_formats=self._takes_formats,
            declared=frozenset(dict((*self.types, *self.time_formats))),
            transformed=self.used,
        )

    def _declared_field(self, field: pa.Field, declared: pa.DataType) -> pa.Field:
        """Return a column with its declared type. Raises ConfigError if it cannot be cast."""
        try:
            pa.array([], field.type).cast(declared)
        except pa.ArrowNotImplementedError as error:
            raise ConfigError(
                f"{option_name('types', field.name)}: the column has type {field.type} in"
                f" {self.input}, which cannot be cast to {declared}: leave it out"
            ) from error
        return user_field(field.with_type(declared))

    def _expected_field(self, name: str, inferred: ColumnType) -> pa.Field:
        """Return a column with its expected type if the files leave the type open."""
        field = user_field(inferred.field(name))
        expected = TYPES.get(dict(self.expected).get(name, ""))
        types = inferred.types
        if expected is None or expected in types[:1] or (types and pa.string() not in types):
            return field
        if expected == pa.int64() and types[:1] == (pa.bool_(),):
            return field  # the values are 0 and 1
        return field.with_type(expected).with_nullable(field.nullable or expected not in types)

    def _keeps_labels(self, label: str) -> bool:
        return _by_name(self.types, [label]).get(label) == "string"

    def _refuse_decimal_classes(self, column_types: ColumnTypes, roles: ColumnRoles) -> None:
        """Raise ConfigError if the classes of a text file are decimal numbers."""
        chosen = self.label_type == "class"
        if roles.label is None or chosen or self._keeps_labels(roles.label):
            return
        labels = column_types[roles.label].labels
        if labels is not None and labels.of_integers:
            return  # such as 1.0
        narrowest, *wider = column_types[roles.label].types or (pa.string(),)
        if pa.types.is_floating(narrowest) and pa.string() in wider:  # inferred from text
            raise ConfigError(
                f"the classes of column {roles.label!r} are decimal numbers:"
                f" {option_name('label_type', 'float')} reads them as numbers to predict,"
                f" {option_name('label_type', 'class')} keeps them as classes;"
                f" {option_name('label_column')} names another column"
            )


def _by_name(given: Iterable[tuple[str, str]], names: Sequence[str]) -> dict[str, str]:
    """Return {column: value} of (column or pattern, value); a name has precedence over patterns."""
    pairs = [*given]
    found: dict[str, str] = {}
    for column, value in pairs:
        if column not in names and is_pattern(column):
            found |= dict.fromkeys(columns_of([column], names), value)
    return found | {column: value for column, value in pairs if column in names}
