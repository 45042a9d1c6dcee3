"""Components are those of a plain union-find, however edges are cut, ordered and distributed."""

import apache_beam as beam
import numpy as np
import pytest

from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.model import batch, limits
from recordmill.transforms.near_duplicates import components
from recordmill.transforms.near_duplicates.components import ConnectedComponents
from recordmill.transforms.staged import spill
from tests.beam_results import results

NONE = np.zeros(0, np.uint64)


@pytest.fixture
def staging(tmp_path):
    return Staging(Location.parse(str(tmp_path / "job")))


def union_find(a, b):
    """{vertex: smallest vertex of its component}, one edge at a time."""
    parents = {}

    def root(vertex):
        while parents.setdefault(vertex, vertex) != vertex:
            vertex = parents[vertex]
        return vertex

    for one, other in zip(a.tolist(), b.tolist(), strict=True):
        low, high = sorted([root(one), root(other)])
        parents[high] = low
    return {vertex: root(vertex) for vertex in [*parents]}


def graph(kind, seed):
    """Edges between random ids, in random order and direction."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 2**64, 3000, np.uint64)
    match kind:
        case "sparse":
            a, b = ids[rng.integers(0, 3000, (2, 1400))]
        case "dense":
            a, b = ids[rng.integers(0, 200, (2, 4000))]
        case "chain":
            a, b = ids[:-1], ids[1:]
        case "ascending chain":
            a, b = np.sort(ids)[:-1], np.sort(ids)[1:]
        case "stars":
            a, b = ids[:-5], np.tile(ids[-5:], 599)
        case "loops":
            a, b = np.append(ids[:50], ids[:9]), np.append(ids[:50], ids[1:10])
    order = rng.permutation(len(a))
    turned = rng.random(len(a)) < 0.5
    return np.where(turned, a, b)[order], np.where(turned, b, a)[order]


KINDS = ("sparse", "dense", "chain", "ascending chain", "stars", "loops")


@pytest.mark.parametrize("kind", KINDS)
def test_components_in_memory(kind):
    a, b = graph(kind, 1)
    ids, names = components.components(a, b)
    assert dict(zip(ids.tolist(), names.tolist(), strict=True)) == union_find(a, b)
    assert (ids[1:] > ids[:-1]).all()


def named(found):
    """{id: group} of the pieces that came out, each checked to be in its bucket."""
    groups = {}
    for bucket, rows in found:
        ids = np.asarray(rows["id"])
        assert (components.bucket_of(ids) == bucket).all()
        assert (ids[1:] > ids[:-1]).all()
        assert not groups.keys() & set(ids.tolist())
        groups |= dict(zip(ids.tolist(), np.asarray(rows["group"]).tolist(), strict=True))
    return groups


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1, 500, 1 << 20])
def test_ranges_taken_alone_or_together_give_the_same(kind, step, staging):
    a, b = graph(kind, step)
    cuts = np.array_split(np.arange(len(a)), 7)
    forests = [
        forest for cut in cuts for forest in components._by_range(*ordered(a[cut], b[cut]), staging)
    ]
    found = components.name_components(forests, staging=staging, step=step)
    loaded = [(bucket, spill.load(piece, staging=staging)) for bucket, piece in found]
    assert named(loaded) == union_find(a, b)


def ordered(a, b):
    return np.maximum(a, b), np.minimum(a, b)


@pytest.mark.parametrize("inline", [1 << 20, 0], ids=["inline", "spilled"])
def test_workers_and_cuts_do_not_change_components(staging, monkeypatch, inline):
    monkeypatch.setattr(limits, "INLINE_BYTES", inline)
    kinds = ("sparse", "chain", "loops")
    edges = {kind: graph(kind, 7) for kind in kinds}

    def pieces(kind, cuts):
        a, b = edges[kind]
        return [
            spill.inline(components.edge_rows(a[cut], b[cut]))
            for cut in np.array_split(np.arange(len(a)), cuts)
        ]

    def load(element):
        bucket, piece = element
        return bucket, batch.to_bytes(spill.load(piece, staging=staging))

    runs = []
    for workers, cuts in ((1, 1), (2, 13)):

        def build(pipeline, cuts=cuts):
            return {
                kind: pipeline
                | f"Create {kind}" >> beam.Create(pieces(kind, cuts))
                | kind >> ConnectedComponents(staging)
                | f"Load {kind}" >> beam.Map(load)
                for kind in kinds
            }

        found = results(build, workers=workers)
        runs.append({kind: sorted(found[kind]) for kind in kinds})
    assert runs[0] == runs[1]
    for kind in kinds:
        loaded = [(bucket, batch.from_bytes(data)) for bucket, data in runs[0][kind]]
        assert named(loaded) == union_find(*edges[kind])


def test_no_edges(staging):
    def build(pipeline):
        empty = pipeline | beam.Create([spill.inline(components.edge_rows(NONE, NONE))])
        return {"found": empty | ConnectedComponents(staging)}

    assert results(build) == {}
