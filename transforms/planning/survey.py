"""What there is to plan with: how many records per split and class, and a sample of each split."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from recordmill.job.staging import StagedPart
from recordmill.transforms.model import batch

SAMPLE = 256  # records of a split whose encoded size is measured, at most

Counts = Mapping[str | None, int]  # by label; None for records without one


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """parts: those surveyed, by name. counts: {split: {label: records}}. samples: {split: the
    records of smallest rank}, as (rank uint64, key, part string, row int64), by (rank, key).
    """

    parts: tuple[StagedPart, ...] = ()
    counts: Mapping[str, Counts] = dataclasses.field(default_factory=dict)
    samples: Mapping[str, pa.RecordBatch] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.RecordBatch, part: StagedPart, *, seed: int) -> Survey:
        """Surveys one part, whose rows have their splits."""
        ranks = batch.order_ranks(rows, seed=seed)
        split_codes, splits = batch.encode(rows[batch.SPLIT])
        label_codes, labels = batch.encode(rows[batch.LABEL])
        k = len(labels) + 1
        cells = np.bincount(split_codes * k + label_codes % k, minlength=len(splits) * k)
        names = [*labels.to_pylist(), None]
        counts = {}
        samples = {}
        for code, split in enumerate(splits.to_pylist()):
            found = cells[code * k : (code + 1) * k].tolist()
            counts[split] = {name: n for name, n in zip(names, found, strict=True) if n}
            at = np.flatnonzero(split_codes == code)
            if len(at) > SAMPLE:
                at = at[np.argpartition(ranks[at], SAMPLE)[:SAMPLE]]
            samples[split] = pa.RecordBatch.from_pydict(
                {
                    "rank": pa.array(ranks[at]),
                    "key": rows[batch.KEY].take(pa.array(at)),
                    "part": pa.repeat(part.name, len(at)),
                    "row": pa.array(at),
                }
            )
        return cls(parts=(part,), counts=counts, samples=samples)

    @classmethod
    def sum(cls, surveys: Iterable[Survey]) -> Survey:
        """Adds surveys up, in whatever order they come."""
        parts: list[StagedPart] = []
        counts: dict[str, Counter[str | None]] = {}
        samples: dict[str, list[pa.RecordBatch]] = {}
        for survey in surveys:
            parts += survey.parts
            for split, found in survey.counts.items():
                counts.setdefault(split, Counter()).update(found)
            for split, sample in survey.samples.items():
                samples.setdefault(split, []).append(sample)
        return cls(
            parts=tuple(sorted(parts, key=lambda part: part.name)),
            counts=counts,
            samples={split: _smallest(found) for split, found in samples.items()},
        )


def _smallest(samples: list[pa.RecordBatch]) -> pa.RecordBatch:
    joined = batch.concat(samples)
    order = joined.sort_by([("rank", "ascending"), ("key", "ascending")])
    return batch.concat([order.slice(0, SAMPLE)])
