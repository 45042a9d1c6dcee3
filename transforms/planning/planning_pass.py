"""The planning pass: reads all records once and summarizes them for the plan.

Statistics and counts, the slow part, are a task of encoder processes.
"""

import dataclasses
import functools
from collections.abc import Callable

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.staging import Staging
from recordmill.processes.pool import shared_pool
from recordmill.processes.row_tasks import RowTask
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.transforms.checks.unique_keys import partition_hashes
from recordmill.transforms.model import batch
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Analysis
from recordmill.transforms.planning.part_task import (
    AnalysisCounts,
    DataProfiler,
    PartTask,
    run_part_task,
    try_part_rows,
)
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.handles import Element, Problem, Remark
from recordmill.transforms.staged.parts import observed_columns, read_part
from recordmill.transforms.staged.spill import Piece

_COUNTERS = RecordCounters("Analyze")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartSummary:
    """Summary of one batch.

    survey: numbers of records by split and class, and samples.
    hashes: hashes of keys, from `partition_hashes`, if keys may repeat.
    counts: counts of an analysis over the records of train.
    profile, source: profiles of the records, and of the rows that windows were cut from, for each
      group of columns.
    """

    survey: Survey = Survey()  # noqa: RUF009, it is frozen
    hashes: tuple[tuple[int, bytes], ...] = ()
    counts: AnalysisCounts | None = None
    profile: tuple[Piece, ...] = ()
    source: tuple[Piece, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanningPass:
    """Options of the planning pass.

    worker_limits: of an encoder process.
    columns: whether the columns of batches are known only from the batches.
    keys: whether keys may repeat, so that their hashes are needed. groups: whether to compare the
      names of groups. analysis: counts items of train.
    records, source: profile the records, and the rows that windows were cut from.
    """

    staging: Staging
    seed: int
    workers: int
    worker_limits: TaskLimits = DEFAULT_LIMITS
    columns: bool = False
    keys: bool = False
    groups: bool = False
    analysis: Analysis | None = None
    records: DataProfiler | None = None
    source: DataProfiler | None = None

    def summarize(self, element: Element) -> PartSummary:
        """Summarize one batch.

        Raises:
          ConfigError: a record has no split.
        """
        if isinstance(element, Problem):
            return PartSummary(survey=Survey(problems=(element.message,)))
        if isinstance(element, Remark):
            return PartSummary(survey=Survey(notes=(element.note,)))
        part = element.part
        rows = element.read(self.staging, keys=False)
        if element.role == "source":
            if self.source is None:
                return PartSummary()
            _, profile = self._task(part.name, rows, analysis=None, profiler=self.source)()
            return PartSummary(source=profile)
        if rows[batch.SPLIT].null_count:
            raise ConfigError(
                "Analyze: expected every record to have a split, got records without one: apply"
                " AssignSplits before it"
            )
        _COUNTERS.add(read=len(rows), out=len(rows))
        task = self._task(part.name, rows, analysis=self.analysis, profiler=self.records)
        survey = Survey.of(rows, element, seed=self.seed, groups=self.groups)
        if self.columns and part.rows:
            columns = observed_columns(read_part(part.name, staging=self.staging, keys=False))
            survey = dataclasses.replace(survey, columns=frozenset({columns}))
        hashes = tuple(partition_hashes(rows)) if self.keys else ()
        counts, profile = task()
        return PartSummary(survey=survey, hashes=hashes, counts=counts, profile=profile)

    def _task(
        self,
        name: str,
        rows: pa.RecordBatch,
        *,
        analysis: Analysis | None,
        profiler: DataProfiler | None,
    ) -> Callable[[], tuple[AnalysisCounts | None, tuple[Piece, ...]]]:
        """Submit the task to an encoder process, and return a function that waits for it."""
        # A part without rows, which only holds what was left out, may lack their columns.
        if (analysis is None and profiler is None) or not len(rows):
            return lambda: (None, ())
        task = PartTask(staging=self.staging, analysis=analysis, profiler=profiler)
        splits = batch.to_bytes(rows.select([batch.SPLIT]))
        submitted = RowTask(
            count=len(rows),
            call=lambda faults: functools.partial(run_part_task, task, name, splits, dict(faults)),
            trial=functools.partial(try_part_rows, task, name, splits),
            limits=self.worker_limits,
        )
        return shared_pool(self.workers).submit_rows(submitted).result


@dataclasses.dataclass(eq=False)
class SummarizeParts(beam.PTransform):
    """Summarize batches: handles in, a `PartSummary` of each out."""

    planning_pass: PlanningPass

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> beam.PCollection[PartSummary]:
        return batches | "Summarize" >> beam.Map(self.planning_pass.summarize).with_output_types(
            PartSummary
        )
