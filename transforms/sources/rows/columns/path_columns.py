"""Columns of rows in the names of their folders, such as `kind=cat/part-0.parquet`."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.job.input_facts import ColumnRoles
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import Parts
from recordmill.transforms.sources.files.partitions import values_of
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser

# Keys of folders that are unlikely to be classes.
_OTHERS = {"year", "month", "day", "hour", "minute", "date", "dt", "ds", "time", "week", "quarter"}
_OTHERS |= {"split"}


def key_types(
    keys: Sequence[str], parts: Parts, value_parser: ValueParser, *, nullable: bool
) -> ColumnTypes:
    """Infer the types of the keys of folders, which become columns, from their values.

    Args:
      keys: Keys of the folders.
      parts: Parts of the listing.
      value_parser: Parser of the values of the files.
      nullable: Whether all columns are nullable.
    """
    folders: set[str] = set()
    for part in parts if keys else ():
        found = pc.replace_substring_regex(part[batch.KEY], "[^/]*$", "").unique()
        folders.update(found.to_pylist())
    column_types: ColumnTypes = {}
    for name, values in path_values(keys, sorted(folders)).items():
        kind = value_parser.infer_type(name, pa.array(values, pa.string()))
        column_types[name] = kind._replace(nullable=nullable or kind.nullable)
    return column_types


def possible_classes(keys: Sequence[str], roles: ColumnRoles, *, where: str) -> Mapping[str, Note]:
    """Return a note, by its topic, if records lack classes and a key of the folders may be it.

    Args:
      keys: Keys of the folders that are columns.
      roles: Roles of the columns.
      where: The input, for messages.
    """
    others = roles.named().union(roles.dropped)
    found = [key for key in keys if key not in others]
    classless = roles.classes is None and roles.target is None
    if not classless or {key.lower() for key in found} <= _OTHERS:
        return {}
    text = (
        f"no column is the class, and the names of the folders of {where} give columns"
        f" ({', '.join(f'{key}=' for key in found)}): if {found[0]!r} is the class, pass"
        f" --label-column {shlex.quote(found[0])}"
    )
    return {"folders": Note("no-classes", text)}


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


def without_contradictions(
    rows: Rows, values: Mapping[str, Sequence[str | None]], value_parser: ValueParser
) -> Rows:
    """Return rows without those whose value of a column differs from that of a folder KEY=VALUE.

    Missing values, lists and bytes are not compared, nor are columns that are not read.

    Args:
      rows: Rows with typed columns.
      values: {column of the rows: value of the folder of each file, as in `Rows.files`}.
      value_parser: Parser of the values.
    """
    wrong: dict[int, str] = {}
    for name in [name for name in values if name in rows.columns.schema.names]:
        column = rows.columns[name]
        if not _is_comparable(column.type):
            continue
        folders = rows.of_files(values[name])
        expected, unfit = value_parser.cast_or_null(folders, column.type)
        differ = np.asarray(pc.not_equal(column, expected).fill_null(False)) | unfit
        for row in np.flatnonzero(differ & np.asarray(column.is_valid())).tolist():
            value, folder = column[row].as_py(), folders[row].as_py()
            if not _are_equal_numbers(str(value), folder):
                wrong.setdefault(
                    row,
                    f"column {name!r} is {str(value)!r}, but the folder of the file is"
                    f" {name}={folder}: correct one of them, or pass --column-from NAME={name}=,"
                    " which reads the folder as the column NAME",
                )
    return rows.replace(rows.columns, wrong)


def _is_comparable(kind: pa.DataType) -> bool:
    """Return whether texts can be parsed as values of a type."""
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(
        numeric or kind == pa.string() or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    )


def _are_equal_numbers(one: str, other: str) -> bool:
    """Return whether two texts are the same number, such as 1 and 01."""
    try:
        return float(one) == float(other)
    except ValueError:
        return False
