"""What files of arrays say of themselves, before a number is read."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from typing import NamedTuple

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.sources.arrays.array_formats import open_arrays
from recordmill.transforms.sources.arrays.chunking import ArrayCut
from recordmill.transforms.sources.arrays.npy import Stored, shape_told
from recordmill.transforms.sources.files.file_stat import Problem
from recordmill.transforms.sources.files.references import (
    Unlabelled,
    broken_label,
    check_unlabelled,
    no_label,
)


class Looked(NamedTuple):
    """A file that was looked at: its array, that of its labels, how many records it gives."""

    array: Stored
    labels: str | None
    records: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayLook:
    """Looks at the headers of files: which array to take of each, how many records it gives.

    cut: how it becomes records. array: its name in a file that holds several.
    label_array: the name of the labels in each file; label_input: a file of them, for an input of
    one file; label_pattern: finds the class in the name of a file, its first group.
    unlabelled: what becomes of files without one. max_bytes: of a record, as it stands in the file.
    """

    cut: ArrayCut = dataclasses.field(default_factory=ArrayCut)
    array: str | None = None
    label_array: str | None = None
    label_input: str | None = None
    label_pattern: str | None = None
    unlabelled: Unlabelled = "reject"
    max_bytes: int = 1 << 28

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        if self.label_pattern is not None and not _compiled(self.label_pattern).groups:
            raise ConfigError(
                "--label-pattern: expected a group around the class, such as '([a-z]+)_[0-9]+', got"
                f" {self.label_pattern!r}"
            )

    @property
    def has_labels(self) -> bool:
        """Whether arrays hold the labels."""
        return self.label_array is not None or self.label_input is not None

    def named(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """References with the classes that are in the names of files."""
        if self.label_pattern is None:
            return rows
        labels = [_label_in(key, self.label_pattern) for key in rows[batch.KEY].to_pylist()]
        return batch.set_column(rows, batch.LABEL, pa.array(labels, pa.string()))

    def at(self, file: tuple[str, int, int, str | None]) -> Looked | Problem:
        path, size, mtime, label = file
        try:
            with open_arrays(path, size=size, mtime=mtime) as opened:
                stored = opened.find(self.array)
                count = self.cut.count(stored.shape)
                self._check_size(stored)
                labels = None
                if self.label_array is not None:
                    found = opened.find(self.label_array, option="--label-array", texts=True)
                    labels = json.dumps([path, size, mtime, found.to_text()])
            if self.label_input is not None:
                labels, found = self._look_at_labels(self.label_input)
            if labels is not None:
                self._check_labels(found, count)
            elif self.label_pattern is not None:
                self._check_named(label)
        except RecordError as error:
            return Problem(error.reason, error.detail)
        return Looked(stored, labels, count)

    def _look_at_labels(self, path: str) -> tuple[str, Stored]:
        """Raises ConfigError where there are none."""
        place = Location.parse(path)
        if not place.exists():
            raise ConfigError(f"--label-input {path}: there is no such file; check the path")
        entry = place.stat()
        try:
            with open_arrays(str(place), size=entry.size, mtime=entry.mtime_ns) as opened:
                found = opened.find(self.label_array, option="--label-array", texts=True)
        except RecordError as error:
            raise ConfigError(f"--label-input {path}: {error.detail}") from error
        return json.dumps([str(place), entry.size, entry.mtime_ns, found.to_text()]), found

    def _check_labels(self, labels: Stored, count: int) -> None:
        wanted = count if self.cut.unit == "item" else 1
        one = labels.shape == () and wanted == 1 and self.cut.unit != "item"
        if labels.numbers.kind not in "biuUS":
            raise RecordError(
                Reason.BAD_VALUE,
                f"labels of {labels.numbers.name}: classes are integers, bools or texts",
            )
        if labels.shape != (wanted,) and not one:
            what = "items" if self.cut.unit == "item" else "array"
            raise RecordError(
                Reason.BAD_VALUE,
                f"labels of the shape {list(labels.shape)} for {wanted} {what}: expected one each"
                + ("" if self.cut.unit == "item" else " (--per-item makes a record of each item)"),
            )

    def _check_named(self, label: str | None) -> None:
        if label is None and self.unlabelled == "reject":
            raise RecordError(*no_label("a name that --label-pattern finds it in"))
        if label is not None and (why := broken_label(label)):
            raise RecordError(Reason.BAD_NAME, why)

    def _check_size(self, stored: Stored) -> None:
        """Raises RecordError for what takes more memory than is allowed."""
        whole = stored.solid and self.cut.unit != "array"
        size = stored.bytes if whole else self._record_bytes(stored)
        if size <= self.max_bytes:
            return
        what = f"{shape_told(stored.shape)} {stored.numbers.name}"
        advice = "cut it with --chunk, or allow more"
        if whole:
            what += ", compressed in one piece"
            advice = "save it as it is (np.savez, .npy), or allow more"
        raise RecordError(
            Reason.TOO_LARGE,
            f"{what}: {size} bytes at once, more than --max-array-bytes {self.max_bytes}: {advice}",
        )

    def _record_bytes(self, stored: Stored) -> int:
        """Of the largest record."""
        if self.cut.unit == "array":
            return stored.bytes
        length = stored.shape[self.cut.along(stored.shape)]
        steps = 1 if self.cut.unit == "item" else min(self.cut.size, length)
        return stored.bytes // length * steps


@functools.lru_cache(maxsize=8)
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--label-pattern: no regular expression: {error}") from error


def _label_in(key: str, pattern: str) -> str | None:
    found = _compiled(pattern).search(key)
    return (found[1] or None) if found else None
