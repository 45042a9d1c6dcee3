"""The rows of an input whose source only lists where they stand: a task of encoder processes."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.staging import Part, Staging, to_json
from transforms import batch
from transforms.kind import Check, Cutter, Duplicates, Layout, Listed, RowSource
from transforms.listing import known_labels, read_part, write_outcome, write_part

SAME = "__same__"  # string: equal for rows of which one is to stay


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowReader:
    """Reads parts of a listing into parts of rows, which have passed the check.

    labels: the classes there may be; a row of another one is rejected.
    """

    source: RowSource
    layout: Layout
    staging: Staging
    check: Check | None = None
    duplicates: Duplicates | None = None
    cutter: Cutter | None = None
    labels: tuple[str, ...] | None = None

    def read(self, name: str) -> list[Part]:
        """Writes the rows of a part, and beside them what was left out; done already on resume."""
        stem = f"checked/{name.rpartition('/')[2].removesuffix('.arrow')}"
        done = self.staging.read_json(f"{stem}.json")
        if done is not None:
            return [Part(**part) for part in done]
        self.staging.place("checked").make_dirs()
        sections = read_part(name, staging=self.staging)
        parts = [
            self._write(listed, f"{stem}-{number:05d}.arrow")
            for number, listed in enumerate(self.source.read(sections, self.layout))
        ]
        # Written last: with it all parts are complete.
        self.staging.place(f"{stem}.json").write_bytes(to_json(parts))
        return parts

    def _write(self, listed: Listed, name: str) -> Part:
        rejects = list(listed.rejects)
        filtered: Counter[str] = Counter()
        rows = listed.rows
        if rows is None:
            rows = pa.RecordBatch.from_pylist([], schema=self.layout.columns)
        if self.labels is not None:
            rows, unknown = known_labels(rows, self.labels)
            rejects += unknown
        unread = len(rejects)
        if self.check is not None:
            outcome = self.check.check(rows)
            rows = rows.take(pa.array(outcome.kept))
            rejects += outcome.rejects
            filtered.update(option for _, option in outcome.filtered)
        cut = self._cut(self._named(rows))
        part = dataclasses.replace(
            write_part(batch.with_hash(cut), self.staging, name),
            rejected=len(rejects) - unread,
            filtered=filtered.total(),
            extra=len(cut) - len(rows),
            unread=unread,
            skipped=sum(listed.filtered.values()),
        )
        write_outcome(part, self.staging, rejects=rejects, filtered=filtered)
        return part

    def _cut(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Several records of a long one, each with its number in it behind the key."""
        if self.cutter is None:
            return rows
        users, parents = self.cutter.cut(rows)
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


def read_rows(reader: RowReader, name: str) -> list[Part]:
    """The task."""
    return reader.read(name)
