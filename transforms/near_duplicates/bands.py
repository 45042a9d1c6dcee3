"""Bands of hashes: records that may match share a band, and only these are compared.

Hamming distance: a hash has D + 1 bands of bits. Two hashes that differ in at most D bits are equal
in at least one band, so that no match is missed. If the records that share a band are many, they
are divided again: of D + k bands, two such hashes share at least k, and every choice of k bands
makes a key of more bits.

MinHash: r rows make a band, and two texts of similarity s share one of b bands with a probability
of 1 - (1 - s^r)^b (J. Leskovec, A. Rajaraman, J. Ullman, "Mining of Massive Datasets", 3.4.2). r is
the largest number with which this is at least 0.9999.

A match is found once, in the first band that its records share. Records of equal hashes make a star
around the smallest id instead of all pairs, and only this one is compared with others. If a band of
a bucket has more than a million matches, only those are kept that connect what all connect.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.model.data_type import NearDuplicates
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.near_duplicates.graph import A, B, spanning_forest
from recordmill.transforms.near_duplicates.image_hash import hamming
from recordmill.transforms.near_duplicates.pairs import (
    Indices,
    Pairs,
    group_edges,
    neighbours,
    shifted,
)

HASH = "hash"  # uint64, nullable: perceptual hash of an image
SIGNATURE = "signature"  # fixed_size_list<uint32>[128], nullable: MinHash signature of a text
DISTANCE = "distance"  # uint8: differing bits of a match of images
SIMILARITY = "similarity"  # float32: estimated similarity of a match of texts

PERMUTATIONS = 128  # values of a signature
MOST_DISTANCE = 12
LEAST_SIMILARITY = 0.5
LEAST_PROBABILITY = 0.9999

_BITS = 64
_GROUP = 2048  # records that share a band; more are divided again
_SHARED = 64  # about the records that should share a key then
_MOST_CHOSEN = 4  # bands that make such a key
_MOST_MATCHES = 1 << 20  # of a band in a bucket; if there are more, those that connect are kept
_SIGNATURES = 1 << 15  # pairs of signatures that are compared at a time
_COMPARED = 4  # bits of each value that are compared first
_PAIRS = 1 << 18  # pairs that are compared at a time, which fit the processor's cache

Values = npt.NDArray[np.unsignedinteger[Any]]


class Bands(abc.ABC):
    """Bands of hashes of one kind; `HammingBands` documents the members."""

    column: ClassVar[str]
    measure: ClassVar[str]

    @property
    @abc.abstractmethod
    def count(self) -> int: ...
    @abc.abstractmethod
    def values(self, column: Any) -> Any: ...
    @abc.abstractmethod
    def to_column(self, values: Any) -> pa.Array: ...
    @abc.abstractmethod
    def keys(self, values: Any) -> UInt64Array: ...
    @abc.abstractmethod
    def identities(self, values: Any) -> UInt64Array: ...
    @abc.abstractmethod
    def matches(self, values: Any, band: int, groups: Indices) -> Iterator[Pairs]: ...
    @property
    @abc.abstractmethod
    def most(self) -> int: ...
    @abc.abstractmethod
    def gaps(self, left: Any, right: Any) -> npt.NDArray[Any]: ...
    @abc.abstractmethod
    def measures(self, gaps: npt.NDArray[Any]) -> npt.NDArray[Any]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class HammingBands(Bands):
    """Bands of 64-bit hashes of images.

    distance: number of bits in which hashes of a match differ at most, 0 to 12.
    """

    distance: int = 4
    column: ClassVar[str] = HASH
    measure: ClassVar[str] = DISTANCE

    def __post_init__(self) -> None:
        if not 0 <= self.distance <= MOST_DISTANCE:
            raise ConfigError(
                f"{option_name('near_distance')}: expected 0 to {MOST_DISTANCE} bits, got"
                f" {self.distance}"
            )

    @property
    def count(self) -> int:
        """Number of bands."""
        return self.distance + 1

    def values(self, column: pa.Array) -> UInt64Array:
        """Return the values to compare, uint64[n], of a column without nulls."""
        return np.asarray(column)

    def to_column(self, values: UInt64Array) -> pa.Array:
        """Return the column of values, the inverse of `values`."""
        return pa.array(values)

    def keys(self, values: UInt64Array) -> UInt64Array:
        """Return the key of each band, uint64[n, bands]; pairs within the distance share one."""
        masked = values[:, None] & _masks(self.count)
        salts = np.array([batch.salt(band, "hamming") for band in range(self.count)], np.uint64)
        return batch.mix(masked ^ salts, 0)

    def identities(self, values: UInt64Array) -> UInt64Array:
        """Return numbers that are equal for equal hashes, uint64[n]."""
        return values

    def matches(self, values: UInt64Array, band: int, groups: Indices) -> Iterator[Pairs]:
        """Yield pairs of places of the matches whose first shared band is `band`.

        values: uint64[n], distinct, ordered by the key of the band. groups: int64[g + 1], the edges
        of the groups of values that share a key.
        """
        starts, ends = groups[:-1], groups[1:]
        large = ends - starts > _GROUP
        found = itertools.chain(
            neighbours(starts[~large], ends[~large], _PAIRS, self._filter(values)),
            *(
                shifted(self._within(values[start:end]), start)
                for start, end in zip(starts[large].tolist(), ends[large].tolist(), strict=True)
            ),
        )
        masks = _masks(self.count)[:band]
        for left, right in found:
            first = ((values[left] ^ values[right])[:, None] & masks).all(axis=1)
            yield left[first], right[first]

    @property
    def most(self) -> int:
        """Largest gap of a match."""
        return self.distance

    def gaps(self, left: UInt64Array, right: UInt64Array) -> npt.NDArray[np.uint8]:
        """Return the numbers of bits in which pairs differ, uint8[n]."""
        return hamming(left, right)

    def measures(self, gaps: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Return the distances of pairs with these gaps, uint8[n]."""
        return gaps.astype(np.uint8)

    def _filter(self, values: UInt64Array) -> Callable[[Indices, Indices], npt.NDArray[np.bool_]]:
        def near(left: Indices, right: Indices) -> npt.NDArray[np.bool_]:
            return self.gaps(values[left], values[right]) <= self.most

        return near

    def _within(self, values: UInt64Array) -> Iterator[Pairs]:
        """Yield the pairs of many values that are within the distance, by keys of several bands."""
        chosen = 2  # they share one already
        while chosen < _MOST_CHOSEN and len(values) > _SHARED << (
            _BITS * chosen // (self.distance + chosen)
        ):
            chosen += 1
        masks = _masks(self.distance + chosen)
        for bands in itertools.combinations(range(len(masks)), chosen):
            keys = values & np.bitwise_or.reduce(masks[list(bands)])
            order = np.argsort(keys, kind="stable")
            edges = group_edges(keys[order])
            ordered = values[order]
            near = self._filter(ordered)
            for left, right in neighbours(edges[:-1], edges[1:], _PAIRS, near):
                equal = ((ordered[left] ^ ordered[right])[:, None] & masks) == 0
                # The pair is found with the first bands that it shares, and not again.
                first = np.cumsum(equal, axis=1)[:, bands[-1]] == chosen
                first &= equal[:, bands].all(axis=1)
                yield order[left[first]], order[right[first]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MinHashBands(Bands):
    """Bands of MinHash signatures of texts.

    similarity: estimated similarity of a match at least, 0.5 to 1.

    The upper halves of values are left out: 16 bits differ for different values but for one of
    65,536, and take half the space. Pairs that share a band are compared by four bits of each value
    first, 64 values at a time: texts with the same boilerplate share bands without being similar.
    """

    similarity: float = 0.8
    column: ClassVar[str] = SIGNATURE
    measure: ClassVar[str] = SIMILARITY

    def __post_init__(self) -> None:
        if not LEAST_SIMILARITY <= self.similarity <= 1:
            raise ConfigError(
                f"{option_name('near_similarity')}: expected {LEAST_SIMILARITY:g} to 1, got"
                f" {self.similarity:g}"
            )

    @property
    def rows(self) -> int:
        """Number of rows of a band."""
        return max(
            rows
            for rows in range(1, PERMUTATIONS + 1)
            if _shares_band(self.similarity, rows) >= LEAST_PROBABILITY
        )

    @property
    def count(self) -> int:
        """Number of bands."""
        return PERMUTATIONS // self.rows

    @property
    def probability(self) -> float:
        """Probability that two texts of this similarity share a band."""
        return _shares_band(self.similarity, self.rows)

    def values(self, column: pa.FixedSizeListArray) -> npt.NDArray[np.uint16]:
        """Return the values to compare, uint16[n, 128], of a column without nulls."""
        return np.asarray(column.flatten()).astype(np.uint16).reshape(-1, PERMUTATIONS)

    def to_column(self, values: npt.NDArray[np.uint16]) -> pa.FixedSizeListArray:
        """Return the column of values, the inverse of `values`."""
        return fixed_lists(values)

    def keys(self, values: npt.NDArray[np.uint16]) -> UInt64Array:
        """Return the key of each band, uint64[n, bands]."""
        rows, count = self.rows, self.count
        bands = values[:, : rows * count].reshape(-1, count, rows)
        salts = np.array([batch.salt(band, "minhash") for band in range(count)], np.uint64)
        found = np.broadcast_to(salts, bands.shape[:2])
        for row in range(rows):
            found = batch.mix(found ^ bands[:, :, row], 0)
        return found

    def identities(self, values: npt.NDArray[np.uint16]) -> UInt64Array:
        """Return numbers that are equal for equal signatures, uint64[n]."""
        found = np.zeros(len(values), np.uint64)
        for words in np.ascontiguousarray(values).view(np.uint64).T:
            found = batch.mix(found ^ words, batch.salt(0, "signature"))
        return found

    def matches(
        self, values: npt.NDArray[np.uint16], band: int, groups: Indices
    ) -> Iterator[Pairs]:
        """Yield pairs of places of the matches whose first shared band is `band`.

        values: uint16[n, 128]; otherwise as `HammingBands.matches`.
        """

        planes = _bit_planes(values)

        def may_be_near(left: Indices, right: Indices) -> npt.NDArray[np.bool_]:
            """Compare four bits of each value, which differ in at most as many values."""
            gaps: Any = 0
            for word in planes:
                differ = word[0][left] ^ word[0][right]
                for plane in word[1:]:
                    differ |= plane[left] ^ plane[right]
                gaps = gaps + np.bitwise_count(differ)
            found: npt.NDArray[np.bool_] = gaps <= self.most
            return found

        earlier = self.keys(values)[:, :band]
        for left, right in neighbours(groups[:-1], groups[1:], _SIGNATURES, may_be_near):
            first = (earlier[left] != earlier[right]).all(axis=1)
            left, right = left[first], right[first]
            near = self.gaps(values[left], values[right]) <= self.most
            yield left[near], right[near]

    @property
    def most(self) -> int:
        """Largest gap of a match."""
        return PERMUTATIONS - math.ceil(self.similarity * PERMUTATIONS)

    def gaps(
        self, left: npt.NDArray[np.uint16], right: npt.NDArray[np.uint16]
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of values in which pairs differ, int64[n]."""
        gaps: npt.NDArray[np.int64] = np.count_nonzero(left != right, axis=-1)
        return gaps

    def measures(self, gaps: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the estimated similarities of pairs with these gaps, float32[n]."""
        return (1 - gaps / PERMUTATIONS).astype(np.float32)


def bands_of(near: NearDuplicates) -> Bands:
    """Return the bands of hashes by which near duplicates meet."""
    if near.distance is not None:
        return HammingBands(distance=near.distance)
    assert near.similarity is not None, "a distance or a similarity"
    return MinHashBands(similarity=near.similarity)


def matches_of_band(ids: UInt64Array, values: Values, *, band: int, bands: Bands) -> pa.RecordBatch:
    """Return the matches among records that may share the key of one band.

    ids: uint64[n], distinct. values: those that `bands.values` returns, of each record. Returns
    rows with the columns a and b (uint64, a < b) and distance or similarity, each pair once.
    """
    identities = bands.identities(values)
    order = np.lexsort((ids, identities))
    ids, values, identities = ids[order], values[order], identities[order]
    edges = group_edges(identities)
    found = [_stars(edges)] if band == 0 else []
    firsts = edges[:-1]
    keys = bands.keys(values[firsts])[:, band]
    by_key = firsts[np.lexsort((ids[firsts], keys))]
    keys.sort()
    count = 0
    for left, right in bands.matches(values[by_key], band, group_edges(keys)):
        found.append((by_key[left], by_key[right]))
        count += len(left)
        if count > _MOST_MATCHES:
            left, right = _joined(found)
            kept = spanning_forest(ids[left], ids[right])
            found, count = [(left[kept], right[kept])], 0
    left, right = _joined(found)
    return _rows_of(ids[left], ids[right], bands.gaps(values[left], values[right]), bands)


def matches_of_contents(
    ids: UInt64Array, contents: pa.Array, identities: UInt64Array, *, bands: Bands
) -> pa.RecordBatch:
    """Return the matches among records of equal content but different identities.

    ids: uint64[n], distinct. contents: binary(16)[n]. Returns rows as `matches_of_band` does, with
    the measure of equal records.
    """
    codes, _ = batch.encode(contents)
    order = np.lexsort((ids, identities, codes))
    ids, identities, codes = ids[order], identities[order], codes[order]
    first = np.ones(len(ids), np.bool_)  # of those of the same identity, which match already
    first[1:] = (codes[1:] != codes[:-1]) | (identities[1:] != identities[:-1])
    ids, codes = ids[first], codes[first]
    ids = ids[np.lexsort((ids, codes))]
    left, right = _stars(group_edges(codes.astype(np.uint64)))
    return _rows_of(ids[left], ids[right], np.zeros(len(left), np.int64), bands)


def _stars(edges: Indices) -> Pairs:
    """Return the pairs of the first place of each group with its other places."""
    firsts = np.repeat(edges[:-1], np.diff(edges))
    others = np.flatnonzero(firsts != np.arange(len(firsts)))
    return firsts[others], others


def _rows_of(
    left: UInt64Array, right: UInt64Array, gaps: npt.NDArray[Any], bands: Bands
) -> pa.RecordBatch:
    a, b = np.minimum(left, right), np.maximum(left, right)
    order = np.lexsort((b, a))
    columns = (a[order], b[order], bands.measures(gaps[order]))
    return pa.RecordBatch.from_arrays([*map(pa.array, columns)], names=[A, B, bands.measure])


def _joined(pairs: list[Pairs]) -> Pairs:
    none = np.zeros(0, np.int64)
    left, right = zip((none, none), *pairs, strict=True)
    return np.concatenate(left), np.concatenate(right)


def _bit_planes(values: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint64]:
    """Return bits 0 to 3 of the values of signatures: uint64[words, bits, n], 64 values a word."""
    bits = (values[:, :, None] >> np.arange(_COMPARED, dtype=np.uint16) & 1).astype(np.bool_)
    packed = np.ascontiguousarray(np.packbits(bits.transpose(0, 2, 1), axis=2))
    return np.ascontiguousarray(packed.view(np.uint64).transpose(2, 1, 0))


def _masks(count: int) -> UInt64Array:
    """Return the bits of each of `count` bands of 64 bits, uint64[count]."""
    edges = [_BITS * band // count for band in range(count + 1)]
    return np.array(
        [(1 << end) - (1 << start) for start, end in itertools.pairwise(edges)], np.uint64
    )


def _shares_band(similarity: float, rows: int) -> float:
    """Return the probability that texts of this similarity share a band of this many rows."""
    return 1 - (1 - similarity**rows) ** (PERMUTATIONS // rows)
