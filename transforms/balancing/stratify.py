"""Exact fractions within every class: largest remainder, by split rank.

The unit is the group where there are groups, and its class the majority of its records.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.balancing.rebalance import FindThresholds
from recordmill.transforms.model import batch
from recordmill.transforms.model.quota import Histogram, RankCut, Threshold, thresholds
from recordmill.transforms.model.splits import UNIT_KEY, Fractions, Strata, apportion, strata_rows
from recordmill.transforms.staged.listing_scans import Read

_PARTITIONS = 64


def undecided(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that are of a stratum, and whose split the input did not say."""
    open_ = batch.strata(rows).is_valid()
    if batch.SPLIT in rows.schema.names:
        open_ = pc.and_(open_, rows[batch.SPLIT].is_null())
    return rows.filter(open_)


def split_cuts(histogram: Histogram, *, fractions: Fractions) -> dict[str, tuple[RankCut, ...]]:
    """{label: a cut between each two splits}, for classes that fill every split."""
    cuts = {}
    for label, row in zip(histogram.labels, histogram.counts, strict=True):
        total = int(row.sum())
        if label is not None and total >= len(fractions):
            ends = np.cumsum(apportion(total, fractions))[:-1]
            cuts[label] = tuple(RankCut.of(row, int(end)) for end in ends)
    return cuts


def too_small(histogram: Histogram, *, fractions: Fractions, unit: str) -> list[str]:
    """A sentence where a class cannot fill every split."""
    small = {
        label: n
        for label, n in histogram.totals().items()
        if label is not None and n < len(fractions)
    }
    if not small:
        return []
    shown = ", ".join(f"{label!r} ({n})" for label, n in list(small.items())[:5])
    more = f" and {len(small) - 5} more" if len(small) > 5 else ""
    return [
        f"--stratify: expected at least {len(fractions)} {unit} in every class, one for each of"
        f" {', '.join(fractions)}; too few in {shown}{more}: add some, leave the class out, or"
        " split without --stratify"
    ]


def _units(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(partition, (unit uint64, label string)) of a batch."""
    units = batch.unit_hashes(rows)
    table = pa.RecordBatch.from_pydict({"unit": pa.array(units), "label": batch.strata(rows)})
    partition = batch.scale(units, _PARTITIONS)
    for part in np.unique(partition).tolist():
        yield part, table.filter(pa.array(partition == part))


def majority(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """The class of each unit: (unit uint64, label string), by unit; ties go to the first name."""
    rows = batch.concat(list(parts))
    units, inverse = np.unique(np.asarray(rows["unit"]), return_inverse=True)
    codes, names = batch.encode(rows["label"])
    order = np.argsort(np.array([name.encode() for name in names.to_pylist()], object))
    place = np.argsort(order)
    counts = Counter(zip(inverse.tolist(), place[codes].tolist(), strict=True))
    best: dict[int, tuple[int, int]] = {}
    for (unit, label), n in counts.items():
        best[unit] = max(best.get(unit, (0, 0)), (n, -label))
    labels = [names[int(order[-best[unit][1]])].as_py() for unit in range(len(units))]
    return pa.RecordBatch.from_pydict(
        {"unit": pa.array(units), "label": pa.array(labels, pa.string())}
    )


def _majority(met: tuple[int, Iterable[pa.RecordBatch]]) -> pa.RecordBatch:
    return majority(met[1])


def _rank_units(units: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    ranks = batch.mix(np.asarray(units["unit"]), batch.salt(seed, "split"))
    keys = pa.repeat(UNIT_KEY, len(units))
    return pa.RecordBatch.from_pydict(
        {"label": units["label"], "rank": pa.array(ranks), "key": keys}
    )


def _rank_rows(rows: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    return strata_rows(undecided(rows), majority=None, seed=seed)


def _histogram(ranked: pa.RecordBatch) -> Histogram:
    return Histogram.of(ranked["label"], np.asarray(ranked["rank"]))


def _strata(
    cuts: Mapping[str, tuple[RankCut, ...]],
    met: Mapping[str, tuple[Threshold, ...]],
    units: Sequence[pa.RecordBatch],
) -> Strata:
    found = {label: met.get(label) or thresholds(ends, None) for label, ends in cuts.items()}
    return Strata(found, batch.concat(units).sort_by("unit") if units else None)


def _ranking(rank: Callable[..., pa.RecordBatch], seed: int) -> beam.PTransform:
    return beam.Map(rank, seed=seed).with_output_types(pa.RecordBatch)


def find_strata(
    read: Read, *, fractions: Fractions, seed: int, grouped: bool
) -> tuple[beam.PCollection[Strata], beam.PCollection[str]]:
    """The strata, as the one element of a PCollection (none where nothing is read), and what the
    data forbids.

    read: gives the batches for a pass.
    """
    units = None
    if grouped:
        units = (
            read("ReadUnits")
            | "Undecided" >> beam.Map(undecided).with_output_types(pa.RecordBatch)
            | "Units" >> beam.FlatMap(_units).with_output_types(tuple[int, pa.RecordBatch])
            | "MeetByUnit" >> beam.GroupByKey()
            | "Majority" >> beam.Map(_majority).with_output_types(pa.RecordBatch)
        )
        ranked = units | "RankUnits" >> _ranking(_rank_units, seed)
    else:
        ranked = read("CountStrata") | "RankToCountStrata" >> _ranking(_rank_rows, seed)
    histogram = (
        ranked
        | "StrataHistogram" >> beam.Map(_histogram)
        | "AddUpStrata" >> beam.CombineGlobally(Histogram.sum).without_defaults()
    )
    reached = histogram | "StrataCuts" >> beam.Map(split_cuts, fractions=fractions)
    cuts = beam.pvalue.AsSingleton(reached, default_value={})
    if not grouped:
        ranked = read("CutStrata", cuts) | "RankToCutStrata" >> _ranking(_rank_rows, seed)
    met = ranked | "MeetInStrata" >> FindThresholds(cuts)
    strata = reached | "Strata" >> beam.Map(
        _strata, beam.pvalue.AsDict(met), () if units is None else beam.pvalue.AsList(units)
    )
    unit = "groups" if grouped else "records"
    problems = histogram | "TooSmall" >> beam.FlatMap(
        too_small, fractions=fractions, unit=unit
    ).with_output_types(str)
    return strata, problems
