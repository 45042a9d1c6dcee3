"""Pieces, carried along or spilled."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.arrow_files import PIECE_SUM
from recordmill.transforms.writing.shard_rows import sort_block

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
