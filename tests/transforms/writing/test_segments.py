"""Shards whose segments several workers encode: the files are those of a single writer."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.errors import RunError
from recordmill.job.staging import DRAFTS, Staging, drafted, segment_prefix
from recordmill.processes.pool import close_shared_pool
from recordmill.storage.files import Location
from recordmill.transforms.model import limits
from recordmill.transforms.writing.shards import segments, shard_writer, write_stages
from recordmill.transforms.writing.shards.shard_rows import Segment
from recordmill.transforms.writing.shards.shard_writer import ShardWriter
from tests.tiny import TinyEncoder, TinyPacker, TinySource, tiny_rows
from tests.tiny_jobs import run, tiny_job, tree
from tests.transforms.writing.test_shard_rows import blocks_of, placed_rows, rows_in
from tests.transforms.writing.test_write import SHARD, Threads, plan_for, rows_of

_OPTIONS = {
    "balance": "oversample",
    "compression": "gzip",
    "num_shards": {"train": 3, "test": 1},
    "max_reject_fraction": 0.5,
}


@pytest.fixture
def small(monkeypatch):
    """Tasks of a few rows, and segments of a few tasks."""
    monkeypatch.setattr(limits, "TASK_ROWS", 7)
    monkeypatch.setattr(limits, "SEGMENT_TASKS", 3)
    monkeypatch.setattr(limits, "SEGMENT_BLOCKS", 0)


def _unread(pieces):
    """Pieces that cannot be read."""
    return [(rows, (b"", "spill/missing", 0, 1)) for rows, _ in pieces]


def _staged(writer):
    return {
        f"{folder}/{entry.name}": (writer.staging.place(folder) / entry.name).read_bytes()
        for folder in ("shards", "index", "info", "drafts")
        for entry in writer.staging.place(folder).list_if_exists()
    }


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.sampled_from([b"good", b"bad", b"skip"]), min_size=1, max_size=30),
    task_rows=st.integers(1, 4),
    blocks=st.integers(1, 5),
    tasks=st.integers(1, 5),
    lost=st.sets(st.integers(0, 8)),
    damaged=st.dictionaries(st.integers(0, 8), st.floats(0, 1)),
    compression=st.sampled_from(["none", "gzip"]),
    encoder=st.sampled_from([TinyEncoder(), TinyPacker()]),
)
def test_segments_give_the_files_of_a_single_writer(
    tmp_path_factory, values, task_rows, blocks, tasks, lost, damaged, compression, encoder
):
    """Those that are missing or damaged are encoded when the shard is joined."""
    rows = rows_of(values)
    plan = plan_for(rows, task_rows=task_rows)
    pieces = [
        (block, *piece) for block, some in blocks_of(rows, blocks, 2, 5).items() for piece in some
    ]
    whole, joined = (
        ShardWriter(
            encoder=encoder,
            staging=Staging.of(Location.parse(str(tmp_path_factory.mktemp("out"))), "job"),
            compression=compression,
        )
        for _ in range(2)
    )
    with Threads(3) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writer, "shared_pool", lambda workers: pool)
        patch.setattr(limits, "SEGMENT_TASKS", tasks)
        patch.setattr(limits, "SEGMENTS", 2)
        info = whole.write(SHARD, pieces, plan)
        files = {}
        shard_rows = joined.rows_of(SHARD, pieces, plan)
        for number, segment in enumerate(segments.divide(shard_rows, plan, "train")):
            name = joined.write_segment(SHARD, pieces, plan, segment, {})
            if number in damaged:
                place = joined.staging.place(name)
                data = bytearray(place.read_bytes())
                data[int(damaged[number] * (len(data) - 1))] ^= 1
                place.write_bytes(bytes(data))
            if number not in lost:
                files[segment] = name
        assert joined.write(SHARD, pieces, plan, files) == info
    assert _staged(joined) == _staged(whole)


@given(count=st.integers(1, 40), blocks=st.integers(1, 6), step=st.integers(1, 9), data=st.data())
def test_the_chunks_of_a_segment(tmp_path_factory, count, blocks, step, data):
    """They are those of the shard, and only blocks with their rows are read."""
    staging = Staging.of(Location.parse(str(tmp_path_factory.getbasetemp())), "job")
    rows = placed_rows(count)
    found = blocks_of(rows, blocks, 2, 3)
    whole = rows_in(found, staging, step)
    chunks = [*whole.chunks()]
    assert len(chunks) == whole.chunk_count
    start = data.draw(st.integers(0, len(chunks)))
    stop = data.draw(st.integers(start, len(chunks)))
    some = [*whole.chunks(Segment(start, stop))]
    assert [chunk.start for chunk in some] == [chunk.start for chunk in chunks[start:stop]]
    assert [chunk.digest for chunk in some] == [chunk.digest for chunk in chunks[start:stop]]
    ends = np.cumsum([sum(n for n, _ in pieces) for _, pieces in sorted(found.items())])
    needed = {
        block
        for (block, pieces), end in zip(sorted(found.items()), ends.tolist(), strict=True)
        if end - sum(n for n, _ in pieces) < stop * step and end > start * step
    }
    only = {block: found[block] if block in needed else _unread(found[block]) for block in found}
    again = rows_in(only, staging, step).chunks(Segment(start, stop))
    assert [chunk.digest for chunk in again] == [chunk.digest for chunk in some]


@pytest.fixture
def tasks(monkeypatch):
    """The chunks that were encoded."""
    encode, found = shard_writer.encode_in_order, []

    def counting(chunks, **options):
        for chunk, encoded in encode(chunks, **options):
            found.append(chunk)
            yield chunk, encoded

    monkeypatch.setattr(shard_writer, "encode_in_order", counting)
    return found


def test_a_run_on_several_machines(tmp_path, small, tasks, monkeypatch):
    """Each segment is encoded once, and the dataset is the same to the byte."""
    source = TinySource(rows=tiny_rows(900))
    run(tiny_job(tmp_path / "one", source, **_OPTIONS))
    count = len(tasks)
    tasks.clear()
    written = []
    write = ShardWriter.write_segment

    def counting(self, *arguments):
        written.append(arguments)
        return write(self, *arguments)

    monkeypatch.setattr(ShardWriter, "write_segment", counting)
    close_shared_pool()
    job = tiny_job(tmp_path / "some", source, workers=3, spill_above=1, **_OPTIONS)
    run(job, workers=3, several_machines=True)
    close_shared_pool()
    assert tree(tmp_path / "some") == tree(tmp_path / "one")
    assert len(tasks) == count
    assert count / 3 < len(written) < count / 2


def test_claims_of_lost_workers(tmp_path, small, monkeypatch):
    """Their segments are encoded when their shards are joined."""
    source = TinySource(rows=tiny_rows(900))
    run(tiny_job(tmp_path / "one", source, **_OPTIONS))
    claim = write_stages.ShardWork.claim_name
    claimed = []

    def lost(self, segment):
        name = claim(self, segment)
        if hash(segment) % 3 == 0 and name not in claimed:
            claimed.append(name)
            place = job.staging.place(f"claims/{name}")
            place.parent.make_dirs()
            place.create_exclusive(b"")
        return name

    monkeypatch.setattr(write_stages.ShardWork, "claim_name", lost)
    job = tiny_job(tmp_path / "some", source, **_OPTIONS)
    run(job, workers=2, several_machines=True)
    assert len(claimed) > 2
    assert tree(tmp_path / "some") == tree(tmp_path / "one")


def test_a_later_run_takes_over_segments(tmp_path, small, tasks, monkeypatch):
    """A run that ended while shards were joined encodes nothing again."""
    source = TinySource(rows=tiny_rows(900))
    job = tiny_job(tmp_path / "out", source, **_OPTIONS)

    def cut_off(self, work, encoded, plan):
        raise RunError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(write_stages.JoinSegments, "process", cut_off)
        with pytest.raises(RunError, match="cut off"):
            run(job, several_machines=True)
    kinds = [entry.name.rpartition(".")[2] for entry in job.staging.place(DRAFTS).list_dir()]
    assert collections.Counter(kinds)["segment"] > 10
    tasks.clear()
    assert run(job, several_machines=True).status == "published"
    assert tasks == []
    run(tiny_job(tmp_path / "one", source, **_OPTIONS))
    assert tree(tmp_path / "out") == tree(tmp_path / "one")


@pytest.mark.parametrize(
    ("chunks", "shards", "row_bytes", "found"),
    [
        (25, 63, 0, 5),
        (25, 64, 0, 0),  # there are enough shards
        (5, 1, 0, 0),
        (25, 1, limits.TASK_BYTES // 1000, 5),
        (25, 1, limits.TASK_BYTES // 20, 3),  # a block takes longer to sort than some tasks
    ],
)
def test_segments_of_a_shard(tmp_path, chunks, shards, row_bytes, found):
    staging = Staging.of(Location.parse(str(tmp_path)), "job")
    plan = plan_for(rows_of([b"v"] * 640), task_rows=2, shards=shards, row_bytes=row_bytes)
    blocks = blocks_of(rows_of([b"v"] * 2 * chunks), 1, 1, 5)
    assert len(segments.divide(rows_in(blocks, staging, 2), plan, "train")) == found


def test_pieces_go_through_a_file_if_they_are_large(tmp_path):
    staging = Staging.of(Location.parse(str(tmp_path)), "job")
    few = [(0, 3, (b"rows", "", 0, 0)), (1, 2, (b"", "spill/one", 7, 9))]
    for pieces in ([], few, few * 10_000):
        packed = segments.pack_pieces(pieces, staging)
        assert bool(packed[1]) == (len(pieces) > 10)
        assert segments.unpack_pieces(packed, staging) == pieces


def test_progress_of_segments(tmp_path):
    staging = Staging.of(Location.parse(str(tmp_path)), "job")
    prefix = segment_prefix("train.tfrecord-00000-of-00001", b"context", 8, 16)
    with segments.SegmentFile(staging, prefix) as file:
        pass
    staging.place(file.name).write_bytes(b"data")
    (entry,) = staging.place(DRAFTS).list_dir()
    found = drafted(entry)
    assert (found.start, found.bytes) == ("8", 4)
    assert segments.segment_files(staging) == {prefix: file.name}
