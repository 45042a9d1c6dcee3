"""AssignSplits: assignment of records to splits, before learning and balancing."""

import dataclasses
import functools
import math
from typing import overload

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton

from recordmill.errors import ConfigError
from recordmill.format.split_names import DEFAULT_FRACTIONS
from recordmill.job.staging import StagedPart
from recordmill.transforms.balancing.held_labels import HeldLabels
from recordmill.transforms.balancing.label_bins import BinLabels, LabelBins
from recordmill.transforms.balancing.label_choice import (
    ChooseClass,
    count_held,
    count_sets,
    store_held,
)
from recordmill.transforms.balancing.stratify import (
    SplitByStratum,
    find_strata,
    store_strata,
)
from recordmill.transforms.checks.group_leakage import FindGroupLeakage
from recordmill.transforms.checks.select_records import RecordSelection, SelectRecords
from recordmill.transforms.model import batch
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.run_spec import Fractions, RunSpec, check_fractions
from recordmill.transforms.model.splits import SplitByKey
from recordmill.transforms.sources.rows.columns.content_keys import with_keys_by_content
from recordmill.transforms.staged.batches import RowScan, scan
from recordmill.transforms.staged.handles import (
    Element,
    Problem,
    Remark,
    StagedBatch,
    part_of,
    with_step,
)
from recordmill.transforms.staged.records import RecordValues, StagedRecords, Values, values_of
from recordmill.transforms.staged.step_order import (
    VALUES,
    OrderedStep,
    refuse_options,
    refuse_repetition,
)
from recordmill.transforms.windowing.cut_windows import CutWindows
from recordmill.transforms.windowing.window_tasks import Windowing

_COUNTERS = RecordCounters("AssignSplits")


def _assign_rows(rows: pa.RecordBatch, splits: SplitByKey) -> pa.RecordBatch:
    rows = with_keys_by_content(rows)
    _COUNTERS.add(read=len(rows), out=len(rows))
    return splits(batch.without_hash(rows))  # a step before may have changed keys


def _assign(element: Element, strata: str = "", *, run: RunSpec) -> Element:
    """Append the step that assigns splits to a handle.

    strata: name of the staged strata of a stratified split; empty for a split by key.
    """
    by_key = SplitByKey(run.splits, run.seed)
    if isinstance(element, StagedBatch):
        if element.role == "records":
            _COUNTERS.add(read=element.part.rows, out=element.part.rows)
            if strata:
                return with_step(element, SplitByStratum(strata, run.splits, run.seed))
        return with_step(element, by_key)
    return element


def _choose(element: Element, name: str, only_stratum: bool = False) -> Element:
    return with_step(element, ChooseClass(name, only_stratum))


def _source(part: StagedPart) -> StagedBatch:
    return StagedBatch(part, role="source")


