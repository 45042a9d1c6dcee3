"""Read: the batches of an input, listed once."""

import dataclasses
import functools
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.errors import ConfigError, Reject
from recordmill.job.publishing import check_output_folder
from recordmill.job.staging import Listing, StagedPart, Staging
from recordmill.notes import Note
from recordmill.option_checks import Expected, check_option
from recordmill.processes.pool import shared_pool
from recordmill.transforms.checks.equal_rows import NumberEqualRows
from recordmill.transforms.checks.key_conflicts import DecideRepeatedRows
from recordmill.transforms.checks.partitions import partitions_of
from recordmill.transforms.checks.prepare_parts import PrepareParts, read_rows_of
from recordmill.transforms.model import batch, coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Chunker, Duplicates, RowCheck, check_of
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.source import RowSource, Source
from recordmill.transforms.sources.rows.columns.content_keys import with_keys_by_content
from recordmill.transforms.staged.handles import Element, Problem, Remark, StagedBatch
from recordmill.transforms.staged.listing import (
    layout_of,
    prepare_output,
    stage_batch,
    stage_listing,
    write_checked_part,
)
from recordmill.transforms.staged.pending_listing import PendingListing, before_run
from recordmill.transforms.staged.records import (
    CutInputs,
    InputCount,
    LostClasses,
    StagedRecords,
    StepRemark,
    Values,
    refuse_noted,
    values_of,
)
from recordmill.transforms.staged.row_reader import RowReader
from recordmill.transforms.staged.step_order import VALUES, OrderedStep
from recordmill.transforms.staged.value_batches import layout_of_values

_LEFT_OUT_AT_ONCE = 1000
_SOURCE = Annotated[Source, Expected("a source, such as FileTree(input='photos/')")]
_STRINGS = (pa.string(), pa.large_string())


def _batch(part: StagedPart | Problem, *, counters: RecordCounters) -> Element:
    if isinstance(part, Problem):
        return part
    rejected = part.rejected + part.unread
    counters.add(read=part.rows + rejected, out=part.rows, rejected=rejected)
    return StagedBatch(part)


@dataclasses.dataclass(eq=False)
class Read(OrderedStep):
    """Read a staged listing: a pipeline in, `StagedRecords` out.

    The submitter lists the input before it builds the pipeline; all later steps read the listing
    from staging. If the listing holds only sections of large files, workers read their rows here.

    Args:
      run: Options of the run.
      listing: The staged listing.
      reader: Reads the rows of sections; None if the listing holds rows, or references to files.
      unique_keys: Whether the source guarantees unique keys.
      pending: The listing in a temporary folder, if it is not in staging yet.

    Raises:
      ConfigError: The input is not a pipeline.

    Example::

        pipeline | Read.from_source(FileTree(input="photos/"), run)
    """

    takes = (beam.Pipeline, beam.pvalue.PBegin)

    run: RunSpec
    _: dataclasses.KW_ONLY
    listing: Listing
    reader: RowReader | None = None
    unique_keys: bool = False
    pending: PendingListing | None = None

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
        """List a source. The listing is moved into the staging folder when the pipeline runs.

        Args:
          source: Lists the input.
          run: Options of the run.
          check, duplicates, chunker: Applied to the rows of a `RowSource` when workers read them.
            For all other sources, pass the check to `Check`.

        Raises:
          ConfigError: The input is unusable, or the output holds other files.
        """
        step = f"{cls.__name__}.from_source"
        source = check_option(step, "source", source, _SOURCE)
        run = check_option(step, "run", run, RunSpec)
        prepare_output(run.staging, overwrite=run.overwrite)
        rules = LabelRules(allowed=run.labels)
        if isinstance(source, RowSource):
            shared_pool(run.workers)  # which lists and reads
        pending = PendingListing()
        listing = stage_listing(
            source, pending.staging, rules=LabelRules() if isinstance(source, RowSource) else rules
        )
        unique = source.unique_keys and chunker is None
        layout = layout_of(source, listing, pending.staging, keep=False)
        listing = pending.named_as_before(listing, run.staging)
        if run.layout is None:
            run = dataclasses.replace(run, layout=layout)
        if not isinstance(source, RowSource):
            return cls(run, listing=listing, unique_keys=unique, pending=pending)
        reader = RowReader(
            source=source,
            layout=layout,
            staging=run.staging,
            check=check,
            duplicates=duplicates,
            chunker=chunker,
            rules=rules,
        )
        return cls(run, listing=listing, reader=reader, unique_keys=unique, pending=pending)

    def expand(self, begin: beam.pvalue.PBegin) -> StagedRecords:
        if self.pending is not None:
            before_run(
                begin.pipeline,
                functools.partial(self.pending.move, self.listing, self.run.staging),
            )
        # Create reshuffles its elements, so that all workers get some.
        parts = begin | "Listing" >> beam.Create(self.listing.parts)
        if self.reader is not None:
            workers = self.run.workers
            partitions = partitions_of(len(self.listing.parts))
            read = functools.partial(read_rows_of, reader=self.reader, run=self.run)
            parts |= "ReadRows" >> PrepareParts(read, at_once=workers)
            if self.reader.source.keyed_by_content:
                duplicates = self.reader.duplicates
                by_group = duplicates is None or duplicates.mode != "group"
                parts |= "NumberEqualRows" >> NumberEqualRows(
                    self.run.staging, by_group=by_group, partitions=partitions
                )
            if self.reader.conflicts is not None:
                parts |= "DecideRepeatedRows" >> DecideRepeatedRows(
                    self.run.staging, conflicts=self.reader.conflicts, partitions=partitions
                )
        handles = parts | "Batches" >> beam.Map(
            _batch, counters=RecordCounters("Read")
        ).with_output_types(Element)
        return StagedRecords(handles, self.run, self.unique_keys)


