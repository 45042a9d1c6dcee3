"""Pieces, carried along or spilled."""

import itertools
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.staged import mapped_files, spill
from recordmill.transforms.staged.arrow_files import PIECE_SUM
from recordmill.transforms.writing.shards.shard_rows import sort_block

ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.text(max_size=3),
        st.none() | st.binary(max_size=3),
        st.none() | st.lists(st.floats(0, 1), max_size=2),
        st.sampled_from(["a", "b", None]),
    ),
    min_size=1,
    max_size=25,
)


def table(rows):
    columns = list(zip(*rows, strict=True))
    return pa.RecordBatch.from_pydict(
        {
            "__key__": pa.array(columns[1], pa.string()),
            "value": pa.array(columns[2], pa.binary()),
            "boxes": pa.array(columns[3], pa.list_(pa.float64())),
            "category": pa.array(columns[4], pa.string()).dictionary_encode(),
        }
    )


@pytest.fixture(scope="module")
def staging(tmp_path_factory):
    return Staging.of(Location.parse(str(tmp_path_factory.mktemp("out"))), "job")


def contents(pieces, staging):
    return [
        (shard, piece_rows.to_pylist())
        for shard, piece in pieces
        for piece_rows in [spill.load(piece, staging=staging)]
    ]


@given(ROWS)
def test_spilled_and_carried_pieces_hold_the_same_rows(staging, rows):
    batch = table(rows)
    shards = np.array([row[0] for row in rows], np.int64)
    carried = [(shard, spill.inline(part)) for shard, part in spill.split_by_shard(batch, shards)]
    spilled = spill.spill(batch, shards, staging)
    expected = [
        (shard, [r for r, row in zip(batch.to_pylist(), rows, strict=True) if row[0] == shard])
        for shard in sorted(set(shards.tolist()))
    ]
    assert contents(carried, staging) == contents(spilled, staging) == expected
    assert all(not data and length for _, (data, _, _, length) in spilled)
    assert all(data and not name for _, (data, name, _, _) in carried)


def test_a_piece_is_read_alone(staging):
    """All else in the file may be anything."""
    rows = table([(i % 4, f"{i}", b"v", None, "a") for i in range(40)])
    pieces = spill.spill(rows, np.arange(40) % 4, staging)
    place = staging.place(pieces[0][1][1])
    spans = [(offset, offset + length + PIECE_SUM) for _, (_, _, offset, length) in pieces]
    assert spans[0][0] == 0
    assert spans[-1][1] == place.size()
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(spans))
    start, end = spans[2]
    content = place.read_bytes()
    place.write_bytes(b"?" * start + content[start:end] + b"?" * (len(content) - end))
    loaded = spill.load(pieces[2][1], staging=staging)
    assert loaded["__key__"].to_pylist() == [f"{i}" for i in range(2, 40, 4)]


def test_pieces_of_many_files_are_one_shard(staging):
    halves = [table([(0, f"{i}", b"", None, "a") for i in part]) for part in ((3, 1), (2, 0))]
    pieces = [
        piece for half in halves for _, piece in spill.spill(half, np.zeros(2, np.int64), staging)
    ]
    pieces.append(spill.inline(table([(0, "4", None, [], None)])))
    rows = sort_block(pieces, seed=0, staging=staging)
    again = sort_block(pieces[::-1], seed=0, staging=staging)
    assert sorted(rows["__key__"].to_pylist()) == ["0", "1", "2", "3", "4"]
    assert rows.to_pylist() == again.to_pylist()


@pytest.fixture
def stored(store) -> tuple[Staging, list[list[spill.Piece]]]:
    """Pieces of three blocks in two files of a store."""
    staging = Staging.of(Location.parse(store.uri("out")), "job")
    blocks: list[list[spill.Piece]] = [[], [], []]
    for file in range(2):
        rows = table([(0, f"{file}-{i}", b"", None, "a") for i in range(30)])
        for block, piece in spill.spill(rows, np.arange(30) % 3, staging):
            blocks[block].append(piece)
    store.requests.clear()
    return staging, blocks


def keys(rows: list[pa.RecordBatch]) -> list[list[str]]:
    return [one["__key__"].to_pylist() for one in rows]


def test_pieces_in_a_store_are_read_in_parallel(stored, monkeypatch):
    staging, blocks = stored
    together = threading.Barrier(2, timeout=30)
    read = spill.read_piece

    def read_together(*arguments):
        together.wait()
        return read(*arguments)

    monkeypatch.setattr(spill, "read_piece", read_together)
    loaded = spill.load_all(blocks[1], staging=staging)
    assert keys(loaded) == [[f"{file}-{i}" for i in range(1, 30, 3)] for file in range(2)]


def test_pieces_that_are_read_ahead_are_read_once(store, stored):
    staging, blocks = stored
    found = [
        keys(spill.load_all(pieces, staging=staging))
        for pieces in spill.read_ahead(blocks, staging=staging)
    ]
    assert found == [[[f"{f}-{i}" for i in range(b, 30, 3)] for f in range(2)] for b in range(3)]
    assert [one.operation for one in store.requests] == ["GET"] * 6
    assert mapped_files._ahead._begun == {}


def test_a_damaged_piece_that_was_read_ahead_is_read_again(store, stored):
    staging, blocks = stored
    name = blocks[0][0][1]
    store.faults[f"bucket/{staging.place(name).path}"] = ("flipped", 1)
    for pieces in spill.read_ahead(blocks[:1], staging=staging):
        assert len(spill.load_all(pieces, staging=staging)) == 2
    assert len(store.requests) == 3
