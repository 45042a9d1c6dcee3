"""Row counts per split and class, and a sample of each split: the basis of the plan."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.class_names import class_order
from recordmill.job.staging import StagedPart
from recordmill.notes import Note
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import held
from recordmill.transforms.planning.group_names import GroupNames
from recordmill.transforms.staged.handles import StagedBatch

SAMPLE = 256  # maximum number of records of the sample of a split

Counts = Mapping[str | None, int]  # {label: number of records}; None for records without a label


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """Counts and samples of records.

    batches: handles on the surveyed batches, sorted by the names of their parts.
    counts: {split: {label: number of records}}.
    held: {split: {class: records that hold it}} of records that may have several labels; these
      count once in `counts`, under the class that the fewest records hold.
    samples: {split: its records of smallest rank}, with columns (rank uint64, key string, part
      string, row int64), sorted by (rank, key); at most `SAMPLE` of them.
    columns: those of batches that a custom pipeline passed.
    notes: the `Remark`s among the batches, sorted.
    problems: messages of the `Problem`s among the batches, sorted.
    groups: names of groups, if they are compared. grouped: whether a record has a group.
    """

    batches: tuple[StagedBatch, ...] = ()
    counts: Mapping[str, Counts] = dataclasses.field(default_factory=dict)
    held: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    samples: Mapping[str, pa.RecordBatch] = dataclasses.field(default_factory=dict)
    columns: frozenset[pa.Schema] = frozenset()
    notes: tuple[Note, ...] = ()
    problems: tuple[str, ...] = ()
    groups: GroupNames | None = None
    grouped: bool = False

    @classmethod
    def of(
        cls, rows: pa.RecordBatch, handle: StagedBatch, *, seed: int, groups: bool = False
    ) -> Survey:
        """Survey the rows of a batch, which have their splits. groups: whether to compare them."""
        ranks = batch.order_ranks(rows, seed=seed)
        split_codes, splits = batch.encode(rows[batch.SPLIT])
        label_codes, labels = batch.encode(rows[batch.LABEL])
        k = len(labels) + 1
        cells = np.bincount(split_codes * k + label_codes % k, minlength=len(splits) * k)
        names = [*labels.to_pylist(), None]
        counts = {}
        held_by = {}
        samples = {}
        for code, split in enumerate(splits.to_pylist()):
            found = cells[code * k : (code + 1) * k].tolist()
            counts[split] = {name: n for name, n in zip(names, found, strict=True) if n}
            at = np.flatnonzero(split_codes == code)
            if batch.LABELS in rows.schema.names:
                held_by[split] = Counter(held(rows.take(pa.array(at))).to_pylist())
            if len(at) > SAMPLE:
                at = at[np.argpartition(ranks[at], SAMPLE)[:SAMPLE]]
            samples[split] = pa.RecordBatch.from_pydict(
                {
                    "rank": pa.array(ranks[at]),
                    "key": batch.keys(rows.take(pa.array(at))),
                    "part": pa.repeat(handle.part.name, len(at)),
                    "row": pa.array(at),
                }
            )
        named = GroupNames.of(rows) if groups else None
        return cls(
            batches=(handle,),
            counts=counts,
            held=held_by,
            samples=samples,
            groups=named,
            grouped=batch.GROUP in rows.schema.names and rows[batch.GROUP].null_count < len(rows),
        )

    @property
    def parts(self) -> tuple[StagedPart, ...]:
        """The surveyed parts, sorted by name."""
        return tuple(handle.part for handle in self.batches)

    @property
    def classes(self) -> Mapping[str, Collection[str | None]]:
        """The classes that records of each split have; None for records without one."""
        return self.held or self.counts

    @property
    def labels(self) -> list[str]:
        """The classes of all records, in order."""
        return class_order(
            {name for classes in self.classes.values() for name in classes if name is not None}
        )

    @classmethod
    def sum(cls, surveys: Iterable[Survey]) -> Survey:
        """Add surveys up; their order does not matter."""
        batches: list[StagedBatch] = []
        counts: dict[str, Counter[str | None]] = {}
        held_by: dict[str, Counter[str]] = {}
        samples: dict[str, list[pa.RecordBatch]] = {}
        everything = list(surveys)
        groups = [survey.groups for survey in everything if survey.groups is not None]
        for survey in everything:
            batches += survey.batches
            for split, found in survey.counts.items():
                counts.setdefault(split, Counter()).update(found)
            for split, classes in survey.held.items():
                held_by.setdefault(split, Counter()).update(classes)
            for split, sample in survey.samples.items():
                samples.setdefault(split, []).append(sample)
        return cls(
            batches=tuple(sorted(batches, key=lambda handle: handle.part.name)),
            counts=counts,
            held=held_by,
            samples={split: _smallest(found) for split, found in samples.items()},
            groups=GroupNames.sum(groups) if groups else None,
            grouped=any(survey.grouped for survey in everything),
            columns=frozenset().union(*(survey.columns for survey in everything)),
            notes=tuple(sorted(note for survey in everything for note in survey.notes)),
            problems=tuple(sorted(one for survey in everything for one in survey.problems)),
        )


def _smallest(samples: list[pa.RecordBatch]) -> pa.RecordBatch:
    joined = batch.concat(samples)
    order = pc.sort_indices(joined, sort_keys=[("rank", "ascending"), ("key", "ascending")])
    return joined.take(order[:SAMPLE])  # a slice would be sent with all rows
