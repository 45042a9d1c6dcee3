"""Balanced classes, exactly: every record of a class appears q times, some once more.

No class ever meets on one worker. A histogram of ranks tells where the cut lies, the few rows at
the cut decide it, and the copies follow row by row.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.split_names import TRAIN
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.label_sets import Held, RepeatFactors
from recordmill.transforms.model.quota import (
    NOTHING,
    Histogram,
    RankCut,
    Threshold,
    boundary_rows,
    thresholds,
    within,
)
from recordmill.transforms.staged.listing_scans import Read, read_again

Balance = Literal["none", "oversample", "undersample", "weights"]
Target = int | Literal["median"] | RepeatFactors | None
Cuts = Mapping[str, tuple[RankCut, ...]]


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a class shall have: `size` records, `repeats` of each and once more those of `cut`."""

    size: int
    repeats: int
    cut: RankCut


@dataclasses.dataclass(frozen=True)
class Quota:
    """Each record of a class appears `repeats` times; those up to `last` once more.

    size: how many records the class will have.
    """

    repeats: int
    last: Threshold = NOTHING
    size: int = 0


def targets(
    counts: Mapping[str, int],
    held: Held | None = None,
    *,
    balance: Balance,
    target: Target = None,
) -> dict[str, int]:
    """{label: records wanted} from {label: records there are}.

    held: which classes the records of train hold; for repeat factors.

    Oversampling never drops a record and undersampling never adds one: a class beyond the target
    stays as it is.
    """
    if balance not in ("oversample", "undersample") or not counts:
        return dict(counts)
    if isinstance(target, RepeatFactors):
        assert held is not None
        return target.wanted(counts, held)
    if target == "median":
        goal = statistics.median_low(counts.values())
    elif target is not None:
        goal = target
    else:
        goal = max(counts.values()) if balance == "oversample" else min(counts.values())
    bound = max if balance == "oversample" else min
    return {label: bound(n, goal) for label, n in counts.items()}


def goals(
    histogram: Histogram, held: Held | None = None, *, balance: Balance, target: Target = None
) -> dict[str, Goal]:
    """The goal of every class; records without label have none."""
    counts = {label: n for label, n in histogram.totals().items() if label is not None}
    wanted = targets(counts, held, balance=balance, target=target)
    out = {}
    for label, row in zip(histogram.labels, histogram.counts, strict=True):
        if label is not None:
            repeats, extra = divmod(wanted[label], counts[label])
            out[label] = Goal(wanted[label], repeats, RankCut.of(row, extra))
    return out


def balance_ranks(rows: pa.RecordBatch, *, seed: int) -> batch.UInt64Array:
    """The rank that decides which records of a class are chosen: uint64[n]."""
    return batch.mix(batch.hashes(rows), batch.salt(seed, "balance"))


def balance_rows(rows: pa.RecordBatch, *, seed: int) -> pa.RecordBatch:
    """What cuts are made through: (label, rank, key) of the labelled training records."""
    ranks = pa.array(balance_ranks(rows, seed=seed))
    table = {"label": rows[batch.LABEL], "rank": ranks, "key": rows[batch.KEY]}
    return pa.RecordBatch.from_pydict(table).filter(pa.array(_balanced(rows)))


