"""File references: their columns, problems of labels, and their collectors."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Any, Literal

import pyarrow as pa

from recordmill.errors import Reason, Reject
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.files.inputs import is_utf8
from recordmill.transforms.sources.files.walks import File, SkippedPath
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection

Unlabelled = Literal["reject", "keep"]
_BLOCK = 1 << 12  # references that are held as objects, at most
LINE_BREAK = re.compile("[\n\r]")

# The columns of every listing of files, in this order, before the user columns.
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
# Columns of members of archives, with their lineage, ARCHIVE#OFFSET.
ARCHIVED = COLUMNS.append(pa.field(batch.PLACE, pa.string()))


def no_label(where: str) -> RejectCause:
    """Return the problem of a record without label. where: the place where a label is expected."""
    return RejectCause(
        Reason.UNLABELLED, f"no label: expected {where}; --unlabelled keep allows records without"
    )


def label_problem(label: str) -> str | None:
    """Return why a class name is invalid, None if it is valid."""
    if LINE_BREAK.search(label) is None:
        return None
    return (
        f"the class name {label!r} contains a line break, but labels.txt has one name per line:"
        " rename the class"
    )


# Further columns of sections of files, see `row_file.FileSection`.
START = "__start__"
END = "__end__"
ROW = "__row__"
SECTIONS = pa.schema([*COLUMNS, *(pa.field(name, pa.int64()) for name in (START, END, ROW))])


def section_columns(count: int) -> tuple[str, ...]:
    """Return the names of the columns of sections with facts of paths."""
    return tuple(f"__fact_{number}__" for number in range(count))


@dataclasses.dataclass
class ReferenceCollector:
    """Collects references, rejects and filter counts into parts of `limits.REFERENCE_ROWS` rows.

    rows: the rows after the last block. Blocks are columns, because objects take several times as
      much memory. totals: counts of all parts taken so far, by description. first_reject: of all
      parts.
    """

    schema: pa.Schema = COLUMNS
    rows: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    blocks: list[pa.RecordBatch] = dataclasses.field(default_factory=list)
    rejects: list[Reject] = dataclasses.field(default_factory=list)
    filtered: dict[str, int] = dataclasses.field(default_factory=dict)
    rejected_labels: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    totals: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    first_reject: Reject | None = None

    def add(
        self,
        key: str,
        path: str,
        size: int,
        mtime: int,
        *more: int | str | None,
        label: str | None,
        split: str | None,
        group: str | None = None,
    ) -> None:
        """Add a reference. size: bytes; mtime: ns since the epoch; more: further columns."""
        self.rows.append((key, label, group, split, path, size, mtime, *more))
        if len(self.rows) == _BLOCK:
            self._end_block()

    def add_reject(self, reject: Reject, label: str | None) -> None:
        """Add a reject of a file with this label."""
        self.rejects.append(reject)
        if label is not None and label_problem(label) is None and is_utf8(label):
            self.rejected_labels[label] += 1

    def reject(self, key: str, problem: RejectCause) -> None:
        """Add a reject."""
        self.rejects.append(Reject(key, "read", problem.reason, problem.detail))

    def filter(self, skipped: SkippedPath) -> None:
        """Count the files of a skipped path."""
        if skipped.files:
            self.filtered[skipped.reason] = self.filtered.get(skipped.reason, 0) + skipped.files

    @property
    def count(self) -> int:
        """Number of references collected since the last call of `take`."""
        return len(self.blocks) * _BLOCK + len(self.rows)

    @property
    def full(self) -> bool:
        """True if the part should be taken."""
        return self.count + len(self.rejects) >= limits.REFERENCE_ROWS

    def take(self) -> ListingPart:
        """Return the items collected since the last call."""
        self.totals["rows"] += self.count
        self.first_reject = self.first_reject or next(iter(self.rejects), None)
        self.totals.update(f"rejected as {reject.reason}" for reject in self.rejects)
        self.totals.update({f"left out as {reason}": n for reason, n in self.filtered.items()})
        if self.rows:
            self._end_block()
        rows = batch.concat(self.blocks) if self.blocks else None
        listed = ListingPart(
            rows=rows,
            rejects=self.rejects,
            filtered=self.filtered,
            rejected_labels=self.rejected_labels,
        )
        self.blocks, self.rejects, self.filtered = [], [], {}
        self.rejected_labels = collections.Counter()
        return listed

    def summary(self) -> str:
        """Return the counts of rejected and filtered inputs, for messages."""
        others = [f"{n} {name}" for name, n in sorted(self.totals.items()) if n and name != "rows"]
        return ", ".join(others)

    def _end_block(self) -> None:
        columns = zip(*self.rows, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        self.blocks.append(pa.record_batch(arrays, schema=self.schema))
        self.rows = []


@dataclasses.dataclass
class SectionCollector(ReferenceCollector):
    """Collects sections of files into parts, each read by one task.

    A part holds sections of one large file, or many small files. bytes: size of its sections.
    """

    schema: pa.Schema = SECTIONS
    bytes: int = 0

    @classmethod
    def with_facts(cls, count: int) -> SectionCollector:
        """Return a collector of sections with columns for a number of facts of paths."""
        facts = [pa.field(name, pa.string()) for name in section_columns(count)]
        return cls(schema=pa.schema([*SECTIONS, *facts]))

    def has_room(self, size: int) -> bool:
        """Return whether a section of `size` bytes fits into the current part."""
        if not self.count:
            return True
        return (
            self.bytes + size <= limits.PART_BYTES
            and self.count < limits.PART_SECTIONS
            and not self.full
        )

    def add_section(
        self,
        file: File,
        section: FileSection,
        *,
        label: str | None,
        split: str | None,
        group: str | None = None,
        columns: tuple[str | None, ...] = (),
    ) -> None:
        """Add a section of a file under the key FILE@START. columns: facts of its path."""
        key, path, size, mtime = file
        where = (section.start, section.end, section.row, *columns)
        key = f"{key}@{section.start}"
        self.add(key, path, size, mtime, *where, label=label, split=split, group=group)
        self.bytes += section.size

    def take(self) -> ListingPart:
        self.bytes = 0
        return super().take()
