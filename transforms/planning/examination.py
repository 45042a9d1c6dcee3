"""The pass that examines all records once they have their splits, and what follows from it."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Literal

import apache_beam as beam

from recordmill.job.staging import Staging, Verdict
from recordmill.profile import drift, statistics_file
from recordmill.profile.schema_rules import SchemaRules
from recordmill.profile.statistics_file import STATISTICS
from recordmill.transforms.checks.violations import of_dataset, too_far
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.planning.examine import ExaminationResult, Examiner
from recordmill.transforms.planning.learning import store_artifacts
from recordmill.transforms.planning.planning_pass import PartSummary
from recordmill.transforms.statistics.dataset_statistics import Statistics
from recordmill.transforms.statistics.infer_schema import infer_schema
from recordmill.transforms.statistics.statistics_proto import to_bytes

INFERRED = "inferred.pbtxt"  # in staging

OnViolation = Literal["reject", "fail", "keep"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examined:
    """What follows from what was found.

    files: that become part of the dataset. problems: what of the schema the data does not keep, so
    that nothing is to be written; notes: what else. Sentences without their end.
    """

    files: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examination:
    """What is asked of all records, and what becomes of the answer.

    examiner: of what a schema is about: records, or the rows that windows are cut from. windows: of
    these, whose rows statistics count. published: whether statistics become part of the dataset.
    compared: those of another dataset, as its file has them, where drift decides whether anything
    is written. infer: a schema is all that is wanted.
    """

    staging: Staging
    examiner: Examiner
    windows: Examiner | None = None
    on_violation: OnViolation = "reject"
    published: bool = True
    compared: bytes | None = None
    infer: bool = False

    @property
    def of_records(self) -> Examiner:
        """Of the records: rows, or windows of them."""
        return self.examiner if self.windows is None or self.infer else self.windows

    @property
    def examines_source(self) -> bool:
        """Whether a schema is about the rows that windows are cut from."""
        return self.windows is not None and self.examiner.rules is not None

    def conclude(self, findings: ExaminationResult, counted: Statistics) -> Examined:
        """What follows; of no records nothing. counted: what is published."""
        if not counted.cells:
            return Examined()
        content = to_bytes(counted)
        files = store_artifacts({STATISTICS: content}, self.staging) if self.published else {}
        rules = self.examiner.rules
        if rules is None:
            return Examined(files=files)
        problems, notes = self._judge(rules, findings, content)
        return Examined(files=files, problems=tuple(problems), notes=tuple(notes))

    def _judge(
        self, rules: SchemaRules, findings: ExaminationResult, content: bytes
    ) -> tuple[list[str], list[str]]:
        """(problems, notes): sentences."""
        problems: list[str] = []
        told = findings.violations.told()
        if told is not None:
            problems.append(told)
        problems += of_dataset(findings.statistics.whole(), findings.violations, rules)
        slices = statistics_file.parse(content)
        skewed = list(too_far(drift.skew(slices), rules))
        match self.on_violation:
            case "reject":
                return problems, skewed
            case "keep":
                return [], [*problems, *skewed]
        # Otherwise drift is told by who runs the job: it is not about this dataset alone.
        drifted: list[str] = []
        if self.compared is not None:
            moved = drift.drift(statistics_file.parse(self.compared), slices)
            drifted = list(too_far(moved, rules))
        return [*problems, *skewed, *drifted], []

    def write_schema(self, findings: ExaminationResult) -> None:
        """Into staging, or a verdict that says why not."""
        if not findings.statistics.cells:
            message = "no record is left to infer a schema from: look at the input"
            self.staging.write_verdict(Verdict(message))
            return
        schema = infer_schema(findings.statistics.whole())
        self.staging.place(INFERRED).write_bytes(schema.encode())


def _of_records(summary: PartSummary) -> ExaminationResult:
    return summary.findings


def _of_source(summary: PartSummary) -> ExaminationResult:
    return summary.source


def _write_schema(_: bytes, findings: ExaminationResult, *, examination: Examination) -> None:
    examination.write_schema(findings)


def _conclude(
    _: bytes,
    records: ExaminationResult,
    source: ExaminationResult | None = None,
    *,
    examination: Examination,
) -> Examined:
    return examination.conclude(records if source is None else source, records.statistics)


def _sum(
    summaries: beam.PCollection[PartSummary],
    findings: Callable[[PartSummary], ExaminationResult],
    label: str,
) -> beam.pvalue.AsSingleton:
    total = (
        summaries
        | f"{label}Findings" >> beam.Map(findings).with_output_types(ExaminationResult)
        | f"{label}Sum" >> beam.CombineGlobally(ExaminationResult.sum).without_defaults()
    )
    return beam.pvalue.AsSingleton(total, default_value=ExaminationResult())


def examine(
    summaries: beam.PCollection[PartSummary], *, examination: Examination
) -> beam.PCollection[Examined]:
    """Draw the conclusions from all records, as the one element of a PCollection."""
    found = [_sum(summaries, _of_records, "Statistics")]
    if examination.examines_source:
        found.append(_sum(summaries, _of_source, "Schema"))
    conclude = functools.partial(_conclude, examination=examination)
    once = summaries.pipeline | "OnceToExamine" >> beam.Impulse()
    return once | "Conclude" >> beam.Map(conclude, *found).with_output_types(Examined)


def infer(summaries: beam.PCollection[PartSummary], *, examination: Examination) -> None:
    """Write a schema of all records into staging."""
    findings = _sum(summaries, _of_records, "Schema")
    write = functools.partial(_write_schema, examination=examination)
    once = summaries.pipeline | "OnceToInfer" >> beam.Impulse()
    once | "InferSchema" >> beam.Map(write, findings)
