"""Analyze: one pass over all records that counts them and learns from train, before balancing."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam

from recordmill.transforms.checks.unique_keys import find_repeated_keys
from recordmill.transforms.model import batch, data_type
from recordmill.transforms.model.data_type import Artifact, Preprocessing
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.learning import Learned, learn
from recordmill.transforms.planning.planning_pass import PartSummary, PlanningPass, SummarizeParts
from recordmill.transforms.planning.profiling import (
    ProfileOutcome,
    Profiling,
    conclude_profiles,
    infer_dataset_schema,
)
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.batches import Element, scan

T = TypeVar("T")


class AnalyzedBatches(NamedTuple):
    """Batches, and the results of the analysis of all of them.

    survey: one element, or none without batches. learned, profiled: one element each.
    problems: reasons, as sentences for the user, why the input cannot become a dataset.
    """

    batches: beam.PCollection[Element]
    survey: beam.PCollection[Survey]
    learned: beam.PCollection[Learned]
    profiled: beam.PCollection[ProfileOutcome]
    problems: beam.PCollection[str]


def _survey(summary: PartSummary) -> Survey:
    return summary.survey


def _hashes(summary: PartSummary) -> Iterable[tuple[int, bytes]]:
    return summary.hashes


def _problems(summary: PartSummary) -> Iterable[str]:
    return summary.problems


def _constant(_: bytes, value: T) -> T:
    """Return a value for the only element of an Impulse: half of the transforms of a Create."""
    return value


@dataclasses.dataclass(eq=False)
class Analyze(beam.PTransform):
    """Count all records and learn from those of train: handles on batches with splits in,
    `AnalyzedBatches` out.

    All records are read once.

    analysis: learns artifacts, such as a vocabulary, from the records of train.
    profiling: options for statistics and a schema. artifacts: files given by the user.
    unique_keys: whether the source guarantees unique keys; otherwise they are checked here.
    """

    run: RunSpec
    _: dataclasses.KW_ONLY
    analysis: data_type.Analysis | Preprocessing | None = None
    profiling: Profiling | None = None
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    unique_keys: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> Any:  # AnalyzedBatches
        run, profiling = self.run, self.profiling
        counted = None if isinstance(self.analysis, Preprocessing) else self.analysis
        planning_pass = PlanningPass(
            staging=run.staging,
            seed=run.seed,
            workers=run.workers,
            worker_memory=run.worker_memory,
            keys=not self.unique_keys,
            analysis=counted,
            records=None if profiling is None else profiling.of_records,
            source=None if profiling is None else profiling.profiler,
        )
        summaries = batches | SummarizeParts(planning_pass)
        if profiling is not None and profiling.infer:
            infer_dataset_schema(summaries, profiling=profiling)
        survey = (
            summaries
            | "Survey" >> beam.Map(_survey).with_output_types(Survey)
            | "SumSurveys" >> beam.CombineGlobally(Survey.sum).without_defaults()
        )
        problems = summaries | "Problems" >> beam.FlatMap(_problems).with_output_types(str)
        if not self.unique_keys:
            keys = functools.partial(
                scan,
                batches,
                staging=run.staging,
                columns=(batch.KEY, batch.HASH),
                apply_steps=False,
            )
            hashes = summaries | "Hashes" >> beam.FlatMap(_hashes).with_output_types(
                tuple[int, bytes]
            )
            repeated = find_repeated_keys(hashes, keys, chunked=self.run.unit == "chunk")
            problems = (problems, repeated) | "AllProblems" >> beam.Flatten()
        once = batches.pipeline | "Once" >> beam.Impulse()
        return AnalyzedBatches(
            batches=batches,
            survey=survey,
            learned=self._learned(once, batches, summaries),
            profiled=self._profiled(once, summaries),
            problems=problems,
        )

    def _learned(
        self,
        once: beam.PCollection[bytes],
        batches: beam.PCollection[Element],
        summaries: beam.PCollection[PartSummary],
    ) -> beam.PCollection[Learned]:
        if isinstance(self.analysis, Preprocessing):
            from recordmill.transforms.planning import tft_analysis  # imports TensorFlow: seconds

            assert self.run.layout is not None, "a preprocessing function needs the columns"
            return tft_analysis.learn(
                batches,
                staging=self.run.staging,
                function=self.analysis.function,
                columns=self.run.layout.columns,
                given=self.artifacts,
            )
        if self.analysis is not None:
            return learn(
                summaries,
                analysis=self.analysis,
                given=self.artifacts,
                staging=self.run.staging,
                read_again=functools.partial(scan, batches, staging=self.run.staging),
            )
        nothing = Learned(artifacts=self.artifacts)
        return once | "NothingLearned" >> beam.Map(_constant, nothing).with_output_types(Learned)

    def _profiled(
        self, once: beam.PCollection[bytes], summaries: beam.PCollection[PartSummary]
    ) -> beam.PCollection[ProfileOutcome]:
        profiling = self.profiling
        if profiling is None or profiling.infer:
            nothing = ProfileOutcome()
            return once | "NotProfiled" >> beam.Map(_constant, nothing).with_output_types(
                ProfileOutcome
            )
        return conclude_profiles(summaries, profiling=profiling)