@dataclasses.dataclass(eq=False)
class AssignSplits(OrderedStep):
    """Assign each record to a split: `StagedRecords` in and out, or records in memory in and
    `RecordValues` out.

    The split is a function of the seed and the key of a record, or its group, so that records added
    later never move old ones. Splits that the input assigns are kept.

    Args:
      splits: {name: fraction}, in order; the fractions sum to 1. Default: 80 % train, 10 %
        validation and 10 % test. For `StagedRecords`, set this option in their `RunSpec`.
      seed: Seed of the splits. Default: 0. For `StagedRecords`, set this option in their `RunSpec`.
      stratify: Whether all splits get the same fractions of every class, exactly, or as near as
        whole groups allow. `WriteToTFRecord` then assigns the splits of records in memory.
      windowing: Cuts series into windows; no window spans two splits. The output is batches of
        windows. This option and the following ones need `StagedRecords`.
      selection: Records to keep, applied before splits are assigned.
      label_bins: Bins of the number to predict, which are used as classes.
      keep_source: Whether the output also has the rows that windows were cut from, for statistics
        and schemas.
      remedy: Advice in the message if the input assigns one group to several splits.

    Raises:
      ConfigError: The fractions do not sum to 1, or an option does not apply to the input.

    Example::

        batches | AssignSplits({"train": 0.9, "test": 0.1}, seed=7)
    """

    takes = (StagedRecords, *VALUES)

    splits: Fractions | None = None
    _: dataclasses.KW_ONLY
    seed: int | None = None
    stratify: bool = False
    windowing: Windowing | None = None
    selection: RecordSelection = RecordSelection()  # noqa: RUF009, it is frozen
    label_bins: LabelBins | None = None
    keep_source: bool = False
    remedy: str = "leave the groups out"

    def _check_together(self) -> None:
        if self.splits is not None:
            check_fractions(self.splits)

    @overload
    def expand(self, records: StagedRecords) -> StagedRecords: ...

    @overload
    def expand(self, records: Values) -> RecordValues: ...

    def expand(self, records: StagedRecords | Values) -> StagedRecords | RecordValues:
        if isinstance(records, StagedRecords):
            refuse_options("AssignSplits", {"splits": self.splits, "seed": self.seed})
            assigned = self._assign_staged(records)
            unique = records.unique_keys and self.windowing is None
            steps = (*records.steps, "AssignSplits")
            return records._replace(handles=assigned, unique_keys=unique, steps=steps)
        values = values_of(records)
        refuse_repetition("AssignSplits", was_applied=values.options.splits is not None)
        by_key = SplitByKey(self.splits or DEFAULT_FRACTIONS, self.seed or 0)
        found = dataclasses.replace(
            values.options, splits=by_key.fractions, seed=by_key.seed, stratify=self.stratify
        )
        others = (self.windowing, self.label_bins)
        if others != (None, None) or not self.selection.is_all:
            raise ConfigError(
                "AssignSplits: windowing, selection and label_bins need staged records: apply"
                " StageBatches before it"
            )
        batches = values.batches
        if not self.stratify and values.options.windows is None:
            batches |= "Assign" >> beam.Map(_assign_rows, by_key).with_output_types(pa.RecordBatch)
        return values._replace(batches=batches, options=found)

    def _assign_staged(self, records: StagedRecords) -> beam.PCollection[Element]:
        batches, run = records.handles, records.run
        grouped = run.may_be_grouped and not records.ungrouped
        if self.windowing is not None:
            batches = self._cut_windows(batches, self.windowing, run)
        held: AsSingleton | None = None
        if run.multi_label:
            # Strata are those of the records that are kept.
            stratified = self.stratify and self.selection.is_all
            counted = count_held(_read_labels(batches, run), sets=stratified)
            batches = self._choose_classes(batches, counted, run, stratified=stratified)
            held = AsSingleton(counted)
        if not self.selection.is_all:
            batches |= "Select" >> SelectRecords(run.staging, self.selection)
            if self.stratify:
                counted = count_sets(_read_labels(batches, run))
                batches = self._choose_strata(batches, counted, run)
                held = AsSingleton(counted) if run.multi_label else None
        if self.label_bins is not None:
            batches |= "LabelBins" >> BinLabels(run.staging, self.label_bins)
        found = []
        strata = []
        if self.stratify:
            made = find_strata(
                functools.partial(scan, batches, staging=run.staging),
                fractions=run.splits,
                seed=run.seed,
                grouped=grouped,
                held=held,
            )
            name = made.strata | "StoreStrata" >> beam.Map(
                store_strata, staging=run.staging
            ).with_output_types(str)
            strata.append(AsSingleton(name, default_value=""))
            found.append(made.problems | "TooSmallStrata" >> _problems())
            if made.notes is not None:
                remarks = beam.Map(Remark).with_output_types(Remark)
                found.append(made.notes | "StrataRemarks" >> remarks)
            batches |= "SpreadForStrata" >> beam.Reshuffle()
        batches |= "Assign" >> beam.Map(_assign, *strata, run=run).with_output_types(Element)
        if grouped and run.may_be_presplit:
            leakage = batches | FindGroupLeakage(run.staging, self.remedy)
            found.append(leakage | "GroupLeakage" >> _problems())
        return (batches, *found) | "WithProblems" >> beam.Flatten() if found else batches

    def _choose_strata(
        self,
        batches: beam.PCollection[Element],
        counted: beam.PCollection[HeldLabels],
        run: RunSpec,
    ) -> beam.PCollection[Element]:
        name = counted | "StoreSelected" >> beam.Map(
            store_held, staging=run.staging, least=_least(run)
        ).with_output_types(str)
        choose = beam.Map(_choose, AsSingleton(name), only_stratum=True)
        return batches | "ChooseStratum" >> choose.with_output_types(Element)

    def _choose_classes(
        self,
        batches: beam.PCollection[Element],
        counted: beam.PCollection[HeldLabels],
        run: RunSpec,
        *,
        stratified: bool,
    ) -> beam.PCollection[Element]:
        name = counted | "StoreHeld" >> beam.Map(
            store_held, staging=run.staging, least=_least(run) if stratified else None
        ).with_output_types(str)
        return (
            batches
            | "SpreadForClasses" >> beam.Reshuffle()
            | "ChooseClass" >> beam.Map(_choose, AsSingleton(name)).with_output_types(Element)
        )

    def _cut_windows(
        self, batches: beam.PCollection[Element], windowing: Windowing, run: RunSpec
    ) -> beam.PCollection[Element]:
        parts = batches | "RowParts" >> beam.Map(part_of).with_output_types(StagedPart)
        cut, problems = parts | CutWindows(windowing, run.workers)
        out = [
            cut | "Windows" >> beam.Map(StagedBatch).with_output_types(StagedBatch),
            problems | "NoWindows" >> _problems(),
        ]
        if self.keep_source:
            out.append(parts | "SourceRows" >> beam.Map(_source).with_output_types(StagedBatch))
        return tuple(out) | "WithWindows" >> beam.Flatten()


def _read_labels(batches: beam.PCollection[Element], run: RunSpec) -> RowScan:
    columns = (batch.LABELS, batch.LABEL, batch.STRATUM)
    return functools.partial(scan, batches, staging=run.staging, columns=columns)


def _least(run: RunSpec) -> int:
    """Return the minimum number of records of a stratum of label sets."""
    if run.multi_label and not run.grouped:
        return 1
    # Groups are divided by their most frequent stratum, which needs large strata. Sets of the
    # classes of boxes need large strata, too.
    return max(len(run.splits), math.ceil(1 / min(run.splits.values())))


def _problems() -> beam.PTransform:
    return beam.Map(Problem).with_output_types(Problem)
