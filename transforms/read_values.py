"""The base of `ReadImages`, `ReadText` and others: records of a source as batches in memory."""

import dataclasses
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton, TaggedOutput

from recordmill.errors import ConfigError, Reject
from recordmill.format.ledger import INPUT
from recordmill.job.input_facts import NO_FACTS
from recordmill.notes import Note
from recordmill.option_checks import options_of
from recordmill.processes import by_value
from recordmill.processes.pool import shared_pool
from recordmill.storage.files import from_here
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.source import RowSource, Source
from recordmill.transforms.sources.files.input_paths import (
    PATH_OPTIONS,
    InputPath,
    Inputs,
    with_path_options,
)
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.folders.split_lists import REST
from recordmill.transforms.sources.row_formats.where.condition_syntax import WHERE
from recordmill.transforms.staged.encoder_tasks import row_task
from recordmill.transforms.staged.records import (
    CutInputs,
    InputCount,
    LostClasses,
    RecordValues,
    StepRemark,
    ValueOptions,
)
from recordmill.transforms.staged.row_reader import read_values
from recordmill.transforms.staged.step_order import OrderedStep
from recordmill.transforms.staged.value_batches import as_values

REJECTS, REMARKS, _READER = "rejects", "remarks", "reader"

# A path or URI, several of them, or a source.
Input: TypeAlias = str | os.PathLike[str] | Sequence[str] | Source


def typed_batches(
    outputs: Any,
) -> tuple[
    beam.PCollection[pa.RecordBatch], beam.PCollection[Reject], beam.PCollection[StepRemark]
]:
    """Return the batches, rejects and remarks of a ParDo, each with the type of its elements.

    Beam's type hints would give all outputs the same type, and so the same coder.
    """
    batches, rejects, remarks = outputs.batches, outputs[REJECTS], outputs[REMARKS]
    batches.element_type, rejects.element_type = pa.RecordBatch, Reject
    remarks.element_type = StepRemark
    return batches, rejects, remarks


def input_counts(
    filtered: Mapping[str, int], *, of_records: Container[str]
) -> Iterator[TaggedOutput]:
    """Yield {reason: number left out} as remarks. of_records: reasons that exclude records."""
    for reason, count in filtered.items():
        if count:
            yield TaggedOutput(REMARKS, InputCount(reason, count, reason in of_records))


def lost_remarks(counts: Mapping[str, int]) -> Iterator[TaggedOutput]:
    """Yield {class: number of inputs} of classes that a step lost as a remark, if there are any."""
    if counts:
        yield TaggedOutput(REMARKS, LostClasses(dict(counts)))


def _remarks(notes: Iterable[Note]) -> Iterator[TaggedOutput]:
    return (TaggedOutput(REMARKS, note) for note in notes)


class _List(beam.DoFn):
    """Lists a source on one worker, and emits its parts and the pickled reader of the parts."""

    def __init__(self, step: "ReadStep", name: str) -> None:
        self._source = step.source
        self._workers = step.workers
        self._counters = RecordCounters(name)

    def process(self, _: bytes) -> Iterator[Any]:
        shared_pool(self._workers)  # many sources use its processes to list
        source = self._source()
        is_read_later = isinstance(source, RowSource)
        parts, facts = [], NO_FACTS
        for listed in source.scan():
            facts = facts.plus(listed.facts)
            rejected = len(listed.rejects)
            self._counters.add(read=rejected, rejected=rejected)
            yield from (TaggedOutput(REJECTS, reject) for reject in listed.rejects)
            yield from _remarks(listed.notes)
            yield from input_counts(listed.filtered, of_records=())
            yield from lost_remarks(listed.rejected_labels)
            if listed.rows is None or not len(listed.rows):
                continue
            if is_read_later:
                parts.append(listed.rows)
                yield listed.rows
            else:
                yield as_values(listed.rows, None, listed.data)
        reader = b""
        if isinstance(source, RowSource):
            layout = source.layout(parts, facts=facts)
            yield from _remarks(layout.notes)
            reader = by_value.dumps((source, layout))
        yield TaggedOutput(_READER, reader)


class _Read(beam.DoFn):
    """Reads the rows of parts of a listing in encoder processes; other parts pass.

    is_cut: whether inputs have several records each, which are no inputs themselves.
    """

    def __init__(self, workers: int, name: str, *, is_cut: bool) -> None:
        self._workers = workers
        self._is_cut = is_cut
        self._counters = RecordCounters(name)

    def process(self, part: pa.RecordBatch, reader: bytes) -> Iterator[Any]:
        if not reader:
            self._counters.add(read=len(part), out=len(part))
            yield part
            return
        pool = shared_pool(self._workers)
        found = pool.submit_rows(row_task(read_values, reader, rows=part)).result()
        yield from lost_remarks(found.lost)
        if self._is_cut and (found.inputs or found.records):
            yield TaggedOutput(REMARKS, CutInputs(found.inputs, found.records))
        for rows, rejects, filtered in found.parts:
            yield from (TaggedOutput(REJECTS, reject) for reject in rejects)
            yield from input_counts(filtered, of_records=(WHERE,))  # the rest are no rows
            count = 0
            if rows is not None:
                made = batch.from_bytes(rows)
                count = len(made)
                if count:
                    yield made
            self._counters.add(read=count + len(rejects), out=count, rejected=len(rejects))


