"""A shard whose writing was cut off goes on where it was, with the same bytes."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.job.staging import Staging, drafted
from recordmill.processes.row_tasks import RowTask
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.staged import encoder_tasks
from recordmill.transforms.writing.shards import ordered_encoding, shard_draft, shard_writer
from recordmill.transforms.writing.shards.shard_writer import ShardWriter
from tests.tiny import TinyEncoder, TinyPacker
from tests.transforms.writing.test_write import Threads, plan_for, rows_of, write_rows


class _Cut(Exception):
    """The end of a run, at some task."""


class _Tasks(Threads):
    """Does so many tasks, then none."""

    def __init__(self, tasks):
        super().__init__(1)
        self.left = tasks
        self.done = 0

    def submit_rows(self, task: RowTask):
        if not self.left:
            raise _Cut
        self.left -= 1
        self.done += 1
        return super().submit_rows(task)


class _OneByOne(ordered_encoding._TaskBudget):
    """No task begins before the one before it is written."""

    def take(self, size, *, tasks, must):
        return super().take(size, tasks=0, must=True) if must else False


def _write(writer, rows, plan, tasks):
    """Writes a shard with at most so many tasks; returns its info, and how many it took."""
    with _Tasks(tasks) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writer, "shared_pool", lambda workers: pool)
        patch.setattr(ordered_encoding, "_budget", _OneByOne())
        return write_rows(writer, rows, plan=plan), pool.done


def _staged(writer):
    """{name: content} of the finished shard, its index and its info."""
    folders = [writer.staging.place(name) for name in ("shards", "index", "info", "drafts")]
    return {
        str(folder / entry.name).removeprefix(str(writer.staging.root)): (
            folder / entry.name
        ).read_bytes()
        for folder in folders
        for entry in folder.list_dir()
    }


def _writer(tmp_path_factory, encoder, compression="none"):
    staging = Staging.of(Location.parse(str(tmp_path_factory.mktemp("out"))), "job")
    return ShardWriter(encoder=encoder, staging=staging, compression=compression)


@settings(max_examples=40)
@given(
    values=st.lists(st.sampled_from([b"good", b"bad", b"skip"]), min_size=1, max_size=12),
    task_rows=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 4), max_size=3),
    compression=st.sampled_from(["none", "gzip"]),
    encoder=st.sampled_from([TinyEncoder(), TinyPacker()]),
)
def test_a_shard_after_cuts(tmp_path_factory, values, task_rows, cuts, compression, encoder):
    rows = rows_of(values)
    plan = plan_for(rows, task_rows=task_rows)
    all_tasks = -(-len(rows) // task_rows)
    whole = _writer(tmp_path_factory, encoder, compression)
    _write(whole, rows, plan, all_tasks)
    resumed = _writer(tmp_path_factory, encoder, compression)
    finished = 0
    for tasks in cuts:
        try:
            _write(resumed, rows, plan, tasks)
        except _Cut:
            finished += max(tasks, 0)
        else:
            finished = all_tasks
            break
    if finished < all_tasks:
        _, done = _write(resumed, rows, plan, all_tasks)
        assert done == all_tasks - finished
    assert _staged(resumed) == _staged(whole)


def _cut_off(tmp_path_factory, values, tasks):
    """A writer of which a shard was cut off, with its rows and plan."""
    writer = _writer(tmp_path_factory, TinyEncoder())
    rows = rows_of(values)
    plan = plan_for(rows, task_rows=2)
    with pytest.raises(_Cut):
        _write(writer, rows, plan, tasks)
    return writer, rows, plan


def _draft(writer, suffix):
    folder = writer.staging.place("drafts")
    (name,) = [entry.name for entry in folder.list_dir() if entry.name.endswith(suffix)]
    return folder / name


@pytest.mark.parametrize(
    ("suffix", "damage", "kept"),
    [
        (".tmp", lambda data: data[:-1], 2),  # the data of the last chunk are incomplete
        (".tmp", lambda data: bytes([data[0] ^ 1]) + data[1:], 0),
        (".journal", lambda data: data[:-1], 2),
        (".journal", lambda data: data[: len(data) // 3 + 9], 1),
        (".journal", lambda data: b"\xff" * 8 + data[8:], 0),
        (".journal", lambda data: b"", 0),
    ],
)
def test_damage_of_a_draft_is_encoded_again(tmp_path_factory, suffix, damage, kept):
    writer, rows, plan = _cut_off(tmp_path_factory, [b"good"] * 10, 3)
    place = _draft(writer, suffix)
    place.write_bytes(damage(place.read_bytes()))
    _, done = _write(writer, rows, plan, 9)
    assert done == 5 - kept
    whole = _writer(tmp_path_factory, TinyEncoder())
    _write(whole, rows, plan, 5)
    assert _staged(writer) == _staged(whole)


def test_a_draft_of_other_rows_is_not_used(tmp_path_factory):
    writer, rows, _ = _cut_off(tmp_path_factory, [b"good"] * 10, 3)
    others = batch.set_column(rows, "value", pa.array([b"else"] * 10, pa.binary()))
    _, done = _write(writer, others, plan_for(others, task_rows=2), 5)
    assert done == 5
    assert not [*writer.staging.place("drafts").list_dir()]


def test_chunks_of_a_draft_are_used_up_to_the_first_that_has_other_rows(tmp_path_factory):
    values = [b"good" * 40] * 10
    writer, rows, plan = _cut_off(tmp_path_factory, values, 4)
    values[np.argsort(batch.order_ranks(rows, seed=plan.seed))[5]] = b"else" * 40
    others = batch.set_column(rows, "value", pa.array(values, pa.binary()))
    _, done = _write(writer, others, plan, 3)
    assert done == 3
    whole = _writer(tmp_path_factory, TinyEncoder())
    _write(whole, others, plan, 5)
    assert _staged(writer) == _staged(whole)


def test_a_draft_in_a_store_shows_its_size(monkeypatch):
    """A store lists no unfinished files."""
    monkeypatch.setattr(shard_draft, "MARK_SECONDS", 0)
    staging = Staging.of(Location.parse("mock://bucket/marks"), "job")
    chunk = encoder_tasks.EncodedChunk(
        data=b"data", lengths=np.array([4]), kept=np.array([0]), rejects=[], filtered=[]
    )

    def marks() -> list[int | None]:
        entries = staging.place("drafts").list_dir()
        return [drafted(entry).bytes for entry in entries if entry.name.endswith(".begun")]

    with shard_writer.ShardDraft(staging, "shard", b"context") as draft:
        for size in (4, 8):
            draft.append(chunk, bytes(16))
            assert marks() == [size]
    staging.place("shards").make_dirs()
    draft.finish(staging.place("shards/shard"))
    assert marks() == []


def test_a_chunk_with_all_that_an_encoder_can_say(tmp_path_factory):
    """An entry holds every field of a chunk."""
    chunk = encoder_tasks.EncodedChunk(
        data=b"data",
        lengths=pa.array([2, 2]).to_numpy(),
        kept=pa.array([0, 3]).to_numpy(),
        rejects=[encoder_tasks.Reject("k", "encode", "corrupt", "why")],
        filtered=[("l", "--option")],
        content=pa.array([bytes(16), None], pa.binary(16)),
        sizes=(pa.array([4, 5]).to_numpy(), pa.array([6, 7]).to_numpy()),
        filled=(1, 2),
        objects=(3, 2),
        dropped_objects={"outside": (1, "k")},
        reduced=encoder_tasks.Reduced.one("k", 9, 8),
    )
    staging = Staging.of(Location.parse(str(tmp_path_factory.mktemp("out"))), "job")
    with shard_writer.ShardDraft(staging, "shard", b"context") as draft:
        draft.append(chunk, bytes(range(16)))
    with shard_writer.ShardDraft(staging, "shard", b"context") as draft:
        ((digest, found, rows),) = draft.earlier_chunks()
    assert rows is None
    assert digest == bytes(range(16))
    for field in dataclasses.fields(chunk):
        one, other = getattr(chunk, field.name), getattr(found, field.name)
        if hasattr(one, "tolist"):
            one, other = one.tolist(), other.tolist()
        if field.name == "sizes":
            one, other = ([side.tolist() for side in sides] for sides in (one, other))
        assert one == other, field.name
