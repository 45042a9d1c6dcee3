"""The error for an input of rows that has no usable record."""

from __future__ import annotations

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.format.file_content import Content
from recordmill.transforms.sources.files.walks import File, SkippedPath
from recordmill.transforms.sources.rows.row_inputs import RowInput

_DAMAGE = (Reason.CORRUPT, Reason.TRUNCATED)
_JSON = (
    "expected JSON objects with at least one value and distinct names (b in"
    ' {"a": {"b": 1}} has the name `a.b`)'
)
_TFRECORD = "expected TFRecords of tf.train.Example with at least one feature"


def no_usable_record(rows: RowInput) -> ConfigError:
    """Return the error for files without a usable record; it names the first reject.

    Reads the records up to the first reject. Formats that declare their columns have no such error.
    """
    is_tfrecord, first = _first_reject(rows)
    expected = _TFRECORD if is_tfrecord else _JSON
    if first is None:
        return ConfigError(f"no usable record in {rows.input}: {expected}")
    cause = f"the first reject: {first.key}: {first.detail}"
    if is_tfrecord and first.reason in _DAMAGE:
        name = first.key.rpartition("#")[0]
        if (content := _other_content(rows, name)) is not None:
            return ConfigError(f"no usable record in {rows.input}; {name} is {content}")
        advice = "recordmill adopt reports the damage of all files"
        return ConfigError(f"no usable record in {rows.input}; {cause} ({advice})")
    return ConfigError(f"no usable record in {rows.input}: {expected}; {cause}")


def _other_content(rows: RowInput, name: str) -> Content | None:
    """Return the content of the file with a key, None if it is unknown."""
    for one in rows.find():
        if isinstance(one, tuple) and isinstance(one[0], File) and one[0].key == name:
            return rows.origin(one[0]).other_content()
    return None


def _first_reject(rows: RowInput) -> tuple[bool, Reject | None]:
    """Return whether the files are TFRecord files, and the first reject."""
    is_tfrecord = False
    for one in rows.find():
        if isinstance(one, Reject):
            return is_tfrecord, one
        if isinstance(one, SkippedPath):
            continue
        file, _ = one
        is_tfrecord = rows.file_format(file).format == "tfrecord"
        opened = rows.open(file)
        for section in opened.sections():
            for found in opened.read(section, pa.schema([]), ()):
                for row in found.bad[:1]:
                    key = f"{file.key}#{row.number}"
                    return is_tfrecord, Reject(key, "read", row.reason, row.why)
    return is_tfrecord, None
