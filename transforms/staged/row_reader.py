"""Reading of rows by workers, for sources that list only sections of files: an encoder task."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reject
from recordmill.job.staging import StagedPart, Staging
from recordmill.processes import environment
from recordmill.processes.row_tasks import NO_FAULTS, Faults, RowTask
from recordmill.processes.task_watch import TaskLimits
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import (
    Artifact,
    Chunker,
    ContentReader,
    Duplicates,
    RowCheck,
)
from recordmill.transforms.model.known_content import OPTION as KNOWN
from recordmill.transforms.model.known_content import KnownContents, without_known
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.source import Layout, ListingPart, RowSource
from recordmill.transforms.sources.row_formats.where.condition_syntax import WHERE
from recordmill.transforms.sources.rows.references.repeated_rows import Conflicts
from recordmill.transforms.staged.listing import (
    labels_of,
    lost_classes,
    make_or_reuse,
    write_checked_part,
    write_scratch,
    write_seen,
)
from recordmill.transforms.staged.parts import read_part, with_staged_paths
from recordmill.transforms.staged.value_batches import as_values

SAME = "__same__"  # string: equal for duplicates, of which one row stays


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowReader:
    """Reads the sections of a listing into parts of rows that have passed the check.

    layout: layout of the rows, from `layout_of`.
    check, content, duplicates, chunker: applied to the rows; as in `DataType`.
    rules: for the labels and keys of rows.
    known: contents of rows that are left out.
    artifacts: files given by the user that the chunker needs.
    conflicts: treatment of rows that have the same key and differ; equal rows count once. None
      leaves repeated keys to the check of all keys, which refuses them.
    keeps_labels: whether to keep the labels before the rules, to check the classes of options.
    """

    source: RowSource
    layout: Layout
    staging: Staging
    check: RowCheck | None = None
    content: ContentReader | None = None
    duplicates: Duplicates | None = None
    chunker: Chunker | None = None
    rules: LabelRules = LabelRules()  # noqa: RUF009, it is frozen
    known: KnownContents | None = None
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    conflicts: Conflicts | None = None
    keeps_labels: bool = False

    def read(self, part: StagedPart, faults: Faults = NO_FAULTS) -> list[StagedPart]:
        """Read a part of the listing, and write its rows and rejects into staging.

        On resume the parts of the earlier run are returned.

        faults: sections to reject without reading them.
        """

        def make(stem: str) -> list[StagedPart]:
            sections = read_part(part.name, staging=self.staging)
            return [
                self._write(listed, f"{stem}-{number:05d}")
                for number, listed in enumerate(
                    read_sections(self.source, sections, self.layout, faults)
                )
            ]

        parts = make_or_reuse(part, self.staging, make)
        if not self.staging.intermediate.is_local:
            environment.return_free_memory()  # of the copies that a request to a store takes
        return parts

    def try_sections(self, part: StagedPart, some: range) -> None:
        """Read some sections of a part, for a crash of this process; nothing is written."""
        sections = read_part(part.name, staging=self.staging).slice(some.start, len(some))
        for listed in self.source.read(sections, self.layout):
            rows = listed.rows
            if rows is None or listed.data is not None:
                continue
            if self.check is not None:
                rows = batch.choose(rows, self.check.check(rows).kept)
            if self.content is not None:
                self.content.read(rows)

    def _write(self, listed: ListingPart, stem: str) -> StagedPart:
        rejects = list(listed.rejects)
        invalid = list(listed.invalid)
        filtered: Counter[str] = Counter()
        if WHERE in listed.filtered:  # rows as others; the rest are no inputs, such as blank lines
            filtered[WHERE] = listed.filtered[WHERE]
        rows = listed.rows
        if rows is None:
            rows = pa.RecordBatch.from_pylist([], schema=self.layout.columns)
        checksums: dict[str, str] = {}
        if listed.data is not None:
            data = f"{stem}.data"
            checksums = write_scratch(self.staging, data, listed.data)
            rows = batch.set_column(rows, batch.DATA, pa.repeat(data, len(rows)))
        if self.keeps_labels:
            name = stem.rpartition("/")[2]
            checksums |= write_seen(self.staging, name, labels_of(rows))
        # Rejects name FILE#ROW, and --exclude-keys names keys, which are then those by content.
        selected = dataclasses.replace(self.rules, excluded_keys=None).apply(rows)
        filtered.update(selected.filtered)
        rows = selected.rows
        if self.rules.excluded_keys is not None:
            by_content = self.source.keyed_by_content
            keys = (with_keys_of(self.source, rows) if by_content else rows)[batch.KEY]
            rows, filtered["exclude-keys"] = self.rules.leave_out_keys(rows, keys)
        if listed.inputs is None:
            rejects += selected.rejects
        else:
            invalid += selected.rejects
        unread = len(rejects)
        rejects += invalid
        made = len(rows) + len(invalid) + sum(filtered.values())
        inputs = made if listed.inputs is None else listed.inputs
        if self.check is not None:
            outcome = self.check.check(with_staged_paths(rows, self.staging))
            rows = batch.choose(rows, outcome.kept)
            rejects += outcome.rejects
            filtered.update(option for _, option in outcome.filtered)
        if self.content is not None:
            outcome, columns = self.content.read(with_staged_paths(rows, self.staging))
            rows = batch.choose(rows, outcome.kept)
            for name, column in columns.items():
                rows = batch.set_column(rows, name, column)
            rejects += outcome.rejects
        keyed, left_out = without_known(with_keys_of(self.source, rows), self.known)
        if left_out:
            filtered[KNOWN] += len(left_out)
        rows = with_duplicate_ids(keyed, self.duplicates)
        chunks = batch.with_hash(self._chunk(rows))
        if self.source.keyed_by_content:
            if self.chunker is None:
                chunks = batch.without_keys(chunks)
            else:
                chunks = chunks.append_column(batch.UNIT, chunks[batch.HASH])
        return write_checked_part(
            chunks,
            self.staging,
            f"{stem}.arrow",
            rejects=rejects,
            filtered=filtered,
            extra=len(chunks) - len(rows) + made - inputs,
            left_out=left_out,
            unread=unread,
            invalid=len(invalid),
            skipped={why: n for why, n in listed.filtered.items() if why != WHERE and n},
            checksums=checksums,
        )

    def _chunk(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Cut long records into several, with the keys KEY/0, KEY/1, ..., in one group each."""
        if self.chunker is None:
            return rows
        users, parents = self.chunker.cut(rows, self.artifacts)
        if batch.CONTENT in rows.schema.names:  # it is that of the whole record
            rows = rows.drop_columns([batch.CONTENT])
        counts = np.bincount(parents, minlength=len(rows))
        numbers = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        suffix = pa.array([f"/{number}" for number in numbers.tolist()], pa.string())
        out = rows.take(pa.array(parents))
        for name in users.schema.names:
            out = batch.set_column(out, name, users[name])
        groups = pc.coalesce(out[batch.GROUP], out[batch.KEY])
        out = batch.set_column(out, batch.GROUP, groups)
        for name in (batch.KEY, SAME):
            if name in out.schema.names:
                out = batch.set_column(
                    out, name, pc.binary_join_element_wise(out[name], suffix, "")
                )
        return out


