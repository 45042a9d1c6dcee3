"""The one pass over all records before they are planned: what has to be known of them comes from a
single reading. What takes long of it is a task of encoder processes.
"""

import dataclasses

import apache_beam as beam

from recordmill.job.staging import StagedPart
from recordmill.processes.pool import shared_pool
from recordmill.transforms.checks.unique_keys import partition_hashes
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Analysis
from recordmill.transforms.model.splits import Strata
from recordmill.transforms.planning.examine import (
    AnalysisCounts,
    ExaminationResult,
    Examiner,
    Task,
    run_task,
)
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.listing_scans import Passes, SplitReader


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartSummary:
    """What a part has shown.

    hashes: of its keys, as `partition_hashes` gives them, where keys may repeat. counts: of what is
    learned from train. findings: what statistics and schemas are about.
    """

    survey: Survey
    hashes: tuple[tuple[int, bytes], ...] = ()
    counts: AnalysisCounts | None = None
    findings: ExaminationResult = ExaminationResult()  # noqa: RUF009, it is frozen


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanningPass:
    """What to look for. keys: whether they may repeat."""

    keys: bool = False
    analysis: Analysis | None = None
    examiner: Examiner | None = None

    def at(
        self, part: StagedPart, strata: Strata | None = None, *, reader: SplitReader, workers: int
    ) -> PartSummary:
        """Looks at a part."""
        rows = reader.read(part.name, strata)
        task = None
        if self.analysis is not None or self.examiner is not None:
            task = shared_pool(workers).submit(
                run_task,
                Task(staging=reader.staging, analysis=self.analysis, examiner=self.examiner),
                part.name,
                batch.to_bytes(rows.select([batch.SPLIT])),
            )
        survey = Survey.of(rows, part, seed=reader.seed)
        hashes = tuple(partition_hashes(rows)) if self.keys else ()
        counts, findings = (None, ExaminationResult()) if task is None else task.result()
        return PartSummary(survey=survey, hashes=hashes, counts=counts, findings=findings)

    def over(self, passes: Passes, label: str, *, workers: int) -> beam.PCollection[PartSummary]:
        """Looks at all parts."""
        look = beam.Map(self.at, *passes.sides, reader=passes.reader, workers=workers)
        return passes.parts | label >> look.with_output_types(PartSummary)
