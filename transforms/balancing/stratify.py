"""Stratified splits: exact fractions within every class, by largest remainder and split rank.

Where records have groups, the unit is the group, and its class is the majority of its records.
"""

import dataclasses
import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.balancing.quotas import FindThresholds
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
from recordmill.transforms.staged.arrow_files import open_arrow
from recordmill.transforms.staged.batches import RowScan


def unassigned(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that have a stratum, and no split from the input."""
    mask = batch.strata(rows).is_valid()
    if batch.SPLIT in rows.schema.names:
        mask = pc.and_(mask, rows[batch.SPLIT].is_null())
    return rows.filter(mask)


def split_cuts(histogram: Histogram, *, fractions: Fractions) -> dict[str, tuple[RankCut, ...]]:
    """Return {label: the cuts between its splits}, for classes large enough for every split."""
    cuts = {}
    for label, row in zip(histogram.labels, histogram.counts, strict=True):
        total = int(row.sum())
        if label is not None and total >= len(fractions):
            ends = np.cumsum(apportion(total, fractions))[:-1]
            cuts[label] = tuple(RankCut.of(row, int(end)) for end in ends)
    return cuts


def too_small(histogram: Histogram, *, fractions: Fractions, unit: str) -> list[str]:
    """Return a sentence about the classes that have fewer units than splits; none if all suffice.

    unit: plural noun for the units, such as `groups`.
    """
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
        f" {', '.join(fractions)}; too few in {shown}{more}: add records, remove the class, or"
        " split without --stratify"
    ]


def _units(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (partition, rows of (unit uint64, label string)) for a batch."""
    units = batch.unit_hashes(rows)
    table = pa.RecordBatch.from_pydict({"unit": pa.array(units), "label": batch.strata(rows)})
    partition = batch.scale(units, limits.PARTITIONS)
    for part in np.unique(partition).tolist():
        yield part, table.filter(pa.array(partition == part))


def majority(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the class of each unit: (unit uint64, label string), by ascending unit.

    The class is that of most records of the unit; ties go to the first name.
    """
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


def _majority(partition: tuple[int, Iterable[pa.RecordBatch]]) -> pa.RecordBatch:
    return majority(partition[1])


def _rank_units(units: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    ranks = batch.mix(np.asarray(units["unit"]), batch.salt(seed, "split"))
    keys = pa.repeat(UNIT_KEY, len(units))
    return pa.RecordBatch.from_pydict(
        {"label": units["label"], "rank": pa.array(ranks), "key": keys}
    )


def _rank_rows(rows: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    return strata_rows(unassigned(rows), majority=None, seed=seed)


def _histogram(ranked: pa.RecordBatch) -> Histogram:
    return Histogram.of(ranked["label"], np.asarray(ranked["rank"]))


def _strata(
    cuts: Mapping[str, tuple[RankCut, ...]],
    found: Mapping[str, tuple[Threshold, ...]],
    units: Sequence[pa.RecordBatch],
) -> Strata:
    ends = {label: found.get(label) or thresholds(one, None) for label, one in cuts.items()}
    return Strata(ends, batch.concat(units).sort_by("unit") if units else None)


def _ranking(rank: Callable[..., pa.RecordBatch], seed: int) -> beam.PTransform:
    return beam.Map(rank, seed=seed).with_output_types(pa.RecordBatch)


def find_strata(
    scan: RowScan, *, fractions: Fractions, seed: int, grouped: bool
) -> tuple[beam.PCollection[Strata], beam.PCollection[str]]:
    """Return the strata, as the only element of a PCollection (empty without rows), and problems.

    A problem is a sentence about classes that are too small. scan: reads the rows of all batches.
    grouped: whether the rows have groups.
    """
    units = None
    if grouped:
        units = (
            scan("ReadUnits")
            | "Unassigned" >> beam.Map(unassigned).with_output_types(pa.RecordBatch)
            | "Units" >> beam.FlatMap(_units).with_output_types(tuple[int, pa.RecordBatch])
            | "GroupByUnit" >> beam.GroupByKey()
            | "Majority" >> beam.Map(_majority).with_output_types(pa.RecordBatch)
        )
        ranked = units | "RankUnits" >> _ranking(_rank_units, seed)
    else:
        ranked = scan("CountStrata") | "RankToCountStrata" >> _ranking(_rank_rows, seed)
    histogram = (
        ranked
        | "StrataHistogram" >> beam.Map(_histogram)
        | "AddUpStrata" >> beam.CombineGlobally(Histogram.sum).without_defaults()
    )
    reached = histogram | "StrataCuts" >> beam.Map(split_cuts, fractions=fractions)
    cuts = beam.pvalue.AsSingleton(reached, default_value={})
    if not grouped:
        ranked = scan("CutStrata", cuts) | "RankToCutStrata" >> _ranking(_rank_rows, seed)
    met = ranked | "FindStrataThresholds" >> FindThresholds(cuts)
    strata = reached | "Strata" >> beam.Map(
        _strata, beam.pvalue.AsDict(met), () if units is None else beam.pvalue.AsList(units)
    )
    unit = "groups" if grouped else "records"
    problems = histogram | "TooSmall" >> beam.FlatMap(
        too_small, fractions=fractions, unit=unit
    ).with_output_types(str)
    return strata, problems


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
    data = [batch.to_buffer(pa.RecordBatch.from_pydict(table), pa.ipc.new_file)]
    if strata.majority is not None:
        data.append(batch.to_buffer(strata.majority, pa.ipc.new_file))
    digest = hashlib.sha256(b"".join(data)).hexdigest()[:16]
    staging.place("strata").make_dirs()
    for place, content in zip(_strata_places(f"strata/{digest}", staging), data, strict=False):
        place.write_bytes(content)
    return f"strata/{digest}"


@functools.lru_cache(maxsize=4)
def load_strata(name: str, staging: Staging) -> Strata:
    """Read strata, once in each process."""
    thresholds, majority = _strata_places(name, staging)
    rows = pa.ipc.open_file(open_arrow(thresholds)).get_batch(0).to_pylist()
    return Strata(
        {
            row["label"]: tuple(
                Threshold(int(rank), key) for rank, key in zip(row["rank"], row["key"], strict=True)
            )
            for row in rows
        },
        pa.ipc.open_file(open_arrow(majority)).get_batch(0) if majority.exists() else None,
    )


def _strata_places(name: str, staging: Staging) -> tuple[Location, Location]:
    return staging.place(f"{name}.arrow"), staging.place(f"{name}-units.arrow")
