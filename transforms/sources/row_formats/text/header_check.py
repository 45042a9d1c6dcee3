"""Check of the first row of a CSV or TSV file: whether it names the columns or is data."""

from __future__ import annotations

import collections
import csv
import shlex
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.notes import count_of
from recordmill.option_checks import list_text
from recordmill.option_names import option_name
from recordmill.transforms.model.placeholders import is_placeholder
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.reading.row_format import FileFormat, RowFormat

DELIMITERS = ";\t|,"  # usual delimiters of columns
_NUMBER = r"^[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?$"
_DATE = r"^(\d{4}-\d\d?-\d\d?|\d\d?[/.]\d\d?[/.]\d{2,4})([ T]|$)"
_MOST = 0.95  # fraction of values from which on a column is one of numbers or dates
_YEARS = range(1800, 2101)
_LOGGER, _LOGGER_LINES = "TOA5", 4  # format of Campbell Scientific, and lines of its header
_LEAST_ROWS = 20  # fewer rows may have one value more than the header by chance
_SHOWN = 3  # names in a message
_SHOWN_TEXT = 60  # characters of a line in a message
_LOOKED_AT = 1000  # lines


def data_in_header(names: Sequence[str], rows: pa.RecordBatch) -> str | None:
    """Return why the first row looks like data, None if it looks like column names.

    A text above numbers or dates is a column name. If there is none, the row is data if a number is
    above numbers, a date is above dates, or the values of half of the columns occur again below.

    Args:
      names: the cells of the first row.
      rows: some rows below, string[n] each.
    """
    columns = [pc.utf8_trim_whitespace(column).drop_null() for column in rows.columns]
    if not len(rows):
        return None
    over: dict[str, list[str]] = {"numbers": [], "dates": []}
    for name, column in zip(names, columns, strict=True):
        for kind, form in (("numbers", _NUMBER), ("dates", _DATE)):
            if not name or is_placeholder(name) or _share(column, form) < _MOST:
                continue
            if not _share(pa.array([name]), form):
                return None
            over[kind].append(name)
    if over["dates"] or (over["numbers"] and not _is_sequence(over["numbers"])):
        kind = "numbers" if over["numbers"] else "dates"
        columns_of = "a column" if len(over[kind]) == 1 else "columns"
        return f"{_quoted(over[kind])} would name {columns_of} of {kind}"
    again = _values_again(names, columns, rows)
    if len(names) > 1 and 2 * len(again) >= len(names):
        occur = "occurs" if len(again) == 1 else "occur"
        return f"{_quoted(again)} {occur} again in the rows below"
    return None


def other_layout(names: Sequence[str], rows: Rows, *, quotes: bool) -> str | None:
    """Return why the first row does not fit the rows below, with advice; None if it fits.

    rows: the rows below, as parsed with these names. quotes: whether quotes enclose values.
    """
    quoted = [name for name in names if len(name) > 1 and name[0] == name[-1] == '"']
    if quotes and quoted:
        return (
            f"the quotes are part of the name {quoted[0]}, because spaces precede them: pass"
            " --trim, which drops the spaces"
        )
    if not quotes and len(quoted) == len(names):
        return (
            f"all names are in quotes, such as {names[0]}: if quotes enclose values, pass"
            " --quoting on"
        )
    if names[0].startswith("#"):
        wrong = sum(" column" in bad.why for bad in rows.bad)
        if wrong > len(rows.columns):
            return (
                "the first line begins with '#', and the rows below have a different number of"
                " columns: if that line is a comment, pass --comment '#'"
            )
    if len(names) == 1 and len(rows.columns):
        counts = {text.count(" ") for text in rows.columns[0].drop_null().to_pylist()}
        spaces = names[0].count(" ")
        if spaces and counts == {spaces}:
            return (
                f"it has one column, {names[0]!r}, and each row has {spaces} spaces: if spaces"
                " separate columns, pass --delimiter ' '"
            )
        parts = {len(text.split()) for text in rows.columns[0].drop_null().to_pylist()}
        plain = not any(one in names[0] for one in DELIMITERS)
        if plain and parts == {len(names[0].split())} != {1}:
            return (
                f"it has one column, {names[0]!r}, and each row has {parts.pop()} parts with spaces"
                " between them: if these are columns, pass --delimiter whitespace"
            )
    return None


