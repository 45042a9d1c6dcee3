"""Search for the column of a table that holds files, by types and first values of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.transforms.sources.media.media_values import is_bytes, is_bytes_struct
from recordmill.transforms.sources.row_formats.columnar import ColumnarFile
from recordmill.transforms.sources.row_formats.json_lines import JsonLines
from recordmill.transforms.sources.row_formats.row_file import RowFile
from recordmill.transforms.sources.rows.column_roles import quoted

FORMATS = ("parquet", "arrow", "jsonl")  # formats in which columns of files are found
NAMES = (
    *("image", "img", "picture", "photo", "video", "clip", "audio", "array", "file"),
    *("bytes", "data", "content", "image_bytes", "image_data", "encoded"),
)  # usual names, in lower case

# The beginning of a JSON value that is base64 text; shorter texts may be anything.
_BASE64 = re.compile(
    r'"((?:[^"\\]|\\.)+)"\s*:\s*(?:\{[^{}]*?"bytes"\s*:\s*)?'
    r'"(?:(?i:data:[^,"]*;base64,))?(?:[A-Za-z0-9+/]|\\/){64}'
)


def find_media_column(
    file: RowFile, *, path_names: Sequence[str], dropped: Sequence[str], where: str
) -> str | None:
    """Return the column of a table that holds files; None if there is none, as in a listing.

    path_names: usual names of columns of paths, in lower case; text in such a column comes before
      bytes in a column with another name. dropped: columns to ignore. where: the file, for
      messages.

    Raises:
      ConfigError: several columns may hold the files.
    """
    if isinstance(file, JsonLines):
        names = dict.fromkeys(_BASE64.findall(file.first_text))
        return _only([name for name in names if name not in dropped], where)
    if not isinstance(file, ColumnarFile):
        return None
    fields = [field for field in file.arrow_schema if field.name not in dropped]
    structs = [field.name for field in fields if is_bytes_struct(_value_type(field))]
    if structs:
        return _only(structs, where)
    plain = [field.name for field in fields if is_bytes(_value_type(field))]
    usual = [name for name in plain if name.lower() in NAMES]
    texts = {field.name.lower() for field in fields if field.name not in plain}
    if not usual and not texts.isdisjoint(path_names):
        return None
    return _only(usual or plain, where)


def _value_type(field: pa.Field) -> pa.DataType:
    kind = field.type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _only(names: Sequence[str], where: str) -> str | None:
    if len(names) > 1:
        raise ConfigError(
            f"several columns of {where} hold files: {quoted(names)}; name one of them with"
            f" --bytes-column, and leave the others out, such as --drop-columns {names[1]}"
        )
    return next(iter(names), None)
