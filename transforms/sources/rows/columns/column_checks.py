"""Checks of the columns of files of rows as a whole, and the notes on them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.format.class_names import spelling_keys
from recordmill.notes import Note
from recordmill.option_checks import list_item, list_text, types_option
from recordmill.option_names import option_name
from recordmill.transforms.model.usual_columns import LABELS, quoted
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.values.nested import KINDS, columns_of
from recordmill.transforms.sources.row_formats.values.odd_values import LIST, OddValue
from recordmill.transforms.sources.row_formats.values.sample_times import usual_formats
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser


class ColumnAdvice(NamedTuple):
    """Facts for advice on columns.

    Attributes:
      has_types: Whether --types and the options that scale numbers apply.
      has_formats: Whether --time-format applies to columns.
      declared: Columns whose types options declare.
      transformed: Columns whose values features do not hold unchanged.
    """

    has_types: bool = False
    has_formats: bool = False
    declared: Collection[str] = ()
    transformed: Collection[str] = ()


_CORRECT = "correct the input if the column holds numbers, dates or lists"
_DELIMITED = (".csv", ".tsv", ".txt", ".dat")
_MISSING_LENGTH = 13  # maximum length of a spelling of a missing value, such as "Not available"
_NAMED_BY_PANDAS = re.compile(r"Unnamed: \d+")


def refuse_unknown_missing(parser: ValueParser, names: Collection[str], *, where: str) -> None:
    """Raise ConfigError if --missing names a column that does not exist."""
    for name, spelling in parser.missing:
        if name is not None and not columns_of([name], names):
            raise ConfigError(
                f"{option_name('missing', name)}={spelling}: no column {name!r} in"
                f" {where}{did_you_mean(name, names)}: it has {quoted(names)}"
            )


def alike_name(name: str, names: Iterable[str]) -> str | None:
    """Return another name that differs only by case, spaces or Unicode form; None without one."""
    others = sorted({*names} - {name})
    folded, *found = spelling_keys(pa.array([name, *others], pa.string()))
    return next((one for one, text in zip(others, found, strict=True) if text == folded), None)


def class_loss(names: Iterable[str]) -> str:
    """Return a warning on columns to leave out whose names are those of classes, "" without."""
    found = [name for name in names if name.lower() in LABELS]
    verb = "holds" if len(found) == 1 else "hold"
    return f"; if {quoted(found)} {verb} the classes, they are lost" if found else ""


def unnamed_notes(names: Collection[str], user_columns: Iterable[str]) -> dict[str, Note]:
    """Return notes on columns without a name, and on columns that pandas seems to have named.

    names: of all columns.
    """
    notes = {}
    if "" in names:
        text = "a column without a name is ignored (pandas writes its index as such a column)"
        notes["unnamed"] = Note("unnamed-column", text)
    named = [name for name in user_columns if _NAMED_BY_PANDAS.fullmatch(name)]
    if named:
        text = (
            f"{quoted(named)}: pandas gives such names to columns without one, such as its index;"
            f" --drop-columns {shlex.quote(list_text(named))} leaves them out of records"
        )
        notes["named by pandas"] = Note("unnamed-column", text)
    return notes


def inference_notes(
    fields: Iterable[pa.Field],
    column_types: ColumnTypes,
    advice: ColumnAdvice,
    target: str | None,
) -> dict[str, Note]:
    """Return notes on columns whose values may not be read as they are meant.

    target: name of the column of numbers to predict.
    """
    notes = {}
    declared = columns_of(advice.declared, column_types)
    transformed = columns_of(advice.transformed, column_types)
    if not KINDS.keys().isdisjoint(advice.transformed):
        transformed |= column_types.keys()
    fields = [*fields]
    texts = {
        field.name: odd
        for field in fields
        if (odd := column_types[field.name].odd) is not None
        and field.type == pa.string()
        and field.name not in declared
    }
    units = _units_row(texts) if advice.has_types else []
    if units:
        first = texts[units[0]]
        notes["units row"] = Note(
            "text-column",
            f"{first.file}#1 is text in {len(units)} columns whose other values are numbers, such"
            f" as {first.value!r} in {units[0]!r}: if it holds units, --units-rows 1 skips it; if"
            " not, --types declares the types of these columns",
        )
    for field in fields:
        name, found = field.name, column_types[field.name]
        item = shlex.quote(list_item(name))
        if found.odd is not None and name in texts and name not in units:
            formats = _time_formats(found.odd, name) if advice.has_formats else ""
            more = (
                _type_advice(found.odd, name, formats)
                if advice.has_types
                else _padded_advice(found.odd, name)
            )
            notes[f"text {name}"] = Note("text-column", f"{found.odd.describe(name)}; {more}")
        if found.equal is not None and pa.types.is_floating(field.type) and name not in transformed:
            more = f"--drop-columns {item} leaves them out"
            if name == target:
                more = "subtract a constant from them in the input"
            elif advice.has_types:
                more = (
                    f"--zscore {item} or --minmax {item} scales them first,"
                    f" {types_option(name, 'string')} keeps all digits, and {more}"
                )
            notes[f"equal {name}"] = Note("numbers", f"{found.equal.describe(name)}: {more}")
    return notes


def _padded_advice(odd: OddValue, name: str) -> str:
    """Return advice on a column that is text because of its values; no option declares its type."""
    if not odd.padded:
        return _CORRECT
    trim = "--trim removes the spaces around values"
    if odd.value.strip() not in ("0", "1"):
        return trim
    return (
        f"{trim}; if 0 and 1 say whether a record has the class {name!r}, name such columns with"
        " --label-columns"
    )


def _units_row(texts: Mapping[str, OddValue]) -> list[str]:
    """Return the columns of numbers that the first row of CSV or TSV makes text, if several.

    texts: Odd values of columns by name.
    """
    found = [
        name
        for name, odd in texts.items()
        if odd.row == 1
        and odd.kind in ("int", "float")
        and not odd.every
        and not odd.padded
        and odd.file.endswith(_DELIMITED)
    ]
    return found if len(found) > 1 else []


def _time_formats(odd: OddValue, name: str) -> str:
    """Return options that read dates or times in another format, "" if there are none."""
    formats = usual_formats(odd.value) if odd.every and odd.kind in ("date", "timestamp") else ()
    return " or ".join(
        f"--time-format {shlex.quote(f'{list_item(name)}={one}')}" for one in formats
    )


def _type_advice(odd: OddValue, name: str, formats: str) -> str:
    """Return advice on a column that an odd value makes text.

    Args:
      odd: The value.
      name: Name of the column.
      formats: Options that read its values as times, "" if there are none.
    """
    trim = "--trim removes the spaces around values" if odd.padded else ""
    if odd.every or odd.kind == LIST:
        remedy = f"{formats} reads its values" if formats else trim or _CORRECT
        return f"{remedy}; {types_option(name, 'string')} keeps the text, without this note"
    empty = f"{trim}, " if trim else ""
    if not any(map(str.isdigit, odd.value)) and len(odd.value) <= _MISSING_LENGTH:
        spelling = shlex.quote(list_item(odd.value))
        # otherwise it would be parsed as an option
        between = "=" if odd.value.startswith("-") else " "
        empty = f"--missing{between}{spelling} takes this value as a missing one, "
    return (
        f"{empty}{types_option(name, odd.kind)} rejects rows that do not fit,"
        f" {types_option(name, 'string')} keeps the text"
    )
