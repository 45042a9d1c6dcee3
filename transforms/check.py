"""Check: rejection of invalid records and removal of duplicates, before planning."""

import dataclasses
from collections.abc import Iterator

import apache_beam as beam

from recordmill.job.staging import StagedPart
from recordmill.transforms.checks.duplicates import DropDuplicates
from recordmill.transforms.checks.near_groups import GroupNearDuplicates
from recordmill.transforms.checks.prepare_parts import PartCheck, PrepareParts
from recordmill.transforms.model import data_type
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.known_content import KnownContents
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.near_duplicates.bands import bands_of
from recordmill.transforms.sources.rows.repeated_rows import Conflicts
from recordmill.transforms.staged.handles import Element, StagedBatch, part_of
from recordmill.transforms.staged.step_order import OrderedStep

_COUNTERS = RecordCounters("Check")


def _incoming(element: Element) -> Iterator[StagedPart]:
    if isinstance(element, StagedBatch):
        part = part_of(element)
        _COUNTERS.add(read=part.rows)
        yield part


def _is_no_batch(element: Element) -> bool:
    return not isinstance(element, StagedBatch)


def _checked(part: StagedPart) -> StagedBatch:
    _COUNTERS.add(out=part.rows, rejected=part.rejected)
    return StagedBatch(part)


def _unchanged(element: Element) -> Element:
    if isinstance(element, StagedBatch):
        _COUNTERS.add(read=element.part.rows, out=element.part.rows)
    return element


@dataclasses.dataclass(eq=False)
class Check(OrderedStep):
    """Reject invalid records, and drop duplicates: handles in, handles on the remaining rows out.

    Rejects and their reasons are written beside each part. If workers read the rows (`Read` with a
    reader), they check them in the same task instead, so that rows are read only once.

    check: finds invalid rows.
    duplicates: finds duplicates; with mode `drop`, one of them stays, and none if their labels
      differ, unless `conflicts` is `first`.
    content: reads the content of the files that rows refer to; `duplicates` and `known` need it if
      workers do not read the rows.
    known: contents of records to leave out. near: finds near duplicates, by hashes of `content`.
    """

    takes = (Element,)
    after = "Read or StageBatches"

    run: RunSpec
    _: dataclasses.KW_ONLY
    check: data_type.RowCheck | None = None
    duplicates: data_type.Duplicates | None = None
    content: data_type.ContentReader | None = None
    known: KnownContents | None = None
    near: data_type.NearDuplicates | None = None
    conflicts: Conflicts = "reject"

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> beam.PCollection[Element]:
        drop = self.duplicates is not None and self.duplicates.mode == "drop"
        checks = self.check is not None or self.content is not None
        if not checks and not drop and self.near is None:
            return batches | "Unchanged" >> beam.Map(_unchanged).with_output_types(Element)
        staging = self.run.staging
        others = batches | "Others" >> beam.Filter(_is_no_batch).with_output_types(Element)
        parts = batches | "Parts" >> beam.FlatMap(_incoming).with_output_types(StagedPart)
        if checks:
            check = PartCheck(
                staging=staging,
                workers=self.run.workers,
                worker_limits=self.run.worker_limits,
                check=self.check,
                content=self.content,
                duplicates=self.duplicates,
                known=self.known,
                reuse=self.run.reuse if self.run.fingerprint == "stat" else None,
            )
            parts |= "CheckRows" >> PrepareParts(check.apply)
        if drop:
            parts |= DropDuplicates(staging, conflicts=self.conflicts)
        if self.near is not None:
            bands = bands_of(self.near)
            parts |= GroupNearDuplicates(staging, bands, self.near.mode)
            if self.near.mode == "drop":
                parts |= "DropNearDuplicates" >> DropDuplicates(
                    staging, conflicts=self.conflicts, bands=bands
                )
        checked = parts | "Batches" >> beam.Map(_checked).with_output_types(Element)
        return (checked, others) | "WithOthers" >> beam.Flatten()