def _check_columns(rows: pa.RecordBatch) -> None:
    """Raise ConfigError for a batch of a custom pipeline with columns of other types."""
    if not isinstance(rows, pa.RecordBatch):  # Beam may not know the type of the elements
        raise ConfigError(
            f"StageBatches: expected elements of type pyarrow.RecordBatch, got {type(rows)}"
        )
    names = rows.schema.names
    if not names:
        raise ConfigError("StageBatches: expected batches with columns, got one without any")
    if batch.KEY in names:
        kind = rows.schema.field(batch.KEY).type
        if kind not in _STRINGS:
            raise _no_strings(batch.KEY, kind)
        if missing := rows[batch.KEY].null_count:
            raise ConfigError(f"StageBatches: {missing} records have no {batch.KEY}")
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


def _all_nullable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose columns are nullable; whether they hold nulls is found in all batches."""
    fields = [field.with_nullable(True) for field in rows.schema]
    schema = pa.schema(fields, metadata=rows.schema.metadata)
    return pa.RecordBatch.from_arrays(rows.columns, schema=schema)


class _Stage(beam.DoFn):
    """Stages batches; small ones of a bundle become one part, as each pass opens every part."""

    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self._counters = RecordCounters("StageBatches")

    def setup(self) -> None:
        # Whether a dataset there is the same one is known only once this one is written.
        check_output_folder(self._run.staging.output)

    def start_bundle(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def process(self, rows: pa.RecordBatch) -> Iterator[StagedPart]:
        _check_columns(rows)
        size = rows.nbytes
        # The metadata may hold data, which is of one batch.
        is_like = self._batches and rows.schema.equals(self._batches[0].schema, check_metadata=True)
        if (
            not is_like
            or self._bytes + size > limits.VALUE_STAGED_BYTES
            or self._rows + len(rows) > limits.PART_ROWS
        ):
            yield from self._flush()
        self._batches.append(rows)
        self._bytes += size
        self._rows += len(rows)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for part in self._flush():
            yield GlobalWindows.windowed_value_at_end_of_window(part)

    def _flush(self) -> list[StagedPart]:
        if not self._batches:
            return []
        rows = batch.concat(self._batches)
        self.start_bundle()
        rules = LabelRules(allowed=self._run.labels)
        rows = batch.complete(with_keys_by_content(rows))
        rows = rows.select(sorted(rows.schema.names))  # their order does not matter
        if layout_of_values(rows.schema) is None:
            rows = _all_nullable(rows)
        check = check_of(self._run.encoder, balanced=False)
        part = stage_batch(rows, self._run.staging, rules=rules, check=check)
        self._counters.add(read=len(rows), out=part.rows, rejected=part.unread + part.rejected)
        return [part]


def _stage_left_out(elements: Sequence[Reject | StepRemark], *, staging: Staging) -> list[Element]:
    """Write a part without rows, with what steps before left out beside it; notes are remarks."""
    rejects = [one for one in elements if isinstance(one, Reject)]
    skipped, filtered, lost = Counter[str](), Counter[str](), Counter[str]()
    inputs = extra = 0
    for one in elements:
        if isinstance(one, InputCount):
            (filtered if one.are_records else skipped)[one.reason] += one.number
        elif isinstance(one, CutInputs):
            inputs += one.inputs
            extra += one.records - one.inputs
        elif isinstance(one, LostClasses):
            lost.update(one.counts)
    rows = batch.complete(pa.RecordBatch.from_pydict({batch.KEY: pa.array([], pa.string())}))
    name = f"rejects/{uuid.uuid4().hex}.arrow"
    staging.place("rejects").make_dirs()
    part = write_checked_part(
        batch.with_hash(rows),
        staging,
        name,
        rejects=rejects,
        filtered=filtered,
        skipped=skipped,
        unread=sum(one.stage == "read" for one in rejects),
        extra=max(extra, 0),
        inputs=inputs,
        lost=lost,
    )
    remarks = (Remark(one) for one in elements if isinstance(one, Note))
    return [StagedBatch(part), *remarks]


def _same(element: Element) -> Element:
    return element


@dataclasses.dataclass(eq=False)
class StageBatches(OrderedStep):
    """Stage the batches of a custom pipeline: batches or `RecordValues` in, `StagedRecords` out.

    Batches have the columns that the encoder reads, and may have `__key__` (string, unique),
    `__label__`, `__group__` and `__split__`. Without `__key__`, keys follow from content, and equal
    rows are numbered. Batches may have different columns; a value is missing where a batch lacks
    the column. Batches are written to the staging folder, so that memory does not grow with their
    number. Records whose label is not in `run.labels`, and records that fail the check of the
    encoder, are rejected.

    Args:
      run: Options of the run.

    Raises:
      ConfigError: Keys, labels, groups or splits are not strings, or an earlier step has options
        that only `WriteToTFRecord` applies.
      RunError: The types of a column in two batches have no common type, or only some batches have
        keys.

    Example::

        batches | StageBatches(run) | Check(check=TableCheck(options=options)) | AssignSplits()
    """

    takes = VALUES

    run: RunSpec

    def expand(self, records: Values) -> StagedRecords:
        values, staging = values_of(records), self.run.staging
        refuse_noted("StageBatches", values.options)
        parts = (
            values.batches
            | "Stage" >> beam.ParDo(_Stage(self.run)).with_output_types(StagedPart)
            # Later steps read batches by name, so a retry must not give them other names.
            | "Spread" >> beam.Reshuffle()
            | "NumberEqualRows" >> NumberEqualRows(staging, only_by_content=True)
        )
        handles = parts | "Handles" >> beam.Map(StagedBatch).with_output_types(Element)
        some = [one for one in (values.rejects, values.remarks) if one is not None]
        if some:
            left_out = (
                some
                | "LeftOut" >> beam.Flatten()
                | "BatchLeftOut" >> beam.BatchElements(1, _LEFT_OUT_AT_ONCE)
                | "StageLeftOut"
                >> beam.FlatMap(_stage_left_out, staging=staging).with_output_types(Element)
                | "SpreadLeftOut" >> beam.Reshuffle()
                # Flink does not find the inputs of a Flatten that follows a reshuffle.
                | "HandlesLeftOut" >> beam.Map(_same).with_output_types(Element)
            )
            handles = (handles, left_out) | "WithLeftOut" >> beam.Flatten()
        return StagedRecords(handles, self.run)
