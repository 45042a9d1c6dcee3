"""Read: the batches of an input, listed once."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Self

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.staging import Listing, StagedPart
from recordmill.processes.pool import shared_pool
from recordmill.transforms.checks.equal_rows import NumberEqualRows
from recordmill.transforms.checks.key_conflicts import DecideRepeatedRows
from recordmill.transforms.checks.partitions import partitions_of
from recordmill.transforms.checks.prepare_parts import PrepareParts, read_rows_of
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Chunker, Duplicates, RowCheck
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.source import RowSource, Source, keyed_by_content
from recordmill.transforms.staged.handles import Element, Problem, StagedBatch
from recordmill.transforms.staged.listing import (
    prepare_output,
    row_layout,
    stage_batch,
    stage_listing,
)
from recordmill.transforms.staged.row_reader import RowReader
from recordmill.transforms.staged.step_order import OrderedStep

_STRINGS = (pa.string(), pa.large_string())


def _batch(part: StagedPart | Problem, *, counters: RecordCounters) -> Element:
    if isinstance(part, Problem):
        return part
    rejected = part.rejected + part.unread
    counters.add(read=part.rows + rejected, out=part.rows, rejected=rejected)
    return StagedBatch(part)


@dataclasses.dataclass(eq=False)
class Read(beam.PTransform):
    """Read a staged listing: a pipeline in, handles on batches out.

    The submitter lists the input before it builds the pipeline; all later steps read the listing
    from staging. If the listing holds only sections of large files, workers read their rows here.

    reader: reads the rows of sections; None if the listing holds rows, or references to files.

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
        check: RowCheck | None = None,
        duplicates: Duplicates | None = None,
        chunker: Chunker | None = None,
    ) -> Self:
        """List a source into the staging folder of the run.

        check, duplicates, chunker: applied to the rows of a `RowSource` when workers read them. For
          all other sources pass the check to `RowCheck`.

        Raises:
          ConfigError: the input is unusable, or the output holds other files.
        """
        prepare_output(run.staging, overwrite=run.overwrite)
        rules = LabelRules(allowed=run.labels)
        if isinstance(source, RowSource):
            shared_pool(run.workers)  # which lists and reads
        listing = stage_listing(
            source, run.staging, rules=LabelRules() if isinstance(source, RowSource) else rules
        )
        if not isinstance(source, RowSource):
            return cls(run, listing=listing)
        reader = RowReader(
            source=source,
            layout=row_layout(source, listing, run.staging),
            staging=run.staging,
            check=check,
            duplicates=duplicates,
            chunker=chunker,
            rules=rules,
        )
        return cls(run, listing=listing, reader=reader)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Element]:
        # Create reshuffles its elements, so that all workers get some.
        parts = begin | "Listing" >> beam.Create(self.listing.parts)
        if self.reader is not None:
            workers = self.run.workers
            partitions = partitions_of(len(self.listing.parts))
            read = functools.partial(read_rows_of, reader=self.reader, run=self.run)
            parts |= "ReadRows" >> PrepareParts(read, at_once=workers)
            if keyed_by_content(self.reader.source):
                duplicates = self.reader.duplicates
                by_group = duplicates is None or duplicates.mode != "group"
                parts |= "NumberEqualRows" >> NumberEqualRows(
                    self.run.staging, by_group=by_group, partitions=partitions
                )
            if self.reader.conflicts is not None:
                parts |= "DecideRepeatedRows" >> DecideRepeatedRows(
                    self.run.staging, conflicts=self.reader.conflicts, partitions=partitions
                )
        return parts | "Batches" >> beam.Map(
            _batch, counters=RecordCounters("Read")
        ).with_output_types(Element)


def _check_columns(rows: pa.RecordBatch) -> None:
    """Raise ConfigError for a batch of a custom pipeline without keys, or with columns of other
    types.
    """
    if not isinstance(rows, pa.RecordBatch):  # Beam may not know the type of the elements
        raise ConfigError(
            f"StageBatches: expected elements of type pyarrow.RecordBatch, got {type(rows)}"
        )
    names = rows.schema.names
    if batch.KEY not in names:
        got = f"the columns {', '.join(names)}" if names else "no columns"
        raise ConfigError(
            f"StageBatches: expected batches with a column {batch.KEY}, a unique string for each"
            f" record, got {got}"
        )
    kind = rows.schema.field(batch.KEY).type
    if kind not in _STRINGS:
        raise _no_strings(batch.KEY, kind)
    if rows[batch.KEY].null_count:
        raise ConfigError(f"StageBatches: {rows[batch.KEY].null_count} records have no {batch.KEY}")
    for name in (name for name in (batch.LABEL, batch.GROUP, batch.SPLIT) if name in names):
        kind = rows.schema.field(name).type
        values = kind.value_type if pa.types.is_dictionary(kind) else kind
        if values not in (*_STRINGS, pa.null()):
            raise _no_strings(name, kind)


def _no_strings(name: str, kind: pa.DataType) -> ConfigError:
    return ConfigError(
        f"StageBatches: expected strings in the column {name}, got {kind}: cast it with"
        " .cast(pa.string())"
    )


class _Stage(beam.DoFn):
    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self._counters = RecordCounters("StageBatches")

    def setup(self) -> None:
        prepare_output(self._run.staging, overwrite=self._run.overwrite)

    def process(self, rows: pa.RecordBatch) -> Iterator[StagedBatch]:
        _check_columns(rows)
        rules = LabelRules(allowed=self._run.labels)
        rows = batch.complete(rows)
        rows = rows.select(sorted(rows.schema.names))  # their order does not matter
        part = stage_batch(rows, self._run.staging, rules=rules)
        self._counters.add(read=len(rows), out=part.rows, rejected=part.unread)
        yield StagedBatch(part)


@dataclasses.dataclass(eq=False)
class StageBatches(OrderedStep):
    """Stage the batches of a custom pipeline: `pyarrow.RecordBatch`es in, handles out.

    Batches have a column `__key__` (string, unique) and the columns that the encoder reads, and may
    have `__label__`, `__group__` and `__split__`. All batches must have the same columns. Each
    batch is written to the staging folder, so that memory does not grow with the number of batches.
    Records whose label is not among `run.labels` are rejected.
    A batch without keys, or with other keys, labels, groups or splits than strings, raises
    ConfigError.
    """

    takes = (pa.RecordBatch,)

    run: RunSpec

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[Element]:
        return (
            batches
            | "Stage" >> beam.ParDo(_Stage(self.run)).with_output_types(StagedBatch)
            # Later steps read batches by name, so a retry must not give them other names.
            | "Spread" >> beam.Reshuffle()
        )
