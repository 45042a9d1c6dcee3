"""Checks of the columns of files of rows as a whole, and the notes on them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.notes import Note
from recordmill.transforms.model.label_rules import fold_labels
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.value_parsing import ValueParser
from recordmill.transforms.sources.rows.column_roles import quoted

_NAMED_BY_PANDAS = re.compile(r"Unnamed: \d+")
_CORRECT = "correct the input if the column holds numbers or dates"


class TextAdvice(NamedTuple):
    """Advice for a column that some values made text; {0} stands for its name.

    every: if no value is a number or a date as it should be. by_option: then, if an option that the
    note names reads all of them.
    """

    some: str = _CORRECT
    every: str = _CORRECT
    by_option: str = ""


def refuse_unknown_missing(parser: ValueParser, names: Collection[str], *, where: str) -> None:
    """Raise ConfigError if --missing names a column that does not exist."""
    for name, spelling in parser.missing:
        if name is not None and name not in names:
            raise ConfigError(
                f"--missing {name}={spelling}: no column {name!r} in {where}"
                f"{did_you_mean(name, names)}: it has {quoted(names)}"
            )


def alike_name(name: str, names: Iterable[str]) -> str | None:
    """Return another name that differs only by case, spaces or Unicode form; None without one."""
    others = sorted({*names} - {name})
    folded, *found = fold_labels(pa.array([name, *others], pa.string()))
    return next((one for one, text in zip(others, found, strict=True) if text == folded), None)


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
            f" --drop-columns {shlex.quote(','.join(named))} leaves them out of records"
        )
        notes["named by pandas"] = Note("unnamed-column", text)
    return notes


def text_notes(
    fields: Iterable[pa.Field], column_types: ColumnTypes, advice: TextAdvice
) -> dict[str, Note]:
    """Return a note on each column that a few values made text.

    fields: of the columns without a declared type.
    """
    notes = {}
    for field in fields:
        odd = column_types[field.name].odd
        if odd is not None and field.type == pa.string():
            why = odd.describe(field.name)
            if odd.every and odd.has_option:
                text = f"{why}; {advice.by_option}" if advice.by_option else why
            else:
                text = f"{why}: {advice.every if odd.every else advice.some}"
            notes[f"text {field.name}"] = Note("text-column", text.replace("{0}", field.name))
    return notes
