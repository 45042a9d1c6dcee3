"""Bands lose no pair that they promise, and every match is found once."""

import numpy as np
import pyarrow as pa
import pytest

from recordmill.errors import ConfigError
from recordmill.transforms.near_duplicates import bands as bands_module
from recordmill.transforms.near_duplicates import pairs
from recordmill.transforms.near_duplicates.bands import (
    HammingBands,
    MinHashBands,
    matches_of_band,
)
from recordmill.transforms.near_duplicates.graph import components


def flipped(hashes, counts, rng):
    """Hashes with exactly this many bits changed in each."""
    out = hashes.copy()
    for place, count in enumerate(counts.tolist()):
        for bit in rng.choice(64, count, replace=False).tolist():
            out[place] ^= np.uint64(1 << bit)
    return out


def all_matches(ids, values, bands):
    tables = [matches_of_band(ids, values, band=band, bands=bands) for band in range(bands.count)]
    found = pa.Table.from_batches(tables).to_pydict()
    matches = [*zip(*found.values(), strict=True)]
    assert len({match[:2] for match in matches}) == len(matches)
    return set(matches)


@pytest.mark.parametrize("distance", range(13))
def test_hashes_within_the_distance_share_a_band(distance):
    rng = np.random.default_rng(distance)
    hashes = rng.integers(0, 2**64, 3000, np.uint64)
    near = flipped(hashes, np.full(3000, distance), rng)
    bands = HammingBands(distance=distance)
    keys = bands.keys(hashes)
    assert keys.shape == (3000, distance + 1)
    assert (keys == bands.keys(near)).any(axis=1).all()


@pytest.mark.parametrize(
    ("distance", "group"), [(0, 1024), (4, 1024), (12, 1024), (0, 8), (1, 8), (4, 8)]
)
def test_matches_are_those_of_all_pairs(distance, group, monkeypatch):
    monkeypatch.setattr(bands_module, "_GROUP", group)  # larger ones are divided
    monkeypatch.setattr(pairs, "_SMALL", 5)
    monkeypatch.setattr(bands_module, "_PAIRS", 1000)
    rng = np.random.default_rng(distance)
    hashes = rng.integers(0, 2**64, 300, np.uint64) & np.uint64(0xFFFF_0F0F_FFFF_FF0F)
    hashes = np.concatenate([hashes, flipped(hashes, rng.integers(1, distance + 3, 300), rng)])
    hashes = np.unique(hashes)
    ids = rng.permutation(len(hashes)).astype(np.uint64)
    apart = np.bitwise_count(hashes[:, None] ^ hashes)
    one, other = np.nonzero(np.triu(apart <= distance, 1))
    expected = {
        (min(pair), max(pair), int(apart[place]))
        for (*place,) in zip(one, other, strict=True)
        for place in [tuple(place)]
        for pair in [(int(ids[place[0]]), int(ids[place[1]]))]
    }
    assert all_matches(ids, hashes, HammingBands(distance=distance)) == expected


def test_equal_hashes_make_a_star():
    ids = np.arange(100, 5100, dtype=np.uint64)[::-1].copy()
    hashes = np.full(5000, 7, np.uint64)
    hashes[0] = 6  # of id 5099
    expected = {(100, other, 0) for other in range(101, 5099)} | {(100, 5099, 1)}
    assert all_matches(ids, hashes, HammingBands(distance=2)) == expected


def test_very_many_matches_are_thinned_to_those_that_connect(monkeypatch):
    monkeypatch.setattr(bands_module, "_MOST_MATCHES", 200)
    monkeypatch.setattr(bands_module, "_PAIRS", 100)
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 2**64, 3, np.uint64)
    hashes = np.unique(flipped(np.tile(centres, 100), np.ones(300, np.int64), rng))
    ids = rng.permutation(len(hashes)).astype(np.uint64)
    bands = HammingBands(distance=2)
    matches = all_matches(ids, hashes, bands)
    assert len(matches) < 3 * 300
    _, names = components(*np.array([match[:2] for match in matches], np.uint64).T)
    assert len(names) == len(hashes)
    assert len(np.unique(names)) == 3
    assert all(distance <= 2 for _, _, distance in matches)


@pytest.mark.parametrize(
    ("similarity", "rows", "count"),
    [(0.5, 2, 64), (0.6, 3, 42), (0.7, 3, 42), (0.8, 5, 25), (0.9, 7, 18), (1, 128, 1)],
)
def test_texts_of_the_similarity_share_a_band(similarity, rows, count):
    bands = MinHashBands(similarity=similarity)
    assert (bands.rows, bands.count) == (rows, count)
    assert bands.probability >= 0.9999
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2**16, (20_000, 128)).astype(np.uint16)
    other = np.where(rng.random(one.shape) < similarity, one, one + np.uint16(1))
    assert (bands.keys(one) == bands.keys(other)).any(axis=1).mean() >= 0.9997


def test_similar_signatures_are_found_once(monkeypatch):
    monkeypatch.setattr(pairs, "_SMALL", 3)
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2**16, (60, 128)).astype(np.uint16)
    values = np.concatenate(
        [one, *(np.where(rng.random(one.shape) < 0.9, one, one + np.uint16(1)) for _ in range(4))]
    )
    ids = rng.permutation(len(values)).astype(np.uint64)
    similar = (values[:, None] == values).mean(axis=2)
    a, b = np.nonzero(np.triu(similar >= 0.75, 1))
    expected = {
        (int(min(ids[x], ids[y])), int(max(ids[x], ids[y])), similar[x, y])
        for x, y in zip(a, b, strict=True)
    }
    assert len(expected) > 300
    assert all_matches(ids, values, MinHashBands(similarity=0.75)) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HammingBands(distance=13), "--near-distance: expected 0 to 12 bits, got 13"),
        (lambda: HammingBands(distance=-1), "--near-distance: expected 0 to 12 bits, got -1"),
        (lambda: MinHashBands(similarity=0.4), "--near-similarity: expected 0.5 to 1, got 0.4"),
        (lambda: MinHashBands(similarity=1.1), "--near-similarity: expected 0.5 to 1, got 1.1"),
    ],
)
def test_invalid_limits(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
