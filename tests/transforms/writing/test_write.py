"""The ordered shard writer: every row is written, rejected or filtered, once, in order."""

import collections
import dataclasses
import gc
import hashlib
import io
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.errors import Reject, RunError
from recordmill.format.shard_index import read_index
from recordmill.job.staging import StagedPart, Staging
from recordmill.storage.files import Location, StorageError
from recordmill.tfrecord.decode import decode_example
from recordmill.tfrecord.framing import read_frames
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.planning.estimates import Estimate
from recordmill.transforms.planning.plan import Plan, SplitPlan
from recordmill.transforms.staged import spill
from recordmill.transforms.writing.closed_ledger import close_ledger
from recordmill.transforms.writing.dataset_manifest import expect_copies_as_records
from recordmill.transforms.writing.shards import ordered_encoding, shard_writer
from recordmill.transforms.writing.shards.ordered_encoding import RowChunk, encode_in_order
from recordmill.transforms.writing.shards.shard_writer import ShardWriter
from tests.tiny import TinyEncoder

SHARD = ("train", 0)
VALUES = st.sampled_from([b"good", b"fine", b"bad", b"skip", b""])


def rows_of(values, *, copies=1):
    """Rows with their copies; the key is the place."""
    rows = [(f"{i}", value, copy) for i, value in enumerate(values) for copy in range(copies)]
    return pa.RecordBatch.from_pydict(
        {
            batch.KEY: pa.array([key for key, _, _ in rows], pa.string()),
            batch.LABEL: pa.array(["ab"[int(key) % 2] for key, _, _ in rows], pa.string()),
            batch.GROUP: pa.array([f"g{key}" for key, _, _ in rows], pa.string()),
            batch.COPY: pa.array([copy for _, _, copy in rows], pa.int32()),
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
        }
    )


