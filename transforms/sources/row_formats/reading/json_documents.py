"""Descriptions of JSON in files of rows, with advice for JSON that is not in lines."""

from __future__ import annotations

import json
import re
import shlex
from typing import Final

from recordmill.errors import ConfigError
from recordmill.format.file_content import Content

SPACE: Final = "\ufeff \t\r\n"  # concatenated files have byte order marks inside
_DECODER = json.JSONDecoder()
# Beginnings of documents that pandas writes with the orientations columns, index and split.
_PANDAS = re.compile(r'\{\s*("[^"]*"\s*:\s*\{\s*"0"\s*:|"0"\s*:\s*\{|"columns"\s*:\s*\[)')
_OPEN_LINE = re.compile(r'\{\s*("[^"]*"\s*:\s*\[\s*)?')  # the first line of an object over several
_ARRAYS = re.compile(r"\[\s*\[")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_KEY = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*:\s*', re.DOTALL)
_RECORDS = re.compile(r"\[\s*\{")
_BETWEEN = re.compile(r"[\s,]*")


def describe_json(text: str) -> Content:
    """Return what the JSON in a file is, and how to have it read.

    text: the beginning of the file, which begins as an object or an array.
    """
    text = text.lstrip(SPACE)
    if _ARRAYS.match(text):
        return Content(
            "one JSON array of arrays",
            "write it as CSV, for example by jq -r '.[] | @csv' FILE > FILE.csv",
        )
    if text.startswith("["):
        return Content("one JSON array", _to_lines(""))
    line, end, rest = text.partition("\n")
    is_row = _is_object(line)
    if is_row and rest.strip():
        return Content("a file of JSON lines", "pass --format jsonl")
    if _PANDAS.match(text):
        return Content(
            "one JSON object with all rows, as DataFrame.to_json writes it",
            "write it with to_json(FILE, orient='records', lines=True)",
        )
    if (path := _path_of_records(text)) is not None:
        return Content("one JSON object with all records", _to_lines(path))
    if is_row:
        return Content(
            "one JSON object, such as an error response of a server",
            "pass --format jsonl if it is a row",
        )
    if not end:
        return Content("JSON", "pass --format jsonl if it has one JSON object per line")
    return Content("a JSON object over several lines", _by_jq("."))


def refuse_document(text: str, where: str) -> None:
    """Raise ConfigError if JSON is one document instead of lines.

    Args:
      text: The beginning of the file.
      where: The file, for messages.
    """
    if _is_document(text):
        document = describe_json(text)
        raise ConfigError(
            f"{where} holds {document.noun}, not one JSON object per line: {document.advice}"
        )


def _is_document(text: str) -> bool:
    """Return whether JSON is an array, or an object over several lines, instead of lines.

    An object of one line is a row, unless it is the whole file, as pandas writes it.
    """
    text = text.lstrip(SPACE)
    line, end, rest = text.partition("\n")
    is_open = bool(end) and _OPEN_LINE.fullmatch(line.rstrip()) is not None
    return text.startswith("[") or is_open or (not rest.strip() and bool(_PANDAS.match(text)))


def _to_lines(path: str) -> str:
    """Return advice to write records into lines. path: that of their array, for jq."""
    elements = path + "[]" if path.startswith(".") else f".{path}[]"
    return _by_jq(shlex.quote(elements))


def _by_jq(program: str) -> str:
    jq = f"jq -c {program}"
    return f"write each record into a line of its own, for example by {jq} FILE > FILE.jsonl"


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _path_of_records(text: str) -> str | None:
    """Return the path, for jq, of the first array of objects inside of an object; else None.

    text: the beginning of the object.
    """
    names: list[str] = []
    place = 1
    while place < len(text):
        if text[place] == "}":
            if not names:
                return None
            names.pop()
            place += 1
        elif (key := _KEY.match(text, place)) is not None:
            name = key.group(1)
            bare = name[1:-1]
            step = f".{bare}" if _NAME.fullmatch(bare) else f"[{name}]"
            place = key.end()
            if _RECORDS.match(text, place):
                return "".join([*names, step])
            if text.startswith("{", place):
                names.append(step)
                place += 1
            else:
                try:
                    _, place = _DECODER.raw_decode(text, place)
                except (ValueError, RecursionError):
                    return None  # the text ends here, or is not JSON
        else:
            return None
        found = _BETWEEN.match(text, place)
        place = len(text) if found is None else found.end()
    return None