def read_sections(
    source: RowSource, sections: pa.RecordBatch, layout: Layout, faults: Faults
) -> Iterator[ListingPart]:
    """Yield the records of sections, and the rejects of sections that must not be read.

    faults: {index of a section: why it is rejected without reading it}.

    Raises:
      RunError: a section must not be read, and the source cannot reject it.
    """
    kept = [row for row in range(len(sections)) if row not in faults]
    if kept:
        yield from source.read(sections.take(pa.array(kept)) if faults else sections, layout)
    for row, fault in sorted(faults.items()):
        yield source.reject_sections(sections.slice(row, 1), layout, fault)


def with_keys_of(source: RowSource, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Add the content of rows, and the keys that follow from it; the old become lineage."""
    content = source.content_hashes(rows)
    if content is None:
        return rows
    rows = batch.set_column(rows, batch.CONTENT, content)
    if not source.keyed_by_content:
        return rows
    if batch.PLACE in rows.schema.names:
        names = [batch.SOURCE if name == batch.PLACE else name for name in rows.schema.names]
        rows = rows.rename_columns(names)
    else:
        rows = batch.set_column(rows, batch.SOURCE, rows[batch.KEY])
    return batch.set_column(rows, batch.KEY, batch.hex_of(content))


def with_duplicate_ids(rows: pa.RecordBatch, duplicates: Duplicates | None) -> pa.RecordBatch:
    """Add the column that is equal for duplicates: `__group__` or `__same__`, by the mode."""
    if duplicates is None:
        return rows
    column = batch.GROUP if duplicates.mode == "group" else SAME
    return batch.set_column(rows, column, duplicates.names(rows))


class ReadValues(NamedTuple):
    """Sections that were read into batches in memory.

    Attributes:
      parts: Batches as Arrow IPC streams, as `as_values` makes them, with rejects and {reason:
        number of inputs that were left out}; None without rows.
      inputs: Number of inputs of the records.
      records: Number of records, also of those that a condition left out.
      lost: {class: number of sections} of the classes of which no record was made.
    """

    parts: Sequence[tuple[bytes | None, Sequence[Reject], Mapping[str, int]]]
    inputs: int
    records: int
    lost: Mapping[str, int]


def read_values(
    source_and_layout: bytes, sections: bytes, *, faults: Faults = NO_FAULTS
) -> ReadValues:
    """Read sections into batches in memory, instead of staging.

    source_and_layout: both, pickled. sections: an Arrow IPC stream of a part of the listing.
    """
    source, layout = _unpickle(source_and_layout)
    found: list[tuple[bytes | None, Sequence[Reject], Mapping[str, int]]] = []
    given = batch.from_bytes(sections)
    left: set[str] = set()
    inputs = records = 0
    for listed in read_sections(source, given, layout, faults):
        made = listed.filtered.get(WHERE, 0)
        rows = None
        if listed.rows is not None and len(listed.rows):
            made += len(listed.rows)
            left |= labels_of(listed.rows)
            values = as_values(with_keys_of(source, listed.rows), layout, listed.data)
            rows = batch.to_bytes(values)
        found.append((rows, [*listed.rejects, *listed.invalid], listed.filtered))
        records += made
        inputs += made if listed.inputs is None else listed.inputs
    lost = lost_classes(given, left) if layout.labelled else {}
    return ReadValues(found, inputs, records, lost)


@functools.lru_cache(maxsize=4)
def _unpickle(packed: bytes) -> Any:
    return pickle.loads(packed)


def read_rows_task(
    reader: RowReader, part: StagedPart, task_limits: TaskLimits
) -> RowTask[list[StagedPart]]:
    """Return the task of encoder processes that reads a part of the listing."""
    return RowTask(
        count=part.rows,
        call=lambda faults: functools.partial(reader.read, part, dict(faults)),
        trial=functools.partial(reader.try_sections, part),
        limits=task_limits,
    )
