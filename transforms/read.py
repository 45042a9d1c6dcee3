"""Read: the batches of an input, listed once."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Self

import apache_beam as beam
import pyarrow as pa

from recordmill.job.staging import Listing, StagedPart
from recordmill.transforms.checks.prepare import PrepareParts, read_rows_of
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Check, Chunker, Duplicates, RowSource, Source
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.staged.batches import Element, StagedBatch
from recordmill.transforms.staged.listing import (
    layout_of,
    prepare_output,
    stage_batch,
    stage_listing,
)
from recordmill.transforms.staged.row_reader import RowReader


def _batch(part: StagedPart, *, counters: RecordCounters) -> StagedBatch:
    left_out = part.rejected + part.unread
    counters.add(read=part.rows + left_out, out=part.rows, rejected=left_out)
    return StagedBatch(part)


@dataclasses.dataclass(eq=False)
class Read(beam.PTransform):
    """Turn a staged listing into batches: a pipeline in, handles on batches out.

    The listing is made before the pipeline is built, by whoever submits it, and read from staging
    ever after. Where it only names places (sections of large files), workers read the rows.

    reader: reads those rows; None where the listing holds the rows, or references to files.

    Example::

        pipeline | Read.from_source(FileTree(input="photos/"), run)
    """

    run: RunSpec
    _: dataclasses.KW_ONLY
    listing: Listing
    reader: RowReader | None = None

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def from_source(
        cls,
        source: Source,
        run: RunSpec,
        *,
        check: Check | None = None,
        duplicates: Duplicates | None = None,
        chunker: Chunker | None = None,
    ) -> Self:
        """List a source into the staging folder of the run.

        check, duplicates, chunker: applied when workers read rows; for all other sources give the
        check to `Check`.

        Raises:
          ConfigError: the input is unusable, or the output holds something else.
        """
        prepare_output(run.staging, overwrite=run.overwrite)
        labels = None if isinstance(source, RowSource) else run.labels
        listing = stage_listing(source, run.staging, labels=labels)
        if not isinstance(source, RowSource):
            return cls(run, listing=listing)
        reader = RowReader(
            source=source,
            layout=layout_of(source, listing, run.staging),
            staging=run.staging,
            check=check,
            duplicates=duplicates,
            cutter=chunker,
            labels=run.labels,
        )
        return cls(run, listing=listing, reader=reader)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Element]:
        parts = (
            begin | "Listing" >> beam.Create(self.listing.parts) | "SpreadParts" >> beam.Reshuffle()
        )
        if self.reader is not None:
            workers = self.run.workers
            read = functools.partial(read_rows_of, reader=self.reader, workers=workers)
            parts |= "ReadRows" >> PrepareParts(read, at_once=workers)
        return parts | "Batches" >> beam.Map(
            _batch, counters=RecordCounters("Read")
        ).with_output_types(StagedBatch)


class _Stage(beam.DoFn):
    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self._counters = RecordCounters("StageBatches")

    def setup(self) -> None:
        prepare_output(self._run.staging, overwrite=self._run.overwrite)

    def process(self, rows: pa.RecordBatch) -> Iterator[StagedBatch]:
        part = stage_batch(batch.complete(rows), self._run.staging)
        self._counters.add(read=len(rows), out=len(rows))
        yield StagedBatch(part)


@dataclasses.dataclass(eq=False)
class StageBatches(beam.PTransform):
    """Put batches that a pipeline made itself on the road: `pyarrow.RecordBatch`es in, handles out.

    Batches have a column `__key__` (string, unique), the columns that the encoder reads, and may
    have `__label__`, `__group__` and `__split__`; all of them have the same columns. Each batch is
    written to the staging folder, so that memory does not grow with their number.
    """

    run: RunSpec

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[Element]:
        return (
            batches
            | "Stage" >> beam.ParDo(_Stage(self.run)).with_output_types(StagedBatch)
            # What follows reads by name, so a retry must not see other names.
            | "Spread" >> beam.Reshuffle()
        )
