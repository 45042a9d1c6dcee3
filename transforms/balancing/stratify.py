"""Stratified splits: exact fractions within every class, by largest remainder and split rank.

If records have groups, whole groups are divided by `group_division`, and single records fill the
splits up.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import Staging
from recordmill.notes import Note
from recordmill.storage.files import Location
from recordmill.transforms.balancing.group_division import (
    GroupDivision,
    count_groups,
    divide_groups,
    too_small,
)
from recordmill.transforms.balancing.held_labels import HeldLabels
from recordmill.transforms.balancing.quotas import Cuts, FindThresholds
from recordmill.transforms.balancing.stratum_division import divide_strata
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.rank_cuts import Histogram, RankCut, Threshold, thresholds
from recordmill.transforms.model.splits import (
    UNIT_KEY,
    Fractions,
    Strata,
    apportion,
    assign_strata,
    strata_rows,
)
from recordmill.transforms.staged.arrow_files import arrow_file, read_arrow
from recordmill.transforms.staged.batches import RowScan


def unassigned(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that have a stratum, and no split from the input."""
    mask = batch.strata(rows).is_valid()
    if batch.SPLIT in rows.schema.names:
        mask = pc.and_(mask, rows[batch.SPLIT].is_null())
    return rows.filter(mask)


def split_cuts(
    histogram: Histogram, held: HeldLabels | None = None, *, fractions: Fractions, seed: int = 0
) -> dict[str, tuple[RankCut, ...]]:
    """Return {label: the cuts between its splits}, for classes large enough for every split.

    held: counts of label sets, if the labels are strata of these.
    """
    totals = {label: n for label, n in histogram.totals().items() if label is not None}
    if held is None:
        fit = {label: n for label, n in totals.items() if n >= len(fractions)}
        sizes = {label: apportion(n, fractions) for label, n in fit.items()}
    else:
        sizes = divide_strata(totals, held.shares(1), fractions, seed=seed)
    return _cuts_between(histogram, sizes)


def _cuts_between(
    histogram: Histogram, sizes: Mapping[str, Sequence[int]]
) -> dict[str, tuple[RankCut, ...]]:
    """Return {label: the cuts between its splits}. sizes: {label: its records in each split}."""
    return {
        label: tuple(RankCut.of(row, int(end)) for end in np.cumsum(sizes[label])[:-1])
        for label, row in zip(histogram.labels, histogram.counts, strict=True)
        if label is not None and label in sizes
    }


