"""The plan: what is going to be written, decided before the first byte is.

It follows from the counts, the quotas and a sample of each split that is encoded once; all workers
get it as a side input. `--dry-run` prints it and stops.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.format.split_names import TRAIN
from recordmill.job.staging import StagedPart, Staging, Verdict, to_json
from recordmill.processes.pool import shared_pool
from recordmill.transforms.balancing.rebalance import Quota
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact, Context, Encoder
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.planning.examination import Examined
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.encoder_tasks import EncodedChunk, encode_chunk, pack_encoder
from recordmill.transforms.staged.listing import located, outcome, read_part

TASK_BYTES = 8 << 20  # what a task of an encoder process reads and writes, about
_SAMPLE_BYTES = 4 * TASK_BYTES  # of a task of the sample, where several records are in it
_TASK_ROWS = 1 << 14  # of a task, at most: what comes often in them is looked up once
_TASKS = 16  # of a split, at least, where tasks are of a thousand rows or more
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What the plan needs to know beside the data."""

    seed: int
    splits: tuple[str, ...]  # in the user's order; those that only the input names follow
    presplit: bool = False  # by the input, or by time
    num_shards: int | Mapping[str, int] | None = None
    shard_bytes: int = 128_000_000
    compression: str = "none"
    labels: tuple[str, ...] | None = None  # of a labels file, in its order
    label_offset: int = 0
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)
    max_reject_fraction: float = 0.01
    listing_rejects: int = 0
    spill_above: int = 4 << 20  # bytes of references
    workers: int = 0
    windows: WindowOptions | None = None  # what was left out is rows in no window


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Means over a sample: of a framed (compressed) record, of its input, and of its encoding."""

    record_bytes: int
    input_bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """counts are {label: records}, with None for those without a label."""

    before: Mapping[str | None, int]
    after: Mapping[str | None, int]
    shards: int
    estimate: Estimate

    @property
    def records(self) -> int:
        """Records that will be written, copies included."""
        return sum(self.after.values())

    @property
    def copies(self) -> int:
        return sum(max(n - self.before[label], 0) for label, n in self.after.items())

    @property
    def dropped(self) -> int:
        return sum(max(self.before[label] - n, 0) for label, n in self.after.items())

    @property
    def task_rows(self) -> int:
        """Rows that are encoded together, and gzipped together: a function of the plan alone."""
        each = self.estimate.record_bytes + self.estimate.input_bytes
        rows = min(_TASK_ROWS, max(self.records // _TASKS, 1024))
        return min(max(TASK_BYTES // max(each, 1), 1), rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """splits: those that have records. quotas: per class of train. parts: of the listing. files:
    that become part of the dataset, and that no encoder needs. notes: for the reader.
    """

    seed: int
    splits: Mapping[str, SplitPlan]
    quotas: Mapping[str, Quota]
    context: Context
    parts: tuple[StagedPart, ...] = ()
    spill: bool = False
    rejected: int = 0  # by the checks
    filtered: int = 0
    files: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        """What plan.json says, for those who watch."""
        splits = {
            name: {
                "records": split.records,
                "copies": split.copies,
                "shards": split.shards,
                "bytes": split.records * split.estimate.record_bytes,
                "seconds": split.records * split.estimate.seconds,
                "before": [[label, n] for label, n in split.before.items()],
                "after": [[label, n] for label, n in split.after.items()],
            }
            for name, split in self.splits.items()
        }
        return {"splits": splits, "labels": self.context.labels, "rejected": self.rejected}


def make_plan(
    survey: Survey,
    quotas: Mapping[str, Quota],
    problems: Sequence[str],
    *,
    encoder: Encoder,
    options: PlanOptions,
    staging: Staging,
    artifacts: Mapping[str, Artifact] | None = None,
    examined: Examined = Examined(),  # noqa: B008, it is frozen
) -> Plan:
    """Decides what is written.

    problems: what the data forbids, found on the way here; the first becomes the verdict.
    examined: what follows from statistics and a schema.
    """
    parts = survey.parts
    rejected = sum(part.rejected for part in parts)
    filtered = sum(part.filtered for part in parts)
    unread = options.listing_rejects + sum(part.unread for part in parts)
    # Of inputs, however many records were made of one.
    seen = sum(part.rows - part.extra for part in parts) + rejected + filtered + unread
    skipped = sum(part.skipped for part in parts) if options.windows is not None else 0
    seen += skipped
    spoilt = sum(part.spoilt for part in parts)
    made = sum(part.rows for part in parts) + rejected + filtered
    verdict = refusal_of(
        rejected + unread, seen, options.max_reject_fraction, spoilt=spoilt, made=made
    )
    records = sum(sum(counts.values()) for counts in survey.counts.values())
    names = [*dict.fromkeys([*options.splits, *sorted(survey.counts)])]
    problems = [*problems, *_unusable_splits(survey), *unknown_splits(options.num_shards, names)]
    if problems:
        verdict = Verdict(problems[0])
    elif verdict is None and not records:
        by: Counter[str] = Counter()
        for part in parts:
            by.update(outcome(part, staging=staging)[1])
        if skipped:
            by["window"] += skipped
        verdict = nothing_left(seen, rejected=rejected + unread, filtered=by)
    elif verdict is None and examined.problems:
        found = "; ".join(examined.problems)
        verdict = Verdict(f"{found}: mend the input, or edit the schema")
    labels = sorted(
        {name for counts in survey.counts.values() for name in counts if name is not None}
    )
    context = Context(
        seed=options.seed,
        labels=tuple(labels) if options.labels is None else options.labels,
        label_offset=options.label_offset,
        rename=options.rename,
        artifacts=artifacts or {},
    )
    plan = Plan(
        seed=options.seed,
        splits={},
        quotas=quotas,
        context=context,
        parts=parts,
        rejected=rejected,
        filtered=filtered,
        files=examined.files,
        notes=(*examined.notes, *_unseen_label(labels, options), *_empty_splits(survey, options)),
        verdict=verdict,
    )
    if verdict is not None:
        return plan
    present = [name for name in names if name in survey.counts]
    estimates = measure(
        {name: survey.samples[name] for name in present},
        {name: sum(survey.counts[name].values()) for name in present},
        encoder=encoder,
        context=context,
        options=options,
        staging=staging,
    )
    splits = {
        name: _split_plan(name, survey.counts[name], quotas, estimates[name], options)
        for name in present
    }
    row_bytes = sum(part.bytes for part in parts) / max(sum(part.rows for part in parts), 1)
    planned = sum(split.records for split in splits.values()) * row_bytes
    return dataclasses.replace(plan, splits=splits, spill=planned > options.spill_above)


def _unusable_splits(survey: Survey) -> list[str]:
    """A sentence for each split, named by the input, that no file can be named after."""
    return [
        f"the input names a split {name!r}, expected letters, digits, _ and -, as files are named"
        " after it: rename it in the input"
        for name in sorted(survey.counts)
        if not _SPLIT_NAME.fullmatch(name)
    ]


def unknown_splits(num_shards: int | Mapping[str, int] | None, known: Collection[str]) -> list[str]:
    """A sentence for each split whose shards are counted, and which there is not."""
    if not isinstance(num_shards, Mapping):
        return []
    return [
        f"--num-shards names a split {name!r}, expected one of {', '.join(known)}"
        for name in num_shards
        if name not in known
    ]


def _unseen_label(labels: Sequence[str], options: PlanOptions) -> list[str]:
    """A sentence where an option names a class that no record has: perhaps it is misspelt."""
    if options.windows is None or options.windows.label.name in ("", *labels):
        return []
    name = options.windows.label.name
    there = ", ".join(map(repr, labels)) or "none"
    return [f"no record is of class {name!r}, which --window-label names; there are {there}"]


def _empty_splits(survey: Survey, options: PlanOptions) -> list[str]:
    """A sentence for each split that was asked for, and that no record is in."""
    return [
        f"no record is in the split {name!r}, as there are few records, or few groups"
        for name in options.splits
        if name not in survey.counts and not options.presplit
    ]


def refusal_of(
    rejected: int, seen: int, max_fraction: float, *, spoilt: int, made: int
) -> Verdict | None:
    """The verdict on too many rejects, where some are records of inputs that have several.

    rejected: inputs of those seen, and the records among them that were `spoilt`; these are held
    against the records that were to be made.
    """
    found = refusal(rejected - spoilt, seen, max_fraction)
    if found is None and spoilt:
        found = refusal(spoilt, made, max_fraction, noun="records")
    return found


def refusal(
    rejected: int,
    seen: int,
    max_fraction: float,
    *,
    option: str = "--max-reject-fraction",
    noun: str = "inputs",
) -> Verdict | None:
    """The verdict on too many rejects. option: what the user calls the limit."""
    if rejected <= max_fraction * seen:
        return None
    return Verdict(
        f"{rejected} of {seen} {noun} were rejected ({rejected / seen:.1%}), more than"
        f" {option} {max_fraction:g} allows: mend the input, or allow more"
    )


def nothing_left(seen: int, *, rejected: int, filtered: Mapping[str, int]) -> Verdict:
    """The verdict on a job without a record to write.

    filtered: {option: inputs that it left out}.
    """
    became = [f"{rejected} were rejected"] if rejected else []
    became += [f"{count} were filtered by --{option}" for option, count in sorted(filtered.items())]
    todo = ["mend the input"] if rejected else []
    todo += [f"ask less with --{option}" for option in sorted(filtered)]
    return Verdict(
        f"nothing is left to write: of {seen} inputs {', '.join(became) or 'none was kept'}:"
        f" {', or '.join(todo) or 'look at the input'}"
    )


def _split_plan(
    name: str,
    before: Mapping[str | None, int],
    quotas: Mapping[str, Quota],
    estimate: Estimate,
    options: PlanOptions,
) -> SplitPlan:
    ordered = dict(sorted(before.items(), key=lambda item: (item[0] is None, item[0] or "")))
    after = dict(ordered)
    if name == TRAIN:
        after |= {label: quotas[label].size for label in ordered if label in quotas}  # type: ignore[index]
    records = sum(after.values())
    if isinstance(options.num_shards, int):
        shards = options.num_shards
    elif options.num_shards is not None and name in options.num_shards:
        shards = options.num_shards[name]
    else:
        shards = -(-records * estimate.record_bytes // options.shard_bytes)
    return SplitPlan(
        before=ordered, after=after, shards=min(max(shards, 1), records), estimate=estimate
    )


def sample_size(records: int) -> int:
    """How many records of a split are encoded to estimate it: one in a hundred, 16 to 256."""
    return min(max(records // 100, 16), 256, records)


def measure(
    samples: Mapping[str, pa.RecordBatch],
    records: Mapping[str, int],
    *,
    encoder: Encoder,
    context: Context,
    options: PlanOptions,
    staging: Staging,
) -> dict[str, Estimate]:
    """Encodes the records of smallest rank of each split; on resume the first outcome is reread."""
    stored = staging.read_json("estimate.json")
    if stored is not None:
        return {name: Estimate(**estimate) for name, estimate in stored.items()}
    pool = shared_pool(options.workers)
    packed = pack_encoder(encoder, context)
    started = time.perf_counter()
    chunks = {}
    sizes = {}
    for name, sample in samples.items():
        rows = located(_fetch(sample.slice(0, sample_size(records[name])), name, staging), staging)
        if batch.SIZE in rows.schema.names:
            sizes[name] = int(np.mean(np.asarray(rows[batch.SIZE])))
        else:
            sizes[name] = rows.nbytes // len(rows)
        step = max(min(len(rows) // 8, _SAMPLE_BYTES // max(sizes[name], 1)), 1)
        chunks[name] = collections.deque(
            pool.submit(
                encode_chunk, packed, batch.to_bytes(rows.slice(at, step)), options.compression
            )
            for at in range(0, len(rows), step)
        )
    results = {name: _sizes(futures) for name, futures in chunks.items()}
    taken = sum(int(sample_size(records[name])) for name in samples)
    seconds = (time.perf_counter() - started) / max(taken, 1)
    estimates = {}
    for name, (kept, total) in results.items():
        # Where the whole sample is bad, the size of its inputs is the best guess there is.
        each = total // kept if kept else sizes[name] + 64
        estimates[name] = Estimate(record_bytes=each, input_bytes=sizes[name], seconds=seconds)
    staging.place("estimate.json").write_bytes(to_json(estimates))
    return estimates


def _sizes(futures: collections.deque[Future[EncodedChunk]]) -> tuple[int, int]:
    """Records that were kept, and bytes; takes the futures away, as what they hold may be large."""
    kept = total = 0
    while futures:
        chunk = futures.popleft().result()
        kept += len(chunk.kept)
        total += len(chunk.data)
    return kept, total


def _fetch(sample: pa.RecordBatch, split: str, staging: Staging) -> pa.RecordBatch:
    """The rows of a sample, in its order."""
    names = sample["part"].to_pylist()
    at = np.asarray(sample["row"])
    batches = []
    positions: list[int] = []
    for name in sorted(set(names)):
        chosen = [i for i, other in enumerate(names) if other == name]
        rows = read_part(name, staging=staging)
        batches.append(rows.take(pa.array(at[chosen])))
        positions += chosen
    joined = batch.concat(batches).take(pa.array(np.argsort(positions)))
    count = len(joined)
    joined = batch.set_column(joined, batch.SPLIT, pa.repeat(split, count))
    return batch.set_column(joined, batch.COPY, pa.array(np.zeros(count, np.int32)))
