"""The plan of a dataset: splits, shards and quotas, decided before anything is written.

It follows from the counts, the quotas, and a sample of each split that is encoded once. All workers
get it as a side input. `--dry-run` prints it and stops.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from recordmill.errors import Reject
from recordmill.format.split_names import TRAIN
from recordmill.job.staging import StagedPart, Staging, Verdict, inputs_of
from recordmill.notes import Note, first_failing, join_left_unread
from recordmill.transforms.balancing.quotas import Quota
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Artifact, Context
from recordmill.transforms.model.named_classes import NameCheck, check_rules, read_seen
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.compared_columns import notes_on_compared
from recordmill.transforms.planning.duplicate_notes import copies_notes, duplicate_notes
from recordmill.transforms.planning.estimates import Estimate, measure
from recordmill.transforms.planning.plan_notes import plan_notes
from recordmill.transforms.planning.profiling import ProfileOutcome
from recordmill.transforms.planning.refusals import (
    nothing_left,
    numbers_as_classes,
    refusal_of,
    unknown_splits,
    unlike_classes,
    unusable_splits,
)
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.sources.row_formats.reading.row_file import COPIES
from recordmill.transforms.sources.row_formats.where.condition_syntax import WHERE
from recordmill.transforms.staged.listing import NO_LISTING, excluded_from, read_skipped
from recordmill.transforms.windowing.series_report import SeriesReport


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """The plan of one split.

    before, after: {label: number of records} before and after balancing; None stands for records
    without a label. held: {class: records that hold it before balancing} if records may have
    several labels. shards: number of shards.
    """

    before: Mapping[str | None, int]
    after: Mapping[str | None, int]
    shards: int
    estimate: Estimate
    held: Mapping[str, int] | None = None

    @property
    def records(self) -> int:
        """Number of records to write, copies included."""
        return sum(self.after.values())

    @property
    def copies(self) -> int:
        """Number of copies that oversampling adds."""
        return sum(max(n - self.before[label], 0) for label, n in self.after.items())

    @property
    def dropped(self) -> int:
        """Number of records that undersampling drops."""
        return sum(self.dropped_classes.values())

    @property
    def dropped_classes(self) -> dict[str | None, int]:
        """Number of records of each class that undersampling drops."""
        return {label: max(self.before[label] - n, 0) for label, n in self.after.items()}

    @property
    def task_rows(self) -> int:
        """Number of rows that one task encodes and compresses; it depends on the plan alone."""
        each = self.estimate.record_bytes + self.estimate.input_bytes
        rows = min(limits.TASK_ROWS, max(self.records // limits.MIN_TASKS, 1024))
        return min(max(limits.TASK_BYTES // max(each, 1), 1), rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a dataset.

    splits: plans of the splits that have records. quotas: {class of train: quota}. context: passed
      to the encoder. parts: all staged parts. spill: whether the shuffle goes through files.
    row_bytes: mean size of a staged row. grouped: whether records have groups, which the index
      then lists.
    rejected, filtered: numbers of records that checks excluded.
    files: files to publish that no encoder needs. notes: remarks for the manifest.
    verdict: the reason why nothing will be written, if any.
    """

    seed: int
    splits: Mapping[str, SplitPlan]
    quotas: Mapping[str, Quota]
    context: Context
    parts: tuple[StagedPart, ...] = ()
    spill: bool = False
    row_bytes: int = 0
    grouped: bool = False
    rejected: int = 0
    filtered: int = 0
    files: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    verdict: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the content of plan.json, which progress displays read."""
        splits = {
            name: {
                "records": split.records,
                "copies": split.copies,
                "shards": split.shards,
                "bytes": split.records * split.estimate.record_bytes,
                "seconds": split.records * split.estimate.seconds,
                "before": [[label, n] for label, n in split.before.items()],
                "after": [[label, n] for label, n in split.after.items()],
                **({} if split.held is None else {"held": dict(sorted(split.held.items()))}),
            }
            for name, split in self.splits.items()
        }
        return {
            "splits": splits,
            "labels": self.context.labels,
            "rejected": self.rejected,
            "notes": [note.to_json() for note in self.notes],
        }


def make_plan(
    survey: Survey,
    quotas: Mapping[str, Quota],
    problems: Sequence[str],
    *,
    run: RunSpec,
    artifacts: Mapping[str, Artifact] | None = None,
    learned_notes: Sequence[Note] = (),
    profiled: ProfileOutcome = ProfileOutcome(),  # noqa: B008, it is frozen
    listing_rejects: int = 0,
    listing_filtered: Mapping[str, int] = MappingProxyType({}),
) -> Plan:
    """Return the plan of a dataset.

    survey: counts and samples of all records. quotas: {class of train: quota}.
    problems: reasons why the input cannot become a dataset; the first becomes the verdict.
    artifacts: files for the encoder. learned_notes: remarks on learned files.
    profiled: conclusions from statistics and schema.
    listing_rejects: number of inputs that the listing rejected. listing_filtered: {option: number
      of inputs that it left out}.
    """
    parts = survey.parts
    rejected = sum(part.rejected for part in parts)
    filtered = sum(part.filtered for part in parts)
    unread = listing_rejects + sum(part.unread for part in parts)
    # Counted in inputs, however many records an input has.
    made = sum(part.rows for part in parts) + rejected + filtered
    seen = inputs_of(parts, records=made) + unread
    skipped = sum(part.skipped for part in parts) if run.windows is not None else 0
    seen += skipped
    series = SeriesReport.read(parts, run.staging)
    invalid = sum(part.invalid for part in parts)
    verdict = refusal_of(
        rejected + unread,
        seen,
        run.max_reject_fraction,
        invalid=invalid,
        records=rejected,
        made=made,
        unit=run.unit,
        examples=_rejects(parts, run.staging) if run.is_custom else None,
    )
    records = sum(sum(counts.values()) for counts in survey.counts.values())
    names = run.split_names(survey.counts)
    problems = [*problems, *unusable_splits(survey.counts)]
    problems += _partly_labelled(survey, run)
    problems += [] if run.windows is None else series.problems(run.windows)
    problems += unknown_splits(run.num_shards, run.windows, names, custom=run.is_custom)
    labels = survey.labels
    windows = run.windows is not None
    problems += numbers_as_classes(labels, run.number_labels, windows=windows)
    left_out: Counter[str] = Counter(listing_filtered)
    if run.rules.leaves_out:
        left_out.update(excluded_from(parts, staging=run.staging)[1])
    named = _named_classes(run)
    problems += [one.problem for one in named if one.problem is not None]
    if problems:
        verdict = Verdict(problems[0])
    elif verdict is None and not records:
        by = excluded_from(parts, staging=run.staging)[1]
        if skipped:
            before = sum(read_skipped(part, staging=run.staging).get(WHERE, 0) for part in parts)
            by[WHERE] += before
            by["window"] += skipped - before
        runs = None if run.windows is None else series.remedy(run.windows)
        verdict = nothing_left(seen, rejected=rejected + unread, filtered=by, runs=runs)
    elif verdict is None and profiled.problems:
        found = "; ".join(profiled.problems)
        verdict = Verdict(f"{found}: {profiled.advice}")
    listed = run.manifest_options.get("labels_file")
    labelled = run.layout is None or run.layout.labelled  # otherwise they are classes of boxes
    if not labels and labelled and rejected + unread and not problems and listed and verdict:
        verdict = verdict.with_advice(unlike_classes(listed))
    context = run.context(labels, artifacts or {})
    notes = join_left_unread(
        (
            *run.notes,
            *learned_notes,
            *profiled.notes,
            *survey.notes,
            *(one.note for one in named if one.note is not None and survey.counts),
            *plan_notes(survey, quotas, labels, left_out, run, series),
            *duplicate_notes(parts, run.staging),
            *copies_notes(
                parts,
                run.staging,
                listed=listing_filtered.get(COPIES, 0),
                are_made=_makes_copies(survey, quotas),
            ),
            *notes_on_compared(survey, run),
        )
    )
    plan = Plan(
        seed=run.seed,
        splits={},
        quotas=quotas,
        context=context,
        parts=parts,
        rejected=rejected,
        filtered=filtered,
        files=profiled.files,
        notes=notes,
        verdict=verdict or _failing(notes, run),
        grouped=run.grouped or survey.grouped,
    )
    if plan.verdict is not None:
        return plan
    present = [name for name in names if name in survey.counts]
    estimates = measure(
        {name: survey.samples[name] for name in present},
        {name: sum(survey.counts[name].values()) for name in present},
        context=context,
        run=run,
    )
    splits = {name: _split_plan(name, survey, quotas, estimates[name], run) for name in present}
    row_bytes = sum(part.bytes for part in parts) / max(sum(part.rows for part in parts), 1)
    planned = sum(split.records for split in splits.values()) * row_bytes
    return dataclasses.replace(
        plan, splits=splits, spill=planned > run.spill_above, row_bytes=round(row_bytes)
    )


def _named_classes(run: RunSpec) -> list[NameCheck]:
    """Return the checks of the classes that options name."""
    window_class = "" if run.windows is None else run.windows.label.name
    if not (run.rules.names_classes or window_class):
        return []
    return check_rules(run.rules, window_class, read_seen(run.staging))


def _makes_copies(survey: Survey, quotas: Mapping[str, Quota]) -> bool:
    """Return whether balancing repeats a record."""
    counts = survey.counts.get(TRAIN, {})
    return any(quota.size > counts.get(label, 0) for label, quota in quotas.items())


def _rejects(parts: Sequence[StagedPart], staging: Staging) -> list[Reject]:
    """Return the rejects of the listing and of parts, sorted."""
    listing = staging.listing() or NO_LISTING
    return sorted({*listing.rejects, *excluded_from(parts, staging=staging)[0]})


def _partly_labelled(survey: Survey, run: RunSpec) -> list[str]:
    """Return a sentence if a custom pipeline passed some records without a label.

    Sources reject such records, and encoders declare the label unless they are told. Lists of
    labels may be empty.
    """
    if not run.is_custom or survey.held or not survey.labels:
        return []
    if getattr(run.encoder, "unlabelled", True):
        return []
    without = sum(counts.get(None, 0) for counts in survey.counts.values())
    total = sum(sum(counts.values()) for counts in survey.counts.values())
    if not without:
        return []
    return [
        f"{without:,} of {total:,} records have no {batch.LABEL}: give each a class, leave them"
        f" out, or take {type(run.encoder).__name__}(unlabelled=True), which writes no label for"
        " them"
    ]


def _failing(notes: Sequence[Note], run: RunSpec) -> Verdict | None:
    message = first_failing(notes, run.fail_on)
    return None if message is None else Verdict(message)


def _split_plan(
    name: str,
    survey: Survey,
    quotas: Mapping[str, Quota],
    estimate: Estimate,
    run: RunSpec,
) -> SplitPlan:
    before = survey.counts[name]
    ordered = dict(sorted(before.items(), key=lambda item: (item[0] is None, item[0] or "")))
    after = dict(ordered)
    if name == TRAIN:
        after |= {label: quotas[label].size for label in ordered if label in quotas}  # type: ignore[index]
    records = sum(after.values())
    if isinstance(run.num_shards, int):
        shards = run.num_shards
    elif run.num_shards is not None and name in run.num_shards:
        shards = run.num_shards[name]
    else:
        shards = -(-records * estimate.record_bytes // run.shard_bytes)
    return SplitPlan(
        before=ordered,
        after=after,
        shards=min(max(shards, 1), records),
        estimate=estimate,
        held=survey.held.get(name),
    )