@dataclasses.dataclass(eq=False)
class ReadStep(OrderedStep):
    """The base of the steps that read an input: a pipeline in, `RecordValues` out.

    Nothing is read while the graph is built: one worker lists the input, and all workers read it.

    Args:
      input: Path or URI of a file or folder, a glob pattern, or several of these; `test=photos/`
        assigns the records of `photos/` to the split `test`. Or a `Source` with its own options.
      workers: Number of encoder processes of each worker; 0 is one per core.
      split_from: Part of the input that gives splits: `folders`, `files`, `none`, or a part of
        paths as for `label_from`. `auto` takes the first of a column with a usual name, folders
        and files that gives them.
      label_from: Part of the path of a file that is its class: `top`, `parent`, `folder:N`, `file`,
        `KEY=`, or a regular expression with a group. Default: the top folder for files, a column
        for rows.
      group_from: Part of the path of a file that is its group, as for `label_from`. Default: paths
        give no groups.
      split_map: {value: split} of the values of `split_column` or `split_from`, such as
        `{"5": "test", "*": "train"}`; `*` stands for all other values. The split `none`
        leaves records out.
      split_files: {split: path of a list of the names of its files}, one per line; `*` in place of
        a path stands for all files in no list. The split `none` leaves files out.
      column_from: {column: part of paths, as for `label_from`} of columns of text that paths give.
      key_from: Part of the path of a file that is the key of its record. Default: the whole path.
    """

    takes: ClassVar[tuple[Any, ...]] = (beam.Pipeline, beam.pvalue.PBegin)
    # Fields that a source has itself.
    source_options: ClassVar[frozenset[str]] = frozenset(PATH_OPTIONS)

    groups_by_column: ClassVar[bool] = False  # whether no reader of the data type makes groups

    input: Input
    _: dataclasses.KW_ONLY
    workers: int = 0
    split_from: str = "auto"
    label_from: str | None = None
    group_from: str | None = None
    split_map: Mapping[str, str] = dataclasses.field(default_factory=dict)
    split_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    column_from: Mapping[str, str] = dataclasses.field(default_factory=dict)
    key_from: str | None = None

    def _check_together(self) -> None:
        name = type(self).__name__
        if isinstance(self.input, os.PathLike):
            self.input = os.fspath(self.input)
        if not self.input:
            raise ConfigError(
                f"{name}: input: expected a path, several paths or a source, got none"
            )
        if isinstance(self.input, Source):
            for field in dataclasses.fields(self):
                default = (
                    field.default_factory() if callable(field.default_factory) else field.default
                )
                if field.name in self.source_options and getattr(self, field.name) != default:
                    raise ConfigError(
                        f"{name}: {field.name}: a source has this option itself: set it there"
                    )
        else:
            given = [self.input] if isinstance(self.input, str) else self.input
            parsed = (InputPath.parse(path) for path in given)
            # Workers may run in another working directory.
            self._paths = tuple(
                dataclasses.replace(one, path=from_here(one.path)) for one in parsed
            )
            self.split_files = {
                split: path if path == REST else from_here(path)
                for split, path in self.split_files.items()
            }
            self.inputs()
        with options_of(name):
            self._noted = dataclasses.replace(self.noted(), ungrouped=self._is_ungrouped)

    @property
    def _is_source(self) -> bool:
        """True if the input is a source, which has its own options, instead of paths."""
        return isinstance(self.input, Source)

    @property
    def _is_ungrouped(self) -> bool:
        """True if only a column gives groups, and none is named."""
        if not self.groups_by_column or self._is_source:
            return False
        return self.group_from is None and getattr(self, "group_column", None) is None

    def source(self) -> Source:
        """Return the source to list. Only workers call it, because it may read the input."""
        if isinstance(self.input, Source):
            return self.input
        return self.source_of_paths()

    def source_of_paths(self) -> Source:
        """Return the source of the paths of the input."""
        raise NotImplementedError

    def noted(self) -> ValueOptions:
        """Return the options for `WriteToTFRecord`, among them the encoder of the records."""
        raise NotImplementedError

    def keeps_unlabelled(self, unlabelled: Unlabelled) -> bool:
        """Return whether records without a label are kept.

        Args:
          unlabelled: Option of the step; the option of a given source has precedence.
        """
        found: object = getattr(self.input, "unlabelled", unlabelled)
        return found == "keep"

    def inputs(self) -> Inputs:
        """Return the paths of the input, and their parts that give splits, labels and groups."""
        return with_path_options(self._paths, self)

    def expand(self, begin: beam.pvalue.PBegin) -> RecordValues:
        name = type(self).__name__
        listed = (
            begin
            | "Once" >> beam.Impulse()
            | "List"
            >> beam.ParDo(_List(self, name)).with_outputs(REJECTS, REMARKS, _READER, main="batches")
        )
        parts, unlisted, found = typed_batches(listed)
        reader = listed[_READER]
        reader.element_type = bytes
        read = (
            parts
            # Without a reshuffle all later steps would run on the worker that listed the files.
            | "Spread" >> beam.Reshuffle()
            | "ReadParts"
            >> beam.ParDo(
                _Read(self.workers, name, is_cut=self._noted.unit != INPUT), AsSingleton(reader)
            ).with_outputs(REJECTS, REMARKS, main="batches")
        )
        batches, unread, seen = typed_batches(read)
        rejects = (unlisted, unread) | "AllRejects" >> beam.Flatten()
        remarks = (found, seen) | "AllRemarks" >> beam.Flatten()
        return RecordValues(batches, rejects, self._noted, remarks)
