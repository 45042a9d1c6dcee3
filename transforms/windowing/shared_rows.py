"""Series that hold the same rows, such as overlapping exports, found by a sample of their rows."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.windowing.time_survey import SERIES, TIME

_SAMPLED = 4096  # rows of the sample, over all series
_LEAST = 8  # equal sampled rows for a pair of series to share rows
_MOST = 0.9  # least fraction of equal rows among those at times that both series have
# Least fraction of distinct rows among the equal ones: values that recur match by chance.
_DISTINCT = 0.5
_COMPARED = 4  # series with the same row that are compared in pairs
_RANK = batch.salt(0, "sampled times")
_UNIT = batch.salt(0, "sampled series")


def largest_rank(rows: int) -> int:
    """Return the largest rank of the sampled times, given the number of rows of all series."""
    return (_SAMPLED << 64) // max(rows, _SAMPLED) - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowSample:
    """Rows of series at sampled times, the same times in every series.

    units: names of the series, or of their groups. rows: (rank of the time, rank of the unit, hash
    of the values, index of the unit), sorted; those with the smallest ranks of all rows. Rows that
    repeat the values before them are left out, because the rows of idle machines are alike.
    """

    units: Sequence[str] = ()
    rows: Sequence[Sequence[int]] = ()

    @classmethod
    def of(
        cls, rows: pa.RecordBatch, *, largest: int, by_group: bool, without: Iterable[str] = ()
    ) -> RowSample:
        """Sample rows that are ordered by series and time.

        largest: largest rank of a sampled time. by_group: whether units are groups.
        without: columns that are not compared.
        """
        names = [field.name for field in user_fields(rows.schema) if field.name not in without]
        if not len(rows) or not names:
            return cls()
        ranks = batch.mix(np.asarray(rows[TIME]).astype(np.uint64), _RANK)
        kept = np.flatnonzero(ranks <= np.uint64(largest))
        if not len(kept):
            return cls()
        some = rows.take(pa.array(np.concatenate([kept, np.maximum(kept - 1, 0)])))
        series, units = batch.encode(some[SERIES])
        codes = series
        if by_group:
            codes, units = batch.encode(pc.coalesce(some[batch.GROUP], some[SERIES]))
        values = _hashes(some.select(names))
        count = len(kept)
        changed = (values[:count] != values[count:]) | (series[:count] != series[count:])
        of_units = batch.mix(batch.hash_strings(units), _UNIT)
        columns = (ranks[kept], of_units[codes[:count]], values[:count])
        texts = batch.decode(codes[:count], units.to_pylist())
        found = zip(
            *(one[changed].tolist() for one in columns),
            texts.filter(changed).to_pylist(),
            strict=True,
        )
        return cls._smallest(found)

    @classmethod
    def sum(cls, samples: Iterable[RowSample]) -> RowSample:
        """Return the sample of the rows of all samples."""
        return cls._smallest(row for sample in samples for row in sample._named())

    @classmethod
    def _smallest(cls, rows: Iterable[tuple[int, int, int, str]]) -> RowSample:
        """Return the sample of rows with names in place of indices."""
        found = heapq.nsmallest(_SAMPLED, rows)
        units = sorted({name for *_, name in found})
        index = {name: at for at, name in enumerate(units)}
        return cls(units=units, rows=[[*row, index[name]] for *row, name in found])

    def _named(self) -> Iterator[tuple[int, int, int, str]]:
        for rank, of_unit, values, unit in self.rows:
            yield rank, of_unit, values, self.units[unit]

    def pairs(self) -> list[tuple[str, str]]:
        """Return the sorted pairs of units with equal rows at most of the times that both have."""
        times: dict[int, set[int]] = collections.defaultdict(set)
        equal: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
        for rank, at_time in itertools.groupby(self.rows, key=lambda row: row[0]):
            alike: dict[int, set[int]] = collections.defaultdict(set)
            for _, _, values, unit in at_time:
                times[unit].add(rank)
                alike[values].add(unit)
            for values, some in alike.items():
                for pair in itertools.combinations(sorted(some)[:_COMPARED], 2):
                    equal[pair].append(values)
        return sorted(
            (self.units[one], self.units[other])
            for (one, other), values_of in equal.items()
            if len(values_of) >= max(_LEAST, _MOST * len(times[one] & times[other]))
            and len(set(values_of)) >= _DISTINCT * len(values_of)
        )


def _hashes(rows: pa.RecordBatch) -> batch.UInt64Array:
    """Return a hash of the values of each row: uint64[n]."""
    columns = {
        name: column.cast(pa.float64()).view(pa.int64())
        if pa.types.is_floating(column.type)
        else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    }
    return batch.hash_rows(pa.record_batch(columns))[0]
