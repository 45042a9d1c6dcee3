"""Columns of rows in the names of their folders, such as `kind=cat/part-0.parquet`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from recordmill.errors import ConfigError
from recordmill.job.input_facts import ColumnRoles
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.transforms.model.source import Parts
from recordmill.transforms.model.usual_columns import LABELS
from recordmill.transforms.sources.files.partitions import values_of
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.rows.columns.row_options import RowOptions

# Keys of folders that are unlikely to be classes.
_OTHERS = {"year", "month", "day", "hour", "minute", "date", "dt", "ds", "time", "week", "quarter"}
_OTHERS |= {"split"}


def path_columns(
    keys: Sequence[str],
    names: Collection[str],
    options: RowOptions,
    *,
    labelled: bool,
    used: Collection[str | None] = (),
) -> tuple[str, ...]:
    """Return the keys of folders that have a role, and are not columns of the files.

    Options name these keys. Without a column of classes, a key with its usual name is one of them.

    Args:
      keys: Keys of the folders.
      names: Columns of the files.
      options: Options that name columns.
      labelled: Whether paths give classes.
      used: Keys that other options name, which are not the classes by default.
    """
    wanted = {options.label_column, options.split_column, options.group_column, options.key_column}
    labelled |= options.label_column is not None
    if not labelled and not {name.lower() for name in names}.intersection(LABELS):
        wanted |= {key for key in keys if key.lower() in LABELS and key not in used}
    return tuple(key for key in keys if key in wanted and key not in names)


def unread_columns(
    keys: Sequence[str], roles: ColumnRoles, *, where: str, may_lack_classes: bool
) -> Mapping[str, Note]:
    """Return a note, by its topic, on the keys of folders without a role.

    Args:
      keys: of the folders, without columns of the files.
      roles: of the columns.
      where: the input, for messages.
      may_lack_classes: whether the records need no classes.

    Raises:
      ConfigError: a key may be the class, and there is no other; or it is a number to predict.
    """
    if roles.target in keys:
        raise ConfigError(
            f"{option_name('label_type')}: numbers are read from columns of files only, and"
            f" {roles.target!r} is in the names of the folders of {where}: make it a column"
        )
    unread = [key for key in keys if key not in roles.named()]
    if not unread:
        return {}
    text = (
        f"the names of the folders of {where} hold columns"
        f" ({', '.join(f'{key}=' for key in unread)})"
    )
    options = (
        f"--label-column {unread[0]} takes the classes from them, --group-column groups,"
        f" --split-column splits, and --column-from {unread[0]}= a column of text"
    )
    classless = roles.classes is None and roles.target is None
    if classless and not may_lack_classes and not {key.lower() for key in unread} <= _OTHERS:
        raise ConfigError(
            f"{text} that may be the classes: {options}; {option_name('label_type', 'none')} makes"
            " records without classes, and does not read them"
        )
    return {"folders": Note("unread", f"{text}, which are not read: {options}")}


def refuse_repeated(given: Collection[str], names: Collection[str], *, where: str) -> None:
    """Check that columns that paths give are not columns of the files, too.

    Args:
      given: Columns that paths give.
      names: Columns of the files, and keys of folders with a role.
      where: The input, for messages.

    Raises:
      ConfigError: A column is both.
    """
    if twice := sorted({*given}.intersection(names)):
        raise ConfigError(
            f"{option_name('column_from')}: {where} has a column {twice[0]!r}, too: give the column"
            " of paths another name"
        )


def without_nulls(parts: Parts, columns: Mapping[str, str]) -> set[str]:
    """Return the columns that all paths give. columns: {column of sections: column of records}."""
    found = dict(columns)
    for part in parts if columns else ():
        found = {name: column for name, column in found.items() if not part[name].null_count}
    return {*found.values()}


def path_column(role: str, text: str) -> str:
    """Return the name of the column with the facts of paths that have a role.

    Rejects show it, so it is the same on the command line and in Python.

    Args:
      role: `label` or `group`.
      text: Value of the option that names the fact.
    """
    return f"--{role}-from {text}"


def path_values(names: Sequence[str], files: Sequence[str]) -> dict[str, list[str | None]]:
    """Return {key: value for each file} of folders KEY=VALUE; None for files without the folder."""
    if not names:
        return {}
    values = [values_of(file) for file in files]
    return {name: [one.get(name) for one in values] for name in names}


def with_path_columns(rows: Rows, values: Mapping[str, Sequence[str | None]]) -> Rows:
    """Return rows with further columns of text: {name: values by file, as in `Rows.files`}."""
    columns = rows.columns
    for name, of_files in values.items():
        columns = columns.append_column(name, rows.of_files(of_files))
    return dataclasses.replace(rows, columns=columns)