def _units(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (partition, rows of (unit, label, count, name)) for a batch."""
    if batch.SPLIT in rows.schema.names:
        rows = rows.filter(rows[batch.SPLIT].is_null())
    units = batch.unit_hashes(rows)
    names = rows[batch.GROUP].cast(pa.string())
    columns = {
        "unit": pa.array(units),
        "label": batch.strata(rows).cast(pa.string()),
        "count": pa.array(np.ones(len(rows), np.int64)),
        "name": names,
    }
    table = pa.RecordBatch.from_pydict(columns)
    partition = batch.scale(units, limits.PARTITIONS)
    for part in np.unique(partition).tolist():
        yield part, table.filter(pa.array(partition == part))


def _count(partition: tuple[int, Iterable[pa.RecordBatch]]) -> pa.RecordBatch:
    return count_groups(list(partition[1]))


def _whole_groups(counted: pa.RecordBatch) -> pa.RecordBatch:
    return counted.filter(pc.invert(counted["alone"]))


def _rank_singles(counted: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    singles = counted.filter(counted["alone"])
    ranks = batch.mix(np.asarray(singles["unit"]), batch.salt(seed, "split"))
    keys = pa.repeat(UNIT_KEY, len(singles))
    return pa.RecordBatch.from_pydict(
        {"label": singles["label"], "rank": pa.array(ranks), "key": keys}
    )


def _rank_rows(rows: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    return strata_rows(unassigned(rows), grouped=False, seed=seed)


def _divide(
    histogram: Histogram, groups: Sequence[pa.RecordBatch], fractions: Fractions, seed: int
) -> tuple[dict[str, tuple[RankCut, ...]], GroupDivision]:
    """Return the cuts between the single records of each class, and the division of groups."""
    singles = {label: n for label, n in histogram.totals().items() if label is not None}
    division = divide_groups(groups, singles, fractions=fractions, seed=seed)
    return _cuts_between(histogram, division.singles), division


def _cuts_of(divided: tuple[Cuts, GroupDivision]) -> Cuts:
    return divided[0]


def _too_small(
    histogram: Histogram, held: HeldLabels | None = None, *, fractions: Fractions
) -> list[str]:
    counts = {label: n for label, n in histogram.totals().items() if label is not None}
    return too_small(counts if held is None else held.by_class, fractions, "records")


def _strata(cuts: Cuts, found: Mapping[str, tuple[Threshold, ...]]) -> Strata:
    return Strata({label: found.get(label) or thresholds(one, None) for label, one in cuts.items()})


def _grouped_strata(
    divided: tuple[Cuts, GroupDivision], found: Mapping[str, tuple[Threshold, ...]]
) -> Strata:
    cuts, division = divided
    return dataclasses.replace(_strata(cuts, found), groups=division.groups)


def _ranking(rank: Callable[..., pa.RecordBatch], seed: int) -> beam.PTransform:
    return beam.Map(rank, seed=seed).with_output_types(pa.RecordBatch)


class FoundStrata(NamedTuple):
    """The strata, as the only element (no element without rows), with problems and notes.

    problems: sentences about classes that are too small. notes: classes that are not close to their
      fractions because groups stay whole.
    """

    strata: beam.PCollection[Strata]
    problems: beam.PCollection[str]
    notes: beam.PCollection[Note] | None = None


def find_strata(
    scan: RowScan,
    *,
    fractions: Fractions,
    seed: int,
    grouped: bool,
    held: beam.pvalue.AsSingleton | None = None,
) -> FoundStrata:
    """Find the strata.

    scan: reads the rows of all batches. grouped: whether rows have groups. held: counts of label
      sets, if rows may have several labels.
    """
    if grouped:
        return _find_grouped_strata(scan, fractions=fractions, seed=seed, sets=held is not None)
    histogram = (
        scan("CountStrata")
        | "RankToCountStrata" >> _ranking(_rank_rows, seed)
        | "StrataHistogram" >> beam.Map(Histogram.of_ranked)
        | "AddUpStrata" >> beam.CombineGlobally(Histogram.sum).without_defaults()
    )
    reached = histogram | "StrataCuts" >> beam.Map(split_cuts, held, fractions=fractions, seed=seed)
    cuts = beam.pvalue.AsSingleton(reached, default_value={})
    met = (
        scan("CutStrata", cuts)
        | "RankToCutStrata" >> _ranking(_rank_rows, seed)
        | "FindStrataThresholds" >> FindThresholds(cuts)
    )
    strata = reached | "Strata" >> beam.Map(_strata, beam.pvalue.AsDict(met))
    small = beam.FlatMap(_too_small, held, fractions=fractions).with_output_types(str)
    problems = histogram | "TooSmall" >> small
    return FoundStrata(strata, problems)


def _find_grouped_strata(
    scan: RowScan, *, fractions: Fractions, seed: int, sets: bool
) -> FoundStrata:
    """Find the strata of groups. sets: strata are sets of labels, which few groups may hold."""
    counted = (
        scan("ReadUnits")
        | "Units" >> beam.FlatMap(_units).with_output_types(tuple[int, pa.RecordBatch])
        | "GroupByUnit" >> beam.GroupByKey()
        | "CountUnits" >> beam.Map(_count).with_output_types(pa.RecordBatch)
    )
    groups = counted | "WholeGroups" >> beam.Map(_whole_groups).with_output_types(pa.RecordBatch)
    ranked = counted | "RankSingles" >> _ranking(_rank_singles, seed)
    divided = (
        ranked
        | "StrataHistogram" >> beam.Map(Histogram.of_ranked)
        | "AddUpStrata" >> beam.CombineGlobally(Histogram.sum).without_defaults()
        | "DivideGroups" >> beam.Map(_divide, beam.pvalue.AsList(groups), fractions, seed)
    )
    cuts = beam.pvalue.AsSingleton(divided | "Cuts" >> beam.Map(_cuts_of), default_value={})
    met = ranked | "FindStrataThresholds" >> FindThresholds(cuts)
    division = divided | "Division" >> beam.Map(lambda one: one[1])
    return FoundStrata(
        divided | "Strata" >> beam.Map(_grouped_strata, beam.pvalue.AsDict(met)),
        division
        | "TooSmall"
        >> beam.FlatMap(lambda one: () if sets else one.problems).with_output_types(str),
        division | "Notes" >> beam.FlatMap(lambda one: one.notes).with_output_types(Note),
    )


@dataclasses.dataclass(frozen=True)
class SplitByStratum:
    """The step that assigns splits by the strata in a file of staging."""

    name: str
    fractions: Fractions
    seed: int

    def __call__(self, rows: pa.RecordBatch, staging: Staging) -> pa.RecordBatch:
        strata = load_strata(self.name, staging)
        return assign_strata(rows, fractions=self.fractions, strata=strata, seed=self.seed)


def store_strata(strata: Strata, *, staging: Staging) -> str:
    """Write strata into staging and return the name of the file, which follows from its content."""
    ends = [[*thresholds] for thresholds in strata.thresholds.values()]
    table = {
        "label": pa.array([*strata.thresholds], pa.string()),
        "rank": pa.array([[str(end.rank) for end in one] for one in ends], pa.list_(pa.string())),
        "key": pa.array([[end.key for end in one] for one in ends], pa.list_(pa.string())),
    }
    given = [pa.RecordBatch.from_pydict(table)]
    if strata.groups is not None:
        given.append(strata.groups)
    data = [arrow_file(rows, staging.intermediate) for rows in given]
    digest = hashlib.sha256(b"".join(data)).hexdigest()[:16]
    staging.place("strata").make_dirs()
    for place, content in zip(_strata_places(f"strata/{digest}", staging), data, strict=False):
        place.write_bytes(content)
    return f"strata/{digest}"


@functools.lru_cache(maxsize=4)
def load_strata(name: str, staging: Staging) -> Strata:
    """Read strata, once in each process."""
    thresholds, groups = _strata_places(name, staging)
    rows = read_arrow(thresholds).to_pylist()
    return Strata(
        {
            row["label"]: tuple(
                Threshold(int(rank), key) for rank, key in zip(row["rank"], row["key"], strict=True)
            )
            for row in rows
        },
        read_arrow(groups) if groups.exists() else None,
    )


def _strata_places(name: str, staging: Staging) -> tuple[Location, Location]:
    return staging.place(f"{name}.arrow"), staging.place(f"{name}-units.arrow")
