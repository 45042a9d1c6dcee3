"""Matches and groups of a dataset, against all pairs compared one by one."""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.near_duplicates.bands import HammingBands, MinHashBands
from recordmill.transforms.near_duplicates.components import ConnectedComponents
from recordmill.transforms.near_duplicates.find_matches import FindMatches, hash_piece
from recordmill.transforms.near_duplicates.graph import bucket_of, components
from recordmill.transforms.near_duplicates.text_minhash import minhash
from recordmill.transforms.staged import spill
from tests.beam_results import results


@pytest.fixture
def staging(tmp_path):
    return Staging(Location.parse(str(tmp_path / "job")))


def run(staging, bands, ids, hashes, *, workers, order, cuts):
    """{name: rows} of a run, and all that came out."""
    pieces = [
        hash_piece(ids[cut], hashes.take(pa.array(cut)), bands=bands)
        for cut in np.array_split(order, cuts)
    ]

    def load(element):
        bucket, piece = element
        rows = spill.load(piece, staging=staging)
        assert (bucket_of(np.asarray(rows[0])) == bucket).all()
        return batch.to_bytes(rows)

    def build(pipeline):
        matches = pipeline | beam.Create(pieces) | FindMatches(staging, bands)
        groups = matches | beam.Values() | ConnectedComponents(staging)
        found = {"matches": matches, "groups": groups}
        return {name: rows | f"Load {name}" >> beam.Map(load) for name, rows in found.items()}

    found = results(build, workers=workers)
    return {
        name: pa.Table.from_batches(map(batch.from_bytes, found[name])).to_pydict()
        for name in ("matches", "groups")
    }


def as_sets(found):
    matches = [*zip(*found["matches"].values(), strict=True)]
    groups = [*zip(*found["groups"].values(), strict=True)]
    assert len(set(matches)) == len(matches)
    assert len(set(groups)) == len(groups)
    return set(matches), dict(groups)


def expected_groups(matches):
    a, b = np.array([match[:2] for match in matches], np.uint64).T
    ids, names = components(a, b)
    return dict(zip(ids.tolist(), names.tolist(), strict=True))


def some_hashes(rng):
    """Hashes with near ones at distances up to 7, and equal ones."""
    hashes = rng.integers(0, 2**64, 400, np.uint64)
    near = rng.choice(hashes, 300)
    for _ in range(7):
        near ^= np.where(
            rng.random(300) < 0.6, np.uint64(1) << rng.integers(0, 64, 300, np.uint64), 0
        ).astype(np.uint64)
    return np.concatenate([hashes, near, near[:50]])


@pytest.mark.parametrize("inline", [1 << 20, 0], ids=["inline", "spilled"])
def test_images(staging, monkeypatch, inline):
    monkeypatch.setattr(limits, "INLINE_BYTES", inline)
    rng = np.random.default_rng(5)
    hashes = some_hashes(rng)
    ids = batch.mix(np.arange(len(hashes), dtype=np.uint64), 1)
    nulls = np.zeros(len(hashes), np.bool_)
    nulls[[0, 7]] = True
    column = pa.array(hashes, mask=nulls)
    bands = HammingBands(distance=4)
    found = [
        as_sets(run(staging, bands, ids, column, workers=workers, order=order, cuts=cuts))
        for workers, order, cuts in (
            (1, np.arange(len(ids)), 1),
            (2, rng.permutation(len(ids)), 9),
        )
    ]
    assert found[0] == found[1]
    matches, groups = found[0]

    firsts = {}  # the smallest id of each hash
    for number, value in zip(ids[~nulls].tolist(), hashes[~nulls].tolist(), strict=True):
        firsts[value] = min(number, firsts.get(value, number))
    expected = {
        (firsts[value], number, 0)
        for number, value in zip(ids[~nulls].tolist(), hashes[~nulls].tolist(), strict=True)
        if firsts[value] != number
    }
    values = np.array([*firsts], np.uint64)
    distances = np.bitwise_count(values[:, None] ^ values)
    for one, other in zip(*np.nonzero(np.triu(distances <= 4, 1)), strict=True):
        pair = sorted([firsts[int(values[one])], firsts[int(values[other])]])
        expected.add((*pair, int(distances[one, other])))
    assert matches == expected
    assert groups == expected_groups(expected)


def test_equal_contents_match_whatever_their_hashes(staging):
    """Records 0 and 1 have equal hashes, 2 has another, and 3 to 5 have none; 5 is alone."""
    ids = batch.mix(np.arange(6, dtype=np.uint64), 1)
    hashes = pa.array([5, 5, 2**64 - 1, None, None, None], pa.uint64())
    contents = pa.array([letter * 16 for letter in (b"a", b"a", b"a", b"b", b"b", b"c")])
    contents = contents.cast(pa.binary(16))
    pieces = [
        hash_piece(ids[cut], hashes.take(pa.array(cut)), contents.take(pa.array(cut)),
                   bands=HammingBands())
        for cut in ([0, 3, 5], [1, 2, 4])
    ]  # fmt: skip

    def build(pipeline):
        matches = pipeline | beam.Create(pieces) | FindMatches(staging, HammingBands())
        return {"found": matches | beam.Map(lambda one: spill.load(one[1], staging=staging))}

    found = pa.Table.from_batches(results(build, workers=1)["found"])
    one, other, third, *rest = ids.tolist()
    first = min(one, other)
    assert set(zip(*found.to_pydict().values(), strict=True)) == {
        (*sorted((one, other)), 0),
        (*sorted((first, third)), 0),
        (*sorted(rest[:2]), 0),
    }
    assert len(found) == 3


@pytest.mark.long
def test_texts(staging):
    rng = np.random.default_rng(2)
    words = [f"word{number}" for number in range(2000)]
    texts = []
    for number in range(60):
        text = rng.choice(words, 200).tolist()
        texts.append(" ".join(text))
        for place in rng.integers(0, 200, number // 8):
            text[place] = "other"
        texts.append(" ".join(text))
    texts += texts[:5]
    signatures = minhash(pa.array(texts))
    ids = batch.mix(np.arange(len(texts), dtype=np.uint64), 1)
    bands = MinHashBands(similarity=0.7)
    found = [
        as_sets(
            run(staging, bands, ids, fixed_lists(signatures), workers=workers, order=order, cuts=3)
        )
        for workers, order in ((1, np.arange(len(ids))), (2, rng.permutation(len(ids))))
    ]
    assert found[0] == found[1]
    similar = (signatures[:, None] == signatures).mean(axis=2)
    a, b = np.nonzero(np.triu(similar >= 0.7, 1))
    expected = expected_groups(zip(ids[a], ids[b], strict=True))
    assert found[0][1] == expected
    assert 20 < len(expected) < len(texts)
    assert all(0.7 <= similarity <= 1 for _, _, similarity in found[0][0])
