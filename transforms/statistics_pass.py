"""The pass that examines all records once they have their splits, and what follows from it."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Literal

import apache_beam as beam
import pyarrow as pa

from recordmill import drift, statistics_file
from recordmill.pool import shared_pool
from recordmill.schema_rules import Rules
from recordmill.staging import Staging, Verdict
from recordmill.statistics_file import STATISTICS
from transforms import batch
from transforms.analyze import store_artifacts
from transforms.examine import Examiner, Findings, examine_rows
from transforms.infer_schema import infer_schema
from transforms.kind import Artifact
from transforms.passes import Passes, SplitReader
from transforms.splits import Strata
from transforms.statistics import Statistics
from transforms.statistics_proto import to_bytes
from transforms.violations import of_dataset, too_far

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

    examiner: Examiner
    windows: Examiner | None = None
    on_violation: OnViolation = "reject"
    published: bool = True
    compared: bytes | None = None
    infer: bool = False

    @property
    def staging(self) -> Staging:
        return self.examiner.staging

    def conclude(self, findings: Findings, counted: Statistics) -> Examined:
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
        self, rules: Rules, findings: Findings, content: bytes
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

    def write_schema(self, findings: Findings) -> None:
        """Into staging, or a verdict that says why not."""
        if not findings.statistics.cells:
            message = "no record is left to infer a schema from: look at the input"
            self.staging.give_verdict(Verdict(message))
            return
        schema = infer_schema(findings.statistics.whole())
        self.staging.place(INFERRED).write_bytes(schema.encode())


def _examine(
    part: str,
    strata: Strata | None = None,
    *,
    reader: SplitReader,
    examiner: Examiner,
    workers: int,
) -> Findings:
    splits = reader.read(part, strata)[batch.SPLIT].cast(pa.string())
    only = batch.to_bytes(pa.RecordBatch.from_pydict({batch.SPLIT: splits}))
    return shared_pool(workers).submit(examine_rows, examiner, part, only).result()


def _write_schema(_: bytes, findings: Findings, *, examination: Examination) -> None:
    examination.write_schema(findings)


def _conclude(
    _: bytes, counted: Findings, of_rows: Findings | None = None, *, examination: Examination
) -> Examined:
    return examination.conclude(counted if of_rows is None else of_rows, counted.statistics)


def _found(label: str, passes: Passes, examiner: Examiner, workers: int) -> beam.pvalue.AsSingleton:
    examine = functools.partial(_examine, reader=passes.reader, examiner=examiner, workers=workers)
    findings = (
        passes.again(label)
        | f"{label}Examine" >> beam.Map(examine, *passes.sides).with_output_types(Findings)
        | f"{label}Sum" >> beam.CombineGlobally(Findings.sum).without_defaults()
    )
    return beam.pvalue.AsSingleton(findings, default_value=Findings())


def examine(
    passes: Passes, *, rows: Passes, examination: Examination, workers: int
) -> beam.PCollection[Examined]:
    """What follows from all records, as the one element of a PCollection.

    rows: those that windows are cut from; otherwise the records.
    """
    examiner, windows = examination.examiner, examination.windows
    found = [_found("Statistics", passes, windows or examiner, workers)]
    if windows is not None and examiner.rules is not None:
        found.append(_found("Schema", rows, examiner, workers))
    conclude = functools.partial(_conclude, examination=examination)
    once = passes.parts.pipeline | "OnceToExamine" >> beam.Impulse()
    return once | "Conclude" >> beam.Map(conclude, *found).with_output_types(Examined)


def infer(rows: Passes, *, examination: Examination, workers: int) -> None:
    """Writes a schema of all records, or of the rows of windows to be, into staging."""
    findings = _found("Schema", rows, examination.examiner, workers)
    write = functools.partial(_write_schema, examination=examination)
    once = rows.parts.pipeline | "OnceToInfer" >> beam.Impulse()
    once | "InferSchema" >> beam.Map(write, findings)
