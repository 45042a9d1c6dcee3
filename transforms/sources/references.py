"""What the sources of files share: the columns of a reference, split names, files without label."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Literal, get_args

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from transforms import batch
from transforms.kind import Listed
from transforms.sources.stats import Problem

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


@dataclasses.dataclass
class References:
    """Collects references, rejects and what was filtered, into parts of `batch.ROWS` rows."""

    rows: list[tuple[str, str | None, str | None, str, int, int]] = dataclasses.field(
        default_factory=list
    )
    rejects: list[Reject] = dataclasses.field(default_factory=list)
    filtered: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(
        self, key: str, path: str, size: int, mtime: int, *, label: str | None, split: str | None
    ) -> None:
        """size: bytes; mtime: nanoseconds since the epoch."""
        self.rows.append((key, label, split, path, size, mtime))

    def reject(self, key: str, problem: Problem) -> None:
        self.rejects.append(Reject(key, "read", problem.reason, problem.detail))

    def filter(self, by: str) -> None:
        self.filtered[by] = self.filtered.get(by, 0) + 1

    @property
    def full(self) -> bool:
        return len(self.rows) + len(self.rejects) >= batch.ROWS

    def counts(self) -> dict[str, int]:
        """How many rows were collected, and what became of the others, in words."""
        counts = collections.Counter(f"rejected as {reject.reason}" for reject in self.rejects)
        counts.update({f"left out as {by}": n for by, n in self.filtered.items()})
        return {"rows": len(self.rows), **counts}

    def take(self) -> Listed:
        """What was collected since the last call."""
        rows = self._batch() if self.rows else None
        listed = Listed(rows=rows, rejects=self.rejects, filtered=self.filtered)
        self.rows, self.rejects, self.filtered = [], [], {}
        return listed

    def _batch(self) -> pa.RecordBatch:
        keys, labels, splits, paths, sizes, mtimes = zip(*self.rows, strict=True)
        groups = [None] * len(keys)
        columns = (keys, labels, groups, splits, paths, sizes, mtimes)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, COLUMNS, strict=True)]
        return pa.record_batch(arrays, schema=COLUMNS)
