"""Columns that are the user's, as features: which types can be carried along, and as what."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.format.features import Feature, Features


def user_fields(rows: pa.Schema) -> list[pa.Field]:
    """The columns that are the user's."""
    return [field for field in rows if not field.name.startswith("__")]


def with_users(declared: Features, fields: Iterable[pa.Field], *, where: str) -> Features:
    """The features declared, and those of the user's columns. where: they stand.

    Raises:
        ConfigError: a column that no feature can hold, or of a feature's name.
    """
    for field in fields:
        declared = merged(declared, {field.name: user_feature(field)}, where=where)
    return declared


def merged(declared: Features, others: Features, *, where: str) -> Features:
    """The features of both, of which no two may have the same name. where: columns stand.

    Raises:
        ConfigError: a column has the name of a feature that is made.
    """
    for name in others:
        if name in declared:
            raise ConfigError(
                f"column {name!r} of the {where} has the name of a feature that is made here: give"
                " it another name"
            )
    return {**declared, **others}


def is_list(kind: pa.DataType) -> bool:
    """Whether values of the type are lists of a kind that an Example can hold."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def flat(column: pa.Array) -> pa.Array:
    """The values of lists of one length, null where one is NaN or ""; or a column as it is."""
    if not pa.types.is_fixed_size_list(column.type):
        return column
    values = column.flatten()
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), None, values)
    if values.type == pa.string():
        return pc.if_else(pc.equal(values, ""), None, values)
    return values


def user_feature(field: pa.Field) -> Feature:
    """A value that may be null, and a list of any length, is any number of values.

    Raises:
        ConfigError: an Example cannot hold the type.
    """
    listed = is_list(field.type)
    one = _feature_of(field.type.value_type if listed else field.type)
    if one is None:
        raise ConfigError(
            f"column {field.name!r} of the listing is of type {field.type}: expected integers (no "
            "uint64), bools, floats, strings, bytes, dates, timestamps, or lists of those; cast "
            "it, or leave it out with --drop-columns"
        )
    shape: tuple[int | None, ...] = ()
    if pa.types.is_fixed_size_list(field.type):
        shape = (field.type.list_size,)
    if field.nullable or (listed and not shape):
        shape = (None,)
    return dataclasses.replace(one, shape=shape)


def _feature_of(kind: pa.DataType) -> Feature | None:
    """One value of the type; None where an Example cannot hold it."""
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()):
        return Feature(dtype="int64")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Feature(dtype="int64")
    if pa.types.is_floating(kind):
        return Feature(dtype="float32")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Feature(dtype="string", kind="text")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return Feature(dtype="string")
    return None
