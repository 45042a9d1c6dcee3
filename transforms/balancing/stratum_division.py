"""Division of strata of records with several labels, so that each class is near its fractions.

Each stratum is divided to the nearest record. Each record that rounding leaves goes to the split
where it makes the sum of squared deviations of its classes smallest, relative to their sizes, the
rarest strata first. The result is that of iterative stratification (Sechidis, Tsoumakas, Vlahavas:
On the Stratification of Multi-label Data, 2011), for whole strata at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import xxhash

from recordmill.transforms.model.splits import Fractions

ALL = ""  # stands for all records of a stratum; no class has this name

Shares = Mapping[str, Mapping[str, int]]


def divide_strata(
    counts: Mapping[str, int], shares: Shares, fractions: Fractions, *, seed: int
) -> dict[str, list[int]]:
    """Return {stratum: its number of records in each split}, in the order of the fractions.

    counts: {stratum: records}. shares: {stratum: {class: records that hold it}}, with the number of
      all records under `ALL`. Shares may count records beside those to divide. seed: orders strata
      that are equally rare.
    """
    parts = np.array([*fractions.values()])
    sizes = {stratum: np.floor(n * parts + 1e-9).astype(np.int64) for stratum, n in counts.items()}
    totals: Counter[str] = Counter()
    held: dict[str, dict[str, float]] = {}  # {stratum: {class: fraction of its records}}
    for stratum in counts:
        totals.update(shares[stratum])
        held[stratum] = {name: k / shares[stratum][ALL] for name, k in shares[stratum].items()}
    # {class: records that each split has too few of the strata divided so far}
    lacks = {name: np.zeros(len(parts)) for name in totals}

    def order(stratum: str) -> tuple[int, int, str]:
        mixed = xxhash.xxh3_64_intdigest(stratum.encode(), seed=seed & (2**64 - 1))
        return min(totals[name] for name in held[stratum]), mixed, stratum

    for stratum in sorted(counts, key=order):
        free = np.ones(len(parts), np.bool_)
        for name, fraction in held[stratum].items():
            lacks[name] += fraction * (sizes[stratum].sum() * parts - sizes[stratum])
        for _ in range(counts[stratum] - int(sizes[stratum].sum())):
            score = sum(
                fraction * (lacks[name] + fraction * parts) / totals[name]
                for name, fraction in held[stratum].items()
            )
            chosen = int(np.argmax(np.where(free, score, -math.inf)))
            free[chosen] = False
            sizes[stratum][chosen] += 1
            for name, fraction in held[stratum].items():
                lacks[name] += fraction * parts
                lacks[name][chosen] -= fraction
    return {stratum: size.tolist() for stratum, size in sizes.items()}
