"""Class names in the metadata of tables that dataset hubs export.

Source: `datasets` of Hugging Face writes the key `huggingface` into the metadata of the schemas of
Arrow and Parquet files, a JSON object:
{"info": {"features": {COLUMN: {"_type": "ClassLabel", "names": [...]}}}}.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.typed_json import parse_json

_KEY = b"huggingface"


def class_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Return the names of the classes of a column of numbers, in their order; None without names.

    Raises:
      ConfigError: two classes have the same name.
    """
    feature = _features(schema).get(column)
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


def _features(schema: pa.Schema) -> Mapping[str, object]:
    """Return the features that the metadata describes; none if there are no valid metadata."""
    try:
        found: object = parse_json((schema.metadata or {}).get(_KEY, b"{}"))
    except ValueError:
        return {}
    for name in ("info", "features"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
