"""The road that every kind of data takes, written once.

    Read -> Check -> AssignSplits -> Rebalance -> Reshuffle -> WriteToTFRecord -> Publish

Only what is small passes from stage to stage: the parts of the staged listing by name, counts,
thresholds, pieces. Each pass reads the listing anew, which is cheaper than keeping it.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.staging import Listing, Part, Staging, to_json
from transforms import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from transforms.check import CheckParts
from transforms.kind import Check, Encoder
from transforms.listing import SYSTEM, read_part
from transforms.plan import Plan, PlanOptions, make_plan
from transforms.publish import Publication, Publish
from transforms.rebalance import Balance, Quota, Target, find_quotas, replicate
from transforms.reshuffle import ReshuffleIntoShards
from transforms.splits import Strata, assign, assign_strata
from transforms.stratify import find_strata
from transforms.survey import Survey
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

        problems = []
        if not self.unique_keys:
            problems.append(
                find_repeated_keys(
                    lambda label: parts | label >> self._read(columns=[batch.KEY, batch.HASH])
                )
            )
        strata: AsSingleton | None = None
        if self.stratify:
            found, too_small = find_strata(
                lambda label: parts | label >> self._read(columns=SYSTEM),
                fractions=self.fractions,
                seed=self.options.seed,
                grouped=self.listing.grouped > 0,
            )
            strata = AsSingleton(found)
            problems.append(too_small)

        plan = AsSingleton(self._plan(pipeline, parts, strata, problems))
        if self.dry_run:
            return
        infos = (
            parts
            | "ReadRows" >> self._read(columns=None)
            | "AssignSplits" >> self._assign(strata)
            | "RebalanceClasses" >> beam.FlatMap(_replicate, plan).with_output_types(pa.RecordBatch)
            | ReshuffleIntoShards(plan, self.staging)
            | "WriteToTFRecord" >> WriteShards(self._writer(), plan)
        )
        infos | Publish(self.publication, plan, AsList(parts))

    def _plan(
        self,
        pipeline: beam.Pipeline,
        parts: beam.PCollection[Part],
        strata: AsSingleton | None,
        problems: Sequence[beam.PCollection[str]],
    ) -> beam.PCollection[Plan]:
        seed = self.options.seed
        survey = (
            parts
            | "Survey"
            >> beam.ParDo(
                _SurveyParts(self.staging, self.fractions, seed), *([strata] if strata else [])
            ).with_output_types(Survey)
            | "SumSurveys" >> beam.CombineGlobally(Survey.sum)
        )
        quotas: AsSingleton | Mapping[str, Quota] = {}
        if self.balance in ("oversample", "undersample"):
            quotas = AsSingleton(
                find_quotas(
                    lambda label: (
                        parts
                        | label >> self._read(columns=SYSTEM)
                        | f"{label}Splits" >> self._assign(strata)
                    ),
                    balance=self.balance,
                    target=self.balance_target,
                    seed=seed,
                )
            )
        forbidden = (
            AsList(tuple(problems) | "Problems" >> beam.Flatten(pipeline=pipeline))
            if problems
            else ()
        )
        return (
            pipeline
            | "OnceToPlan" >> beam.Impulse()
            | "Plan"
            >> beam.Map(
                _plan,
                AsSingleton(survey),
                quotas,
                AsList(parts),
                forbidden,
                encoder=self.encoder,
                options=self.options,
                staging=self.staging,
            ).with_output_types(Plan)
        )

    def _read(self, *, columns: Sequence[str] | None) -> beam.PTransform:
        return beam.Map(read_part, staging=self.staging, columns=columns).with_output_types(
            pa.RecordBatch
        )

    def _assign(self, strata: AsSingleton | None) -> beam.PTransform:
        seed, fractions = self.options.seed, self.fractions
        if strata is None:
            step = beam.Map(assign, fractions=fractions, seed=seed)
        else:
            step = beam.Map(assign_strata, fractions=fractions, strata=strata, seed=seed)
        return step.with_output_types(pa.RecordBatch)

    def _writer(self) -> ShardWriter:
        return ShardWriter(
            encoder=self.encoder,
            staging=self.staging,
            compression=self.options.compression,
            groups=self.listing.grouped > 0,
            workers=self.options.workers,
        )


class _SurveyParts(beam.DoFn):
    def __init__(self, staging: Staging, fractions: Mapping[str, float], seed: int) -> None:
        self._staging = staging
        self._fractions = fractions
        self._seed = seed

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
