"""Analyze: one pass over all records that counts them and learns from train, before balancing."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.transforms.checks.unique_keys import FindRepeatedKeys
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
from recordmill.transforms.staged.batches import scan
from recordmill.transforms.staged.handles import Element
from recordmill.transforms.staged.records import StagedRecords
from recordmill.transforms.staged.step_order import OrderedStep

_SUMMED_AT_ONCE = 10  # surveys that are held in memory before they are added up


class AnalyzedBatches(NamedTuple):
    """Handles on batches, and the results of the analysis of all of them.

    surveys: partial sums, one or more per bundle. learned, profiled: one element each, or the
    value itself if it is known before the run. problems: sentences about repeated keys; None if the
    source guarantees unique ones.
    """

    handles: beam.PCollection[Element]
    run: RunSpec
    surveys: beam.PCollection[Survey]
    learned: beam.PCollection[Learned] | Learned
    profiled: beam.PCollection[ProfileOutcome] | ProfileOutcome
    problems: beam.PCollection[str] | None


class _SumSurveys(beam.DoFn):
    """Adds up the surveys of a bundle. CombineGlobally would add a stage on Flink."""

    def start_bundle(self) -> None:
        self._surveys: list[Survey] = []

    def process(self, summary: PartSummary) -> None:
        self._surveys.append(summary.survey)
        if len(self._surveys) == _SUMMED_AT_ONCE:
            self._surveys = [Survey.sum(self._surveys)]

    def finish_bundle(self) -> Iterator[WindowedValue]:
        surveys, self._surveys = self._surveys, []
        if surveys:
            yield GlobalWindows.windowed_value_at_end_of_window(Survey.sum(surveys))


def _hashes(summary: PartSummary) -> Iterable[tuple[int, bytes]]:
    return summary.hashes


@dataclasses.dataclass(eq=False)
class Analyze(OrderedStep):
    """Count all records, and learn from the records of train: `StagedRecords` with splits in,
    `AnalyzedBatches` out.

    All records are read once.

    Args:
      analysis: Learns artifacts, such as a vocabulary, from the records of train. Default: in a
        custom pipeline, the analysis that the encoder needs, unless `artifacts` has its results.
      profiling: Options for statistics and a schema.
      artifacts: {name in the dataset: file}, given by the user.
      unique_keys: Whether the source guarantees unique keys; otherwise they are checked here.

    Raises:
      ConfigError: The input is not the output of an earlier step.

    Example::

        records | AssignSplits() | Analyze() | Rebalance("oversample")
    """

    takes = (StagedRecords,)
    after = "AssignSplits"

    _: dataclasses.KW_ONLY
    analysis: data_type.Analysis | Preprocessing | None = None
    profiling: Profiling | None = None
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    unique_keys: bool = False

    def expand(self, records: StagedRecords) -> AnalyzedBatches:
        batches, run = records.handles, records.run
        unique = records.unique_keys or self.unique_keys
        profiling = self.profiling
        analysis = self._analysis(run)
        counted = None if isinstance(analysis, Preprocessing) else analysis
        planning_pass = PlanningPass(
            staging=run.staging,
            seed=run.seed,
            workers=run.workers,
            worker_limits=run.worker_limits,
            columns=run.layout is None,
            keys=not unique,
            groups=run.group_noun is not None,
            analysis=counted,
            records=None if profiling is None else profiling.of_records,
            source=None if profiling is None else profiling.profiler,
        )
        summaries = batches | SummarizeParts(planning_pass)
        if profiling is not None and profiling.infer:
            infer_dataset_schema(summaries, profiling=profiling)
        surveys = summaries | "SumSurveys" >> beam.ParDo(_SumSurveys()).with_output_types(Survey)
        problems = None
        if not unique:
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
            problems = hashes | FindRepeatedKeys(
                keys, chunked=run.unit == "chunk", custom=run.is_custom
            )
        return AnalyzedBatches(
            handles=batches,
            run=run,
            surveys=surveys,
            learned=self._learned(records, summaries, analysis),
            profiled=self._profiled(summaries),
            problems=problems,
        )

    def _analysis(self, run: RunSpec) -> data_type.Analysis | Preprocessing | None:
        if self.analysis is not None or not run.is_custom:
            return self.analysis
        needed = data_type.analysis_of(run.encoder)
        return None if needed is None or {*needed.files} <= {*self.artifacts} else needed

    def _learned(
        self,
        records: StagedRecords,
        summaries: beam.PCollection[PartSummary],
        analysis: data_type.Analysis | Preprocessing | None,
    ) -> beam.PCollection[Learned] | Learned:
        batches, run = records.handles, records.run
        if isinstance(analysis, Preprocessing):
            from recordmill.transforms.planning import tft_analysis  # imports TensorFlow: seconds

            assert run.layout is not None, "a preprocessing function needs the columns"
            return tft_analysis.learn(
                batches,
                staging=run.staging,
                function=analysis.function,
                columns=run.layout.columns,
                given=self.artifacts,
            )
        if analysis is not None:
            return learn(
                summaries,
                analysis=analysis,
                given=self.artifacts,
                staging=run.staging,
                read_again=functools.partial(scan, batches, staging=run.staging),
            )
        return Learned(artifacts=self.artifacts)

    def _profiled(
        self, summaries: beam.PCollection[PartSummary]
    ) -> beam.PCollection[ProfileOutcome] | ProfileOutcome:
        profiling = self.profiling
        if profiling is None or profiling.infer:
            return ProfileOutcome()
        return conclude_profiles(summaries, profiling=profiling)
