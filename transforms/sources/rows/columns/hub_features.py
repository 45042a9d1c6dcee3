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

from recordmill.errors import ConfigError
from recordmill.format.typed_json import parse_json
from recordmill.job.input_facts import ColumnRoles
from recordmill.option_names import option_name
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.model import batch
from recordmill.transforms.model.ragged import list_array
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.row_formats.columnar.columnar import ColumnarFile
from recordmill.transforms.sources.row_formats.reading.row_file import RowFile, Rows
from recordmill.transforms.sources.row_formats.values.text_columns import as_text

_KEY = b"huggingface"
_LISTS = ("List", "LargeList", "Sequence")

Names = tuple[str, ...]


class HubClassNames:
    """Names of classes in the metadata of the files of a table."""

    def __init__(self) -> None:
        self._first: tuple[str, Mapping[str, Names]] | None = None
        self._others: dict[str, tuple[str, Names | None]] = {}

    def add(self, file: File, opened: RowFile) -> None:
        """Take the names from the metadata of a file whose header has been read."""
        found = _names_by_column(opened.arrow_schema) if isinstance(opened, ColumnarFile) else {}
        if self._first is None:
            self._first = file.key, found
        _, names = self._first
        for column in names.keys() | found.keys():
            if names.get(column) != found.get(column):
                self._others.setdefault(column, (file.key, found.get(column)))

    def of(self, roles: ColumnRoles) -> Mapping[str, str] | None:
        """Return the names of classes by their numbers, as text; None if labels are the classes.

        Raises:
          ConfigError: the files name different classes, or two classes have the same name.
        """
        label = roles.label or roles.labels
        if label is None or self._first is None:
            return None
        file, columns = self._first
        names = columns.get(label)
        _check_distinct(names, label)
        if label in self._others:
            other, found = self._others[label]
            _check_distinct(found, label)
            how = f"the metadata of {file} and {other} name different classes for"
            if names is None or found is None:
                with_names, without = (other, file) if names is None else (file, other)
                how = f"the metadata of {with_names}, but not that of {without}, name classes for"
            raise ConfigError(
                f"{how} the column {label!r}: make a dataset of each, or pass"
                f" {option_name('label_type', 'int')} or none"
            )
        if names is None:
            return None
        return {str(number): name for number, name in enumerate(names)}


def with_class_names(rows: Rows, names: Mapping[str, str] | None, roles: ColumnRoles) -> Rows:
    """Return rows with the names of classes instead of their numbers. names: by number."""
    label = roles.label or roles.labels
    if names is None or label is None:
        return rows
    labels, problems = _names_of_numbers(rows.columns[label], names, label)
    return rows.replace(batch.set_column(rows.columns, label, labels), problems)


def _names_by_column(schema: pa.Schema) -> dict[str, Names]:
    """Return the names of the classes of columns of numbers, or of lists of numbers, in order."""
    found = {}
    for column, feature in features_of(schema).items():
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        elif isinstance(feature, Mapping) and feature.get("_type") in _LISTS:
            feature = feature.get("feature")
        if not isinstance(feature, Mapping) or feature.get("_type") != "ClassLabel":
            continue
        names = feature.get("names")
        if isinstance(names, list) and names and all(isinstance(one, str) for one in names):
            found[column] = tuple(names)
    return found


def _check_distinct(names: Names | None, column: str) -> None:
    """Raise ConfigError if two classes have the same name."""
    twice = next((name for name in names or () if (names or ()).count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"the metadata of the file names two classes of column {column!r} {twice!r}: write the"
            f" file with distinct names, or pass {option_name('label_type', 'int')} or none"
        )


def _names_of_numbers(
    column: pa.Array, names: Mapping[str, str], label: str
) -> tuple[pa.Array, dict[int, str]]:
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
    problems: dict[int, str] = {}
    for row, code in zip(rows.tolist(), codes.indices.to_pylist(), strict=True):
        if code is not None and unknown[code]:
            why = f"the class {codes.dictionary[code].as_py()} in column {label!r} has no name: the"
            why += f" metadata of the file has {len(names)} names"
            problems.setdefault(row, why)
    labels = pa.array(found, pa.string()).take(codes.indices)
    if lists is not None:
        labels = list_array(labels, offsets_of(counts))
    return labels, problems


def features_of(schema: pa.Schema) -> Mapping[str, object]:
    """Return the features that the metadata describes; none if there are no valid metadata."""
    try:
        found: object = parse_json((schema.metadata or {}).get(_KEY, b"{}"))
    except ValueError:
        return {}
    for name in ("info", "features"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
