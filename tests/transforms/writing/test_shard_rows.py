"""The rows of a shard in blocks: the order and the files are those of a single block."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import RunError
from recordmill.format.file_info import file_info
from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged import spill
from recordmill.transforms.writing.shards import shard_writer, shuffle
from recordmill.transforms.writing.shards.shard_rows import ShardRows
from recordmill.transforms.writing.shards.shard_writer import ShardWriter
from tests.tiny import TinyEncoder
from tests.transforms.writing.test_write import SHARD, Threads, plan_for, rows_of


@pytest.fixture(scope="module")
def staging(tmp_path_factory):
    return Staging.of(Location.parse(str(tmp_path_factory.mktemp("out"))), "job")


def placed_rows(count):
    """Rows of two files, of which the dictionaries of pieces differ."""
    rows = batch.with_hash(rows_of([b"good"] * count))
    files = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(count, dtype=np.int32) % 2), pa.array(["b.csv", "a.csv"])
    )
    fields = [*batch.PLACES]
    places = pa.StructArray.from_arrays([files, pa.array(np.arange(count))], fields=fields)
    return batch.set_column(rows, batch.PLACE, places)


def blocks_of(rows, count, pieces, seed):
    """{block: (rows, piece)} of rows that come in some batches."""
    blocks = {}
    numbers = batch.scale(batch.order_ranks(rows, seed=seed), count)
    size = max(-(-len(rows) // pieces), 1)
    for at in range(0, len(rows), size):
        some = rows.slice(at, size)
        for block, part in spill.split_by_shard(some, numbers[at : at + size]):
            blocks.setdefault(block, []).append((len(part), spill.inline(part)))
    return blocks


def rows_in(blocks, staging, step, context=b"context"):
    return ShardRows(blocks=blocks, staging=staging, step=step, seed=3, context=context)


@given(
    count=st.integers(1, 60),
    blocks=st.integers(1, 7),
    pieces=st.integers(1, 4),
    step=st.integers(1, 9),
)
def test_blocks_and_pieces_keep_the_order(staging, count, blocks, pieces, step):
    rows = placed_rows(count)
    order = np.argsort(batch.order_ranks(rows, seed=3))
    expected = rows.drop_columns([batch.HASH]).take(pa.array(order)).to_pylist()
    one = [*rows_in(blocks_of(rows, blocks, 1, 3), staging, step).chunks()]
    some = [*rows_in(blocks_of(rows, blocks, pieces, 3), staging, step).chunks()]
    assert [chunk.digest for chunk in one] == [chunk.digest for chunk in some]
    assert [chunk.rows.to_pylist() for chunk in some] == [
        expected[at : at + step] for at in range(0, count, step)
    ]
    assert [chunk.start for chunk in some] == [*range(0, count, step)]


def test_a_digest_covers_the_rows_of_its_chunk_and_the_context(staging):
    rows = placed_rows(120)
    changed = rows.to_pylist()
    order = np.argsort(batch.order_ranks(rows, seed=3))
    changed[order[100]]["value"] = b"else"
    others = pa.RecordBatch.from_pylist(changed, schema=rows.schema)
    digests, of_others, elsewhere = (
        [chunk.digest for chunk in rows_in(blocks_of(some, 2, 2, 3), staging, 30, context).chunks()]
        for some, context in ((rows, b"one"), (others, b"one"), (rows, b"two"))
    )
    assert [a == b for a, b in zip(digests, of_others, strict=True)] == [True, True, True, False]
    assert not set(digests) & set(elsewhere)
    whole = {rows_in(blocks_of(rows, 2, n, 3), staging, 30, b"one").digest() for n in (1, 2)}
    whole.add(rows_in(blocks_of(others, 2, 1, 3), staging, 30, b"one").digest())
    whole.add(rows_in({}, staging, 30, b"one").digest())
    assert len(whole) == 3


def test_equal_keys_are_an_error_wherever_they_are(staging):
    rows = batch.concat([placed_rows(20), placed_rows(1)])
    with pytest.raises(RunError, match="two records have the key '0'"):
        rows_in(blocks_of(rows, 5, 2, 3), staging, 4).digest()


def test_a_plan_of_large_shards_has_blocks(monkeypatch):
    """Blocks are parts of shards: no row moves to another shard."""
    rows = rows_of([b"v"] * 500)
    rows = batch.set_column(rows, batch.SPLIT, batch.constant("train", len(rows)))
    small = plan_for(rows, shards=3)
    large = plan_for(rows, shards=3, row_bytes=100, spill=True)
    monkeypatch.setattr(limits, "BLOCK_BYTES", 4000)
    assert len(shuffle.all_blocks(small)) == 3
    blocks = shuffle.all_blocks(large)
    assert blocks == [(("train", shard), block) for shard in range(3) for block in range(5)]
    shards = shuffle.block_indices(rows, plan=small)
    places = shuffle.block_indices(rows, plan=large)
    assert [blocks[at][0][1] for at in places] == shards.tolist()
    assert {*places.tolist()} == {*range(15)}
    monkeypatch.setattr(limits, "MAX_BLOCKS", 7)
    assert len(shuffle.all_blocks(large)) == 6


def test_blocks_of_references_hold_the_rows_of_some_tasks():
    """A reference is much smaller than the file that a task reads."""
    rows = rows_of([b"v"] * 1280)
    row_bytes = limits.LEAST_BLOCK_BYTES // limits.BLOCK_TASKS // 4
    for task_rows, blocks in ((1, 20), (4, 20), (8, 10), (40, 2)):
        plan = plan_for(rows, task_rows=task_rows, row_bytes=row_bytes, spill=True)
        assert len(shuffle.all_blocks(plan)) == blocks


def _files(staging, blocks, rows):
    """The shard and its index, written by itself."""
    writer = ShardWriter(encoder=TinyEncoder(), staging=staging)
    pieces = [(block, *piece) for block, some in blocks.items() for piece in some]
    with Threads(2) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writer, "shared_pool", lambda workers: pool)
        info = writer.write(SHARD, pieces, plan_for(rows, task_rows=3))
    index = staging.place("index/train-00000-of-00001.parquet")
    assert [entry.name for entry in staging.place("drafts").list_dir()] == []
    return staging.place(f"shards/{info.shard.file}").read_bytes(), index, info


def test_an_index_grows_by_groups_of_rows(tmp_path, monkeypatch):
    rows = rows_of([b"good", b"bad", b"skip", b"fine"] * 10, copies=2)
    stagings = [Staging.of(Location.parse(str(tmp_path / name)), "job") for name in "ab"]
    data, index, info = _files(stagings[0], blocks_of(rows, 1, 1, 5), rows)
    for name, value in (("BLOCK_BYTES", 0), ("INDEX_GROUP_ROWS", 10)):
        monkeypatch.setattr(limits, name, value)
    again, grown, other = _files(stagings[1], blocks_of(rows, 4, 3, 5), rows)
    assert again == data
    assert pq.ParquetFile(grown.local_path).metadata.num_row_groups == 7
    assert pq.read_table(grown.local_path) == pq.read_table(index.local_path)
    assert other.shard.classes == info.shard.classes
    assert (other.planned, other.copies, other.originals) == (80, info.copies, info.originals)
    assert other.shard.index == file_info(grown.read_bytes())
