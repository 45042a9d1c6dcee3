"""What a column can be, learned from its rows section by section, and put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

NARROW = (pa.int64(), pa.float64(), pa.bool_())


class ColumnType(NamedTuple):
    """The types that hold all values of a column so far, the best first; () without any value."""

    types: tuple[pa.DataType, ...] = ()
    nullable: bool = True

    def field(self, name: str) -> pa.Field:
        """The column with the best type; one without a value is of strings."""
        kind = self.types[0] if self.types else pa.string()
        return pa.field(
            name, pa.list_(pa.string()) if kind == pa.list_(pa.null()) else kind, self.nullable
        )


ColumnTypes = dict[str, ColumnType]  # by the name of the column, in order


def join(several: Iterable[ColumnTypes]) -> ColumnTypes:
    """The kinds of all columns, given those in some rows and those in others."""
    joined: ColumnTypes = {}
    for kinds in several:
        for name, kind in kinds.items():
            joined[name] = _both(joined[name], kind) if name in joined else kind
    return joined


def as_nullable(kinds: ColumnTypes) -> ColumnTypes:
    """The same columns, of which each may have a row without a value."""
    return {name: kind._replace(nullable=True) for name, kind in kinds.items()}


def has_nan(kind: ColumnType) -> bool:
    """Whether values may be numbers that are none."""
    return any(pa.types.is_floating(one) for one in kind.types)


def type_of_values(values: list[Any]) -> pa.DataType:
    """Of values out of JSON."""
    try:
        return pa.array(values).type  # pa.infer_type looks at few of them
    except (pa.ArrowException, OverflowError):
        return pa.string()


def kind_of_type(kind: pa.DataType) -> ColumnType:
    """Of a column of which that is known."""
    return ColumnType() if kind == pa.null() else ColumnType((kind,))


def _both(one: ColumnType, other: ColumnType) -> ColumnType:
    nullable = one.nullable or other.nullable
    if not one.types or not other.types:
        return ColumnType(one.types or other.types, nullable)
    common = tuple(kind for kind in one.types if kind in other.types)
    return ColumnType(common or (_wider(one.types[0], other.types[0]),), nullable)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrowest type that holds both: string where there is no other."""
    schemas = [pa.schema([("x", one)]), pa.schema([("x", other)])]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except pa.ArrowTypeError:
        return pa.string()
