"""Check: rejection of invalid records and removal of duplicates, before planning."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from recordmill.job.staging import StagedPart
from recordmill.transforms.checks.duplicates import DropDuplicates
from recordmill.transforms.checks.near_groups import GroupNearDuplicates
from recordmill.transforms.checks.prepare_parts import PartCheck, PrepareParts
from recordmill.transforms.model import data_type
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.known_content import KnownContents
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.near_duplicates.bands import bands_of
from recordmill.transforms.sources.rows.references.repeated_rows import Conflicts
from recordmill.transforms.staged.handles import Element, StagedBatch, part_of
from recordmill.transforms.staged.records import StagedRecords
from recordmill.transforms.staged.step_order import OrderedStep

_COUNTERS = RecordCounters("Check")
_OTHERS = "others"  # tag of problems and remarks


def _incoming(element: Element) -> Iterator[Any]:  # Beam warns about TaggedOutput
    if isinstance(element, StagedBatch):
        part = part_of(element)
        _COUNTERS.add(read=part.rows)
        yield part
    else:
        yield TaggedOutput(_OTHERS, element)


def _checked(part: StagedPart) -> StagedBatch:
    _COUNTERS.add(out=part.rows, rejected=part.rejected)
    return StagedBatch(part)


def _unchanged(element: Element) -> Element:
    if isinstance(element, StagedBatch):
        _COUNTERS.add(read=element.part.rows, out=element.part.rows)
    return element


@dataclasses.dataclass(eq=False)
class Check(OrderedStep):
    """Reject invalid records, and leave out duplicates: `StagedRecords` in and out.

    Rejects and their reasons are written beside each part. If workers read the rows (`Read` with a
    reader), the same task checks the rows instead, so that they are read only once.

    Args:
      check: Finds invalid rows.
      duplicates: Finds duplicates. With mode `drop`, one of several duplicates is kept; `conflicts`
        decides if their labels differ.
      content: Reads the content of the files that rows refer to; `duplicates` and `known` need it
        if workers do not read the rows.
      known: Contents of records to leave out.
      near: Finds near duplicates, by hashes of `content`.
      conflicts: For duplicates with different labels: `reject` leaves out all of them, `first`
        keeps one.

    Raises:
      ConfigError: The input is not the output of an earlier step.

    Example::

        pipeline | Read.from_source(source, run) | Check(check=HeaderCheck(options=options))
    """

    takes = (StagedRecords,)
    after = "Read or StageBatches"

    _: dataclasses.KW_ONLY
    check: data_type.RowCheck | None = None
    duplicates: data_type.Duplicates | None = None
    content: data_type.ContentReader | None = None
    known: KnownContents | None = None
    near: data_type.NearDuplicates | None = None
    conflicts: Conflicts = "reject"

    def expand(self, records: StagedRecords) -> StagedRecords:
        batches, run = records.handles, self._with_groups(records.run)
        drop = self.duplicates is not None and self.duplicates.mode == "drop"
        checks = self.check is not None or self.content is not None
        if not checks and not drop and self.near is None:
            unchanged = batches | "Unchanged" >> beam.Map(_unchanged).with_output_types(Element)
            return records._replace(handles=unchanged, steps=(*records.steps, "Check"))
        staging = run.staging
        incoming = batches | "Parts" >> beam.FlatMap(_incoming).with_outputs(_OTHERS, main="parts")
        parts, others = incoming.parts, incoming[_OTHERS]
        parts.element_type, others.element_type = StagedPart, Element
        if checks:
            check = PartCheck(
                staging=staging,
                workers=run.workers,
                worker_limits=run.worker_limits,
                check=self.check,
                content=self.content,
                duplicates=self.duplicates,
                known=self.known,
                reuse=run.reuse if run.fingerprint == "stat" else None,
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
        with_others = (checked, others) | "WithOthers" >> beam.Flatten()
        grouped = run is not records.run  # by content
        return records._replace(
            handles=with_others,
            run=run,
            steps=(*records.steps, "Check"),
            ungrouped=records.ungrouped and not grouped,
        )

    def _with_groups(self, run: RunSpec) -> RunSpec:
        """Return the run, whose records have groups if these follow from their content."""
        rules = (self.duplicates, self.near)
        if run.layout is None or not any(one is not None and one.mode == "group" for one in rules):
            return run
        return dataclasses.replace(run, layout=dataclasses.replace(run.layout, grouped=True))
