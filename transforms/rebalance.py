"""Rebalance: exact balancing of the classes of train, and the plan of the dataset."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsList, AsSingleton, PCollection, TaggedOutput

from recordmill.errors import ConfigError
from recordmill.format.split_names import TRAIN
from recordmill.job.staging import Verdict, to_json
from recordmill.notes import first_failing, join_left_unread
from recordmill.option_names import option_name
from recordmill.transforms.analyze import AnalyzedBatches
from recordmill.transforms.balancing.quotas import Balance, FindQuotas, Quota, Target
from recordmill.transforms.encoders.table_types import check_names
from recordmill.transforms.encoders.tables import TableEncoder
from recordmill.transforms.model import batch
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import (
    Context,
    NeedingEncoder,
    ReusableEncoder,
    needs_classes,
)
from recordmill.transforms.model.label_sets import RepeatFactors
from recordmill.transforms.model.renames import check_renames
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.user_columns import their_columns, user_fields
from recordmill.transforms.planning.learning import Learned
from recordmill.transforms.planning.plan import Plan, make_plan
from recordmill.transforms.planning.profiling import ProfileOutcome
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.handles import Element
from recordmill.transforms.staged.listing import excluded_from
from recordmill.transforms.staged.parts import joined_columns, write_columns
from recordmill.transforms.staged.records import RecordValues, Values, values_of
from recordmill.transforms.staged.step_order import VALUES, OrderedStep, refuse_repetition
from recordmill.transforms.writing.dataset_manifest import tfds_notes
from recordmill.transforms.writing.depth_notes import depth_notes
from recordmill.transforms.writing.encoder_notes import encoder_notes

_BATCHES = "batches"  # tag


class PlannedBatches(NamedTuple):
    """Handles on batches, the plan, and the run.

    The plan is a single element: quotas, shards, labels, verdict on the input.
    """

    handles: beam.PCollection[Element]
    plan: beam.PCollection[Plan]
    run: RunSpec


def _plan(
    survey: Survey,
    quotas: Mapping[str, Quota],
    problems: Sequence[str],
    learned: Learned,
    profiled: ProfileOutcome,
    *,
    run: RunSpec,
    balance: Balance,
    plan_only: bool,
) -> Plan:
    if run.is_custom:
        run.staging.intermediate.make_dirs()
        run.staging.begin()
    sentences = sorted([*problems, *survey.problems])
    if learned.problem is not None and survey.counts:
        sentences.append(learned.problem)
    if run.is_custom and not sentences:
        sentences += _unbalanced(survey, run, balance)
    if run.layout is None and survey.columns and not sentences:
        try:
            columns = joined_columns(survey.columns)
        except ConfigError as error:
            sentences.append(str(error))
        else:
            write_columns(columns, run.staging)
            _check_features(run, columns, run.context(survey.labels, learned.artifacts))
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
        run.staging.write_rejects(rejects)
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
    run.staging.place("plan.json").write_bytes(to_json(plan.to_json()))
    RecordCounters("Rebalance").add(
        read=sum(sum(split.before.values()) for split in plan.splits.values()),
        out=sum(split.records for split in plan.splits.values()),
    )
    return plan


def _check_train(splits: Collection[str], balance: Balance) -> None:
    """Raise ConfigError if no split is named train."""
    if TRAIN not in splits:
        raise ConfigError(
            f"Rebalance: {option_name('balance', balance)} applies to the split {TRAIN}, and the"
            f" splits are {', '.join(splits)}: name one of them {TRAIN}, or leave the step out"
        )


def _unbalanced(survey: Survey, run: RunSpec, balance: Balance) -> list[str]:
    """Return a sentence if a custom pipeline balances records without classes, or without train."""
    if balance == "none" or not survey.counts:
        return []
    try:
        _check_train(run.split_names(survey.counts), balance)
        if not any(label is not None for counts in survey.counts.values() for label in counts):
            columns = joined_columns(survey.columns) if run.layout is None else run.layout.columns
            names = [field.name for field in user_fields(columns)]
            raise needs_classes(f"Rebalance: {option_name('balance', balance)}", names)
    except ConfigError as error:
        return [str(error)]
    return []


def _check_features(run: RunSpec, columns: pa.Schema, context: Context) -> None:
    """Check the columns of a custom pipeline against its encoder.

    Raises:
      ConfigError: the encoder reads a column that records do not have, no feature can hold a
        column, or a new name is not that of a feature.
    """
    encoder = run.encoder
    if not run.has_encoder:  # `ReadBatches` needs none
        return
    where = f"Rebalance: {type(encoder).__name__}"
    if isinstance(encoder, TableEncoder) and user_fields(columns):  # none if no row is left
        check_names(encoder.options.column_transforms(), columns)
    needed: tuple[str, ...] = ()
    if isinstance(encoder, NeedingEncoder):
        needed = encoder.needed_columns
    elif isinstance(encoder, ReusableEncoder) and batch.DATA not in columns.names:
        needed = encoder.source_columns
    if missing := [name for name in needed if name not in columns.names]:
        raise ConfigError(
            f"{where}: expected records with {', '.join(needed)}, got none with"
            f" {', '.join(missing)}: {their_columns(columns)}"
        )
    try:
        check_renames(run.rename, encoder.features(columns, context), option="rename")
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _plan_and_batches(
    _: bytes,
    surveys: Sequence[Survey],
    quotas: Mapping[str, Quota],
    problems: Sequence[str],
    learned: Learned,
    profiled: ProfileOutcome,
    *,
    run: RunSpec,
    balance: Balance,
    plan_only: bool,
) -> Iterator[Any]:  # Beam warns about TaggedOutput
    """Yield the plan, and handles on the batches of records under a tag."""
    survey = Survey.sum(surveys)
    yield _plan(
        survey,
        quotas,
        problems,
        learned,
        profiled,
        run=run,
        balance=balance,
        plan_only=plan_only,
    )
    yield from (TaggedOutput(_BATCHES, one) for one in survey.batches)


@dataclasses.dataclass(eq=False)
class Rebalance(OrderedStep):
    """Balance the classes of train, and plan the dataset: `AnalyzedBatches` in, `PlannedBatches`
    out. Records in memory become `RecordValues`, which `WriteToTFRecord` balances.

    Other splits stay as they are. The rows of a class are never gathered on one worker:
    `balancing.quotas` computes how often each record appears, and rows are replicated when batches
    are read.

    Args:
      balance: `oversample` repeats records up to the target, `undersample` drops records down to
        it.
      target: Number of records per class, `median` for the median class size, or `RepeatFactors`.
        Default: the size of the largest class (of the smallest, when undersampling).
      plan_only: Whether the run ends with the plan. The plan then has the notes of a whole run, and
        the rejects are written to staging.

    Raises:
      ConfigError: An option is invalid.

    Example::

        batches | Rebalance("oversample")
    """

    takes = (AnalyzedBatches, *VALUES)
    after = "Analyze"

    balance: Balance = "none"
    _: dataclasses.KW_ONLY
    target: Target = None
    plan_only: bool = False

    def _check_together(self) -> None:
        if self.target is not None and self.balance not in ("oversample", "undersample"):
            raise ConfigError(
                f"target: has no effect with balance={self.balance!r}; use 'oversample' or"
                " 'undersample'"
            )
        if isinstance(self.target, RepeatFactors) and self.balance == "undersample":
            raise ConfigError("target: RepeatFactors repeat records; use balance='oversample'")

    @overload
    def expand(self, records: AnalyzedBatches) -> PlannedBatches: ...

    @overload
    def expand(self, records: Values) -> RecordValues: ...

    def expand(self, records: AnalyzedBatches | Values) -> PlannedBatches | RecordValues:
        if isinstance(records, AnalyzedBatches):
            return self._plan(records)
        values = values_of(records)
        refuse_repetition("Rebalance", was_applied=values.options.balance is not None)
        options = dataclasses.replace(values.options, balance=self.balance, target=self.target)
        return values._replace(options=options)

    def _plan(self, analyzed: AnalyzedBatches) -> PlannedBatches:
        run = analyzed.run
        if run.is_custom and not run.may_be_presplit and self.balance != "none":
            _check_train(run.splits, self.balance)
        if run.is_custom and run.layout is not None and isinstance(analyzed.learned, Learned):
            context = Context(
                seed=run.seed,
                labels=run.labels or (("",) if run.layout.labelled else ()),
                label_offset=run.label_offset,
                rename=run.rename,
                artifacts=analyzed.learned.artifacts,
            )
            _check_features(run, run.layout.columns, context)
        quotas: AsSingleton | Mapping[str, Quota] = {}
        if self.balance in ("oversample", "undersample"):
            found = analyzed.handles | FindQuotas(
                run.staging, balance=self.balance, target=self.target, seed=run.seed
            )
            quotas = AsSingleton(found, default_value={})
        planned = (
            analyzed.handles.pipeline
            | "Once" >> beam.Impulse()
            | "Plan"
            >> beam.FlatMap(
                _plan_and_batches,
                AsList(analyzed.surveys),
                quotas,
                () if analyzed.problems is None else AsList(analyzed.problems),
                _result(analyzed.learned),
                _result(analyzed.profiled),
                run=run,
                balance=self.balance,
                plan_only=self.plan_only,
            ).with_outputs(_BATCHES, main="plan")
        )
        # The batches come from here, not from Analyze: on Flink, Analyze then shares a region, and
        # a worker, with the plan, as its results go nowhere else.
        planned.plan.element_type, planned[_BATCHES].element_type = Plan, Element
        return PlannedBatches(planned[_BATCHES], planned.plan, run)


def _result(value: Any) -> Any:
    """Return a result as an argument of a Map: a side input if it is a PCollection."""
    return AsSingleton(value) if isinstance(value, PCollection) else value
