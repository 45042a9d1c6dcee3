"""Source of arrays in files that the rows of tables hold."""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

import pyarrow as pa

from recordmill.errors import RecordError
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.processes.pool import shared_pool
from recordmill.processes.row_tasks import Faults, RowTask
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.file_ranges import with_temporary_ranges, without_paths
from recordmill.transforms.model.source import Layout, ListingPart, Parts
from recordmill.transforms.sources.arrays.array_headers import ProbedFile
from recordmill.transforms.sources.arrays.array_source import FIRST, ArrayCounts, ArraySource
from recordmill.transforms.sources.arrays.array_spec import ARRAY
from recordmill.transforms.sources.arrays.npy import StoredArray
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.media.media_layout import MediaLayout, TableLayout
from recordmill.transforms.sources.media.media_rows import MediaRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableArrays(ArraySource):
    """Lists sections of tables, and locates the records in the arrays of their rows.

    The tables are read twice: for the shapes of all arrays, and for the records.
    """

    files: MediaRows

    def scan(self) -> Iterator[ListingPart]:
        """Yield the sections of the tables.

        Raises:
          ConfigError: a table cannot be parsed, or there are no rows.
        """
        return self.files.scan()

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> TableLayout:
        """Return the layout of the records.

        Raises:
          ConfigError: there is no usable array, or as `MediaRows.layout`.
        """
        table, counts = self.files.layout(parts, keep, facts=facts), ArrayCounts()
        found = super().layout(self._headers(parts, table, counts))
        layout = TableLayout.of(
            table, columns=found.columns, labelled=found.labelled, grouped=found.grouped
        )
        return dataclasses.replace(layout, notes=(*layout.notes, *counts.notes()))

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Return a row per record of a part of the listing, as they are read.

        Raises:
          ChangedInputError: a table has changed since it was listed.
        """
        assert isinstance(layout, TableLayout)
        return self.files.read_contents(
            sections, layout.table, functools.partial(self._read_table, layout)
        )

    def _read_table(
        self, layout: Layout, rows: pa.RecordBatch, data: bytes | bytearray | memoryview | None
    ) -> Iterator[ListingPart]:
        """Yield the records in the arrays of rows."""
        for part in self._list(rows, ArrayCounts()):
            yield ListingPart(rejects=part.rejects, inputs=0)
            if part.rows is None:
                continue
            for one in super().read(part.rows, layout):
                if one.rows is not None:
                    one = dataclasses.replace(one, rows=without_paths(one.rows), data=data)
                yield one

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Raise RunError, because a section of a table has too many arrays to reject."""
        return self.files.reject_sections(sections, layout, error)

    def _probe_all(self, rows: pa.RecordBatch) -> Iterator[ProbedFile | RejectCause]:
        """Read the headers of arrays in this process, which is an encoder process."""
        names = (batch.PATH, batch.SIZE, batch.MTIME)
        return map(self.probe.inspect, zip(*(rows[n].to_pylist() for n in names), strict=True))

    def _headers(
        self, parts: Iterable[pa.RecordBatch], table: MediaLayout, counts: ArrayCounts
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of tables with the headers of their arrays, read in encoder processes."""
        pool = shared_pool()
        waiting: deque[Future[list[bytes]]] = deque()
        for part in parts:
            waiting.append(pool.submit_rows(self._task(part, table)))
            if len(waiting) > 2 * pool.workers:
                yield from self._counted(waiting.popleft().result(), counts)
        while waiting:
            yield from self._counted(waiting.popleft().result(), counts)

    def _task(self, part: pa.RecordBatch, table: MediaLayout) -> RowTask[list[bytes]]:
        packed = batch.to_bytes(part)

        def call(faults: Faults) -> Callable[[], list[bytes]]:
            for row, fault in sorted(faults.items()):
                self.reject_sections(part.slice(row, 1), table, fault)
            return functools.partial(_read_headers, self, packed, range(len(part)), table)

        return RowTask(
            count=len(part),
            call=call,
            trial=functools.partial(_try_headers, self, packed, table),
            limits=self.worker_limits,
        )

    def _counted(self, packed: Iterable[bytes], counts: ArrayCounts) -> Iterator[pa.RecordBatch]:
        """Yield rows, and count the steps that fill no chunk, for the notes."""
        for rows in map(batch.from_bytes, packed):
            firsts = rows[FIRST].to_pylist()
            for text, first in zip(rows[ARRAY].to_pylist(), firsts, strict=True):
                if not first:
                    counts.add(self._cut.unused_steps(StoredArray.from_text(text).shape))
            yield rows


def _read_headers(source: TableArrays, part: bytes, some: range, table: MediaLayout) -> list[bytes]:
    """Return rows of tables with the headers of their arrays, as Arrow IPC streams."""
    found: list[bytes] = []
    sections = batch.from_bytes(part).slice(some.start, len(some))
    for listed in source.files.read(sections, table):
        with with_temporary_ranges(listed) as rows:
            listed_parts = (
                [] if rows is None else source._list(source.files.with_keys(rows), ArrayCounts())
            )
            found += [batch.to_bytes(one.rows) for one in listed_parts if one.rows is not None]
    return found


def _try_headers(source: TableArrays, part: bytes, table: MediaLayout, some: range) -> None:
    _read_headers(source, part, some, table)
