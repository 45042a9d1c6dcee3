"""Which split a record belongs to: a function of (seed, group or key), so that data added later
never moves an old record; or, stratified, exact fractions within every class.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.quota import NOTHING, Threshold, within

UNIT_KEY = "unit"  # the key of every unit of grouped records: not empty, as thresholds expect

Fractions = Mapping[str, float]


def split_ranks(rows: pa.RecordBatch, *, seed: int) -> batch.UInt64Array:
    """The rank that splits records: the same for all records of a group."""
    return batch.mix(batch.unit_hashes(rows), batch.salt(seed, "split"))


def assign(rows: pa.RecordBatch, *, fractions: Fractions, seed: int) -> pa.RecordBatch:
    """Fills `__split__` where the input did not say it."""
    sums = np.cumsum(list(fractions.values()))[:-1]
    ends = [min(int(end * 2.0**53), 2**53 - 1) << 11 for end in sums]  # sums may round up to 1
    ranks = split_ranks(rows, seed=seed)
    return _fill(rows, np.searchsorted(np.array(ends, np.uint64), ranks, side="right"), fractions)


@dataclasses.dataclass(frozen=True)
class Strata:
    """Exact fractions: per class the thresholds between the splits, in the order of the fractions.

    `majority` (unit uint64, label string) gives the class of every unit where records are grouped;
    without groups the unit is the record and the class its own.
    """

    thresholds: Mapping[str, Sequence[Threshold]]
    majority: pa.RecordBatch | None = None


def strata_rows(
    rows: pa.RecordBatch, *, majority: pa.RecordBatch | None, seed: int
) -> pa.RecordBatch:
    """What cuts are made through: (label, rank, key) per row.

    A unit's rank comes from its hash by a bijection, so that units need no key to tell them apart;
    records without groups have one. A unit that has no majority has no label.
    """
    ranks = pa.array(split_ranks(rows, seed=seed))
    labels, keys = batch.strata(rows), rows[batch.KEY]
    if majority is not None:
        units, wanted = np.asarray(majority["unit"]), batch.unit_hashes(rows)
        at = np.searchsorted(units, wanted)
        unknown = np.append(units, np.uint64(0))[at] != wanted
        labels = majority["label"].take(pa.array(at, mask=unknown | (at == len(units))))
        keys = pa.repeat(UNIT_KEY, len(rows))
    return pa.RecordBatch.from_pydict({"label": labels, "rank": ranks, "key": keys})


def assign_strata(
    rows: pa.RecordBatch, *, fractions: Fractions, strata: Strata, seed: int
) -> pa.RecordBatch:
    """Fills `__split__` by the thresholds of each class; without a label it goes by hash."""
    by_hash = assign(rows, fractions=fractions, seed=seed)
    ranked = strata_rows(rows, majority=strata.majority, seed=seed)
    codes, names = batch.encode(ranked["label"])
    ends = [strata.thresholds.get(name) for name in names.to_pylist()] + [None]
    ranks = np.asarray(ranked["rank"])
    split = np.full(len(rows), len(fractions) - 1)
    for cut in reversed(range(len(fractions) - 1)):
        last = [NOTHING if end is None else end[cut] for end in ends]
        split[within(codes, ranks, ranked["key"], last)] = cut
    exact = _fill(rows, split, fractions)
    known = np.array([end is not None for end in ends])[codes]
    both = (split[batch.SPLIT].cast(pa.string()) for split in (exact, by_hash))
    chosen = pc.if_else(pa.array(known), *both)
    return batch.set_column(rows, batch.SPLIT, chosen)


def _fill(
    rows: pa.RecordBatch, codes: npt.NDArray[np.int64], fractions: Fractions
) -> pa.RecordBatch:
    names = pa.array(list(fractions), pa.string())
    splits = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int16)), names)
    if batch.SPLIT in rows.schema.names and rows[batch.SPLIT].null_count < len(rows):
        splits = pc.coalesce(rows[batch.SPLIT], splits.cast(pa.string()))
    return batch.set_column(rows, batch.SPLIT, splits)


def apportion(total: int, fractions: Fractions) -> list[int]:
    """Parts total records by largest remainder; ties go to the earlier split."""
    whole = math.fsum(fractions.values())  # 1, but for a rounding error
    shares = [total * (fraction / whole) for fraction in fractions.values()]
    parts = [int(share + 1e-9) for share in shares]
    by_remainder = sorted(range(len(parts)), key=lambda i: (parts[i] - shares[i], i))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


@dataclasses.dataclass(eq=False)
class AssignSplits(beam.PTransform):
    """Batches in, batches with `__split__` out; an existing value of it is kept.

    Example::

        batches | AssignSplits(fractions={"train": 0.9, "test": 0.1}, seed=7)
    """

    fractions: Mapping[str, float]
    seed: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        if not all(fraction > 0 for fraction in self.fractions.values()):
            raise ValueError(f"expected fractions above 0, got {self.fractions}")
        if not abs(math.fsum(self.fractions.values()) - 1) <= 1e-9:
            raise ValueError(f"expected fractions that sum to 1, got {self.fractions}")

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[pa.RecordBatch]:
        return batches | "Assign" >> beam.Map(
            assign, fractions=self.fractions, seed=self.seed
        ).with_output_types(pa.RecordBatch)
