"""Columns of the user as features: the supported types and the features they become."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.option_checks import list_text, types_option
from recordmill.option_names import option_name
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.model import batch


def user_fields(rows: pa.Schema) -> list[pa.Field]:
    """Return the fields of the user's columns, without the internal ones, which begin with `__`."""
    return [field for field in rows if not field.name.startswith("__")]


def their_columns(rows: pa.Schema) -> str:
    """Return the end of a message about records that lack a column."""
    names = [field.name for field in user_fields(rows)]
    return f"their columns are {', '.join(names) or 'system columns'}"


def carried_fields(rows: pa.Schema) -> list[pa.Field]:
    """Return the fields that records have as the row of their file: `user_fields`, and labels."""
    return [
        field for field in rows if not field.name.startswith("__") or field.name == batch.LABELS
    ]


def with_users(declared: Features, fields: Iterable[pa.Field], *, where: str) -> Features:
    """Add the features of the user's columns to the declared features.

    where: name of the table of the columns, for the error message.

    Raises:
        ConfigError: no feature can hold a column, or its name is taken by a declared feature.
    """
    users = ({field.name: user_feature(field)} for field in fields)
    return merged(declared, *users, where=where)


def merged(declared: Features, *others: Features, where: str) -> Features:
    """Merge sets of features with different names.

    where: name of the table of the columns, for the error message.

    Raises:
        ConfigError: two sets have a feature of the same name.
    """
    found = dict(declared)
    for some in others:
        for name in some:
            if name in found:
                raise ConfigError(
                    f"column {name!r} of the {where} has the name of a feature that the pipeline"
                    " writes: rename the column, or drop it with"
                    f" {option_name('drop_columns', name)}"
                )
        found |= some
    return found


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list type that an Example can hold."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def flat(column: pa.Array) -> pa.Array:
    """Return the values of fixed-size lists, with null for NaN and ""; other columns unchanged."""
    if not pa.types.is_fixed_size_list(column.type):
        return column
    values = column.flatten()
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), None, values)
    if values.type == pa.string():
        return pc.if_else(pc.equal(values, ""), None, values)
    return values


def flat_list(column: pa.Array) -> pa.Array:
    """Return nested fixed-size lists as fixed-size lists; other columns unchanged."""
    fixed = pa.types.is_fixed_size_list
    while fixed(column.type) and fixed(column.type.value_type):
        size = column.type.list_size * column.type.value_type.list_size
        column = pa.FixedSizeListArray.from_arrays(column.flatten().flatten(), size)
    return column


def scale_columns(column: str) -> tuple[str, str]:
    """Return the names of the columns with the mean and the scale of a column of windows."""
    return f"{column}/mean", f"{column}/scale"


def user_feature(field: pa.Field) -> Feature:
    """Return the feature of a column; values that may be null and lists have a variable length.

    Raises:
        ConfigError: an Example cannot hold the type.
    """
    listed = is_list(field.type)
    kind = field.type
    shape: tuple[int | None, ...] = ()
    while pa.types.is_fixed_size_list(kind):
        kind, shape = kind.value_type, (*shape, kind.list_size)
    one = _feature_of(kind.value_type if listed and not shape else kind)
    if one is None:
        raise _unsupported([field])
    if field.nullable or (listed and not shape):
        shape = (None,)
    return dataclasses.replace(one, shape=shape)


def check_types(fields: Iterable[pa.Field], *, declarable: bool = False) -> None:
    """Raise ConfigError that names all columns whose types an Example cannot hold.

    declarable: whether --types applies to them.
    """
    unsupported = [
        field
        for field in fields
        if _feature_of(field.type.value_type if is_list(field.type) else field.type) is None
    ]
    if unsupported:
        raise _unsupported(unsupported, declarable=declarable)


def _unsupported(fields: Sequence[pa.Field], *, declarable: bool = False) -> ConfigError:
    expected = (
        "expected integers (except uint64), bools, floats, strings, bytes, dates, timestamps, or"
        " lists of those"
    )
    example = f"{types_option(fields[0].name, 'string')}, =float or =int"
    convert = f"convert ({example}) or cast" if declarable else "cast"
    if len(fields) == 1:
        return ConfigError(
            f"column {fields[0].name!r} has type {fields[0].type}: {expected}; {convert} it, or"
            f" drop it with {option_name('drop_columns')}{_advice_on_boxes(fields[0].name)}"
        )
    shown = ", ".join(f"{field.name!r} ({field.type})" for field in fields)
    names = shlex.quote(list_text(field.name for field in fields))
    return ConfigError(
        f"the types of {len(fields)} columns are not supported: {shown}; {expected}; {convert}"
        f" them, or drop them with {option_name('drop_columns', names)}"
    )


def _advice_on_boxes(name: str) -> str:
    """Return advice on boxes of the Hugging Face hub, if a column has their name."""
    if name.rpartition(".")[2] != "bbox":
        return ""
    return (
        "; boxes of images are read from the metadata.jsonl beside the images, with"
        f" {option_name('annotations')} and the folder of both as {option_name('input')}"
    )


def _feature_of(kind: pa.DataType) -> Feature | None:
    """Return the feature of one value of a type; None if an Example cannot hold it."""
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
