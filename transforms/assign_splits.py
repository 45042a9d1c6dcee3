"""AssignSplits: assignment of records to splits, before learning and balancing."""

import dataclasses
import functools
import math
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton

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
from recordmill.transforms.checks.group_leakage import find_group_leakage
from recordmill.transforms.checks.select_records import RecordSelection, SelectRecords
from recordmill.transforms.model import batch
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.splits import SplitByKey
from recordmill.transforms.staged.batches import RowScan, scan
from recordmill.transforms.staged.handles import (
    Element,
    Problem,
    Remark,
    StagedBatch,
    part_of,
    with_step,
)
from recordmill.transforms.staged.listing import SYSTEM
from recordmill.transforms.staged.step_order import OrderedStep
from recordmill.transforms.windowing.cut_windows import CutWindows
from recordmill.transforms.windowing.window_tasks import Windowing

_COUNTERS = RecordCounters("AssignSplits")


def _assign(element: Any, strata: str = "", *, run: RunSpec) -> Any:
    """Assign splits to rows in memory, or append the step that does so to a handle.

    strata: name of the staged strata of a stratified split; empty for a split by key.
    """
    by_key = SplitByKey(run.splits, run.seed)
    if isinstance(element, pa.RecordBatch):
        _COUNTERS.add(read=len(element), out=len(element))
        return by_key(batch.without_hash(element))  # a step before may have changed keys
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
    """Assign every record to a split: batches in, batches out (in memory, or handles).

    The split is a function of the seed and the key of a record, or its group, so that records added
    later never move old ones. Splits that the input assigns are kept.

    stratify: whether all splits get the same fractions of every class, exactly, or as near as whole
      groups allow; needs handles.
    windowing: cuts series into windows; no window spans two splits. The output is batches of
      windows.
    selection: records to keep, applied before splits are assigned; needs handles.
    label_bins: bins of a number to predict that take the place of classes; needs handles.
    keep_source: whether the output also has the rows that windows were cut from, for statistics and
      schemas.
    remedy: advice in the message if the input assigns one group to several splits.

    Example::

        batches | AssignSplits(run)
    """

    takes = (Element, pa.RecordBatch)
    after = "Read or StageBatches"

    run: RunSpec
    _: dataclasses.KW_ONLY
    stratify: bool = False
    windowing: Windowing | None = None
    selection: RecordSelection = RecordSelection()  # noqa: RUF009, it is frozen
    label_bins: LabelBins | None = None
    keep_source: bool = False
    remedy: str = "leave the groups out"

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Any]) -> beam.PCollection[Any]:
        run = self.run
        if batches.element_type in (pa.RecordBatch, typehints.Any):
            return batches | "Assign" >> beam.Map(_assign, run=run).with_output_types(
                batches.element_type
            )
        if self.windowing is not None:
            batches = self._cut_windows(batches, self.windowing)
        held: AsSingleton | None = None
        if run.multi_label:
            # Strata are those of the records that are kept.
            stratified = self.stratify and self.selection.is_all
            counted = count_held(self._read_labels(batches), sets=stratified)
            batches = self._choose_classes(batches, counted, stratified=stratified)
            held = AsSingleton(counted)
        if not self.selection.is_all:
            batches |= "Select" >> SelectRecords(run.staging, self.selection)
            if self.stratify:
                counted = count_sets(self._read_labels(batches))
                batches = self._choose_strata(batches, counted)
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
                grouped=run.may_be_grouped,
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
        if run.may_be_grouped and run.may_be_presplit:
            leakage = find_group_leakage(
                functools.partial(
                    scan, batches, staging=run.staging, columns=(*SYSTEM, batch.SOURCE)
                ),
                remedy=self.remedy,
            )
            found.append(leakage | "GroupLeakage" >> _problems())
        return (batches, *found) | "WithProblems" >> beam.Flatten() if found else batches

    def _read_labels(self, batches: beam.PCollection[Element]) -> RowScan:
        columns = (batch.LABELS, batch.LABEL, batch.STRATUM)
        return functools.partial(scan, batches, staging=self.run.staging, columns=columns)

    @property
    def _least(self) -> int:
        """Minimum number of records of a stratum of label sets."""
        if self.run.multi_label and not self.run.grouped:
            return 1
        # Groups are divided by their most frequent stratum, which needs large strata. Sets of the
        # classes of boxes need large strata, too.
        splits = self.run.splits
        return max(len(splits), math.ceil(1 / min(splits.values())))

    def _choose_strata(
        self, batches: beam.PCollection[Element], counted: beam.PCollection[HeldLabels]
    ) -> beam.PCollection[Element]:
        name = counted | "StoreSelected" >> beam.Map(
            store_held, staging=self.run.staging, least=self._least
        ).with_output_types(str)
        choose = beam.Map(_choose, AsSingleton(name), only_stratum=True)
        return batches | "ChooseStratum" >> choose.with_output_types(Element)

    def _choose_classes(
        self,
        batches: beam.PCollection[Element],
        counted: beam.PCollection[HeldLabels],
        *,
        stratified: bool,
    ) -> beam.PCollection[Element]:
        run = self.run
        name = counted | "StoreHeld" >> beam.Map(
            store_held, staging=run.staging, least=self._least if stratified else None
        ).with_output_types(str)
        return (
            batches
            | "SpreadForClasses" >> beam.Reshuffle()
            | "ChooseClass" >> beam.Map(_choose, AsSingleton(name)).with_output_types(Element)
        )

    def _cut_windows(
        self, batches: beam.PCollection[Element], windowing: Windowing
    ) -> beam.PCollection[Element]:
        parts = batches | "RowParts" >> beam.Map(part_of).with_output_types(StagedPart)
        cut, problems = parts | CutWindows(windowing, self.run.workers)
        out = [
            cut | "Windows" >> beam.Map(StagedBatch).with_output_types(StagedBatch),
            problems | "NoWindows" >> _problems(),
        ]
        if self.keep_source:
            out.append(parts | "SourceRows" >> beam.Map(_source).with_output_types(StagedBatch))
        return tuple(out) | "WithWindows" >> beam.Flatten()


def _problems() -> beam.PTransform:
    return beam.Map(Problem).with_output_types(Problem)
