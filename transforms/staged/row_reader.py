"""The rows of an input whose source only lists where they stand: a task of encoder processes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import StagedPart, Staging
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import (
    Artifact,
    Check,
    Chunker,
    Duplicates,
    Layout,
    ListingPart,
    RowSource,
)
from recordmill.transforms.staged.listing import known_labels, prepare, read_part, write_kept

SAME = "__same__"  # string: equal for rows of which one is to stay


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowReader:
    """Reads parts of a listing into parts of rows, which have passed the check.

    labels: the classes there may be; a row of another one is rejected. artifacts: files of the
    user's.
    """

    source: RowSource
    layout: Layout
    staging: Staging
    check: Check | None = None
    duplicates: Duplicates | None = None
    cutter: Chunker | None = None
    labels: tuple[str, ...] | None = None
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)

    def read(self, part: StagedPart) -> list[StagedPart]:
        """Writes the rows of a part, and beside them what was left out; done already on resume."""

        def make(stem: str) -> list[StagedPart]:
            sections = read_part(part.name, staging=self.staging)
            return [
                self._write(listed, f"{stem}-{number:05d}")
                for number, listed in enumerate(self.source.read(sections, self.layout))
            ]

        return prepare(part, self.staging, make)

    def _write(self, listed: ListingPart, stem: str) -> StagedPart:
        rejects = list(listed.rejects)
        spoilt = list(listed.spoilt)
        filtered: Counter[str] = Counter()
        rows = listed.rows
        if rows is None:
            rows = pa.RecordBatch.from_pylist([], schema=self.layout.columns)
        if listed.data is not None:
            data = f"{stem}.data"
            self.staging.place(data).write_bytes(listed.data)
            rows = batch.set_column(rows, batch.DATA, pa.repeat(data, len(rows)))
        if self.labels is not None:
            rows, unknown = known_labels(rows, self.labels)
            if listed.inputs is None:
                rejects += unknown
            else:
                spoilt += unknown
        unread = len(rejects)
        rejects += spoilt
        made = len(rows) + len(spoilt)
        inputs = made if listed.inputs is None else listed.inputs
        if self.check is not None:
            outcome = self.check.check(rows)
            rows = batch.choose(rows, outcome.kept)
            rejects += outcome.rejects
            filtered.update(option for _, option in outcome.filtered)
        cut = self._cut(self._named(rows))
        return write_kept(
            batch.with_hash(cut),
            self.staging,
            f"{stem}.arrow",
            rejects=rejects,
            filtered=filtered,
            extra=len(cut) - len(rows) + made - inputs,
            unread=unread,
            spoilt=len(spoilt),
            skipped=sum(listed.filtered.values()),
        )

    def _cut(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Several records of a long one, each with its number in it behind the key."""
        if self.cutter is None:
            return rows
        users, parents = self.cutter.cut(rows, self.artifacts)
        counts = np.bincount(parents, minlength=len(rows))
        numbers = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        suffix = pa.array([f"/{number}" for number in numbers.tolist()], pa.string())
        out = rows.take(pa.array(parents))
        for name in users.schema.names:
            out = batch.set_column(out, name, users[name])
        whole = out[batch.KEY]
        out = batch.set_column(out, batch.GROUP, pc.coalesce(out[batch.GROUP], whole))
        for name in (batch.KEY, SAME):
            if name in out.schema.names:
                out = batch.set_column(
                    out, name, pc.binary_join_element_wise(out[name], suffix, "")
                )
        return out

    def _named(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with what tells which of them are the same."""
        if self.duplicates is None:
            return rows
        column = batch.GROUP if self.duplicates.mode == "group" else SAME
        return batch.set_column(rows, column, self.duplicates.names(rows))


def read_rows(reader: RowReader, part: StagedPart) -> list[StagedPart]:
    """The task."""
    return reader.read(part)
