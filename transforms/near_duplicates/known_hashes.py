"""Hashes of the records of other datasets, and the search for the most similar one.

The hashes are in one file, which workers map into memory. A record is compared with those that
share a band with it, so that neither a shuffle nor the order of the records matters.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.near_duplicates.bands import Bands
from recordmill.transforms.near_duplicates.pairs import Indices
from recordmill.transforms.staged.arrow_files import arrow_file, read_arrow

_KEY = "key"
_AT_ONCE = 1 << 18  # pairs that are compared at a time, if one record does not have more


class SimilarRecords(NamedTuple):
    """The most similar known record of each row that has one.

    rows: int64[m], ascending. keys: string[m], keys of these records. measures: distances or
    similarities of the pairs.
    """

    rows: Indices
    keys: pa.Array
    measures: npt.NDArray[Any]


class _Known(NamedTuple):
    """Known hashes: their keys, the values to compare, and (order, ordered keys) of each band."""

    keys: pa.Array
    values: Any
    by_band: tuple[tuple[Indices, UInt64Array], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownHashes:
    """Hashes of the records of other datasets, as a file of `write_hashes`.

    place: the file in staging. bands: bands of the hashes.
    """

    place: Location
    bands: Bands

    def most_similar(self, hashes: pa.Array) -> SimilarRecords:
        """Return the most similar known record of each row, of equal ones the smallest key.

        hashes: uint64 or fixed_size_list<uint32>[128], null for records without a hash.
        """
        known = _load(self)
        valid = np.flatnonzero(np.asarray(hashes.is_valid()))
        values = self.bands.values(hashes.drop_null())
        # The gap and the place of the best record so far, as one number.
        best = np.full(len(values), np.iinfo(np.int64).max)
        keys = self.bands.keys(values)
        for band, (order, ordered) in enumerate(known.by_band):
            starts = np.searchsorted(ordered, keys[:, band], "left")
            counts = np.searchsorted(ordered, keys[:, band], "right") - starts
            for first, end in _blocks(counts):
                some = counts[first:end]
                rows = np.repeat(np.arange(first, end), some)
                steps = np.arange(len(rows)) - np.repeat(np.cumsum(some) - some, some)
                others = order[starts[rows] + steps]
                gaps = self.bands.gaps(values[rows], known.values[others]).astype(np.int64)
                near = gaps <= self.bands.most
                np.minimum.at(best, rows[near], gaps[near] << 32 | others[near])
        found = np.flatnonzero(best < np.iinfo(np.int64).max)
        return SimilarRecords(
            valid[found],
            known.keys.take(pa.array(best[found] & 0xFFFF_FFFF)),
            self.bands.measures(best[found] >> 32),
        )


def write_hashes(rows: pa.RecordBatch, hashes: KnownHashes) -> None:
    """Write the file of hashes, given the keys and hashes of records.

    The file has one record for each hash, the one with the smallest key.
    """
    bands, values = hashes.bands, rows[batch.NEAR]
    rows = pa.RecordBatch.from_arrays([rows[batch.KEY], values], names=[_KEY, bands.column])
    rows = rows.filter(values.is_valid()).sort_by(_KEY)
    identities = bands.identities(bands.values(rows[bands.column]))
    rows = rows.take(pa.array(np.sort(np.unique(identities, return_index=True)[1])))
    hashes.place.write_bytes(arrow_file(rows, hashes.place))


def _blocks(counts: Indices) -> list[tuple[int, int]]:
    """Return ranges of rows that have about `_AT_ONCE` pairs each, or are one row."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(_AT_ONCE, total, _AT_ONCE), "left") + 1
    edges = np.unique([0, *cuts, len(counts)]).tolist()
    return list(itertools.pairwise(edges))


@functools.lru_cache(maxsize=1)
def _load(known: KnownHashes) -> _Known:
    rows = read_arrow(known.place)
    values = known.bands.values(rows[known.bands.column])
    by_band = []
    for keys in known.bands.keys(values).T:
        order = np.argsort(keys, kind="stable")
        by_band.append((order, keys[order]))
    return _Known(rows[_KEY], values, tuple(by_band))
