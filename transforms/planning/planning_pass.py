"""The planning pass: one reading of all records that finds everything to be known before they are
planned. Its slow part is a task of encoder processes.
"""

import dataclasses
from collections.abc import Callable

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.staging import Staging
from recordmill.processes.pool import shared_pool
from recordmill.transforms.checks.unique_keys import partition_hashes
from recordmill.transforms.model import batch
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Analysis
from recordmill.transforms.planning.examine import (
    AnalysisCounts,
    ExaminationResult,
    Examiner,
    Task,
    run_task,
)
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.batches import Element, Problem
from recordmill.transforms.staged.listing import described_columns

_COUNTERS = RecordCounters("Analyze")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartSummary:
    """Summary of one batch.

    survey: its records by split and class. hashes: of its keys, as `partition_hashes` gives them,
      where keys may repeat. counts: for an analysis, of the records of train.
    findings: statistics and schema violations of records; source: those of the rows that windows
      were cut from. problems: sentences that reached the pass among the batches.
    """

    survey: Survey = Survey()  # noqa: RUF009, it is frozen
    hashes: tuple[tuple[int, bytes], ...] = ()
    counts: AnalysisCounts | None = None
    findings: ExaminationResult = ExaminationResult()  # noqa: RUF009
    source: ExaminationResult = ExaminationResult()  # noqa: RUF009
    problems: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanningPass:
    """Options of the pass.

    keys: whether keys may repeat. analysis: counts what is learned from train. records, source:
    examine records, and the rows that windows were cut from.
    """

    staging: Staging
    seed: int
    workers: int
    keys: bool = False
    analysis: Analysis | None = None
    records: Examiner | None = None
    source: Examiner | None = None

    def summarize(self, element: Element) -> PartSummary:
        """Summarize one batch."""
        if isinstance(element, Problem):
            return PartSummary(problems=(element.sentence,))
        part = element.part
        rows = element.read(self.staging)
        if element.role == "source":
            if self.source is None:
                return PartSummary()
            _, findings = self._task(part.name, rows, analysis=None, examiner=self.source)()
            return PartSummary(source=findings)
        if rows[batch.SPLIT].null_count:
            raise ConfigError(
                "Analyze: expected every record to have a split, got some without: put AssignSplits"
                " before it"
            )
        _COUNTERS.add(read=len(rows), out=len(rows))
        task = self._task(part.name, rows, analysis=self.analysis, examiner=self.records)
        survey = Survey.of(rows, part, seed=self.seed)
        if part.name.startswith("batches/"):
            columns = frozenset({described_columns(part, self.staging)})
            survey = dataclasses.replace(survey, columns=columns)
        hashes = tuple(partition_hashes(rows)) if self.keys else ()
        counts, findings = task()
        return PartSummary(survey=survey, hashes=hashes, counts=counts, findings=findings)

    def _task(
        self,
        name: str,
        rows: pa.RecordBatch,
        *,
        analysis: Analysis | None,
        examiner: Examiner | None,
    ) -> Callable[[], tuple[AnalysisCounts | None, ExaminationResult]]:
        """Submit the slow part; the function that is returned waits for it."""
        if analysis is None and examiner is None:
            return lambda: (None, ExaminationResult())
        task = Task(staging=self.staging, analysis=analysis, examiner=examiner)
        splits = batch.to_bytes(rows.select([batch.SPLIT]))
        return shared_pool(self.workers).submit(run_task, task, name, splits).result


@dataclasses.dataclass(eq=False)
class SummarizeParts(beam.PTransform):
    """Handles on batches in, a `PartSummary` of each out."""

    planning_pass: PlanningPass

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> beam.PCollection[PartSummary]:
        return batches | "Summarize" >> beam.Map(self.planning_pass.summarize).with_output_types(
            PartSummary
        )
