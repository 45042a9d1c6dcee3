"""Search for the column of a table that holds files, by types and first values of columns."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.model.usual_columns import quoted
from recordmill.transforms.sources.media.media_values import is_bytes, is_bytes_struct
from recordmill.transforms.sources.row_formats.columnar.columnar import ColumnarFile
from recordmill.transforms.sources.row_formats.reading.row_file import RowFile
from recordmill.transforms.sources.row_formats.text.json_lines import JsonLines
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.values.nested import columns_of
from recordmill.transforms.sources.row_formats.values.text_columns import value_type

FORMATS = ("parquet", "arrow", "jsonl")  # formats in which columns of files are found
NAMES = (
    *("image", "img", "picture", "photo", "video", "clip", "audio", "array", "file"),
    *("bytes", "data", "content", "image_bytes", "image_data", "encoded"),
)  # usual names, in lower case

# The beginning of a JSON value that is base64 text; shorter texts may be anything.
_BASE64 = re.compile(
    r'"(?:[^"\\]|\\.)+"\s*:\s*(?:\{[^{}]*?"bytes"\s*:\s*)?'
    r'"(?:(?i:data:[^,"]*;base64,))?(?:[A-Za-z0-9+/]|\\/){64}'
)

_TOKEN = re.compile(r'(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")(?P<key>\s*:)?|[][{}\n]')


def find_media_column(
    file: RowFile, *, path_names: Sequence[str], dropped: Sequence[str], where: str
) -> str | None:
    """Return the column of a table that holds files; None if there is none, as in a listing.

    path_names: usual names of columns of paths, in lower case; text in such a column comes before
      bytes in a column with another name, or inside of structs. dropped: columns to ignore. where:
      the file, for messages.

    Raises:
      ConfigError: several columns may hold the files, or only columns of lists hold any.
    """
    if isinstance(file, JsonLines):
        columns, in_lists = _columns_of_base64(file.first_text, dropped)
        if not columns:
            _refuse_lists(in_lists, where)
        return _only(columns, where)
    if not isinstance(file, ColumnarFile):
        return None
    fields = [field for field in file.arrow_schema if field.name not in dropped]
    structs = [field.name for field in fields if is_bytes_struct(value_type(field.type))]
    if structs:
        return _only(structs, where)
    plain = [field.name for field in fields if is_bytes(value_type(field.type))]
    usual = [name for name in plain if name.lower() in NAMES]
    in_lists = [field.name for field in fields if _is_list_of_files(field.type)]
    texts = {field.name.lower() for field in fields if field.name not in (*plain, *in_lists)}
    if not usual and not texts.isdisjoint(path_names):
        return None
    if not plain:
        _refuse_lists(in_lists, where)
        if texts.isdisjoint(path_names):
            plain = _nested_columns(file.header() or {}, dropped)
    return _only(usual or plain, where)


def _nested_columns(column_types: ColumnTypes, dropped: Sequence[str]) -> list[str]:
    """Return the columns inside of structs that hold bytes, or structs of them."""
    left = column_types.keys() - columns_of(dropped, column_types)
    nested = {name: one.types[0] for name, one in column_types.items() if "." in name}
    return [
        name
        for name, kind in nested.items()
        if name in left and (is_bytes(kind) or is_bytes_struct(kind))
    ]


def _is_list_of_files(kind: pa.DataType) -> bool:
    """Return whether values of a type are lists of bytes, or of structs with a field of bytes."""
    if not is_list(kind):
        return False
    item = value_type(kind.value_type)
    return is_bytes(item) or is_bytes_struct(item)


def _refuse_lists(names: Sequence[str], where: str) -> None:
    """Raise ConfigError if columns hold files in lists. names: of these columns."""
    if names:
        raise ConfigError(
            f"{where} holds files in lists, in {quoted(names)}, but a list of files per row is not"
            " supported: write one row for each file, or leave them out, with"
            f" {option_name('drop_columns', names[0])}"
        )


def _columns_of_base64(text: str, dropped: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns of base64 text at the beginning of JSON lines, and lists that have it.

    Values inside of objects have dotted names. dropped: columns to ignore.
    """
    starts = {match.start() for match in _BASE64.finditer(text)}
    found: dict[str, bool] = {}  # whether it is a list
    outer: list[str | None] = []  # names of the objects around a place; None for a list
    name: str | None = ""
    for token in _TOKEN.finditer(text) if starts else ():
        mark = token[0]
        if token["key"]:
            name = _unescaped(token["text"])
            if token.start() in starts:
                path = [*outer[1:], name]
                inside = itertools.takewhile(lambda one: one is not None, path)
                found[".".join(map(str, inside))] = None in path
        elif mark == "{":
            outer.append(name)
            name = ""
        elif mark == "[":
            outer += [name, None]
            name = ""
        elif mark == "\n":
            outer.clear()
        elif mark in "]}":
            del outer[-2 if mark == "]" else -1 :]
    left = found.keys() - columns_of(dropped, found)
    columns, lists = (
        [one for one in found if one in left and found[one] is kind] for kind in (False, True)
    )
    return columns, lists


def _unescaped(text: str) -> str:
    """Return a string of JSON, as it is spelled if it is invalid."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]


def _only(names: Sequence[str], where: str) -> str | None:
    if len(names) > 1:
        raise ConfigError(
            f"several columns of {where} hold files: {quoted(names)}; name one of them with"
            f" {option_name('bytes_column')}, and leave the others out, such as"
            f" {option_name('drop_columns', names[1])}"
        )
    return next(iter(names), None)
