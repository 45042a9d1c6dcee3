"""Statistics and schema of a dataset: conclusions from the profiles of all parts."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import apache_beam as beam

from recordmill.job.staging import Staging, Verdict
from recordmill.notes import Note, notes_of
from recordmill.processes.pool import shared_pool
from recordmill.profile import drift, statistics_file
from recordmill.profile.schema_rules import SchemaRules
from recordmill.profile.statistics_file import STATISTICS
from recordmill.transforms.checks.violations import (
    dataset_violations,
    drift_above,
    drift_violations,
)
from recordmill.transforms.encoders.artifacts import store_artifacts
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.planning.part_task import DataProfiler
from recordmill.transforms.planning.planning_pass import PartSummary
from recordmill.transforms.planning.profile_sums import Profile, conclude_group, sum_group
from recordmill.transforms.staged.spill import Piece
from recordmill.transforms.statistics.infer_schema import infer_schema
from recordmill.transforms.statistics.statistics_proto import join_messages

INFERRED = "inferred.pbtxt"  # file of the inferred schema in staging

OnViolation = Literal["reject", "fail", "keep"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProfileOutcome:
    """Conclusions from the profile of a dataset.

    files: files to publish with the dataset, such as statistics. problems: violations of the schema
    and drift that refuse the input, as sentences without full stop. advice: what to do about them.
    notes: other remarks for the manifest.
    """

    files: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    advice: str = "correct the input, or edit the schema"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profiling:
    """Options for the statistics and the schema of a run.

    profiler: profiles the rows that the schema covers: records, or the rows that windows are cut
      from. windows: profiles windows, if the records are windows; statistics cover their rows.
    on_violation: `reject` rejects records, `fail` refuses the input, `keep` adds notes.
    workers: encoder processes; 0 is one per core.
    published: whether the statistics become part of the dataset.
    compared: the statistics file of another dataset, from which drift may be limited.
    max_drift: {column: the largest drift from it that does not refuse the input}; "" is for all
      other columns.
    infer: whether the run only infers a schema.
    """

    staging: Staging
    workers: int
    profiler: DataProfiler
    windows: DataProfiler | None = None
    on_violation: OnViolation = "reject"
    published: bool = True
    compared: bytes | None = None
    max_drift: Mapping[str, float] = dataclasses.field(default_factory=dict)
    infer: bool = False

    @property
    def of_records(self) -> DataProfiler:
        """The profiler of records, which are rows or windows."""
        return self.profiler if self.windows is None or self.infer else self.windows

    @property
    def profiles_source(self) -> bool:
        """True if the schema covers the rows that windows are cut from."""
        return self.windows is not None and self.profiler.rules is not None

    @property
    def is_judged(self) -> bool:
        """True if the schema needs the statistics of all records."""
        return self.infer or self.profiler.rules is not None

    def conclude(self, profile: Profile, counted: Profile) -> ProfileOutcome:
        """Return the conclusions.

        profile: profile of the rows that the schema covers. counted: that of the records.
        """
        if not counted.messages:
            if not self.max_drift and self.profiler.rules is None:
                return ProfileOutcome()
            limited = "--max-drift" if self.max_drift else "the schema"
            return ProfileOutcome(problems=(f"no record can be compared with {limited}",))
        content = join_messages(counted.messages)
        files = store_artifacts({STATISTICS: content}, self.staging) if self.published else {}
        rules = self.profiler.rules
        problems: list[str] = []
        notes: list[str] = []
        if rules is not None:
            problems, notes = self._judge(rules, profile, content)
        if self.max_drift and self.compared is not None:
            slices = map(statistics_file.parse, (self.compared, content))
            if drifted := [*drift_above(drift.drift(*slices), self.max_drift)]:
                advice = "check the input, or raise --max-drift; COLUMN=1 allows any drift of one"
                return ProfileOutcome(problems=(*problems, *drifted), advice=advice)
        return ProfileOutcome(
            files=files, problems=tuple(problems), notes=notes_of("schema", notes)
        )

    def _judge(
        self, rules: SchemaRules, profile: Profile, content: bytes
    ) -> tuple[list[str], list[str]]:
        """Return (problems, notes)."""
        problems: list[str] = []
        violations = profile.profile.violations
        summary = violations.summary()
        if summary is not None:
            problems.append(summary)
        assert profile.whole is not None
        problems += dataset_violations(profile.whole, violations, rules)
        slices = statistics_file.parse(content)
        skewed = list(drift_violations(drift.skew(slices), rules, "skew"))
        match self.on_violation:
            case "reject":
                return problems, skewed
            case "keep":
                return [], [*problems, *skewed]
        # With the other values the command reports drift, which is not about this dataset alone.
        drifted: list[str] = []
        if self.compared is not None:
            comparison = drift.drift(statistics_file.parse(self.compared), slices)
            drifted = list(drift_violations(comparison, rules, "drift"))
        return [*problems, *skewed, *drifted], []

    def write_schema(self, profile: Profile) -> None:
        """Write the inferred schema into staging, or a verdict if there are no records."""
        if profile.whole is None:
            message = "no record is left to infer a schema from: check the input"
            self.staging.write_verdict(Verdict(message))
            return
        schema = infer_schema(profile.whole)
        self.staging.place(INFERRED).write_bytes(schema.encode())


def _of_records(summary: PartSummary) -> Iterable[tuple[int, Piece]]:
    return enumerate(summary.profile)


def _of_source(summary: PartSummary) -> Iterable[tuple[int, Piece]]:
    return enumerate(summary.source)


def _write_schema(_: bytes, profile: Iterable[tuple[int, Piece]], *, profiling: Profiling) -> None:
    profiling.write_schema(Profile.join(profile, profiling.staging))


def _conclude(
    _: bytes,
    records: Iterable[tuple[int, Piece]],
    source: Iterable[tuple[int, Piece]] | None = None,
    *,
    profiling: Profiling,
) -> ProfileOutcome:
    of_records = Profile.join(records, profiling.staging)
    profile = of_records if source is None else Profile.join(source, profiling.staging)
    return profiling.conclude(profile, of_records)


class _Sums:
    """Sums profiles and draws conclusions, in an encoder process if the profiles are in files."""

    def __init__(self, profiling: Profiling) -> None:
        self._staging = profiling.staging
        self._workers = profiling.workers
        self._whole = profiling.is_judged

    def sum(self, pieces: Iterable[Piece]) -> Piece:
        several = list(pieces)
        if len(several) == 1:
            return several[0]
        if all(data for data, *_ in several):
            return sum_group(several, self._staging)
        return shared_pool(self._workers).submit(sum_group, several, self._staging).result()

    def conclude(self, group: int, piece: Piece) -> tuple[int, Piece]:
        if piece[0]:
            return group, conclude_group(piece, self._staging, whole=self._whole)
        pool = shared_pool(self._workers)
        task = pool.submit(conclude_group, piece, self._staging, whole=self._whole)
        return group, task.result()


def _sum(
    summaries: beam.PCollection[PartSummary],
    profile: Callable[[PartSummary], Iterable[tuple[int, Piece]]],
    label: str,
    *,
    profiling: Profiling,
) -> beam.pvalue.AsIter:
    """Return the conclusions from the profiles of all parts, by group of columns."""
    sums = _Sums(profiling)
    return beam.pvalue.AsIter(
        summaries
        | f"{label}Findings" >> beam.FlatMap(profile).with_output_types(tuple[int, Piece])
        | f"{label}Sum" >> beam.CombinePerKey(sums.sum).with_output_types(tuple[int, Piece])
        | f"{label}Groups" >> beam.MapTuple(sums.conclude).with_output_types(tuple[int, Piece])
    )


def conclude_profiles(
    summaries: beam.PCollection[PartSummary], *, profiling: Profiling
) -> beam.PCollection[ProfileOutcome]:
    """Return the conclusions from all records as the only element of a PCollection."""
    found = [_sum(summaries, _of_records, "Statistics", profiling=profiling)]
    if profiling.profiles_source:
        found.append(_sum(summaries, _of_source, "Schema", profiling=profiling))
    conclude = functools.partial(_conclude, profiling=profiling)
    once = summaries.pipeline | "OnceToProfile" >> beam.Impulse()
    return once | "Conclude" >> beam.Map(conclude, *found).with_output_types(ProfileOutcome)


def infer_dataset_schema(summaries: beam.PCollection[PartSummary], *, profiling: Profiling) -> None:
    """Infer a schema from all records, and write it into staging."""
    profile = _sum(summaries, _of_records, "Schema", profiling=profiling)
    write = functools.partial(_write_schema, profiling=profiling)
    once = summaries.pipeline | "OnceToInfer" >> beam.Impulse()
    once | "InferSchema" >> beam.Map(write, profile)
