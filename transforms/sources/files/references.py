"""What the sources of files share: the columns of a reference, split names, files without label."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Any, Literal, get_args

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import ListingPart
from recordmill.transforms.sources.files.file_stat import Problem
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.row_formats.rows import SECTION_BYTES, FileSection

Unlabelled = Literal["reject", "keep"]
LINE_BREAK = re.compile("[\n\r]")

# The columns of every listing of files, in this order; user columns follow.
COLUMNS = pa.schema(
    [
        pa.field(batch.KEY, pa.string()),
        pa.field(batch.LABEL, pa.string()),
        pa.field(batch.GROUP, pa.string()),
        pa.field(batch.SPLIT, pa.string()),
        pa.field(batch.PATH, pa.string()),
        pa.field(batch.SIZE, pa.int64()),
        pa.field(batch.MTIME, pa.int64()),
    ]
)

_SPLITS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}


def known_split(name: str) -> str | None:
    """train, validation or test for the usual names of them, in any case; None for another name."""
    return _SPLITS.get(name.lower())


def check_unlabelled(value: str) -> None:
    """Raises ConfigError unless the value is an `Unlabelled`."""
    if value not in get_args(Unlabelled):
        raise ConfigError(f"expected unlabelled to be 'reject' or 'keep', got {value!r}")


def no_label(where: str) -> Problem:
    """The problem of a record without label; `where` says where the label would stand."""
    return Problem(Reason.UNLABELLED, f"no label: expected {where}")


def broken_label(label: str) -> str | None:
    """Why a class cannot have such a name, None if it can."""
    if LINE_BREAK.search(label) is None:
        return None
    return (
        f"the class name {label!r} has a line break, and labels.txt has a line per name: rename it"
    )


# Beside those: where rows stand in a file, see `rows.Section`.
START = "__start__"
END = "__end__"
ROW = "__row__"
SECTIONS = pa.schema([*COLUMNS, *(pa.field(name, pa.int64()) for name in (START, END, ROW))])

PART_BYTES = SECTION_BYTES  # of what a part of sections stands for, about
_PART_FILES = 1024  # sections of a part, at most


@dataclasses.dataclass
class References:
    """Collects references, rejects and what was filtered, into parts of `batch.ROWS` rows.

    totals: what was taken so far, in words.
    """

    schema: pa.Schema = COLUMNS
    rows: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    rejects: list[Reject] = dataclasses.field(default_factory=list)
    filtered: dict[str, int] = dataclasses.field(default_factory=dict)
    totals: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def add(
        self,
        key: str,
        path: str,
        size: int,
        mtime: int,
        *more: int,
        label: str | None,
        split: str | None,
    ) -> None:
        """size: bytes; mtime: nanoseconds since the epoch; more: columns after those."""
        self.rows.append((key, label, None, split, path, size, mtime, *more))

    def reject(self, key: str, problem: Problem) -> None:
        self.rejects.append(Reject(key, "read", problem.reason, problem.detail))

    def filter(self, by: str) -> None:
        self.filtered[by] = self.filtered.get(by, 0) + 1

    @property
    def full(self) -> bool:
        return len(self.rows) + len(self.rejects) >= batch.ROWS

    def take(self) -> ListingPart:
        """What was collected since the last call."""
        self.totals["rows"] += len(self.rows)
        self.totals.update(f"rejected as {reject.reason}" for reject in self.rejects)
        self.totals.update({f"left out as {by}": n for by, n in self.filtered.items()})
        rows = self._batch() if self.rows else None
        listed = ListingPart(rows=rows, rejects=self.rejects, filtered=self.filtered)
        self.rows, self.rejects, self.filtered = [], [], {}
        return listed

    def told(self) -> str:
        """What became of all that is no row."""
        others = [f"{n} {what}" for what, n in sorted(self.totals.items()) if n and what != "rows"]
        return ", ".join(others)

    def _batch(self) -> pa.RecordBatch:
        columns = zip(*self.rows, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.record_batch(arrays, schema=self.schema)


@dataclasses.dataclass
class Sections(References):
    """Collects sections of files into parts that a task reads: of one large file, or many small
    ones.
    """

    schema: pa.Schema = SECTIONS
    bytes: int = 0

    def has_room(self, size: int) -> bool:
        """Whether a section of that many bytes should come to the others."""
        if not self.rows:
            return True
        return self.bytes + size <= PART_BYTES and len(self.rows) < _PART_FILES and not self.full

    def add_section(
        self, file: File, section: FileSection, *, label: str | None, split: str | None
    ) -> None:
        """Under a key such as FILE@START."""
        key, path, size, mtime = file
        where = (section.start, section.end, section.row)
        self.add(f"{key}@{section.start}", path, size, mtime, *where, label=label, split=split)
        self.bytes += section.size

    def take(self) -> ListingPart:
        self.bytes = 0
        return super().take()
