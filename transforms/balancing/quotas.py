"""Exact balancing of classes: each record of a class appears q times, some of them once more.

The rows of a class are never gathered on one worker. A histogram of ranks locates the boundary
between q and q + 1 copies, the few rows in the boundary bucket determine it exactly, and each row
is then replicated on its own.
"""

import dataclasses
import functools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, assert_never

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.split_names import TRAIN
from recordmill.job.staging import Staging
from recordmill.option_checks import Between, Expected
from recordmill.transforms.model import batch, coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.label_sets import Held, RepeatFactors
from recordmill.transforms.model.rank_cuts import (
    BEFORE_ALL,
    Histogram,
    RankCut,
    Threshold,
    boundary_rows,
    thresholds,
    within,
)
from recordmill.transforms.staged.batches import scan
from recordmill.transforms.staged.handles import Element

Balance = Literal["none", "oversample", "undersample", "weights"]
Target = Annotated[
    Annotated[int, Between(1, math.inf)] | Literal["median"] | RepeatFactors | None,
    Expected("a number of records from 1, 'median' or RepeatFactors"),
]
Cuts = Mapping[str, tuple[RankCut, ...]]


@dataclasses.dataclass(frozen=True)
class PendingQuota:
    """The quota of a class before the threshold of its cut is known.

    size: number of records that the class will have. repeats: copies of each record. cut: the
    records that appear once more.
    """

    size: int
    repeats: int
    cut: RankCut


@dataclasses.dataclass(frozen=True)
class Quota:
    """Number of copies of each record of a class.

    repeats: copies of each record. last: records up to this threshold appear once more. size:
    number of records that the class will have.
    """

    repeats: int
    last: Threshold = BEFORE_ALL
    size: int = 0


def targets(
    counts: Mapping[str, int],
    held: Held | None = None,
    *,
    balance: Balance,
    target: Target = None,
) -> dict[str, int]:
    """Return {label: target number of records}, given {label: number of records}.

    Oversampling never drops a record and undersampling never adds one: a class beyond the target
    stays as it is.

    held: the sets of classes of the records of train; needed for repeat factors.
    target: number of records of a class; None is the largest class (the smallest, when
      undersampling); `median`, the median class size, with halves rounded up; or repeat factors.
    """
    match balance:
        case "none" | "weights":
            return dict(counts)
        case "oversample":
            bound = max
        case "undersample":
            bound = min
        case _:
            assert_never(balance)
    if not counts:
        return {}
    if isinstance(target, RepeatFactors):
        assert held is not None
        return target.wanted(counts, held)
    if target == "median":
        goal = math.floor(statistics.median(counts.values()) + 0.5)
    elif target is not None:
        goal = target
    else:
        goal = bound(counts.values())
    return {label: bound(n, goal) for label, n in counts.items()}


def pending_quotas(
    histogram: Histogram, held: Held | None = None, *, balance: Balance, target: Target = None
) -> dict[str, PendingQuota]:
    """Return {label: pending quota}; records without a label are never balanced.

    held, target: as in `targets`.
    """
    counts = {label: n for label, n in histogram.totals().items() if label is not None}
    wanted = targets(counts, held, balance=balance, target=target)
    out = {}
    for label, row in zip(histogram.labels, histogram.counts, strict=True):
        if label is not None:
            repeats, extra = divmod(wanted[label], counts[label])
            out[label] = PendingQuota(wanted[label], repeats, RankCut.of(row, extra))
    return out


def balance_ranks(rows: pa.RecordBatch, *, seed: int) -> batch.UInt64Array:
    """Return the ranks that decide which records of a class are chosen: uint64[n]."""
    return batch.mix(batch.hashes(rows), batch.salt(seed, "balance"))


