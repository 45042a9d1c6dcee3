"""Rebalance: exact balancing of the classes of train, and the plan of the dataset."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton, PCollection

from recordmill.job.staging import Verdict, reject_line, to_json
from recordmill.notes import first_failing, join_left_unread
from recordmill.option_checks import expect_one_of
from recordmill.transforms.analyze import AnalyzedBatches
from recordmill.transforms.balancing.quotas import Balance, Quota, Target, find_quotas
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.renames import check_renames
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.learning import Learned
from recordmill.transforms.planning.plan import Plan, make_plan
from recordmill.transforms.planning.profiling import ProfileOutcome
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.batches import scan
from recordmill.transforms.staged.handles import Element, StagedBatch
from recordmill.transforms.staged.listing import excluded_from
from recordmill.transforms.staged.parts import read_part
from recordmill.transforms.staged.step_order import OrderedStep
from recordmill.transforms.writing.dataset_manifest import tfds_notes
from recordmill.transforms.writing.depth_notes import depth_notes
from recordmill.transforms.writing.encoder_notes import encoder_notes


class PlannedBatches(NamedTuple):
    """Batches, and the plan as a single element: quotas, shards, labels, verdict on the input."""

    batches: beam.PCollection[Element]
    plan: beam.PCollection[Plan]


def _plan(
    _: bytes,
    surveys: Sequence[Survey],
    quotas: Mapping[str, Quota],
    problems: Sequence[str],
    learned: Learned,
    profiled: ProfileOutcome,
    *,
    run: RunSpec,
    plan_only: bool = False,
) -> tuple[Plan, tuple[StagedBatch, ...]]:
    """Return the plan, and handles on all batches of records."""
    if run.is_custom:
        run.staging.root.make_dirs()
        run.staging.begin()
    survey = Survey.sum(surveys)
    sentences = sorted([*problems, *survey.problems])
    if learned.problem is not None and survey.counts:
        sentences.append(learned.problem)
    if run.is_custom and run.rename and survey.counts and not sentences:
        # A command checks the names before the job; here the columns are known only now.
        columns = read_part(survey.parts[0].name, staging=run.staging).schema
        context = run.context(survey.labels, learned.artifacts)
        check_renames(run.rename, run.encoder.features(columns, context), option="rename")
    listing = run.staging.listing()
    plan = make_plan(
        survey,
        quotas,
        sentences,
        run=run,
        artifacts=learned.artifacts,
        learned_notes=learned.notes,
        profiled=profiled,
        listing_rejects=0 if listing is None else len(listing.rejects),
        listing_filtered={} if listing is None else listing.filtered,
    )
    if plan_only:
        checked = excluded_from(plan.parts, staging=run.staging)[0]
        rejects = sorted([*(() if listing is None else listing.rejects), *checked])
        run.staging.place("rejects.jsonl").write_bytes(b"".join(map(reject_line, rejects)))
    if plan.verdict is not None:
        run.staging.write_verdict(plan.verdict)
    elif plan_only:
        samples = [split.estimate for split in plan.splits.values()]
        found = (
            *depth_notes((sample.reduced for sample in samples), sampled=True),
            *encoder_notes((sample.noted for sample in samples), sampled=True),
        )
        if message := first_failing(found, run.fail_on):
            run.staging.write_verdict(Verdict(message))
        plan = dataclasses.replace(
            plan, notes=join_left_unread((*plan.notes, *found, *tfds_notes(plan, run)))
        )
    elif run.layout is None:  # report a column that no feature can hold before anything is encoded
        columns = read_part(plan.parts[0].name, staging=run.staging).schema
        run.encoder.features(columns, plan.context)
    run.staging.place("plan.json").write_bytes(to_json(plan.to_json()))
    RecordCounters("Rebalance").add(
        read=sum(sum(split.before.values()) for split in plan.splits.values()),
        out=sum(split.records for split in plan.splits.values()),
    )
    return plan, survey.batches


def _plan_of(planned: tuple[Plan, tuple[StagedBatch, ...]]) -> Plan:
    return planned[0]


def _batches_of(planned: tuple[Plan, tuple[StagedBatch, ...]]) -> Iterable[StagedBatch]:
    return planned[1]


@dataclasses.dataclass(eq=False)
class Rebalance(OrderedStep):
    """Balance the classes of train, and plan the dataset: `AnalyzedBatches` in, `PlannedBatches`
    out.

    Other splits stay as they are. The rows of a class are never gathered on one worker:
    `balancing.quotas` computes how often each record appears, and rows are replicated when batches
    are read.

    balance: `oversample` repeats records up to the target, `undersample` drops records down to it.
    target: number of records of a class; None is the largest class (the smallest, when
      undersampling); `median`; or repeat factors.
    plan_only: whether the run ends with the plan. The plan then has the notes of a whole run, and
      the rejects are written to staging.

    Example::

        batches | Analyze(run) | Rebalance(run, balance="oversample")
    """

    takes = (AnalyzedBatches,)
    after = "Analyze"

    run: RunSpec
    _: dataclasses.KW_ONLY
    balance: Balance = "none"
    target: Target = None
    plan_only: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        expect_one_of("balance", self.balance, get_args(Balance))

    def expand(self, analyzed: Any) -> Any:  # AnalyzedBatches -> PlannedBatches
        run = self.run
        quotas: AsSingleton | Mapping[str, Quota] = {}
        if self.balance in ("oversample", "undersample"):
            found = find_quotas(
                functools.partial(scan, analyzed.batches, staging=run.staging),
                balance=self.balance,
                target=self.target,
                seed=run.seed,
            )
            quotas = AsSingleton(found, default_value={})
        planned = (
            analyzed.batches.pipeline
            | "Once" >> beam.Impulse()
            | "Plan"
            >> beam.Map(
                functools.partial(_plan, run=run, plan_only=self.plan_only),
                AsList(analyzed.surveys),
                quotas,
                () if analyzed.problems is None else AsList(analyzed.problems),
                _result(analyzed.learned),
                _result(analyzed.profiled),
            ).with_output_types(tuple[Plan, tuple[StagedBatch, ...]])
        )
        # The batches come from here, not from Analyze: on Flink, Analyze then shares a region, and
        # a worker, with the plan, as its results go nowhere else.
        batches = planned | "PlannedBatches" >> beam.FlatMap(_batches_of).with_output_types(Element)
        plan = planned | "PlanAlone" >> beam.Map(_plan_of).with_output_types(Plan)
        return PlannedBatches(batches, plan)

    def _extract_input_pvalues(self, analyzed: Any) -> Any:
        # Beam expects every input to be a PCollection; results known before the run are not.
        found, inputs = super()._extract_input_pvalues(analyzed)
        return found, {tag: one for tag, one in inputs.items() if isinstance(one, PCollection)}


def _result(value: Any) -> Any:
    """Return a result as an argument of a Map: a side input if it is a PCollection."""
    return AsSingleton(value) if isinstance(value, PCollection) else value
