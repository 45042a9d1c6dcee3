"""Errors for an input of rows without a usable record."""

from __future__ import annotations

import collections
import re

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.format.file_content import Content
from recordmill.notes import most_frequent
from recordmill.option_names import option_name
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.walks import SkippedPath
from recordmill.transforms.sources.row_formats.where.condition_syntax import WHERE
from recordmill.transforms.sources.rows.reading.row_inputs import RowInput

_QUOTED = re.compile(r"'[^']*'")
_CAUSES = 3  # maximum number of causes in a message
_LOOKED_AT = 100  # rejects of a part in which causes are searched
_DAMAGE = (Reason.CORRUPT, Reason.TRUNCATED)
_JSON = (
    "expected JSON objects with at least one value and distinct names (b in"
    ' {"a": {"b": 1}} has the name `a.b`)'
)
_TFRECORD = "expected TFRecords of tf.train.Example with at least one feature"


def no_usable_record(rows: RowInput) -> ConfigError:
    """Return the error for files without a usable record, which names the first reject.

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
    found = (rows.origin(file).other_content() for file in rows.files() if file.key == name)
    return next(found, None)


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


class RejectedRows:
    """Counts and examples of rows that are rejected or left out, for the error if all are."""

    def __init__(self) -> None:
        self._counts: collections.Counter[Reason] = collections.Counter()
        self._firsts: dict[Reason, Reject] = {}
        self._causes: dict[str, Reject] = {}  # {detail without names in quotes: reject}
        self._may_be_elsewhere = False
        self._left_out = 0

    def add(self, part: ListingPart) -> None:
        """Count the rows of a part."""
        rejects = part.rejects
        self._left_out += part.filtered.get(WHERE, 0)
        self._counts.update(reject.reason for reject in rejects)
        self._firsts = {reject.reason: reject for reject in rejects[::-1]} | self._firsts
        for reject in rejects[:_LOOKED_AT]:
            self._may_be_elsewhere |= _may_be_elsewhere(reject)
            if len(self._causes) < _CAUSES:
                self._causes.setdefault(_cause(reject), reject)

    def no_rows(self, inputs: Inputs, noun: str, root: str | None, *, advice: str) -> ConfigError:
        """Return the error for an input without a usable row.

        Args:
          inputs: The input, for the message.
          noun: Noun for a row in the message.
          root: Clause on the folder of relative paths, if there is one.
          advice: End of the message.
        """
        if not self._counts:
            if self._left_out:
                return ConfigError(
                    f"{option_name('where')} leaves out all {self._left_out} {noun}s of {inputs}:"
                    " relax it"
                )
            return ConfigError(f"the input {inputs} has no {noun}s")
        by_count = most_frequent(self._counts)
        first = self._firsts[by_count[0][0]]
        examples = list({_cause(first): first, **self._causes}.values())[:_CAUSES]
        reasons = ", ".join(f"{n} {reason}" for reason, n in by_count)
        which = "the first" if len(examples) == 1 else "the first of each cause"
        shown = "; ".join(f"{one.key}: {one.detail}" for one in examples)
        message = f"no {noun} of {inputs} can be used ({reasons}); {which}: {shown}"
        if root is not None and self._may_be_elsewhere:
            message += f"; relative paths were resolved in {root}"
        return ConfigError(message + advice)


def _cause(reject: Reject) -> str:
    return _QUOTED.sub("", reject.detail)


def _may_be_elsewhere(reject: Reject) -> bool:
    """Return whether another folder may have the file, because its path is relative and valid."""
    if reject.reason is not Reason.MISSING or reject.key.startswith("/") or "://" in reject.key:
        return False
    return ", but " not in reject.detail and "its path" not in reject.detail
