"""The road that every kind of data takes, written once.

    Read -> Check -> AssignSplits -> Rebalance -> Reshuffle -> WriteToTFRecord -> Publish

Only what is small passes from stage to stage: the parts of the staged listing by name, counts,
thresholds, pieces. Each pass reads the listing anew, which is cheaper than keeping it.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.staging import Listing, Part, Staging, to_json
from transforms import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from transforms.check import CheckParts
from transforms.kind import Check, Encoder
from transforms.listing import SYSTEM, read_part
from transforms.passes import Passes
from transforms.plan import Plan, PlanOptions, make_plan
from transforms.publish import Publication, Publish
from transforms.rebalance import Balance, Quota, Target, find_quotas, replicate
from transforms.reshuffle import ReshuffleIntoShards
from transforms.splits import Strata, assign, assign_strata
from transforms.stratify import find_strata
from transforms.survey import Survey
from transforms.torn_groups import find_torn_groups
from transforms.unique import find_repeated_keys
from transforms.write import ShardWriter, WriteShards


@dataclasses.dataclass(frozen=True, kw_only=True)
class Road:
    """One run over one listing."""

    listing: Listing
    staging: Staging
    encoder: Encoder
    check: Check | None
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
        parts = (
            pipeline
            | "Listing" >> beam.Create(self.listing.parts)
            | "SpreadParts" >> beam.Reshuffle()
        )
        if self.check is not None:
            parts |= CheckParts(self.check, self.staging, self.options.workers)

        passes = Passes(
            parts=parts, staging=self.staging, fractions=self.fractions, seed=self.options.seed
        )
        problems = []
        if not self.unique_keys:
            keys = functools.partial(passes.read, columns=(batch.KEY, batch.HASH))
            problems.append(find_repeated_keys(keys))
        if self.stratify:
            strata, too_small = find_strata(
                passes.read,
                fractions=self.fractions,
                seed=self.options.seed,
                grouped=self.listing.grouped > 0,
            )
            passes = dataclasses.replace(passes, strata=AsSingleton(strata))
            problems.append(too_small)
        if self.listing.grouped and self.listing.presplit:
            problems.append(find_torn_groups(passes.read_split))
        plan = AsSingleton(self._plan(passes, problems))
        if self.dry_run:
            return
        infos = (
            passes.read_split("Rows", plan, columns=None)
            | "RebalanceClasses" >> beam.FlatMap(_replicate, plan).with_output_types(pa.RecordBatch)
            | ReshuffleIntoShards(plan, self.staging)
            | WriteShards(self._writer(), plan)
        )
        infos | Publish(self.publication, plan, AsList(parts))

    def _plan(
        self, passes: Passes, problems: Sequence[beam.PCollection[str]]
    ) -> beam.PCollection[Plan]:
        pipeline = passes.parts.pipeline
        survey = (
            passes.parts
            | "Survey"
            >> beam.ParDo(
                _SurveyParts(passes), *([] if passes.strata is None else [passes.strata])
            ).with_output_types(Survey)
            | "SumSurveys" >> beam.CombineGlobally(Survey.sum)
        )
        quotas: AsSingleton | Mapping[str, Quota] = {}
        if self.balance in ("oversample", "undersample"):
            quotas = AsSingleton(
                find_quotas(
                    passes.read_split,
                    balance=self.balance,
                    target=self.balance_target,
                    seed=self.options.seed,
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
                _plan,
                AsSingleton(survey),
                quotas,
                AsList(passes.parts),
                forbidden,
                encoder=self.encoder,
                options=self.options,
                staging=self.staging,
            ).with_output_types(Plan)
        )

    def _writer(self) -> ShardWriter:
        return ShardWriter(
            encoder=self.encoder,
            staging=self.staging,
            compression=self.options.compression,
            groups=self.listing.grouped > 0,
            workers=self.options.workers,
        )


class _SurveyParts(beam.DoFn):
    def __init__(self, passes: Passes) -> None:
        self._staging = passes.staging
        self._fractions = passes.fractions
        self._seed = passes.seed

    def process(self, part: Part, strata: Strata | None = None) -> Iterator[Survey]:
        rows = read_part(part, staging=self._staging, columns=SYSTEM)
        if strata is None:
            rows = assign(rows, fractions=self._fractions, seed=self._seed)
        else:
            rows = assign_strata(rows, fractions=self._fractions, strata=strata, seed=self._seed)
        yield Survey.of(rows, part, seed=self._seed)


def _plan(
    _: bytes,
    survey: Survey,
    quotas: Mapping[str, Quota],
    parts: Sequence[Part],
    problems: Sequence[str],
    *,
    encoder: Encoder,
    options: PlanOptions,
    staging: Staging,
) -> Plan:
    plan = make_plan(
        survey,
        quotas,
        sorted(parts, key=lambda part: part.name),
        sorted(problems),
        encoder=encoder,
        options=options,
        staging=staging,
    )
    if plan.verdict is not None:
        staging.give_verdict(plan.verdict)
    staging.place("plan.json").write_bytes(to_json(plan.to_json()))
    return plan


def _replicate(rows: pa.RecordBatch, plan: Plan) -> Iterator[pa.RecordBatch]:
    return replicate(rows, quotas=plan.quotas, seed=plan.seed)
