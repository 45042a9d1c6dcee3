"""Checks of the names and types of columns against their transforms."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_checks import list_item
from recordmill.option_names import option_name
from recordmill.transforms.encoders.table_options import (
    MEAN,
    MEDIAN,
    NUMERIC,
    OF_TEXT,
    ColumnTransform,
)
from recordmill.transforms.model.user_columns import is_list, user_fields


def text_of(column: pa.Array) -> pa.StringArray:
    """Return the values of a column as text, as in a vocabulary."""
    return column.cast(pa.string())


def check_names(transforms: Mapping[str, ColumnTransform], rows: pa.Schema) -> None:
    """Raise ConfigError if there is no column for a transform."""
    names = [field.name for field in user_fields(rows)]
    for name, transform in transforms.items():
        if name not in names:
            raise ConfigError(
                f"{_option_of(transform)}: expected a column of the records, got"
                f" {name!r}{did_you_mean(name, names)}: they have {', '.join(names) or 'none'}"
            )


def check_types(transforms: Mapping[str, ColumnTransform], rows: pa.Schema) -> None:
    """Raise ConfigError if values of a column cannot be transformed, in rows or in windows."""
    for field in user_fields(rows):
        kind = field.type.value_type if pa.types.is_fixed_size_list(field.type) else field.type
        if field.name in transforms and not pa.types.is_null(kind):
            check_type(transforms[field.name], kind)


def _option_of(transform: ColumnTransform) -> str:
    """Return the option that names the column of a transform."""
    if transform.last is not None:
        return option_name(transform.last.replace("-", "_"))
    given = (
        ("clip", transform.clip is not None),
        ("log", transform.log),
        ("impute", transform.impute is not None),
    )
    return option_name(next((name for name, is_given in given if is_given), "indicator"))


def check_type(transform: ColumnTransform, kind: pa.DataType) -> None:
    """Check that values of a type can be transformed.

    Raises:
        ConfigError: they cannot.
    """
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    clocked = pa.types.is_timestamp(kind) or not {"hour", "minute", "second"} & {*transform.parts}
    computed = (("clip", transform.clip is not None), ("log", transform.log))
    given = [option for option, is_given in computed if is_given]
    if transform.last in NUMERIC:
        given.append(transform.last)
    if is_list(kind):
        raise ConfigError(
            f"column {transform.column!r} has lists, which cannot be transformed: remove it from"
            " the options to keep the lists"
        )
    for option in given if not numeric else ():
        raise ConfigError(
            f"{option_name(option)} {transform.column}: expected a column of numbers, got {kind};"
            f" {_advice_for_numbers(transform.column, kind)}"
        )
    if transform.last in OF_TEXT and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ConfigError(
            f"{_option_of(transform)} {transform.column}: expected a column of text or numbers, got"
            f" {kind}; {_declared(transform.column, 'string')} reads UTF-8 and"
            " rejects other bytes"
        )
    if transform.last == "date-parts" and not (temporal and clocked):
        noun, example = ("date", "") if clocked else ("timestamp", " 18:00:00")
        raise ConfigError(
            f"{option_name('date_parts', transform.column)}: expected a column of {noun}s, got"
            f" {kind}; {_declared(transform.column, noun)} reads {noun}s such as"
            f" 2026-01-31{example} and rejects others: write them so in the input"
        )
    _refuse_fill(transform, kind, numeric=numeric)


def _advice_for_numbers(column: str, kind: pa.DataType) -> str:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        parts = shlex.quote(f"{list_item(column)}=year+month")
        return f"{option_name('date_parts')} {parts} extracts numbers"
    return f"{_declared(column, 'float')} parses numbers and rejects other text"


def _declared(column: str, kind: str) -> str:
    """Return the option that declares the type of a column."""
    return f"{option_name('types')} {shlex.quote(f'{list_item(column)}={kind}')}"


def _refuse_fill(transform: ColumnTransform, kind: pa.DataType, *, numeric: bool) -> None:
    if transform.impute is None:
        return
    if transform.impute in (MEAN, MEDIAN):
        fits = numeric
    else:
        fits = _casts(transform.impute, pa.float64() if transform.is_numeric else kind)
    if not fits:
        raise ConfigError(
            f"{option_name('impute', transform.column)}={transform.impute}: expected a value of the"
            f" column's type {kind}"
        )
    if transform.last in OF_TEXT:
        _refuse_spelling(transform, kind)


def _refuse_spelling(transform: ColumnTransform, kind: pa.DataType) -> None:
    """Check that the text of `impute` is the canonical text of its value.

    An exported model has texts only, and would treat another spelling as a different value.

    Raises:
        ConfigError: the text differs.
    """
    value = pa.array([transform.impute], pa.string()).cast(kind)
    text = text_of(value)[0].as_py()
    if text != transform.impute:
        raise ConfigError(
            f"{option_name('impute', transform.column)}={transform.impute}: the column of type"
            f" {kind} has this value as {text}: use"
            f" {option_name('impute', transform.column)}={text}"
        )


def _casts(text: str, kind: pa.DataType) -> bool:
    try:
        pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
