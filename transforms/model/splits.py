"""Assignment of records to splits.

The split is a function of the seed and the group or key of a record, so that data added later never
moves an old record. Stratified splits have exact fractions within every class instead.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import Staging
from recordmill.transforms.model import batch
from recordmill.transforms.model.rank_cuts import BEFORE_ALL, Threshold, within

UNIT_KEY = "unit"  # the key of every unit of grouped records; thresholds need a non-empty key

Fractions = Mapping[str, float]


def split_ranks(rows: pa.RecordBatch, *, seed: int) -> batch.UInt64Array:
    """Return the ranks that split records, uint64[n]; records of a group have the same rank."""
    return batch.mix(batch.unit_hashes(rows), batch.salt(seed, "split"))


def assign(rows: pa.RecordBatch, *, fractions: Fractions, seed: int) -> pa.RecordBatch:
    """Set `__split__` by hash; splits that the input assigns are kept.

    fractions: {split: fraction}, in order; they sum to 1.
    """
    if len(rows) and batch.SPLIT in rows.schema.names and not rows[batch.SPLIT].null_count:
        return rows  # such as values in memory, whose splits were assigned before they were staged
    sums = np.cumsum(list(fractions.values()))[:-1]
    ends = [min(int(end * 2.0**53), 2**53 - 1) << 11 for end in sums]  # sums may round up to 1
    ranks = split_ranks(rows, seed=seed)
    return _fill(rows, np.searchsorted(np.array(ends, np.uint64), ranks, side="right"), fractions)


@dataclasses.dataclass(frozen=True)
class SplitByKey:
    """The step that assigns splits by seed and group or key."""

    fractions: Fractions
    seed: int

    def __call__(self, rows: pa.RecordBatch, staging: Staging | None = None) -> pa.RecordBatch:
        del staging
        return assign(rows, fractions=self.fractions, seed=self.seed)


@dataclasses.dataclass(frozen=True)
class Strata:
    """The thresholds of a stratified split.

    thresholds: {class: thresholds between its splits, in the order of the fractions}.
    groups: (unit uint64, split int8), the number of the split of each group of two records or more,
      by ascending unit; None if records have no groups. The thresholds divide the other records.
    """

    thresholds: Mapping[str, Sequence[Threshold]]
    groups: pa.RecordBatch | None = None


def strata_rows(rows: pa.RecordBatch, *, grouped: bool, seed: int) -> pa.RecordBatch:
    """Return the columns (label, rank, key) by which rows are cut into splits.

    grouped: whether rows have groups. The key is then the same for all rows: the rank of a unit is
      a bijection of its hash, so that no key is needed to order units.
    """
    ranks = pa.array(split_ranks(rows, seed=seed))
    keys = pa.repeat(UNIT_KEY, len(rows)) if grouped else batch.keys(rows)
    return pa.RecordBatch.from_pydict({"label": batch.strata(rows), "rank": ranks, "key": keys})


def assign_strata(
    rows: pa.RecordBatch, *, fractions: Fractions, strata: Strata, seed: int
) -> pa.RecordBatch:
    """Set `__split__`: groups as they were divided, other rows by the thresholds of their class.

    Rows of classes without thresholds go by hash.
    """
    by_hash = assign(rows, fractions=fractions, seed=seed)
    ranked = strata_rows(rows, grouped=strata.groups is not None, seed=seed)
    codes, names = batch.encode(ranked["label"])
    ends = [strata.thresholds.get(name) for name in names.to_pylist()] + [None]
    ranks = np.asarray(ranked["rank"])
    split = np.full(len(rows), len(fractions) - 1)
    for cut in reversed(range(len(fractions) - 1)):
        last = [BEFORE_ALL if end is None else end[cut] for end in ends]
        split[within(codes, ranks, ranked["key"], last)] = cut
    known = np.array([end is not None for end in ends])[codes]
    if strata.groups is not None and len(strata.groups):
        units, wanted = np.asarray(strata.groups["unit"]), batch.unit_hashes(rows)
        at = np.minimum(np.searchsorted(units, wanted), len(units) - 1)
        whole = units[at] == wanted
        split[whole] = np.asarray(strata.groups["split"])[at[whole]]
        known |= whole
    exact = _fill(rows, split, fractions)
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
    """Divide `total` records by largest remainder; ties go to the earlier split."""
    whole = math.fsum(fractions.values())  # 1 up to rounding errors
    shares = [total * (fraction / whole) for fraction in fractions.values()]
    parts = [int(share + 1e-9) for share in shares]
    by_remainder = sorted(range(len(parts)), key=lambda i: (parts[i] - shares[i], i))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts
