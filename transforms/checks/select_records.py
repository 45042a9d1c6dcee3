"""Selection of records before splits are assigned: samples, and windows by their class."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.job.staging import Staging
from recordmill.transforms.balancing.quotas import FindThresholds
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.rank_cuts import Histogram, RankCut, Threshold, thresholds, within
from recordmill.transforms.staged.batches import scan
from recordmill.transforms.staged.handles import Element, StagedBatch
from recordmill.transforms.staged.listing import rewrite_part

Cuts = Mapping[str, tuple[RankCut, ...]]
Ends = Mapping[str, tuple[Threshold, ...]]

_ALL = ""  # stands for the class if a sample is of all records, and for a missing class
_SALT = batch.salt(0, "limit")  # independent of the run's seed: all seeds have the same sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSelection:
    """The records that a run keeps.

    rules: rules for windows; their rows have passed the rules for rows. limit: number of records.
    limit_per_class: number of records of each class. Both limits keep the records with the smallest
    hashes of their keys, so that a larger limit also keeps the records of a smaller one.
    """

    rules: LabelRules | None = None
    limit: int | None = None
    limit_per_class: int | None = None

    @property
    def is_all(self) -> bool:
        """True if every record is kept."""
        return self == RecordSelection()


def limit_rows(rows: pa.RecordBatch, *, per_class: bool) -> pa.RecordBatch:
    """Return the columns (label, rank, key) by which rows are limited."""
    labels = rows[batch.LABEL].cast(pa.string()).fill_null(_ALL)
    if not per_class:
        labels = pa.repeat(_ALL, len(rows))
    ranks = batch.mix(batch.hashes(rows), _SALT)
    return pa.RecordBatch.from_pydict(
        {"label": labels, "rank": pa.array(ranks), "key": batch.keys(rows)}
    )


def limit_cuts(histogram: Histogram, *, limit: int) -> Cuts:
    """Return {label: the cut of its first `limit` records}, for classes that have more."""
    return {
        str(label): (RankCut.of(row, limit),)
        for label, row in zip(histogram.labels, histogram.counts, strict=True)
        if row.sum() > limit
    }


def within_limit(rows: pa.RecordBatch, ends: Ends, *, per_class: bool) -> npt.NDArray[np.bool_]:
    """Return bool[n], true for the rows that belong to the sample."""
    ranked = limit_rows(rows, per_class=per_class)
    codes, names = batch.encode(ranked["label"])
    last = [ends.get(name, (Threshold(2**64),))[0] for name in names.to_pylist()]
    return within(codes, np.asarray(ranked["rank"]), ranked["key"], last)


@dataclasses.dataclass(eq=False)
class SelectRecords(beam.PTransform):
    """Keep the records of a selection: handles in, handles out. Other records are counted.

    The kept records, windows or others, are written to staging again.
    """

    staging: Staging
    selection: RecordSelection

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> beam.PCollection[Element]:
        one = self.selection
        if one.rules is not None:
            batches |= "ByLabel" >> beam.Map(
                _by_rules, rules=one.rules, staging=self.staging
            ).with_output_types(Element)
        for limit, per_class in ((one.limit_per_class, True), (one.limit, False)):
            if limit is not None:
                batches = self._limit(batches, limit, per_class=per_class)
        return batches

    def _limit(
        self, batches: beam.PCollection[Element], limit: int, *, per_class: bool
    ) -> beam.PCollection[Element]:
        name = "PerClass" if per_class else "OfAll"
        read = functools.partial(scan, batches, staging=self.staging)
        rank = functools.partial(limit_rows, per_class=per_class)

        def ranking(label: str) -> beam.PTransform:
            return label >> beam.Map(rank).with_output_types(pa.RecordBatch)

        cuts = (
            read(f"Count{name}")
            | ranking(f"RankToCount{name}")
            | f"Histogram{name}" >> beam.Map(Histogram.of_ranked)
            | f"AddUp{name}" >> beam.CombineGlobally(Histogram.sum).without_defaults()
            | f"Cuts{name}" >> beam.Map(limit_cuts, limit=limit)
        )
        reached = beam.pvalue.AsSingleton(cuts, default_value={})
        met = (
            read(f"Cut{name}", reached)
            | ranking(f"RankToCut{name}")
            | f"FindThresholds{name}" >> FindThresholds(reached)
        )
        ends = cuts | f"Ends{name}" >> beam.Map(_ends, beam.pvalue.AsDict(met))
        keep = beam.Map(
            _within,
            beam.pvalue.AsSingleton(ends, default_value={}),
            staging=self.staging,
            per_class=per_class,
        )
        return (
            batches
            | f"Spread{name}" >> beam.Reshuffle()
            | f"Keep{name}" >> keep.with_output_types(Element)
        )


def _ends(cuts: Cuts, met: Ends) -> Ends:
    return {label: met.get(label) or thresholds(one, None) for label, one in cuts.items()}


def _by_rules(element: Element, *, rules: LabelRules, staging: Staging) -> Element:
    if not isinstance(element, StagedBatch) or element.role != "records":
        return element
    selected = rules.apply(element.read(staging, None))
    return _kept(element, selected.rows, selected.filtered, staging, "labels")


def _within(element: Element, ends: Ends, *, staging: Staging, per_class: bool) -> Element:
    if not isinstance(element, StagedBatch) or element.role != "records" or not ends:
        return element
    rows = element.read(staging, None)
    kept = within_limit(rows, ends, per_class=per_class)
    option = "limit-per-class" if per_class else "limit"
    count = int((~kept).sum())
    return _kept(element, rows.filter(pa.array(kept)), {option: count}, staging, option)


def _kept(
    element: StagedBatch,
    rows: pa.RecordBatch,
    filtered: Mapping[str, int],
    staging: Staging,
    folder: str,
) -> StagedBatch:
    """Write the rows that a batch keeps, and return the handle on them."""
    part = element.part
    if len(rows) == part.rows:
        return element
    kept = rewrite_part(part, rows, staging, f"selected/{folder}", filtered=filtered)
    return dataclasses.replace(element, part=kept, steps=())
