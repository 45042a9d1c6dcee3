"""Values inside of objects as columns with dotted names: `{"user": {"age": 3}}` has `user.age`.

An object itself is not a column; if an object is missing, its values are missing. Structs of bytes
and a path, as dataset hubs write files, are values and stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_names import option_name
from recordmill.transforms.model.usual_columns import quoted

_WHOLE = "bytes"  # a struct with this field is a value
_MOST_LEVELS = 32
_END = object()
# Kinds of columns that options name: {name: whether a type is of the kind}.
KINDS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "@numeric": lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind),
    "@text": lambda kind: kind == pa.string(),
    "@date": lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind),
}
_MOST_NAMES = 1 << 24  # characters of all names: a long name may stand for many values


def is_nested(kind: pa.DataType) -> bool:
    """Return whether values of a type are objects, whose values are columns."""
    return bool(pa.types.is_struct(kind)) and kind.get_field_index(_WHOLE) < 0


def columns_of(names: Iterable[str], columns: Collection[str]) -> set[str]:
    """Return the columns with these names; the name of an object selects all columns in it.

    In a name that no column has, `*` stands for any text.
    """
    wanted = {*names}
    others = wanted.difference(columns)
    objects = tuple(f"{name}." for name in others)
    forms = [".*".join(map(re.escape, name.split("*"))) for name in others if "*" in name]
    pattern = re.compile("|".join(forms), re.DOTALL) if forms else None
    return {
        one
        for one in columns
        if one in wanted
        or one.startswith(objects)
        or (pattern is not None and one and pattern.fullmatch(one))
    }


def expand_names(
    option: str, given: Iterable[str], columns: Collection[str], *, where: object
) -> tuple[str, ...]:
    """Return the columns that names and patterns of an option select, in the order of the option.

    Args:
      option: Name of the option.
      given: Names of columns or objects, and patterns, as for `columns_of`.
      columns: Names of all columns, in order.
      where: The input, for messages.

    Raises:
      ConfigError: A name or a pattern selects no column.
    """
    found: dict[str, None] = {}
    for name in given:
        if not (some := columns_of([name], columns)):
            verb = "no column matches" if "*" in name else "no column"
            raise ConfigError(
                f"{option_name(option)}: {verb} {name!r} in {where}{did_you_mean(name, columns)}:"
                f" it has {quoted(columns)}"
            )
        found |= dict.fromkeys(one for one in columns if one in some)
    return tuple(found)


def is_pattern(name: str) -> bool:
    """Return whether a name may stand for several columns, as a pattern or one of `KINDS`."""
    return "*" in name or name in KINDS


def expand_fields(
    option: str, given: Iterable[str], fields: Sequence[pa.Field], *, where: object
) -> tuple[str, ...]:
    """Return the columns that an option selects, as `expand_names`, and `@numeric` and the like.

    Raises:
      ConfigError: As for `expand_names`, or no column is of such a kind.
    """
    names = [field.name for field in fields]
    found: dict[str, None] = {}
    for name in given:
        if name in names or name not in KINDS:
            some = expand_names(option, [name], names, where=where)
        else:
            some = tuple(field.name for field in fields if KINDS[name](field.type))
        if not some:
            raise ConfigError(
                f"{option_name(option)}: {where} has no column of the kind {name}: its columns are"
                f" {', '.join(f'{field.name!r} ({field.type})' for field in fields)}"
            )
        found |= dict.fromkeys(some)
    return tuple(found)


def outer_objects(name: str, objects: Collection[str]) -> frozenset[str]:
    """Return the names of the objects that the values of a column are inside of."""
    parts = name.split(".")
    outer = {".".join(parts[:count]) for count in range(1, len(parts))}
    return frozenset(outer.intersection(objects))


def object_names(fields: Iterable[pa.Field], prefix: str = "") -> set[str]:
    """Return the dotted names of the objects in columns."""
    names: set[str] = set()
    for field in fields:
        if is_nested(field.type):
            name = prefix + field.name
            names |= {name} | object_names(field.type, f"{name}.")
    return names


def names_of_objects(items: Iterable[dict[str, Any]]) -> set[str]:
    """Return the dotted names of the objects inside of objects of JSON."""
    names: set[str] = set()
    waiting = [("", item) for item in items]
    while waiting:
        prefix, outer = waiting.pop()
        for key, value in outer.items():
            if isinstance(value, dict):
                names.add(prefix + key)
                waiting.append((f"{prefix}{key}.", value))
    return names


def flat_schema(schema: Iterable[pa.Field]) -> pa.Schema:
    """Return the columns of a schema, with values inside of structs as columns.

    Raises:
      ValueError: their names are too long.
    """
    fields = [*schema]
    for _ in range(_MOST_LEVELS):
        if not any(is_nested(field.type) for field in fields):
            break
        fields = [
            inner
            for field in fields
            for inner in (_inner_fields(field) if is_nested(field.type) else [field])
        ]
        if sum(len(field.name) for field in fields) > _MOST_NAMES:
            raise ValueError("the names of values inside of objects are too long")
    return pa.schema(fields)


def flatten(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the columns of `flat_schema`. Raises ValueError as it does."""
    columns = [*zip(rows.schema, rows.columns, strict=True)]
    schema = flat_schema(rows.schema)
    for _ in range(_MOST_LEVELS):
        if not any(is_nested(field.type) for field, _ in columns):
            break
        columns = [
            inner
            for field, column in columns
            for inner in (
                zip(_inner_fields(field), column.flatten(), strict=True)
                if is_nested(field.type)
                else [(field, column)]
            )
        ]
    return pa.record_batch([column for _, column in columns], schema=schema)


def nested_schema(schema: pa.Schema) -> pa.Schema | None:
    """Return a schema whose `flat_schema` has these columns; None if a column holds another."""
    tree: dict[str, Any] = {}
    for field in schema:
        *outer, last = field.name.split(".")
        level = tree
        for part in outer:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                return None
        if last in level:
            return None
        level[last] = field.type
    return pa.schema([pa.field(name, _struct(one)) for name, one in tree.items()])


def flat_object(item: dict[str, Any], whole: Collection[str] = ()) -> dict[str, Any]:
    """Return an object of JSON with the values inside of its objects under dotted names.

    whole: names of values that stay as they are.

    Raises:
      ValueError: a name occurs twice, or objects are nested too deep.
    """
    if not any(isinstance(value, dict) for value in item.values()):
        return item
    found: dict[str, Any] = {}
    size = 0
    levels = [("", iter(item.items()))]
    while levels:
        prefix, rest = levels[-1]
        key, value = next(rest, ("", _END))
        if value is _END:
            levels.pop()
            continue
        name = prefix + key
        size += len(name)
        if size > _MOST_NAMES:
            raise ValueError("the names of values inside of objects are too long")
        if isinstance(value, dict) and name not in whole and _WHOLE not in value:
            if len(levels) > _MOST_LEVELS:
                raise ValueError(f"objects are nested in more than {_MOST_LEVELS} levels")
            levels.append((f"{name}.", iter(value.items())))
        elif name in found:
            raise ValueError(f"two values of the name {name[:100]!r}")
        else:
            found[name] = value
    return found


def _inner_fields(field: pa.Field) -> list[pa.Field]:
    return [
        pa.field(f"{field.name}.{one.name}", one.type, field.nullable or one.nullable)
        for one in field.type
    ]


def _struct(one: Any) -> pa.DataType:
    if not isinstance(one, dict):
        return one
    return pa.struct([pa.field(name, _struct(inner)) for name, inner in one.items()])
