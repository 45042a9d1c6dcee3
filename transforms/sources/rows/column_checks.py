"""Checks of the columns of files of rows as a whole, and the notes on them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.format.class_names import spelling_keys
from recordmill.notes import Note
from recordmill.option_checks import list_item, list_text
from recordmill.option_names import option_name
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.odd_values import (
    BESIDE_BOOLS,
    DECIMAL_COMMAS,
    OddValue,
)
from recordmill.transforms.sources.row_formats.value_parsing import ValueParser
from recordmill.transforms.sources.rows.column_roles import LABELS, quoted


class ColumnAdvice(NamedTuple):
    """Advice on columns; {0} stands for the name of the column.

    text: on a column that a few values made text. every: if no value is a number or a date as it
    should be. by_option: then, if an option that the note names reads all of them. bools: if
    numbers are beside true and false. points: on points that may separate thousands.
    floats, whole: on numbers, or whole numbers, that become equal as float32.
    declared: columns whose types options declare. transformed: columns of which features do not
    hold the values as they are.
    """

    text: str
    every: str
    bools: str
    points: str
    floats: str
    whole: str
    by_option: str = ""
    declared: Collection[str] = ()
    transformed: Collection[str] = ()


_FLOAT_ADVICE = "--drop-columns {0} leaves them out"
_TEXT_ADVICE = "correct the input if the column holds numbers or dates"
ADVICE = ColumnAdvice(
    text=_TEXT_ADVICE,
    every=_TEXT_ADVICE,
    bools="correct the input",
    points="if they do, remove them from the input, as no option reads them",
    floats=_FLOAT_ADVICE,
    whole=_FLOAT_ADVICE,
)
_NAMED_BY_PANDAS = re.compile(r"Unnamed: \d+")


def refuse_unknown_missing(parser: ValueParser, names: Collection[str], *, where: str) -> None:
    """Raise ConfigError if --missing names a column that does not exist."""
    for name, spelling in parser.missing:
        if name is not None and name not in names:
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


def _why_text(odd: OddValue, advice: ColumnAdvice, name: str) -> str:
    """Return why a column is text, and advice."""
    why = odd.describe(name)
    if odd.why == BESIDE_BOOLS:
        return f"{why}: {advice.bools.format(list_item(name))}"
    if odd.every and odd.has_option:
        return f"{why}; {advice.by_option.format(list_item(name))}" if advice.by_option else why
    return f"{why}: {(advice.every if odd.every else advice.text).format(list_item(name))}"


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
    odds = [kind.odd for kind in column_types.values() if kind.odd is not None]
    commas = any(odd.why.startswith(DECIMAL_COMMAS) for odd in odds)
    for field in fields:
        name, found = field.name, column_types[field.name]
        odd, points, equal = found.odd, found.points, found.equal
        inferred = name not in advice.declared
        if inferred and odd is not None and field.type == pa.string():
            notes[f"text {name}"] = Note("text-column", _why_text(odd, advice, name))
        if not pa.types.is_floating(field.type):
            continue
        if inferred and points.groups_thousands(commas=commas):
            text = f"{points.describe(name)}: {advice.points.format(list_item(name))}"
            notes[f"points {name}"] = Note("numbers", text)
        if equal is not None and name not in advice.transformed:
            more = (advice.whole if equal.whole else advice.floats).format(list_item(name))
            more = "subtract a constant from them in the input" if name == target else more
            notes[f"equal {name}"] = Note("numbers", f"{equal.describe(name)}: {more}")
    return notes
