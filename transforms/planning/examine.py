"""What is found out about records before they are planned: counts of what is learned from train,
statistics, and what of a schema they do not keep. A task of encoder processes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.split_names import TRAIN
from recordmill.job.staging import Staging
from recordmill.profile.schema_rules import SchemaRules
from recordmill.transforms.checks.violations import Violations
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Analysis, Headers
from recordmill.transforms.staged.encoder_tasks import naming
from recordmill.transforms.staged.listing import read_part
from recordmill.transforms.statistics.dataset_statistics import Statistics, columns_of
from recordmill.transforms.windowing.windows import rows_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExaminationResult:
    """What was found in records."""

    statistics: Statistics = Statistics()  # noqa: RUF009, it is frozen
    violations: Violations = Violations()  # noqa: RUF009

    @classmethod
    def sum(cls, several: Iterable[ExaminationResult]) -> ExaminationResult:
        """Adds them up, in whatever order they come."""
        parts = list(several)
        return cls(
            statistics=Statistics.sum(part.statistics for part in parts),
            violations=Violations.sum(part.violations for part in parts),
        )


class AnalysisCounts(NamedTuple):
    """Of records of train: how many there are, and what an analysis counts in them (IPC bytes)."""

    records: int
    items: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examiner:
    """What is to be found out.

    labelled: whether there are classes. headers: reads what files that rows name say of
    themselves. rules: of a schema, if there is one. inside: the columns of rows, where parts hold
    windows of them, which are about no rules.
    """

    labelled: bool
    headers: Headers | None = None
    rules: SchemaRules | None = None
    inside: pa.Schema | None = None

    def examine(self, rows: pa.RecordBatch) -> ExaminationResult:
        """Rows, which have their splits."""
        if self.inside is not None:
            rows = rows_of(rows, self.inside)
        made = None
        if self.headers is not None:
            read, made = self.headers.read(rows)  # what cannot be read will be a reject
            rows = rows.take(pa.array(read.kept))
        columns = columns_of(rows, made, labelled=self.labelled)
        violations = Violations()
        if self.rules is not None:
            violations = Violations.of(rows[batch.KEY], columns, self.rules)
        return ExaminationResult(statistics=Statistics.of(rows, columns), violations=violations)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What encoder processes find out about the records of a part, as far as it is asked for."""

    staging: Staging
    analysis: Analysis | None
    examiner: Examiner | None

    def run(self, part: str, splits: pa.Array) -> tuple[AnalysisCounts | None, ExaminationResult]:
        """A part of the listing, by its name. splits: string[n], of its rows."""
        rows = read_part(part, staging=self.staging)
        rows = batch.set_column(rows, batch.SPLIT, splits)
        with naming(rows):
            counts = None if self.analysis is None else _count(self.analysis, rows)
            findings = ExaminationResult() if self.examiner is None else self.examiner.examine(rows)
        return counts, findings


def run_task(
    task: Task, part: str, splits: bytes
) -> tuple[AnalysisCounts | None, ExaminationResult]:
    """splits: a batch (as IPC bytes) of that column alone."""
    return task.run(part, batch.from_bytes(splits)[batch.SPLIT])


def _count(analysis: Analysis, rows: pa.RecordBatch) -> AnalysisCounts:
    looked_at = rows.select([batch.KEY, *analysis.columns])
    train = looked_at.filter(pc.equal(rows[batch.SPLIT], TRAIN))
    return AnalysisCounts(len(train), batch.to_bytes(analysis.count(train)))
