"""Values of a column that holds files: bytes, structs of bytes and a path, or base64 text."""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason
from recordmill.format.typed_json import parse_json
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.row_formats.values.text_columns import (
    decode_dictionary,
    is_binary,
    is_text,
    value_type,
)

BYTES, PATH = "bytes", "path"  # fields of structs, as dataset hubs export them
MOST_BYTES = 256 << 20  # of a value

_DATA_URL = re.compile(r"data:[^,]*?;base64,", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class MediaValues(NamedTuple):
    """The files of n rows.

    content: large_binary[n], null if there is none. paths: of n rows, None if there is none.
    problems: {row: why it has neither}.
    """

    content: pa.Array
    paths: list[str | None]
    problems: dict[int, RejectCause]


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values of a type are bytes."""
    return is_binary(kind) or pa.types.is_fixed_size_binary(kind)


def is_bytes_struct(kind: pa.DataType) -> bool:
    """Return whether values of a type are structs with a field of bytes."""
    at = kind.get_field_index(BYTES) if pa.types.is_struct(kind) else -1
    return at >= 0 and is_bytes(kind.field(at).type)


def type_fault(kind: pa.DataType) -> str | None:
    """Return why values of a type cannot hold files, with what to do; None if they can."""
    kind = value_type(kind)
    parts = [kind]
    if pa.types.is_struct(kind):
        parts = [field.type for field in kind if field.name in (BYTES, PATH)]
    if parts and all(is_bytes(one) or _may_be_text(value_type(one)) for one in parts):
        return None
    if is_list(kind):
        return (
            f"{kind}, but a list of files per row is not supported: write one row for each file,"
            " or a column with one file per row"
        )
    return (
        f"{kind}: expected bytes, structs of {BYTES!r} and a {PATH!r}, or base64 text; name the"
        " column that holds the files"
    )


def _may_be_text(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_null(kind)


def read_values(column: pa.Array, name: str) -> MediaValues:
    """Return the files in a column. name: of the column, for messages."""
    column = decode_dictionary(column)
    if pa.types.is_struct(column.type):
        content, path = (_field(column, one) for one in (BYTES, PATH))
    else:
        content, path = column, pa.nulls(len(column), pa.string())
    paths, unreadable = _texts(path)
    problems: dict[int, RejectCause] = {}
    if not is_bytes(content.type):
        content, problems = _decoded(content, paths, name)
    content = content.cast(pa.large_binary())
    for row, size in enumerate(pc.binary_length(content).to_pylist()):
        if row in problems:
            continue
        if size is None and row in unreadable:
            problems[row] = RejectCause(Reason.BAD_NAME, f"column {name!r}: a path is not UTF-8")
        elif size is None and not paths[row]:
            problems[row] = RejectCause(Reason.BAD_VALUE, f"no value in column {name!r}")
        elif size == 0:
            problems[row] = RejectCause(Reason.EMPTY, f"0 bytes in column {name!r}")
        elif size is not None and size > MOST_BYTES:
            why = f"{size} bytes in column {name!r}, more than {MOST_BYTES}"
            problems[row] = RejectCause(Reason.TOO_LARGE, why)
    return MediaValues(content, [one or None for one in paths], problems)


def _field(column: pa.Array, name: str) -> pa.Array:
    """Return a field of structs, null where the struct is; all null if there is no such field."""
    if column.type.get_field_index(name) < 0:
        return pa.nulls(len(column), pa.string())
    return decode_dictionary(pc.struct_field(column, name))


def _texts(column: pa.Array) -> tuple[list[str | None], set[int]]:
    """Return the texts of a column, and the rows whose text is not UTF-8, which have none."""
    texts: list[str | None] = []
    invalid: set[int] = set()
    for row, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
            invalid.add(row)
    return texts, invalid


def _decoded(
    column: pa.Array, paths: list[str | None], name: str
) -> tuple[pa.Array, dict[int, RejectCause]]:
    """Return (content, problems) of texts: base64, or JSON objects of base64 and a path.

    paths: gets the paths of objects.
    """
    texts, invalid = _texts(column)
    problems = {
        row: RejectCause(Reason.BAD_VALUE, f"column {name!r}: not UTF-8") for row in invalid
    }
    contents: list[bytes | None] = []
    for row, text in enumerate(texts):
        try:
            if text is not None and text.startswith("{"):
                text, paths[row] = _members(text)
            elif text == "" and paths[row]:
                text = None
            contents.append(None if text is None else decode_base64(text))
        except ValueError as error:
            problems[row] = RejectCause(Reason.BAD_VALUE, f"column {name!r}: {error}")
            contents.append(None)
    return pa.array(contents, pa.large_binary()), problems


def _members(text: str) -> tuple[str | None, str | None]:
    """Return (base64, path) of a JSON object. Raises ValueError."""
    try:
        found = parse_json(text.encode())
    except ValueError as error:
        raise ValueError("not a valid JSON object") from error
    content, path = (found.get(one) for one in (BYTES, PATH))
    for one in (content, path):
        if not isinstance(one, str | None):
            raise ValueError(
                f"expected an object with base64 text as {BYTES!r} and a path, got another value"
            )
    return content, path


def decode_base64(text: str) -> bytes:
    """Decode base64, which may begin as a data URL and have white space inside.

    Raises:
      ValueError: it is not valid.
    """
    if text[:5].lower() == "data:":
        text = _DATA_URL.sub("", text, count=1)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        try:
            return base64.b64decode(_SPACE.sub("", text), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError("not valid base64") from error