def late_header(
    names: Sequence[str], rows: Rows, lines: Sequence[str], file_format: FileFormat
) -> str | None:
    """Return why the header seems to be below the first row, with advice; None if it does not.

    Exports of instruments and banks often begin with lines about the whole file.

    rows: the rows below, as parsed with these names. lines: the first lines of the file.
    """
    wrong = sum(" column" in bad.why for bad in rows.bad)
    delimiter = file_format.delimiter.decode()
    if names[0] == _LOGGER and len(lines) > _LOGGER_LINES:
        return (
            "it looks like a TOA5 file of a Campbell Scientific logger, whose second line names the"
            " columns, and whose third and fourth describe them: pass --skip-rows"
            f" {file_format.skip_rows + 1} --units-rows {_LOGGER_LINES - 2}"
        )
    others = [one for one in DELIMITERS if one != delimiter and one in "".join(names)]
    one_more = f"expected {len(names)} columns, got {len(names) + 1}"
    some_rows = len(rows.bad) >= _LEAST_ROWS and not len(rows.columns)
    if some_rows and not others and all(one_more in bad.why for bad in rows.bad):
        return (
            "each row has one value more than the header, as R writes tables with row names: pass"
            f" --skip-rows {file_format.skip_rows + 1} --columns"
            f" {shlex.quote(list_text(['row', *names]))}"
        )
    if wrong <= len(rows.columns) or others or names[0].startswith("#"):
        return None
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if file_format.quotes else csv.QUOTE_NONE
    texts = [line.rstrip(delimiter) for line in lines[:_LOOKED_AT]]
    cells = [next(csv.reader([text], delimiter=delimiter, quoting=quoting), []) for text in texts]
    counts = [len(one) for one in cells]
    if not any(counts):
        return None
    (most, _), *_ = collections.Counter(filter(None, counts)).most_common(1)
    first = counts.index(most)
    header = pa.array([name.strip() for name in cells[first]])
    values = header.filter(pc.match_substring_regex(header, f"^$|{_NUMBER}|{_DATE}")).to_pylist()
    may_be_data = (values and not _is_sequence(values)) or len(header.unique()) < most
    if most <= len(names) or may_be_data:
        return None
    number = first + file_format.skip_rows
    return (
        f"the first row has {count_of(len(names), 'column')}, but most rows below have {most}, from"
        f" line {number + 1} on, {lines[first][:_SHOWN_TEXT]!r}: if that is the header, pass"
        f" --skip-rows {number}"
    )


def refuse_delimiter(names: Sequence[str], row_format: RowFormat, where: str) -> None:
    """Raise ConfigError if the only column has a delimiter in its name, which the file gives."""
    if row_format.columns or row_format.header == "no" or len(names) != 1:
        return
    found = next((one for one in DELIMITERS if one in names[0]), None)
    if found is not None:
        shown = "tab" if found == "\t" else repr(found)
        raise ConfigError(
            f"{where} has one column, {names[0]!r}: if it holds several, pass"
            f" {option_name('delimiter', shown)}; if not, rename it without {shown}"
        )


def example_names(count: int) -> str:
    """Return an example of names for that many columns, as --columns takes them."""
    names = [f"c{number}" for number in range(1, count + 1)]
    return ",".join(names if count <= 5 else [*names[:2], "...", names[-1]])


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in collections.Counter(names).items() if count > 1]


def _share(column: pa.Array, form: str) -> float:
    """Return the fraction of the values that match a form, 0 for a column without values."""
    if not len(column):
        return 0.0
    matches = pc.match_substring_regex(column, form)
    return float(pc.mean(matches.cast(pa.int8())).as_py())


def _is_sequence(names: Sequence[str]) -> bool:
    """Return whether names are years, or the numbers from 0 that pandas writes as names."""
    if len(names) < 2 or not all(name.isdecimal() for name in names):
        return False
    numbers = [int(name) for name in names]
    steps = set(np.diff(numbers).tolist())
    if len(steps) != 1 or steps == {0}:
        return False
    return all(one in _YEARS for one in numbers) or (numbers[0] == 0 and steps == {1})


def _values_again(
    names: Sequence[str], columns: Sequence[pa.Array], rows: pa.RecordBatch
) -> list[str]:
    """Return the names that are values of their columns, not counting repeated headers."""
    equal = np.ones(len(rows), np.bool_)
    for name, column in zip(names, rows.columns, strict=True):
        trimmed = pc.utf8_trim_whitespace(column)
        equal &= np.asarray(pc.equal(trimmed, name).fill_null(name == ""))
    repeats = int(equal.sum())
    return [
        name
        for name, column in zip(names, columns, strict=True)
        if name
        and not is_placeholder(name)
        and int(pc.sum(pc.equal(column, name)).as_py() or 0) > repeats + 1
    ]


def _quoted(names: Sequence[str]) -> str:
    """Return the first names, in quotes."""
    shown = [repr(name) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more
