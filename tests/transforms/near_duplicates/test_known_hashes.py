"""The most similar known record is the one that a comparison of all pairs finds."""

import numpy as np
import pyarrow as pa
import pytest

from recordmill.storage.files import Location
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.near_duplicates import known_hashes
from recordmill.transforms.near_duplicates.bands import HammingBands, MinHashBands
from recordmill.transforms.near_duplicates.known_hashes import KnownHashes, write_hashes


@pytest.fixture
def known(tmp_path):
    def write(hashes, bands):
        keys = [f"k{number:04d}" for number in range(len(hashes))]
        rows = pa.RecordBatch.from_pydict({"__key__": keys, "__near__": hashes})
        order = np.random.default_rng(0).permutation(len(rows))
        path = tmp_path / "known.arrow"
        hashes = KnownHashes(place=Location.parse(str(path)), bands=bands)
        write_hashes(rows.take(pa.array(order)), hashes)
        return hashes

    return write


def expected(gaps, most):
    """{row: (number of the nearest, gap)}, of those with the least gap the first."""
    nearest = gaps.argmin(axis=1)
    least = gaps.min(axis=1)
    return {
        row: (int(nearest[row]), int(least[row])) for row in np.flatnonzero(least <= most).tolist()
    }


@pytest.mark.parametrize("distance", [0, 3, 12])
def test_images(distance, known, monkeypatch):
    monkeypatch.setattr(known_hashes, "_AT_ONCE", 50)
    rng = np.random.default_rng(distance)
    others = rng.integers(0, 2**64, 200, np.uint64)
    others[150:] = others[:50]  # of equal hashes the smallest key is named
    flips = np.bitwise_or.reduce(
        np.uint64(1) << rng.integers(0, 64, (300, distance + 1)).astype(np.uint64), axis=1
    )
    rows = others[rng.integers(0, 200, 300)] ^ flips
    found = known(pa.array(others), HammingBands(distance=distance)).most_similar(
        pa.array(np.append(rows, np.uint64(0)), mask=np.append(np.zeros(300, bool), True))
    )
    gaps = np.bitwise_count(rows[:, None] ^ others)
    triples = zip(found.rows.tolist(), found.keys.to_pylist(), found.measures, strict=True)
    assert {row: (int(key[1:]), measure) for row, key, measure in triples} == expected(
        gaps, distance
    )


def test_texts(known):
    rng = np.random.default_rng(1)
    others = rng.integers(0, 2**16, (80, 128)).astype(np.uint32)
    rows = np.where(rng.random((160, 128)) < 0.85, np.tile(others, (2, 1)), np.uint32(7))
    found = known(fixed_lists(others), MinHashBands(similarity=0.8)).most_similar(fixed_lists(rows))
    gaps = (rows[:, None] != others).sum(axis=2)
    triples = zip(found.rows.tolist(), found.keys.to_pylist(), found.measures, strict=True)
    assert {row: (int(key[1:]), round(128 * (1 - m))) for row, key, m in triples} == expected(
        gaps, 25
    )


def test_no_rows(known):
    none = known(pa.array([1], pa.uint64()), HammingBands()).most_similar(pa.array([], pa.uint64()))
    assert len(none.rows) == len(none.keys) == 0
