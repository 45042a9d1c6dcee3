"""Class names in the metadata of tables that dataset hubs export.

Source: `datasets` of Hugging Face writes the key `huggingface` into the metadata of the schemas of
Arrow and Parquet files, a JSON object:
{"info": {"features": {COLUMN: {"_type": "ClassLabel", "names": [...]}}}}. A column of lists has
the feature of its items inside: {"_type": "List", "feature": {...}} (or Sequence), or [{...}].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason
from recordmill.format.typed_json import parse_json
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.model.ragged import list_array
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.row_formats.text_columns import as_text

_KEY = b"huggingface"
_LISTS = ("List", "LargeList", "Sequence")


def class_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Return the names of the classes of a column of numbers, in their order; None without names.

    The column may hold lists of numbers.

    Raises:
      ConfigError: two classes have the same name.
    """
    feature = _features(schema).get(column)
    if isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    elif isinstance(feature, Mapping) and feature.get("_type") in _LISTS:
        feature = feature.get("feature")
    if not isinstance(feature, Mapping) or feature.get("_type") != "ClassLabel":
        return None
    names = feature.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        return None
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"the metadata of the file names two classes of column {column!r} {twice!r}: write the"
            " file with distinct names, or pass --label-type int or none"
        )
    return tuple(names)


def names_of_numbers(
    column: pa.Array, names: Mapping[str, str], label: str
) -> tuple[pa.Array, dict[int, RejectCause]]:
    """Return the names of classes, and {row: why it has a number without a name}.

    -1 and empty texts stand for no class. column: numbers as text, or lists of numbers. names: by
    number, as text. label: the name of the column.
    """
    lists = column if is_list(column.type) else None
    rows = np.arange(len(column))
    if lists is not None:
        counts = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
        rows = np.repeat(rows, counts)
        column = as_text(pc.list_flatten(lists), label)
    codes = column.dictionary_encode()
    found: list[str | None] = []
    unknown: list[bool] = []
    for text in codes.dictionary.to_pylist():
        found.append(names.get(text))
        unknown.append(text not in names and text not in ("", "-1"))
    problems: dict[int, RejectCause] = {}
    for row, code in zip(rows.tolist(), codes.indices.to_pylist(), strict=True):
        if code is not None and unknown[code]:
            why = f"the class {codes.dictionary[code].as_py()} in column {label!r} has no name: the"
            why += f" metadata of the file has {len(names)} names"
            problems.setdefault(row, RejectCause(Reason.BAD_VALUE, why))
    labels = pa.array(found, pa.string()).take(codes.indices)
    if lists is not None:
        labels = list_array(labels, offsets_of(counts))
    return labels, problems


def _features(schema: pa.Schema) -> Mapping[str, object]:
    """Return the features that the metadata describes; none if there are no valid metadata."""
    try:
        found: object = parse_json((schema.metadata or {}).get(_KEY, b"{}"))
    except ValueError:
        return {}
    for name in ("info", "features"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
