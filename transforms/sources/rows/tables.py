"""Tables as an input: a row per record, all columns of which are its values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes
from recordmill.transforms.sources.rows.column_roles import Roles, find_roles, quoted
from recordmill.transforms.sources.rows.record_rows import LABELS, RecordRows

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
    """Lists the sections of files of rows; reads records out of them.

    types: (column, name in `TYPES`); other columns are what all their values can be. A value that
      is not of the type is a reject.
    expected: the same, of columns of text files alone, and where `types` does not say it.
    used: columns that something becomes of: they have to be there.
    """

    types: tuple[tuple[str, str], ...] = ()
    expected: tuple[tuple[str, str], ...] = ()
    used: tuple[str, ...] = ()

    def _roles(self, names: Sequence[str]) -> Roles:
        asked = self._asked(others=self._others)
        roles = find_roles(names, asked, where=self.input, mains=(), labels=LABELS)
        users = roles.users(names)
        declared = [column for column, _ in self.types if column != roles.label]
        for column in (*declared, *self.used):
            if column not in users:
                what = "is no value of a record" if column in names else "is not there"
                raise ConfigError(
                    f"column {column!r} of {self.input} {what}{did_you_mean(column, users)}: "
                    f"it has {quoted(users)}"
                )
        if not users:
            raise ConfigError(f"{self.input} has no column that is a value: it has {quoted(names)}")
        return roles

    def _users_fields(
        self, users: Sequence[str], kinds: ColumnTypes, roles: Roles
    ) -> list[pa.Field]:
        self._refuse_decimal_classes(kinds, roles)
        for name in self.used:
            if not kinds[name].types and name not in self._declared:
                raise ConfigError(
                    f"column {name!r} of {self.input} has no value in any row: nothing can become"
                    " of it"
                )
        return [
            field if field.name in self._declared else self._as_expected(field, kinds)
            for field in super()._users_fields(users, kinds, roles)
        ]

    @property
    def _others(self) -> tuple[str, ...]:
        """Columns of which something else is made."""
        return ()

    @property
    def _declared(self) -> Mapping[str, pa.DataType]:
        return {column: TYPES[kind] for column, kind in self.types}

    def _as_expected(self, field: pa.Field, kinds: ColumnTypes) -> pa.Field:
        """A column as it is expected, where its file does not say what it is."""
        kind = TYPES.get(dict(self.expected).get(field.name, ""))
        found = kinds[field.name].types
        if kind is None or kind in found[:1] or (found and pa.string() not in found):
            return field
        if kind == pa.int64() and found[:1] == (pa.bool_(),):
            return field  # these are 0 and 1
        return field.with_type(kind).with_nullable(field.nullable or kind not in found)

    @property
    def _learns_presence(self) -> bool:
        return True

    def _looked_at(self, roles: Roles) -> list[str]:
        return [roles.label] if roles.label is not None else []

    def _refuse_decimal_classes(self, kinds: ColumnTypes, roles: Roles) -> None:
        if roles.label is None or dict(self.types).get(roles.label) == "string":
            return
        kind, *wider = kinds[roles.label].types or (pa.string(),)
        if pa.types.is_floating(kind) and pa.string() in wider:  # as text says, not a file's schema
            raise ConfigError(
                f"the classes of column {roles.label!r} are decimal numbers: name another one with "
                f"--label-column, or say --types {roles.label}=string"
            )