def balance_rows(rows: pa.RecordBatch, *, seed: int) -> pa.RecordBatch:
    """Return the columns (label, rank, key) of the labelled records of train."""
    ranks = pa.array(balance_ranks(rows, seed=seed))
    table = {"label": rows[batch.LABEL], "rank": ranks, "key": batch.keys(rows)}
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
    """Yield each row as often as the quota of its class says, with `__copy__` 0, 1, ...

    Rows of other splits than train, and rows without a label, appear once. Batches with copies have
    up to `limits.PART_ROWS` rows.
    """
    if not quotas:
        yield batch.set_column(rows, batch.COPY, pa.array(np.zeros(len(rows), np.int32)))
        return
    codes, names = batch.encode(rows[batch.LABEL])
    per_class = [quotas.get(name, Quota(1)) for name in names.to_pylist()] + [Quota(1)]
    times = np.array([quota.repeats for quota in per_class])[codes]
    ranks = balance_ranks(rows, seed=seed)
    times += within(codes, ranks, batch.keys(rows), [quota.last for quota in per_class])
    times[~_balanced(rows)] = 1
    if (times == 1).all():  # no row has to be moved in memory
        yield batch.set_column(rows, batch.COPY, pa.array(np.zeros(len(rows), np.int32)))
        return
    ends = np.cumsum(times)
    total = int(ends[-1]) if len(rows) else 0
    for start in range(0, total, limits.PART_ROWS):
        positions = np.arange(start, min(start + limits.PART_ROWS, total))
        taken = np.searchsorted(ends, positions, side="right")
        copies = (positions - (ends - times)[taken]).astype(np.int32)
        yield batch.set_column(rows.take(pa.array(taken)), batch.COPY, pa.array(copies))


def _boundary(ranked: pa.RecordBatch, cuts: Cuts) -> Iterable[tuple[str, pa.RecordBatch]]:
    return boundary_rows(ranked["label"], np.asarray(ranked["rank"]), ranked["key"], cuts)


def _thresholds(
    boundary: tuple[str, Iterable[pa.RecordBatch]], cuts: Cuts
) -> tuple[str, tuple[Threshold, ...]]:
    label, parts = boundary
    return label, thresholds(cuts[label], batch.concat(list(parts)))


@dataclasses.dataclass(eq=False)
class FindThresholds(beam.PTransform):
    """Find the thresholds of cuts: batches of (label, rank, key) in, (label, thresholds) out.

    cuts: a side input, {label: cuts}. Labels whose cuts all fall between two buckets are not in the
      output: `thresholds(cuts, None)` returns theirs.
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
            | "GroupByClass" >> beam.GroupByKey()
            | "Thresholds" >> beam.Map(_thresholds, self.cuts)
        )


def _cuts(pending: Mapping[str, PendingQuota]) -> dict[str, tuple[RankCut, ...]]:
    return {label: (quota.cut,) for label, quota in pending.items()}


def _quotas(
    pending: Mapping[str, PendingQuota], found: Mapping[str, tuple[Threshold, ...]]
) -> dict[str, Quota]:
    return {
        label: Quota(
            repeats=quota.repeats,
            last=(found.get(label) or thresholds((quota.cut,), None))[0],
            size=quota.size,
        )
        for label, quota in pending.items()
    }


@dataclasses.dataclass(eq=False)
class FindQuotas(beam.PTransform):
    """Find the quota of each class of train: handles on batches in, one {label: quota} out.

    The output is empty without rows.

    balance, target: as in `targets`.
    """

    staging: Staging
    _: dataclasses.KW_ONLY
    balance: Balance
    target: Target = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> beam.PCollection[dict[str, Quota]]:
        read = functools.partial(scan, batches, staging=self.staging)
        ranked = beam.Map(balance_rows, seed=self.seed).with_output_types(pa.RecordBatch)
        held: beam.pvalue.AsSingleton | None = None
        if isinstance(self.target, RepeatFactors):
            held = beam.pvalue.AsSingleton(
                read("CountHeld")
                | "HeldInTrain" >> beam.Map(_held_in_train)
                | "AddUpHeld" >> beam.CombineGlobally(Held.sum).without_defaults(),
                default_value=None,
            )
        pending = (
            read("CountClasses")
            | "RankToCount" >> ranked
            | "Histogram" >> beam.Map(Histogram.of_ranked)
            | "AddUp" >> beam.CombineGlobally(Histogram.sum).without_defaults()
            | "PendingQuotas"
            >> beam.Map(pending_quotas, held, balance=self.balance, target=self.target)
        )
        cuts = beam.pvalue.AsSingleton(pending | "Cuts" >> beam.Map(_cuts), default_value={})
        found = (
            read("CutClasses", cuts)
            | "RankToCut"
            >> beam.Map(balance_rows, seed=self.seed).with_output_types(pa.RecordBatch)
            | "FindThresholds" >> FindThresholds(cuts)
        )
        return pending | "Quotas" >> beam.Map(_quotas, beam.pvalue.AsDict(found))
