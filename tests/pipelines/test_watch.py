"""How far a job is, by what is in staging."""

import contextlib
import dataclasses
import io

import pytest

from recordmill.errors import DamageError, StorageError
from recordmill.format.file_info import file_info
from recordmill.format.file_names import shard_name
from recordmill.format.manifest import Shard
from recordmill.job.staging import Listing, ShardInfo, StagedPart, Staging, begun_name, to_json
from recordmill.pipelines.jobs.watch import JobProgress
from recordmill.runners.progress import Pace, Watcher, line
from recordmill.storage.files import Location, MissingError
from recordmill.transforms.model import limits
from tests.s3_server import CREDENTIALS, s3_server


def split(records: int, size: int) -> dict[str, object]:
    return {
        **{"records": records, "bytes": size, "copies": 0, "shards": 1, "seconds": 1.0},
        **{"before": [], "after": []},
    }


def plan_of(splits: dict[str, object], rejected: int) -> dict[str, object]:
    return {"splits": splits, "labels": None, "rejected": rejected, "notes": []}


PLAN = plan_of({"train": split(100, 5000)}, rejected=2)


def staging(tmp_path, plan=None) -> Staging:
    made = Staging.of(Location.parse(str(tmp_path)), "job")
    made.root.make_dirs()
    if plan is not None:
        made.place("plan.json").write_bytes(to_json(plan))
    return made


LISTING = Listing(
    parts=(), fingerprint="", labelled=0, grouped=0, presplit=0, rejects=(), filtered={}
)
BURST = 15  # requests of one poll, after which polls wait


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shard_info(number: int) -> ShardInfo:
    """A shard of ten records of fifty bytes."""
    shard = Shard(
        file=shard_name("train", number, 40, "none"),
        records=10, bytes=500, sha256="0" * 64, classes={}, index=file_info(b""),
    )  # fmt: skip
    return ShardInfo(
        split="train", number=number, plan="", planned=11, planned_copies=0, shard=shard, copies=0,
        originals={}, rejects=(), rejected=1, filtered={},
    )  # fmt: skip


def test_while_there_is_no_listing_its_rows_are_counted(tmp_path):
    progress = JobProgress(staging(tmp_path))
    progress.listed(30)
    progress.listed(12)
    snapshot = progress.poll()
    assert (snapshot.phase, snapshot.done) == ("listing", 42)


def test_rows_are_counted_by_full_parts_while_another_process_lists(tmp_path):
    place = staging(tmp_path)
    for n in range(2):
        part = place.place(f"listing/now/part-{n:05d}.arrow")
        part.parent.make_dirs()
        part.write_bytes(b"")
    snapshot = JobProgress(place).poll()
    assert (snapshot.phase, snapshot.done) == ("listing", 2 * limits.REFERENCE_ROWS)


def test_planning_comes_after_listing(tmp_path):
    place = staging(tmp_path)
    listing = Listing(
        parts=(), fingerprint="", labelled=0, grouped=0, presplit=0, rejects=(), filtered={}
    )
    place.place("listing.json").write_bytes(to_json(dataclasses.asdict(listing)))
    assert line(JobProgress(place).poll(), Pace()) == "planning"


def test_a_shard_that_is_being_written_counts_by_its_size(tmp_path):
    place = staging(tmp_path, PLAN)
    place.place("drafts").make_dirs()
    place.place("drafts/x-1-a.tmp").write_bytes(bytes(1000))
    place.place("drafts/x-1-b.tmp").write_bytes(bytes(300))  # of an earlier attempt
    progress = JobProgress(place)
    assert not progress.is_writing()
    snapshot = progress.poll()
    assert progress.is_writing()
    assert (snapshot.phase, snapshot.done, snapshot.total) == ("writing", 20, 100)
    assert (snapshot.bytes, snapshot.rejects) == (1000, 2)
    place.place("drafts/x-1-a.tmp").write_bytes(bytes(5000))
    assert progress.poll().done == 100
    assert not progress.is_writing()


def test_a_plan_without_records_has_nothing_to_write(tmp_path):
    for splits in ({}, {"train": split(0, 0)}):
        snapshot = JobProgress(staging(tmp_path, plan_of(splits, rejected=9))).poll()
        assert (snapshot.done, snapshot.total, snapshot.rejects) == (0, 0, 9)


