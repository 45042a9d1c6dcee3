"""How many different values there are, and which come most often, in bounded memory.

Both are the same in whatever order parts are added up. Those that the field uses are not: KLL flips
coins, and what Frequent Items holds depends on what it held before (docs/adr).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms import batch
from transforms.batch import UInt64Array

Ints = npt.NDArray[np.int64]

KEPT = 1024  # hashes
_SHARES = 1024  # a value with less than this part of the values of its part is a rare one


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Distinct:
    """How many different values there are, by the smallest of their hashes.

    hashes: uint64[KEPT] at most, ascending, none of them twice. Source: Bar-Yossef et al., Counting
    Distinct Elements in a Data Stream (2002).
    """

    hashes: UInt64Array = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint64))

    @classmethod
    def of(cls, hashes: UInt64Array) -> Distinct:
        """Of the hashes of all values, uint64[n]."""
        ordered = np.sort(hashes)
        fresh = np.append(True, ordered[1:] != ordered[:-1]) if len(ordered) else slice(0)
        return cls(hashes=ordered[fresh][:KEPT].copy())

    @classmethod
    def sum(cls, several: Iterable[Distinct]) -> Distinct:
        """Of all values of several parts."""
        return cls.of(np.concatenate([np.zeros(0, np.uint64), *(one.hashes for one in several)]))

    @property
    def count(self) -> int:
        """Exact below KEPT; above it right to about 3 % (one standard deviation)."""
        if len(self.hashes) < KEPT:
            return len(self.hashes)
        return ((KEPT - 1) << 64) // (int(self.hashes[-1]) + 1)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TopValues:
    """How often values come; exactly, as long as there are few different ones.

    Of each part of the data a value goes to a level: level 0 if it makes up less than 1/1024 of the
    part or comes once, above that one level for each power of two of its share. A level holds
    `most` values: where there are more, level 0 is given up and each other one keeps the values of
    the smallest hashes, a choice that parts share. So a value that makes up as much of most parts
    competes with few others; its count is low by at most 1/1024 of all values.

    levels: int8[m]. values: string[m]. counts: int64[m]. By level and value. complete: level 0 is
    there, and all counts are exact.
    """

    most: int
    levels: npt.NDArray[np.int8]
    values: pa.StringArray
    counts: Ints
    complete: bool

    @classmethod
    def of(cls, values: pa.StringArray, counts: Ints, *, most: int) -> TopValues:
        """Of a part of the data: different values, and how often each comes."""
        shares = counts * _SHARES // max(int(counts.sum()), 1)
        levels = np.where(counts < 2, 0, np.frexp(shares.astype(np.float64))[1]).astype(np.int8)
        return _limited([(levels, values, counts)], most=most, complete=True)

    @classmethod
    def sum(cls, several: Sequence[TopValues]) -> TopValues:
        """Adds up those of at least one part."""
        if len(several) == 1:
            return several[0]
        return _limited(
            [(one.levels, one.values, one.counts) for one in several],
            most=several[0].most,
            complete=all(one.complete for one in several),
        )

    def ranked(self) -> tuple[pa.StringArray, Ints]:
        """(values, how often each comes), the most frequent first, then by value."""
        coded = self.values.dictionary_encode()
        sums = np.zeros(len(coded.dictionary), np.int64)
        np.add.at(sums, np.asarray(coded.indices), self.counts)
        table = pa.table({"value": coded.dictionary, "count": pa.array(sums)})
        order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("value", "ascending")])
        return coded.dictionary.take(order), sums[np.asarray(order)]


_Entries = tuple[npt.NDArray[np.int8], pa.StringArray, Ints]


def _limited(several: Sequence[_Entries], *, most: int, complete: bool) -> TopValues:
    """Adds up entries of the same level and value, and gives up those that are too many."""
    levels = np.concatenate([one for one, _, _ in several])
    values = pa.concat_arrays([one for _, one, _ in several])
    counts = np.concatenate([one for _, _, one in several])
    if len(several) > 1:
        coded = values.dictionary_encode()
        places = np.asarray(coded.indices).astype(np.int64) << 8 | levels
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
        if len(starts):
            counts = np.add.reduceat(counts[order], starts)
        levels = (ordered[starts] & 0xFF).astype(np.int8)
        values = coded.dictionary.take(pa.array(ordered[starts] >> 8))
    complete = complete and int((levels == 0).sum()) <= most
    kept = np.ones(len(levels), np.bool_) if complete else levels > 0
    for level in np.flatnonzero(np.bincount(levels[kept]) > most).tolist():
        rows = np.flatnonzero(levels == level)
        hashes = batch.hash_strings(values.take(pa.array(rows)))
        kept[rows[np.argsort(hashes, kind="stable")[most:]]] = False
    levels, values, counts = levels[kept], values.filter(pa.array(kept)), counts[kept]
    table = pa.table({"level": pa.array(levels), "value": values})
    order = np.asarray(
        pc.sort_indices(table, sort_keys=[("level", "ascending"), ("value", "ascending")])
    )
    return TopValues(
        most=most,
        levels=levels[order],
        values=values.take(pa.array(order)),
        counts=counts[order],
        complete=complete,
    )
