"""Preparation of listed parts before planning: workers read rows, and checks reject bad ones.

Everything that can be known to be bad is rejected here, so that the counts of the plan are exact.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.job.staging import StagedPart, Staging
from recordmill.processes.pool import process_count, shared_pool
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import ContentReader, Duplicates, RepeatedCheck, RowCheck
from recordmill.transforms.model.known_content import OPTION as KNOWN
from recordmill.transforms.model.known_content import KnownContents, without_known
from recordmill.transforms.model.left_out import LeftOut
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.reuse.frame_places import FramePlaces
from recordmill.transforms.reuse.row_recipes import source_hashes
from recordmill.transforms.staged.early_reads import read_rows
from recordmill.transforms.staged.encoder_tasks import check_rows, row_task
from recordmill.transforms.staged.listing import (
    make_or_reuse,
    read_excluded,
    write_checked_part,
)
from recordmill.transforms.staged.parts import read_part, with_staged_paths
from recordmill.transforms.staged.row_reader import RowReader, with_duplicate_ids


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartCheck:
    """The check of the parts of a listing, in encoder processes.

    check: finds invalid rows. content: reads the content of the files that rows refer to; then
      `duplicates` finds equal rows, and rows of `known` content are left out.
    workers: encoder processes; 0 is one per core. worker_limits: of each.
    reuse: frames of earlier datasets, whose files need no check if the encoder repeats it.
    """

    staging: Staging
    workers: int
    worker_limits: TaskLimits = DEFAULT_LIMITS
    check: RowCheck | None = None
    content: ContentReader | None = None
    duplicates: Duplicates | None = None
    known: KnownContents | None = None
    reuse: FramePlaces | None = None

    def apply(self, part: StagedPart) -> list[StagedPart]:
        """Write the rows of a part that pass, and the rejects.

        On resume the part of the earlier run is returned.
        """

        def make(stem: str) -> list[StagedPart]:
            return [self._write(part, f"{stem}.arrow")]

        return make_or_reuse(part, self.staging, make)

    def _write(self, part: StagedPart, name: str) -> StagedPart:
        rows = read_part(part.name, staging=self.staging)
        pool = shared_pool(self.workers)
        unchecked = self._unchecked(rows)
        starts = range(0, len(unchecked), limits.CHECK_ROWS)
        to_check = with_staged_paths(batch.choose(rows, unchecked), self.staging)
        to_check = batch.named_by_lineage(to_check)
        chunks = [to_check.slice(start, limits.CHECK_ROWS) for start in starts]
        options = (self.check, self.content)
        task_limits = self.worker_limits
        futures = [
            pool.submit_rows(row_task(check_rows, *options, rows=chunk, task_limits=task_limits))
            for chunk in chunks
        ]
        kept = np.setdiff1d(np.arange(len(rows)), unchecked).tolist()
        rejects, before = read_excluded(part, staging=self.staging)
        filtered = Counter(before)
        read: list[pa.RecordBatch] = []
        for start, future in zip(starts, futures, strict=True):
            outcome, columns = future.result()
            kept += unchecked[outcome.kept + start].tolist()
            rejects += outcome.rejects
            filtered.update(option for _, option in outcome.filtered)
            read += [] if columns is None else [batch.from_bytes(columns)]
        rows = rows.take(pa.array(sorted(kept), pa.int64()))
        left_out: list[LeftOut] = []
        if read:
            found = batch.concat(read)
            for column in found.schema.names:
                rows = batch.set_column(rows, column, found[column])
            rows, left_out = without_known(rows, self.known)
            filtered.update({KNOWN: len(left_out)} if left_out else {})
            rows = with_duplicate_ids(rows, self.duplicates)
        return write_checked_part(
            rows,
            self.staging,
            name,
            rejects=rejects,
            filtered=filtered,
            unread=part.unread,
            left_out=left_out,
        )

    def _unchecked(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the indices of the rows to check: int64[n], ascending."""
        if (
            self.reuse is None
            or self.content is not None
            or not isinstance(self.check, RepeatedCheck)
            or batch.DATA in rows.schema.names
        ):
            return np.arange(len(rows))
        sources = source_hashes(rows, self.check.source_columns)
        return np.flatnonzero(~self.reuse.has_sources(sources))


def read_rows_of(part: StagedPart, *, reader: RowReader, run: RunSpec) -> list[StagedPart]:
    """Read the rows of a part that lists sections of files, in an encoder process."""
    return read_rows(reader, part, workers=run.workers, task_limits=run.worker_limits)


class _Prepare(beam.DoFn):
    """Prepares the parts of a bundle concurrently, the largest first.

    A runner cuts bundles without knowing how long each part takes. With one part at a time, some
    encoder processes would be idle at the end while others still have many parts to do.
    """

    def __init__(self, make: Callable[[StagedPart], list[StagedPart]], at_once: int) -> None:
        self._make = make
        self._at_once = at_once

    def setup(self) -> None:
        self._threads = ThreadPoolExecutor(
            process_count(self._at_once), thread_name_prefix="prepare"
        )

    def start_bundle(self) -> None:
        self._parts: list[StagedPart] = []

    def process(self, part: StagedPart) -> None:
        self._parts.append(part)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        parts = sorted(self._parts, key=lambda part: (-part.reads, part.name))
        futures = [self._threads.submit(self._make, part) for part in parts]
        try:
            for future in futures:
                for made in future.result():
                    yield GlobalWindows.windowed_value_at_end_of_window(made)
        finally:  # no thread of a failed attempt may go on writing
            for future in futures:
                future.cancel()
            wait(futures)

    def teardown(self) -> None:
        self._threads.shutdown()


@dataclasses.dataclass(eq=False)
class PrepareParts(beam.PTransform):
    """Prepare parts for planning: parts of the listing in, parts of rows out.

    make: derives them from a part, such as `PartCheck.apply` with its options.
    at_once: parts that a bundle prepares concurrently; 0 is one per core. `read_rows_of` keeps one
      encoder process busy, `PartCheck.apply` all of them.
    """

    make: Callable[[StagedPart], list[StagedPart]]
    at_once: int = 1

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart]:
        return (
            parts
            | "Prepare"
            >> beam.ParDo(_Prepare(self.make, self.at_once)).with_output_types(StagedPart)
            | "Spread" >> beam.Reshuffle()
        )