def _balanced(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    return np.asarray(rows[batch.LABEL].is_valid(), bool) & _in_train(rows)


def _in_train(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    if batch.SPLIT not in rows.schema.names:
        return np.ones(len(rows), np.bool_)
    codes, names = batch.encode(rows[batch.SPLIT])
    return np.array([*(name == TRAIN for name in names.to_pylist()), False])[codes]


def _held_in_train(rows: pa.RecordBatch) -> Held:
    return Held.of(rows.filter(pa.array(_in_train(rows))))


def replicate(
    rows: pa.RecordBatch, *, quotas: Mapping[str, Quota], seed: int
) -> Iterator[pa.RecordBatch]:
    """Repeats rows by their quota, with `__copy__` 0, 1, ..; other splits pass as they are."""
    codes, names = batch.encode(rows[batch.LABEL])
    per_class = [quotas.get(name, Quota(1)) for name in names.to_pylist()] + [Quota(1)]
    times = np.array([quota.repeats for quota in per_class])[codes]
    ranks = balance_ranks(rows, seed=seed)
    times += within(codes, ranks, rows[batch.KEY], [quota.last for quota in per_class])
    times[~_balanced(rows)] = 1
    if (times == 1).all():  # as where nothing is balanced: nothing has to move
        yield batch.set_column(rows, batch.COPY, pa.array(np.zeros(len(rows), np.int32)))
        return
    ends = np.cumsum(times)
    total = int(ends[-1]) if len(rows) else 0
    for start in range(0, total, batch.ROWS):
        positions = np.arange(start, min(start + batch.ROWS, total))
        taken = np.searchsorted(ends, positions, side="right")
        copies = (positions - (ends - times)[taken]).astype(np.int32)
        yield batch.set_column(rows.take(pa.array(taken)), batch.COPY, pa.array(copies))


def _histogram(ranked: pa.RecordBatch) -> Histogram:
    return Histogram.of(ranked["label"], np.asarray(ranked["rank"]))


def _boundary(ranked: pa.RecordBatch, cuts: Cuts) -> Iterable[tuple[str, pa.RecordBatch]]:
    return boundary_rows(ranked["label"], np.asarray(ranked["rank"]), ranked["key"], cuts)


def _thresholds(
    met: tuple[str, Iterable[pa.RecordBatch]], cuts: Cuts
) -> tuple[str, tuple[Threshold, ...]]:
    label, parts = met
    return label, thresholds(cuts[label], batch.concat(list(parts)))


@dataclasses.dataclass(eq=False)
class FindThresholds(beam.PTransform):
    """(label, rank, key) batches in, (label, thresholds of its cuts) out.

    cuts: a side input, {label: cuts}. Labels whose cuts fall between two buckets are not met:
    `quota.thresholds(cuts, None)` gives theirs.
    """

    cuts: beam.pvalue.AsSideInput

    def __post_init__(self) -> None:
        super().__init__()

    def expand(
        self, ranked: beam.PCollection[pa.RecordBatch]
    ) -> beam.PCollection[tuple[str, tuple[Threshold, ...]]]:
        return (
            ranked
            | "PickBoundary"
            >> beam.FlatMap(_boundary, self.cuts).with_output_types(tuple[str, pa.RecordBatch])
            | "MeetByClass" >> beam.GroupByKey()
            | "FindLast" >> beam.Map(_thresholds, self.cuts)
        )


def _cuts(goals: Mapping[str, Goal]) -> dict[str, tuple[RankCut, ...]]:
    return {label: (goal.cut,) for label, goal in goals.items()}


def _quotas(
    goals: Mapping[str, Goal], met: Mapping[str, tuple[Threshold, ...]]
) -> dict[str, Quota]:
    return {
        label: Quota(
            repeats=goal.repeats,
            last=(met.get(label) or thresholds((goal.cut,), None))[0],
            size=goal.size,
        )
        for label, goal in goals.items()
    }


def find_quotas(
    read: Read,
    *,
    balance: Balance,
    target: Target = None,
    seed: int = 0,
) -> beam.PCollection[dict[str, Quota]]:
    """The quota of every class, as the one element of a PCollection; none where nothing is read.

    read: gives the batches, with their splits, for a pass.
    """
    held: beam.pvalue.AsSingleton | None = None
    if isinstance(target, RepeatFactors):
        held = beam.pvalue.AsSingleton(
            read("CountHeld")
            | "HeldInTrain" >> beam.Map(_held_in_train)
            | "AddUpHeld" >> beam.CombineGlobally(Held.sum).without_defaults(),
            default_value=None,
        )
    reached = (
        read("CountClasses")
        | "RankToCount" >> beam.Map(balance_rows, seed=seed).with_output_types(pa.RecordBatch)
        | "Histogram" >> beam.Map(_histogram)
        | "AddUp" >> beam.CombineGlobally(Histogram.sum).without_defaults()
        | "SetGoals" >> beam.Map(goals, held, balance=balance, target=target)
    )
    cuts = beam.pvalue.AsSingleton(reached | "Cuts" >> beam.Map(_cuts), default_value={})
    met = (
        read("CutClasses", cuts)
        | "RankToCut" >> beam.Map(balance_rows, seed=seed).with_output_types(pa.RecordBatch)
        | "MeetInClasses" >> FindThresholds(cuts)
    )
    return reached | "Quotas" >> beam.Map(_quotas, beam.pvalue.AsDict(met))


@dataclasses.dataclass(eq=False)
class RebalanceClasses(beam.PTransform):
    """Batches in, batches with `__copy__` out; only the training split changes.

    Example::

        batches | AssignSplits(...) | RebalanceClasses(balance="oversample", seed=7)
    """

    balance: Balance
    target: int | Literal["median"] | RepeatFactors | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[pa.RecordBatch]:
        quotas = find_quotas(
            read_again(batches), balance=self.balance, target=self.target, seed=self.seed
        )
        return batches | "Replicate" >> beam.FlatMap(
            replicate, quotas=beam.pvalue.AsSingleton(quotas, default_value={}), seed=self.seed
        ).with_output_types(pa.RecordBatch)
