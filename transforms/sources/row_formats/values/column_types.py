"""Inferred types of columns, and their unification over sections of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.sources.row_formats.values.equal_floats import EqualFloats
from recordmill.transforms.sources.row_formats.values.odd_values import OddValue

_TIME = r"\d[-:]\d"
_ZONED = r"\d:\d.*([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)$"
NARROW = (pa.int64(), pa.float64(), pa.bool_())


class ColumnType(NamedTuple):
    """Types that hold all values of a column so far, the narrowest first; () without any value.

    odd: the first value that made a column of numbers or dates text.
    missing_as: types as which a text of the column would be a missing value, such as `nan`.
    inside: names of the objects that the values of the column are inside of.
    equal: two different floats that become equal as float32, if many do.
    labels: the labels of a column of classes in a file of text.
    """

    types: tuple[pa.DataType, ...] = ()
    nullable: bool = True
    odd: OddValue | None = None
    missing_as: frozenset[pa.DataType] = frozenset()
    inside: frozenset[str] = frozenset()
    equal: EqualFloats | None = None
    labels: LabelSpelling | None = None

    def field_as(self, name: str, kind: pa.DataType) -> pa.Field:
        """Return the column as it is, nullable if it is once its values are of this type."""
        field = self.field(name)
        return field.with_nullable(field.nullable or kind in self.missing_as)

    def field(self, name: str) -> pa.Field:
        """Return the column with the narrowest type; a column without values is of strings."""
        kind = self.types[0] if self.types else pa.string()
        return pa.field(
            name, pa.list_(pa.string()) if kind == pa.list_(pa.null()) else kind, self.nullable
        )


ColumnTypes = dict[str, ColumnType]  # by name, in the order of the columns


def unify(several: Iterable[ColumnTypes]) -> ColumnTypes:
    """Unify the column types of several sets of rows. A column that a set lacks is nullable."""
    joined: ColumnTypes = {}
    for column_types in several:
        lacking = joined.keys() ^ column_types.keys() if joined and column_types else ()
        for name, kind in column_types.items():
            joined[name] = _unify_pair(joined[name], kind) if name in joined else kind
        for name in lacking:
            joined[name] = joined[name]._replace(nullable=True)
    inside = {name: kind.inside for name, kind in joined.items() if kind.inside}
    mixed = set()
    for outer in {*joined} & set().union(*inside.values()):
        if not joined[outer].types:  # the object is null in some rows
            del joined[outer]
        else:  # some rows have another value instead of the object, which then is text
            joined[outer] = joined[outer]._replace(types=(pa.string(),), nullable=True)
            mixed.add(outer)
    for name, objects in inside.items() if mixed else ():
        if not mixed.isdisjoint(objects):
            joined.pop(name, None)
    return joined


def as_nullable(column_types: ColumnTypes) -> ColumnTypes:
    """Return the same types, all nullable."""
    return {name: kind._replace(nullable=True) for name, kind in column_types.items()}


def has_nan(kind: ColumnType) -> bool:
    """Return whether values may be NaN."""
    return any(pa.types.is_floating(one) for one in kind.types)


def zones_of(times: pa.Array) -> ColumnType:
    """Return the type of times by their zones: timestamps, or string if only some have a zone.

    times: string[n]. Numbers do not count.
    """
    parts = pc.match_substring_regex(times, _TIME)
    zoned = pc.any(pc.and_(parts, pc.match_substring_regex(times, _ZONED))).as_py()
    others = pc.any(pc.and_not(parts, pc.match_substring_regex(times, _ZONED))).as_py()
    if zoned and others:
        return ColumnType((pa.string(),))
    kinds = (pa.timestamp("us", "UTC"),) if zoned else (pa.timestamp("us"),)
    return ColumnType(kinds if zoned or others else ())


def type_of_values(values: list[Any]) -> pa.DataType:
    """Return the type of JSON values."""
    try:
        return pa.array(values).type  # pa.infer_type samples the values
    except (pa.ArrowException, OverflowError):
        return pa.string()


def column_type_of(kind: pa.DataType) -> ColumnType:
    """Return the column type of an Arrow type."""
    return ColumnType() if kind == pa.null() else ColumnType((kind,))


def _unify_pair(one: ColumnType, other: ColumnType) -> ColumnType:
    nullable = one.nullable or other.nullable
    missing_as = one.missing_as | other.missing_as
    inside = one.inside | other.inside
    equal = one.equal or other.equal
    labels = one.labels or other.labels
    if one.labels is not None and other.labels is not None:
        labels = one.labels.plus(other.labels)
    if not one.types or not other.types:
        return ColumnType(
            one.types or other.types,
            nullable,
            one.odd or other.odd,
            missing_as,
            inside,
            equal,
            labels,
        )
    common = tuple(kind for kind in one.types if kind in other.types)
    wordy = any(kind.types == (pa.string(),) and kind.odd is None for kind in (one, other))
    odd = None if wordy else one.odd or other.odd
    if odd is not None and not all(kind.odd and kind.odd.every for kind in (one, other)):
        odd = odd._replace(every=False)
    types = common or (_wider(one.types[0], other.types[0]),)
    return ColumnType(types, nullable, odd, missing_as, inside, equal, labels)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the narrowest type that holds both types, string if there is no other."""
    schemas = [pa.schema([("x", one)]), pa.schema([("x", other)])]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except pa.ArrowTypeError:
        return pa.string()
