"""The road that every kind of data takes, written once.

    Read -> Check -> AssignSplits -> Analyze -> Rebalance -> Reshuffle -> WriteToTFRecord -> Publish

Only what is small passes from stage to stage: the parts of the staged listing by name, counts,
thresholds, pieces. Each pass reads the listing anew, which is cheaper than keeping it.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.job.staging import Listing, Staging, to_json
from recordmill.transforms.balancing.rebalance import Balance, Quota, Target, find_quotas, replicate
from recordmill.transforms.balancing.stratify import find_strata
from recordmill.transforms.checks.duplicates import DropDuplicates
from recordmill.transforms.checks.group_leakage import find_torn_groups
from recordmill.transforms.checks.prepare import PrepareParts, check_part, read_rows_of
from recordmill.transforms.checks.unique_keys import find_repeated_keys
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.data_type import (
    Analysis,
    Artifact,
    Check,
    Duplicates,
    Encoder,
    Layout,
    Preprocessing,
)
from recordmill.transforms.model.splits import Strata
from recordmill.transforms.planning.analyze import Learned, learn
from recordmill.transforms.planning.examination import Examination, Examined, examine, infer
from recordmill.transforms.planning.plan import Plan, PlanOptions, make_plan
from recordmill.transforms.planning.planning_pass import PartSummary, PlanningPass
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.listing_scans import Passes, SplitReader
from recordmill.transforms.staged.row_reader import RowReader
from recordmill.transforms.windowing.cut_windows import CutWindows
from recordmill.transforms.windowing.series import Windowing
from recordmill.transforms.writing.publish import Publication, Publish
from recordmill.transforms.writing.reshuffle import ReshuffleIntoShards
from recordmill.transforms.writing.shard_writer import ShardWriter, WriteShards


@dataclasses.dataclass(frozen=True, kw_only=True)
class Road:
    """One run over one listing.

    layout: of the records. reader: where the listing only says where they stand. windowing: where
    they are windows of the rows. artifacts: what the encoder needs, without what is learned.
    examination: of all records, once they have their splits.
    """

    listing: Listing
    staging: Staging
    layout: Layout
    encoder: Encoder
    check: Check | None
    reader: RowReader | None
    duplicates: Duplicates | None
    windowing: Windowing | None
    analysis: Analysis | Preprocessing | None
    examination: Examination | None
    artifacts: Mapping[str, Artifact]
    unique_keys: bool
    fractions: Mapping[str, float]
    stratify: bool
    balance: Balance
    balance_target: Target
    options: PlanOptions
    publication: Publication
    dry_run: bool = False

    def build(self, pipeline: beam.Pipeline) -> None:
        """Puts the whole graph into a pipeline."""
        problems: list[beam.PCollection[str]] = []
        parts = (
            pipeline
            | "Listing" >> beam.Create(self.listing.parts)
            | "SpreadParts" >> beam.Reshuffle()
        )
        workers = self.options.workers
        if self.reader is not None:
            parts |= PrepareParts(
                functools.partial(read_rows_of, reader=self.reader, workers=workers),
                at_once=workers,
            )
        elif self.check is not None:
            parts |= PrepareParts(
                functools.partial(
                    check_part, check=self.check, staging=self.staging, workers=workers
                )
            )
        if self.duplicates is not None and self.duplicates.mode == "drop":
            parts |= DropDuplicates(self.staging)
        reader = SplitReader(staging=self.staging, fractions=self.fractions, seed=self.options.seed)
        rows = Passes(parts=parts, reader=reader)
        if self.examination is not None and self.examination.infer:
            infer(rows, examination=self.examination, workers=workers)
            return
        if self.windowing is not None:
            parts, hopeless = parts | CutWindows(self.windowing, workers)
            problems.append(hopeless)
        passes = Passes(parts=parts, reader=reader)
        if self.stratify:
            strata, too_small = find_strata(
                passes.read,
                fractions=self.fractions,
                seed=self.options.seed,
                grouped=self.layout.grouped,
            )
            strata = AsSingleton(strata, default_value=Strata({}))
            passes = dataclasses.replace(passes, strata=strata)
            problems.append(too_small)
        if self.layout.grouped and self.layout.presplit:
            by_content = self.duplicates is not None and self.duplicates.mode == "group"
            instead = "take --dedup drop" if by_content else "leave --group-column out"
            problems.append(find_torn_groups(passes.read_split, instead=instead))
        look = PlanningPass(
            keys=not self.unique_keys,
            analysis=None if isinstance(self.analysis, Preprocessing) else self.analysis,
            examiner=None if self.examination is None else self.examination.of_records,
        )
        seen = look.over(passes, "PlanningPass", workers=self.options.workers)
        if look.keys:
            hashes = seen | "Hashes" >> beam.FlatMap(_hashes).with_output_types(tuple[int, bytes])
            keys = functools.partial(passes.read, columns=(batch.KEY, batch.HASH))
            problems.append(find_repeated_keys(hashes, keys))
        plan = AsSingleton(self._plan(seen, passes, rows, problems))
        if self.dry_run:
            return
        infos = (
            passes.again("Rows")
            | ReshuffleIntoShards(
                plan,
                self.staging,
                read=functools.partial(_balanced_rows, reader=reader, grouped=self.layout.grouped),
                sides=passes.sides,
            )
            | WriteShards(self._writer(), plan)
        )
        infos | Publish(self.publication, plan)

    def _plan(
        self,
        seen: beam.PCollection[PartSummary],
        passes: Passes,
        rows: Passes,
        problems: Sequence[beam.PCollection[str]],
    ) -> beam.PCollection[Plan]:
        """rows: of which windows are cut; otherwise the records, before they have their strata."""
        pipeline = passes.parts.pipeline
        survey = (
            seen
            | "Survey" >> beam.Map(_survey).with_output_types(Survey)
            | "SumSurveys" >> beam.CombineGlobally(Survey.sum).without_defaults()
        )
        survey = AsSingleton(survey, default_value=Survey())
        learned: AsSingleton | Learned = Learned(artifacts=self.artifacts)
        if isinstance(self.analysis, Preprocessing):
            from recordmill.transforms.planning import (
                tft_analysis,  # TensorFlow takes seconds to import
            )

            learned = AsSingleton(
                tft_analysis.learn(
                    passes,
                    function=self.analysis.function,
                    columns=self.layout.columns,
                    given=self.artifacts,
                )
            )
        elif self.analysis is not None:
            learned = AsSingleton(
                learn(seen, analysis=self.analysis, given=self.artifacts, staging=self.staging)
            )
        quotas: AsSingleton | Mapping[str, Quota] = {}
        if self.balance in ("oversample", "undersample"):
            quotas = AsSingleton(
                find_quotas(
                    passes.read_split,
                    balance=self.balance,
                    target=self.balance_target,
                    seed=self.options.seed,
                ),
                default_value={},
            )
        examined: AsSingleton | Examined = Examined()
        if self.examination is not None:
            examined = AsSingleton(
                examine(
                    seen,
                    rows=rows,
                    examination=self.examination,
                    workers=self.options.workers,
                )
            )
        forbidden: AsList | tuple[()] = ()
        if problems:
            forbidden = AsList(tuple(problems) | "Problems" >> beam.Flatten(pipeline=pipeline))
        return (
            pipeline
            | "OnceToPlan" >> beam.Impulse()
            | "Plan"
            >> beam.Map(
                functools.partial(
                    _plan, encoder=self.encoder, options=self.options, staging=self.staging
                ),
                survey,
                quotas,
                forbidden,
                learned,
                examined,
            ).with_output_types(Plan)
        )

    def _writer(self) -> ShardWriter:
        return ShardWriter(
            encoder=self.encoder,
            staging=self.staging,
            compression=self.options.compression,
            groups=self.layout.grouped,
            workers=self.options.workers,
            versions=self.publication.encoders,
        )


def _survey(seen: PartSummary) -> Survey:
    return seen.survey


def _hashes(seen: PartSummary) -> Iterable[tuple[int, bytes]]:
    return seen.hashes


def _plan(
    _: bytes,
    survey: Survey,
    quotas: Mapping[str, Quota],
    problems: Sequence[str],
    learned: Learned,
    examined: Examined,
    *,
    encoder: Encoder,
    options: PlanOptions,
    staging: Staging,
) -> Plan:
    sentences = sorted(problems)
    if learned.problem is not None and survey.counts:
        sentences.append(learned.problem)
    plan = make_plan(
        survey,
        quotas,
        sentences,
        artifacts=learned.artifacts,
        examined=examined,
        encoder=encoder,
        options=options,
        staging=staging,
    )
    if plan.verdict is not None:
        staging.give_verdict(plan.verdict)
    staging.place("plan.json").write_bytes(to_json(plan.to_json()))
    return plan


def _balanced_rows(
    part: str, plan: Plan, strata: Strata | None = None, *, reader: SplitReader, grouped: bool
) -> Iterator[pa.RecordBatch]:
    rows = reader.read(part, strata, columns=None)
    if not grouped:  # there are nulls in it
        rows = rows.drop_columns([batch.GROUP])
    return replicate(rows, quotas=plan.quotas, seed=plan.seed)
