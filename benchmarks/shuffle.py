"""Whether the shuffle is one: a million keys in the order of their classes, as folders list them.

    python -m benchmarks.shuffle

For each seed two chi-square tests of independence: class against shard, and class against the place
in the final order, cut into 100. With 40 tests a uniform shuffle has one p-value in 40 below 1/40;
the smallest must be above 0.001/40 (Bonferroni).
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import chi2_contingency  # type: ignore[import-untyped]

from recordmill.format.split_names import TRAIN
from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.planning.estimates import Estimate
from recordmill.transforms.planning.plan import Plan, SplitPlan
from recordmill.transforms.staged import spill
from recordmill.transforms.writing.shards.shard_rows import sort_block
from recordmill.transforms.writing.shards.shuffle import block_indices

_CLASSES = 10
_SHARDS = 64
_PLACES = 100
_BAR = 0.001

Ints = npt.NDArray[np.int64]

# Pieces are inline here: nothing is staged.
_NOWHERE = Staging(Location.parse("/nowhere"))


def sorted_rows(count: int) -> pa.RecordBatch:
    """`count` keys of equal classes, in the order of their names."""
    numbers = np.arange(count)
    classes = numbers * _CLASSES // count
    keys = [f"class-{c}/{i:07d}.jpg" for c, i in zip(classes, numbers, strict=True)]
    rows = pa.RecordBatch.from_pydict(
        {
            batch.KEY: pa.array(keys, pa.string()),
            batch.LABEL: pa.array([f"class-{i}" for i in range(_CLASSES)]).take(pa.array(classes)),
            batch.SPLIT: pa.array([TRAIN]).take(pa.array(np.zeros(count, np.int64))),
        }
    )
    return batch.with_hash(rows)


def shuffled(rows: pa.RecordBatch, seed: int) -> tuple[Ints, Ints]:
    """(class, shard) of every record in the final order, int64[n] each: the road's own steps."""
    label: dict[str | None, int] = {None: len(rows)}
    split = SplitPlan(
        before=label,
        after=label,
        shards=_SHARDS,
        estimate=Estimate(record_bytes=1, input_bytes=0, seconds=0.0),
    )
    plan = Plan(seed=seed, splits={TRAIN: split}, quotas={}, context=Context(seed=seed))
    classes, shards = [], []
    for shard, part in spill.split_by_shard(rows, block_indices(rows, plan=plan)):
        ordered = sort_block([spill.inline(part)], seed=seed, staging=_NOWHERE)
        classes.append(class_numbers(ordered))
        shards.append(np.full(len(ordered), shard))
    return np.concatenate(classes), np.concatenate(shards)


def class_numbers(rows: pa.RecordBatch) -> Ints:
    """int64[n], the same for a class whatever the order of the rows."""
    names = np.array([f"class-{i}" for i in range(_CLASSES)])
    codes, values = batch.encode(rows[batch.LABEL])
    return np.searchsorted(names, np.array(values.to_pylist()))[codes]


def independence(classes: Ints, others: Ints) -> float:
    """The p-value of a chi-square test of two equally long columns of codes."""
    columns = int(others.max()) + 1
    table = np.bincount(classes * columns + others, minlength=_CLASSES * columns)
    return float(chi2_contingency(table.reshape(_CLASSES, columns)).pvalue)


def places(count: int) -> Ints:
    """The hundredth of the order in which each record stands: int64[n]."""
    return np.arange(count) * _PLACES // count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    rows = sorted_rows(arguments.rows)
    control = independence(class_numbers(rows), places(len(rows)))
    print(f"{len(rows):,} keys, {_CLASSES} classes, {_SHARDS} shards")
    print(f"not shuffled (must be 0): p = {control:.3g}\n")
    print("| seed | class x shard | class x place |\n|--:|--:|--:|")
    found: list[float] = []
    for seed in range(arguments.seeds):
        classes, shards = shuffled(rows, seed)
        pair = independence(classes, shards), independence(classes, places(len(classes)))
        print(f"| {seed} | {pair[0]:.4f} | {pair[1]:.4f} |", flush=True)
        found += pair
    bar = _BAR / len(found)
    met = min(found) > bar and control < bar
    print(f"\nsmallest p {min(found):.2g}, bar above {bar:.2g}: {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