def plan_for(rows, *, task_rows=2, shards=1, **options):
    """A plan by which `task_rows` rows are encoded together."""
    originals = collections.Counter(
        label
        for label, copy in zip(rows[batch.LABEL].to_pylist(), batch.copies(rows), strict=True)
        if not copy
    )
    split = SplitPlan(
        before=originals,
        after=collections.Counter(rows[batch.LABEL].to_pylist()),
        shards=shards,
        estimate=Estimate(record_bytes=limits.TASK_BYTES // task_rows, input_bytes=0, seconds=0),
    )
    assert split.task_rows == task_rows
    context = Context(seed=5, labels=("a", "b"))
    return Plan(
        seed=5, splits={"train": split}, quotas={}, context=context, grouped=True, **options
    )


@pytest.fixture
def threads(monkeypatch):
    """Threads in the place of processes: quick, and as free in their order."""
    with Threads(4) as pool:
        monkeypatch.setattr(shard_writer, "shared_pool", lambda workers: pool)
        yield pool


class Threads(ThreadPoolExecutor):
    def __init__(self, workers):
        super().__init__(workers)
        self.workers = workers

    def submit_rows(self, task):
        return self.submit(task.call({}))


@pytest.fixture
def writer(tmp_path, threads):
    staging = Staging.of(Location.parse(str(tmp_path)), "job")
    return ShardWriter(encoder=TinyEncoder(), staging=staging)


def write_rows(writer, rows, *, plan=None, pieces=3):
    """Writes rows as one shard that comes in some pieces."""
    size = max(-(-len(rows) // pieces), 1)
    slices = [rows.slice(at, size) for at in range(0, len(rows), size)]
    parts = [(0, len(some), spill.inline(some)) for some in slices]
    return writer.write(SHARD, parts, plan or plan_for(rows))


def shard_of(writer, info):
    return writer.staging.place(f"shards/{info.shard.file}")


def index_of(writer):
    return read_index(writer.staging.place("index/train-00000-of-00001.parquet"))


def examples(data, compression="none"):
    return [
        decode_example(frame.payload)
        for frame in read_frames(io.BytesIO(data), compression=compression)
    ]


@settings(max_examples=40)
@given(
    values=st.lists(VALUES, max_size=12),
    copies=st.integers(1, 3),
    task_rows=st.integers(1, 5),
    compression=st.sampled_from(["none", "gzip"]),
)
def test_a_shard(tmp_path_factory, values, copies, task_rows, compression):
    """Written records, their order and their counts, by an oracle."""
    staging = Staging.of(Location.parse(str(tmp_path_factory.mktemp("out"))), "job")
    writer = ShardWriter(encoder=TinyEncoder(), staging=staging, compression=compression)
    rows = rows_of(values, copies=copies)
    plan = plan_for(rows, task_rows=task_rows)
    with Threads(3) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writer, "shared_pool", lambda workers: pool)
        info = write_rows(writer, rows, plan=plan)
    order = batch.sort_order(batch.order_ranks(rows, seed=5), rows)
    ordered = rows.take(pa.array(order)).to_pylist()
    good = [row for row in ordered if not row["value"].startswith((b"bad", b"skip"))]

    data = shard_of(writer, info).read_bytes()
    made = examples(data, compression)
    assert [(e["value"][0], e["copy"][0]) for e in made] == [
        (row["value"], row[batch.COPY]) for row in good
    ]
    assert (info.shard.bytes, info.shard.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert info.shard.records == len(good)
    assert info.shard.classes == collections.Counter(row[batch.LABEL] for row in good)

    index = index_of(writer).to_pylist()
    assert [(r["key"], r["label"], r["copy"], r["group"]) for r in index] == [
        (row[batch.KEY], row[batch.LABEL], row[batch.COPY], row[batch.GROUP]) for row in good
    ]
    if compression == "none":
        for row, example in zip(index, made, strict=True):
            assert examples(data[row["offset"] : row["offset"] + row["length"]]) == [example]

    bad = sum(value == b"bad" for value in values)
    assert info.rejected == bad
    assert info.filtered == ({"skip": values.count(b"skip")} if b"skip" in values else {})
    assert set(info.rejects) == {
        Reject(f"{i}", "encode", "corrupt", "it begins with bad")
        for i, value in enumerate(values)
        if value == b"bad"
    }
    assert info.originals == collections.Counter(
        row[batch.LABEL] for row in good if not row[batch.COPY]
    )
    assert (info.planned, info.planned_copies) == (len(rows), len(rows) - len(values))
    ledger, problems = close_ledger(plan, [_part(len(values))], [info], rejects=0, filtered=0)
    assert problems == []
    assert ledger.records.written + ledger.copies.written == len(good)


def _part(rows):
    return StagedPart(name="part", rows=rows, bytes=0)


class Late:
    """A pool whose results come when they are asked for; counts what it was given."""

    def __init__(self, workers, *, fail_at=None):
        self.workers = workers
        self.submitted = 0
        self.cancelled = 0
        self._fail_at = fail_at

    def submit_rows(self, task):
        self.submitted += 1
        if self.submitted == self._fail_at:
            raise RuntimeError("the pool is closed")
        return LateFuture(self, task.call({}))


class LateFuture(Future):
    def __init__(self, pool, call):
        super().__init__()
        self._pool = pool
        self._call = call

    def result(self, timeout=None):
        return self._call()

    def cancel(self):
        self._pool.cancelled += 1
        return super().cancel()


def ahead(values, pool, *, record_bytes=limits.TASK_BYTES):
    """Encodes rows one by one with a pool."""
    split = SplitPlan(
        before={},
        after={},
        shards=1,
        estimate=Estimate(record_bytes=record_bytes, input_bytes=limits.TASK_BYTES, seconds=0),
    )
    packed = shard_writer.pack_encoder(TinyEncoder(), Context(seed=0))
    rows = [rows_of([value]) for value in values]
    chunks = (RowChunk(rows=one, inputs=one) for one in rows)
    return encode_in_order(chunks, packed=packed, split=split, compression="none", pool=pool)


def in_flight():
    return ordered_encoding._budget._tasks, ordered_encoding._budget._bytes


def test_results_come_in_order_though_they_are_ready_in_any():
    """The first task waits for all others of the look-ahead to be done."""
    done = threading.Semaphore(0)

    class Backwards(Threads):
        def submit(self, function, *args):
            at = counter.__next__()

            def call():
                if at == 0:
                    for _ in range(3):
                        done.acquire()
                else:
                    done.release()
                return function(*args)

            return super().submit(call)

    counter = iter(range(100))
    with Backwards(4) as pool:
        chunks = list(ahead([b"%d" % i for i in range(20)], pool))
    assert [chunk.rows["value"][0].as_py() for chunk, _ in chunks] == [b"%d" % i for i in range(20)]
    assert [examples(chunk.data)[0]["value"] for _, chunk in chunks] == [
        [b"%d" % i] for i in range(20)
    ]
    assert in_flight() == (0, 0)


def test_looking_ahead_has_an_end():
    """Eight tasks a process where results are small, one a process where they are too large."""
    for record_bytes, expected in (
        (limits.TASK_BYTES // 64, 16),
        (limits.TASK_BYTES, 4),
        (1 << 40, 2),
    ):
        pool = Late(2)
        chunks = ahead([b"v"] * 50, pool, record_bytes=record_bytes)
        next(chunks)
        assert pool.submitted == expected
        assert in_flight()[0] == expected - 1
        chunks.close()
        assert pool.cancelled == expected - 1
        assert in_flight() == (0, 0)


def test_a_second_writer_goes_on_while_the_first_holds_the_budget():
    first, second = (ahead([b"v"] * 50, Late(1)) for _ in range(2))
    next(first)
    assert len(list(second)) == 50
    first.close()
    assert in_flight() == (0, 0)


def test_the_budget_comes_back_when_the_encoder_fails(monkeypatch):
    pool = Late(2)
    chunks = ahead([b"v"] * 50, pool)
    next(chunks)

    def fail(self, timeout=None):
        raise KeyError("a bug")

    monkeypatch.setattr(LateFuture, "result", fail)
    with pytest.raises(KeyError, match="a bug"):
        next(chunks)
    assert in_flight() == (0, 0)
    assert pool.cancelled == pool.submitted - 2


def test_the_budget_comes_back_when_the_pool_refuses():
    with pytest.raises(RuntimeError, match="the pool is closed"):
        list(ahead([b"v"] * 50, Late(2, fail_at=5)))
    assert in_flight() == (0, 0)


def test_the_budget_comes_back_when_the_disk_is_full(writer, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise StorageError("no space left")

    monkeypatch.setattr(Location, "open_output", lambda self: Full())
    with pytest.raises(StorageError, match="no space left"):
        write_rows(writer, rows_of([b"v"] * 50))
    gc.collect()  # the error and the frames of its traceback may refer to each other
    assert in_flight() == (0, 0)


def test_a_finished_shard_is_reused(writer, monkeypatch):
    rows = rows_of([b"v", b"bad", b"skip", b"w"], copies=2)
    first = write_rows(writer, rows)
    place = shard_of(writer, first).local_path
    before = os.stat(place)
    monkeypatch.setattr(shard_writer, "shared_pool", None)  # nothing is encoded
    again = write_rows(writer, rows.take(pa.array([3, 1, 0, 2, 7, 6, 5, 4])), pieces=1)
    assert again == first
    after = os.stat(place)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("change", ["value", "copies", "labels", "task rows", "shard", "index"])
def test_a_shard_of_anything_else_is_written_anew(writer, change):
    rows = rows_of([b"v", b"w", b"x"])
    plan = plan_for(rows)
    first = write_rows(writer, rows, plan=plan)
    old = shard_of(writer, first).local_path + ".old"
    os.link(shard_of(writer, first).local_path, old)  # its inode is not given to another
    if change == "value":
        rows = rows_of([b"v", b"w", b"y"])
    elif change == "copies":
        rows = rows_of([b"v", b"w", b"x"], copies=2)
    elif change == "labels":
        context = dataclasses.replace(plan.context, labels=("0", "a", "b"))
        plan = dataclasses.replace(plan, context=context)
    elif change == "task rows":
        plan = plan_for(rows, task_rows=3)
    elif change == "shard":
        shard_of(writer, first).write_bytes(b"cut off")
    elif change == "index":
        writer.staging.place("index/train-00000-of-00001.parquet").delete()
    again = write_rows(writer, rows, plan=plan)
    assert not os.path.samefile(shard_of(writer, again).local_path, old)
    data = shard_of(writer, again).read_bytes()
    assert again.shard.sha256 == hashlib.sha256(data).hexdigest()
    assert index_of(writer).num_rows == len(rows)


def test_a_shard_cut_off_before_its_info_is_not_taken_for_an_older_one(writer, monkeypatch):
    """Rows of the same size took the place of others, and then the others come back."""
    rows, others = rows_of([b"v", b"w"]), rows_of([b"x", b"y"])
    first = write_rows(writer, rows)
    real = Location.write_bytes

    def write_bytes(self, data, **options):
        if "/info/" in str(self):
            raise StorageError("cut off")
        real(self, data, **options)

    monkeypatch.setattr(Location, "write_bytes", write_bytes)
    with pytest.raises(StorageError):
        write_rows(writer, others)
    monkeypatch.setattr(Location, "write_bytes", real)
    assert write_rows(writer, rows) == first
    data = shard_of(writer, first).read_bytes()
    assert hashlib.sha256(data).hexdigest() == first.shard.sha256


def test_recipes_are_hashed_while_rows_are_encoded(writer, threads, monkeypatch):
    """Encoder processes do not wait for recipes."""
    events = []
    submit = threads.submit_rows
    monkeypatch.setattr(threads, "submit_rows", lambda task: events.append("task") or submit(task))
    monkeypatch.setattr(shard_writer, "can_have_recipes", lambda *_: True)
    monkeypatch.setattr(shard_writer, "row_recipes", lambda *_, **__: events.append("recipes"))
    write_rows(writer, rows_of([b"good"] * 6))
    assert events == ["task"] * 3 + ["recipes"] * 3


def test_a_shard_of_no_rows_is_an_empty_file(writer):
    info = writer.write(SHARD, [], plan_for(rows_of([b"v"])))
    assert (info.shard.records, info.shard.bytes, info.planned) == (0, 0, 0)
    assert shard_of(writer, info).read_bytes() == b""
    assert index_of(writer).num_rows == 0


def test_gzip_is_one_member_a_task(tmp_path, threads):
    """So that members can be compressed side by side; a task that keeps nothing writes none."""
    staging = Staging.of(Location.parse(str(tmp_path)), "job")
    writer = ShardWriter(encoder=TinyEncoder(), staging=staging, compression="gzip")
    rows = rows_of([b"v"] * 4 + [b"bad"] * 3)
    info = write_rows(writer, rows, plan=plan_for(rows, task_rows=1))
    data = shard_of(writer, info).read_bytes()
    assert info.shard.file == "train.tfrecord-00000-of-00001.gz"
    assert data.count(b"\x1f\x8b\x08\x00\x00\x00\x00\x00") == 4
    assert len(examples(data, "gzip")) == 4


def _losing(infos):
    return infos[:-1]


def _twice(infos):
    return [*infos, infos[-1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_losing, "2 shards of train were planned, 1 came back"),
        (_twice, "2 shards of train were planned, 3 came back"),
    ],
)
def test_a_lost_shard_is_noticed(writer, change, message):
    rows = rows_of([b"v"] * 40)
    plan = plan_for(rows, shards=2)
    infos = [
        writer.write(("train", i), [(0, 20, spill.inline(rows.slice(20 * i, 20)))], plan)
        for i in range(2)
    ]
    _, problems = close_ledger(plan, [_part(40)], infos, rejects=0, filtered=0)
    assert problems == []
    _, problems = close_ledger(plan, [_part(40)], change(infos), rejects=0, filtered=0)
    assert any(problem.startswith(message) for problem in problems)
    assert any("records of train were planned" in problem for problem in problems)
    assert any("40 records were made" in problem for problem in problems)


def test_a_lost_row_is_noticed(writer):
    rows = rows_of([b"v"] * 10, copies=2)
    plan = plan_for(rows)
    info = write_rows(writer, rows.slice(0, 19), plan=plan)
    _, problems = close_ledger(plan, [_part(10)], [info], rejects=0, filtered=0)
    assert "20 records of train were planned, 19 reached its shards" in problems


def test_a_worker_of_other_libraries_is_refused(writer):
    writer.check_versions()
    # zlib is no library of the encoder's: the run of the same version stands in the manifest.
    dataclasses.replace(writer, versions={"tiny": "1", "zlib": "0"}).check_versions()
    with pytest.raises(RunError, match="has tiny 1, the submitter 2: other versions may write"):
        dataclasses.replace(writer, versions={"tiny": "2"}).check_versions()


def test_a_rejected_copy_of_a_written_record_is_a_fault(writer, monkeypatch):
    """The shard is written again by the next run, instead of being reused with a copy too few."""
    rows = rows_of([b"a", b"b", b"bad"], copies=2)
    info = write_rows(writer, rows)
    assert (info.rejected, info.copies, info.planned_copies) == (1, 2, 3)
    expect_copies_as_records([info], writer.staging)
    place = writer.staging.place(f"info/{info.shard.file}.json")
    assert place.exists()
    broken = dataclasses.replace(info, rejected=0)
    with pytest.raises(RunError, match="records have rejected copies, one is '2': "):
        expect_copies_as_records([broken], writer.staging)
    assert not place.exists()