def test_parts_are_counted_once_however_many_they_became(tmp_path):
    place = staging(tmp_path)
    parts = tuple(StagedPart(name=f"listing/part-{n:05d}.arrow", rows=5, bytes=9) for n in range(3))
    listing = Listing(
        parts=parts, fingerprint="", labelled=0, grouped=0, presplit=0, rejects=(), filtered={}
    )
    place.place("listing.json").write_bytes(to_json(listing))
    place.place("checked").make_dirs()
    for name in ("part-00000-00000", "part-00000-00001", "part-00001-00000"):
        place.place(f"checked/{name}.arrow.json").write_bytes(b"{}")
    place.place("checked/part-00000.json").write_bytes(b"[]")
    snapshot = JobProgress(place).poll()
    assert (snapshot.phase, snapshot.done, snapshot.total) == ("checking", 1, 3)


def test_a_store_gets_one_request_per_second(tmp_path, monkeypatch):
    """However often it is polled, and however many shards end."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    log = tmp_path / "log"
    clock = Clock()
    with s3_server(log=log) as uri:
        place = Staging.of(Location.parse(uri("out")), "job")
        progress = JobProgress(place, clock=clock)
        shards = [shard_info(number) for number in range(20)]

        def poll_for(seconds: int) -> None:
            for _ in range(4 * seconds):
                clock.now += 0.25
                progress.poll()

        place.place("listing.json").write_bytes(to_json(LISTING))
        before = log.read_text().count("\n")
        poll_for(60)
        assert progress.poll().phase == "planning"
        assert 30 < log.read_text().count("\n") - before <= 60 + BURST
        plan = plan_of({"train": split(400, 20_000) | {"shards": 40}}, rejected=0)
        place.place("plan.json").write_bytes(to_json(plan))
        mark = begun_name("20-context-any.tmp", 150)
        place.place(f"drafts/{mark}").write_bytes(b"")
        for info in shards:
            place.place(f"info/{info.shard.file}.json").write_bytes(to_json(info))
        before = log.read_text().count("\n")
        poll_for(20)
        # Shards whose infos are not read yet count as shards of the mean size.
        assert progress.poll().done == 203
        poll_for(120)
        assert 70 < log.read_text().count("\n") - before <= 140 + BURST
        snapshot = progress.poll()
    assert (snapshot.phase, snapshot.done, snapshot.total) == ("writing", 203, 400)
    assert (snapshot.bytes, snapshot.rejects) == (20 * 500 + 150, 20)


@pytest.mark.parametrize(
    ("error", "is_silent"),
    [
        (StorageError("timed out"), True),
        (MissingError("moved"), False),
        (DamageError("bad"), False),
    ],
)
def test_a_store_that_does_not_answer_is_named_and_shows_no_progress(error, is_silent, monkeypatch):
    clock, answers = Clock(), True
    output = Location.parse("s3://bucket/out?endpoint_override=store:9000&scheme=http")
    place = Staging.of(output, "job")

    def read(self: Staging, name: str, kind: object) -> object:
        if not answers:
            raise error
        return PLAN if name == "plan.json" else None

    monkeypatch.setattr(Staging, "read_json", read)
    monkeypatch.setattr(JobProgress, "_list", lambda self, name: ())
    progress = JobProgress(place, clock=clock)
    before = progress.poll()
    assert before is not None
    answers = False
    said = []
    for clock.now in range(10, 60, 10):
        with contextlib.suppress(DamageError):
            progress._kept.clear()
            assert progress.poll() == before
        said.append(progress.unanswered())
    expected = [
        "the store of s3://bucket/out?endpoint_override=store:9000&scheme=http has not answered"
        f" this command for {seconds} s"
        for seconds in (20, 30, 40)
    ]
    assert said == (["", "", *expected] if is_silent else [""] * 5)
    answers = True
    clock.now = 60
    progress.poll()
    assert progress.unanswered() == ""


@pytest.mark.parametrize("content", [b"", b"{", b'{"splits": {}}'])
def test_a_damaged_plan_is_not_the_end_of_staging(tmp_path, content):
    place = staging(tmp_path)
    place.place("plan.json").write_bytes(content)
    progress = JobProgress(place)
    with pytest.raises(DamageError, match=r"plan\.json is damaged"):
        progress.poll()
    # The display goes on: the job reads the plan itself, and fails with that error.
    Watcher(progress.poll, quiet=False, stream=io.StringIO()).tick()
