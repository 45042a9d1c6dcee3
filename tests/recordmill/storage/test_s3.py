"""The whole job on an object store: no rename, no lock, no folders, and requests that fail."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from recordmill.format.manifest import load
from recordmill.job import lock
from recordmill.job.claims import PREFIX
from recordmill.job.staging import FOLDER
from recordmill.storage import stores
from recordmill.storage.files import Location, StorageError
from recordmill.storage.input_files import open_file
from recordmill.storage.storage_errors import NoBucketError
from tests.image_runs import images
from tests.other_processes import PATIENCE, wait_until
from tests.paths import DEMO
from tests.s3_server import CREDENTIALS, read_log, s3_server

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

HOW = ("--size", "32", "--balance", "oversample", "--num-shards", "train=2", "--seed", "7")
PHOTOS = sorted(DEMO.rglob("*.jpg"))[::9]  # each request takes moto some milliseconds
REUSED = sorted(DEMO.rglob("*.jpg"))[::5]
Uri = Callable[[str], str]


@pytest.fixture(scope="module")
def s3() -> Iterator[Uri]:
    with s3_server() as uri:
        yield uri


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> pathlib.Path:
    """The dataset as a local folder has it."""
    folder = tmp_path_factory.mktemp("local")
    assert images("--input", link(folder, PHOTOS), "--output", folder / "out", *HOW) == 0
    return folder / "out"


def link(folder: pathlib.Path, photos: Sequence[pathlib.Path]) -> pathlib.Path:
    for path in photos:
        place = folder / "photos" / path.relative_to(DEMO)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path)
    return folder / "photos"


def fill(s3: Uri, folder: str = "photos", *, photos: Sequence[pathlib.Path] = tuple(PHOTOS)) -> str:
    """Puts images of the demo into the store."""
    for path in photos:
        Location.parse(s3(f"{folder}/{path.relative_to(DEMO)}")).write_bytes(path.read_bytes())
    return s3(folder)


@pytest.fixture(scope="module")
def source(s3) -> str:
    return fill(s3)


def files(place: Location, inside: str = "") -> dict[str, bytes]:
    found = {}
    for entry in place.list_dir():
        if entry.kind == "dir":
            found |= files(place / entry.name, f"{inside}{entry.name}/")
        elif entry.name not in ("job.json", "recipes.parquet"):  # they name places and times
            found[inside + entry.name] = (place / entry.name).read_bytes()
    return found


def assert_same(out: str, local: pathlib.Path) -> None:
    """The store has the dataset of the folder, and nothing of the run that made it."""
    assert files(Location.parse(out)) == files(Location.parse(str(local)))
    assert not (Location.parse(out) / FOLDER).exists()


@pytest.mark.long
def test_a_finished_one_and_an_overwritten_one(s3, source, local, capfd):
    out = s3("again-out")
    assert images("--input", source, "--output", out, *HOW) == 0
    assert_same(out, local)
    before = files(Location.parse(out))
    assert images("--input", source, "--output", out, *HOW) == 0
    assert files(Location.parse(out)) == before
    assert images("--input", source, "--output", out, "--size", "16") == 2
    assert "--size was" in capfd.readouterr().err
    assert images("--input", source, "--output", out, "--size", "16", "--overwrite") == 0
    names = {name for name in files(Location.parse(out)) if ".tfrecord-" in name}
    splits = load(Location.parse(out)).splits.values()
    # And none of the old ones.
    assert names == {shard.file for split in splits for shard in split.shards}


@pytest.fixture(scope="module")
def failing() -> Iterator[Uri]:
    with s3_server(fail=0.02) as uri:
        yield uri


@pytest.mark.long
def test_requests_that_fail_are_tried_again(failing, local):
    source, out = fill(failing), failing("out")
    assert images("--input", source, "--output", out, *HOW) == 0
    assert_same(out, local)


@pytest.mark.long
def test_a_few_bytes_are_read_in_spite_of_errors(failing):
    place = Location.parse(failing("tiny"))
    place.write_bytes(b"tiny")
    for _ in range(120):
        assert place.read_bytes() == b"tiny"
        assert place.read_range(1, 2) == b"in"


DAMAGED = "the store's answer is incomplete or damaged; check the network"
PHOTO = bytes(range(256)) * 16


@pytest.mark.parametrize(
    ("kind", "operation", "expected"),
    [
        ("short", Location.read_bytes, PHOTO),
        ("short", lambda place: place.read_range(0, len(PHOTO)), PHOTO),
        ("short", lambda place: place.read_range(100, 1000), PHOTO[100:1100]),
        ("changed", lambda place: place.read_range(0, len(PHOTO)), PHOTO),
        ("bare", lambda place: place.stat().size, len(PHOTO)),
        ("unsized", lambda place: place.stat().size, len(PHOTO)),
        ("cut", lambda place: [entry.name for entry in place.parent.list_dir()], ["photo"]),
    ],
)
def test_a_damaged_answer_is_requested_again(kind, operation, expected, s3):
    name = uuid.uuid4().hex
    place = Location.parse(s3(f"once-{kind}/{name}/photo"))
    place.write_bytes(PHOTO)
    assert operation(place) == expected
    if kind == "changed":
        return  # two equal answers are believed: encrypted objects have an ETag that is no MD5
    place = Location.parse(s3(f"always-{kind}/{name}/photo"))
    place.write_bytes(PHOTO)
    with pytest.raises(StorageError, match=DAMAGED):
        operation(place)


@pytest.mark.parametrize("read", [Location.read_bytes, lambda place: open_file(str(place)).read()])
@pytest.mark.parametrize("etag_is_sum", [True, False])
def test_a_file_without_a_size_is_not_taken_for_an_empty_one(read, etag_is_sum, s3, monkeypatch):
    """The answers to HEAD never have a size, as those of a store that is not quite S3."""
    if not etag_is_sum:  # as of encrypted objects
        monkeypatch.setattr(stores, "_MD5_OF_NOTHING", b"of no object")
    name = uuid.uuid4().hex
    place = Location.parse(s3(f"always-unsized/{name}/photo"))
    place.write_bytes(PHOTO)
    with pytest.raises(StorageError, match=DAMAGED):
        place.size()
    assert read(place) == PHOTO  # as the answers to GET have a size
    assert place.read_range(0, 9) == PHOTO[:9]
    for key in (f"always-unsized/{name}/empty", f"{name}/empty"):
        empty = Location.parse(s3(key))
        empty.write_bytes(b"")
        assert (empty.size(), read(empty)) == (0, b"")


@pytest.mark.long
def test_damaged_answers_do_not_change_the_dataset(s3, local):
    """Half of each image is sent, and no size of it."""
    source, out = fill(s3, "once-torn/photos"), s3("out-once-torn")
    assert images("--input", source, "--output", out, *HOW) == 0
    assert_same(out, local)


@pytest.mark.long
def test_an_image_that_may_not_be_read_fails_the_run(s3, capfd):
    """It was a reject, which a rerun kept after the permission was granted."""
    for name in ("a/1.jpg", "b/once-denied/2.jpg"):
        Location.parse(s3(f"guarded/{name}")).write_bytes(PHOTOS[0].read_bytes())
    arguments = ("--input", s3("guarded"), "--output", s3("out-guarded"), "--num-shards", "1")
    assert images(*arguments, "--splits", "train=1") == 1
    said = capfd.readouterr().err
    assert "/b/once-denied/2.jpg" in said
    assert "permission denied; check its owner, mode or access policy" in said
    assert images(*arguments, "--splits", "train=1") == 0
    assert (Location.parse(s3("out-guarded")) / "rejects.jsonl").read_bytes() == b""


@pytest.mark.parametrize("option", ["input", "output"])
def test_a_bucket_that_does_not_exist(option, s3, source, capfd):
    """There is no second message about the claim, which was not written."""
    places = {"input": source, "output": s3("out")}
    places[option] = places[option].replace("://bucket/", "://other/")
    assert images("--input", places["input"], "--output", places["output"], *HOW) == 2
    said = capfd.readouterr().err
    assert re.fullmatch(
        r"\S+ images: error: (the input cannot be used: )?cannot access s3://other/\S+: the store"
        " has no such bucket; check its name, or create it, then run the same command again\n",
        said,
    )
    assert ("the input" in said) == (option == "input")


def test_a_dataset_in_a_bucket_that_does_not_exist(s3):
    with pytest.raises(NoBucketError, match="the store has no such bucket; check its name"):
        load(Location.parse(s3("out").replace("://bucket/", "://other/")))


@pytest.mark.long
def test_two_at_once_exclude_each_other(s3, source, local, capfd):
    """And the next makes the dataset of a folder, although it keeps little in memory."""
    out = s3("held-out")
    with lock.hold_lock(Location.parse(out) / FOLDER):
        assert images("--input", source, "--output", out, *HOW) == 1
    assert "another run is writing to" in capfd.readouterr().err
    assert images("--input", source, "--output", out, *HOW, "--spill-above", "1") == 0
    assert_same(out, local)


def test_a_claim_of_a_killed_process_is_reported(s3, source, capfd):
    out = s3("killed-out")
    claim = Location.parse(out) / FOLDER / f"{PREFIX}dead.json"
    claim.write_bytes(json.dumps({"host": "elsewhere", "pid": 7, "holds": True}).encode())
    assert images("--input", source, "--output", out, *HOW) == 1
    said = capfd.readouterr().err
    assert "process 7 on elsewhere holds the lock" in said
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+"
    found = re.search(rf"has died, its lock ends at {time} \(in (\d+) s\)", said)
    assert found, said
    assert 0 < int(found[1]) <= 90


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_leaves_no_claim_that_refuses_the_next(number, s3, source, local):
    out = s3(f"stopped-{number}")
    folder = Location.parse(out) / FOLDER

    def claimed() -> bool:
        there = folder.list_dir() if folder.exists() else ()
        return any(entry.name.startswith(PREFIX) for entry in there)

    process = subprocess.Popen(
        [sys.executable, "-m", "recordmill", "images", "--input", source, "--output", out, *HOW],
        stderr=subprocess.PIPE, text=True, env=os.environ | CREDENTIALS,
    )  # fmt: skip
    wait_until(claimed, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    assert claimed() == (number == signal.SIGKILL)
    # A killed process withdraws nothing, but this machine knows that it has ended.
    assert images("--input", source, "--output", out, *HOW) == 0
    assert_same(out, local)


@pytest.mark.long
def test_what_is_reused_is_read_in_few_requests(tmp_path):
    """Records of a dataset in the store, into others there: only a new image is read."""
    log, scratch = tmp_path / "log", tmp_path / "scratch"
    photos_here = link(tmp_path, REUSED)
    with s3_server(log=log) as uri:
        photos_there = fill(uri, photos=REUSED[1:])
        argv = ["--size", "32", "--num-shards", "train=4"]
        assert images(*argv, "--input", photos_there, "--output", uri("earlier")) == 0
        shards = {
            f"earlier/{name}": len(content)
            for name, content in files(Location.parse(uri("earlier"))).items()
            if ".tfrecord-" in name
        }
        fill(uri, photos=REUSED[:1])
        new = f"photos/{REUSED[0].relative_to(DEMO)}"
        for options in ([], ["--seed", "3"]):
            argv += options
            made = [*argv, "--output", scratch, "--overwrite", "--no-reuse"]
            assert images(*made, "--input", photos_here) == 0
            log.write_text("")
            out = uri("".join(["later", *options]))
            argv_there = [*argv, "--input", photos_there, "--output", out]
            assert images(*argv_there, "--reuse", uri("earlier")) == 0
            read = [request for request in read_log(log) if request.method == "GET"]
            assert_same(out, scratch)
            photos = [request for request in read if request.key.startswith("photos/")]
            assert {request.key for request in photos} == {new}
            assert sum(request.sent for request in photos) <= 2 * REUSED[0].stat().st_size
            reused = [request for request in read if request.key in shards]
            # Once for the sample of each split that draws from it, and once for each new shard:
            # in the same order, that is the one after it, else any.
            times = 3 + (6 if options else 2)
            assert len(shards) <= len(reused) <= times * len(shards)
            assert sum(request.sent for request in reused) <= times * sum(shards.values())


@pytest.mark.parametrize("faults", [False, True], ids=["no-faults", "faults"])
def test_photos_are_read_with_one_request_each(store, tmp_path, faults):
    """The dataset and its rejects are those of the same photos on disk."""
    photos = tmp_path / "photos"
    every = sorted(DEMO.rglob("*.jpg"))
    contents = {path.relative_to(DEMO): path.read_bytes() for path in every}
    first = next(iter(contents))
    contents[first.with_name("cut.jpg")] = contents[first][:300]
    for name, content in contents.items():
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).write_bytes(content)
    how = ("--size", "32", "--num-shards", "train=2", "--max-reject-fraction", "0.5")
    assert images("--input", photos, "--output", tmp_path / "local", *how) == 0
    for name, content in contents.items():
        store.put(f"bucket/photos/{name}", content)
    kinds = ("failing", "cut", "short", "unsized", "flipped") if faults else ()
    for name, kind in zip(contents, kinds, strict=False):
        store.faults[f"bucket/photos/{name}"] = (kind, 1)
    source = store.uri("photos")
    assert images("--input", source, "--output", tmp_path / "out", *how) == 0
    gets = [one.key for one in store.requests if one.operation == "GET"]
    heads = [one.key for one in store.requests if one.operation == "HEAD"]
    local, there = (files(Location.parse(str(tmp_path / name))) for name in ("local", "out"))
    assert there == local
    assert b"cut.jpg" in there["rejects.jsonl"]
    assert len(set(gets)) == len(contents)
    assert len(gets) <= 1.1 * len(contents) + 2 * len(kinds)
    assert len(heads) <= 8


def test_each_file_is_written_once_and_copied_once(store, tmp_path):
    how = ("--size", "32", "--num-shards", "train=5")
    assert images("--input", DEMO, "--output", tmp_path / "local", *how) == 0
    assert images("--input", DEMO, "--output", store.uri("out"), *how, "--scratch", "store") == 0
    there = Location.parse(store.uri("out"))
    assert files(there) == files(Location.parse(str(tmp_path / "local")))
    assert [name for name in store.names() if ".recordmill" in name or name.endswith("/")] == []
    written = collections.Counter(
        one.key.rpartition(".recordmill/")[2] for one in store.requests if one.operation == "PUT"
    )
    of_dataset = {f"out/{name}" for name in load(there).paths()}
    assert {key for key in written if key.startswith("out/")} == of_dataset
    shards = len([key for key in of_dataset if "/index/" in key])
    for folder in ("shards", "index", "recipes"):
        staged = [key for key in written if re.match(f"[0-9a-f]+/{folder}/", key)]
        assert [written[key] for key in staged] == [1] * shards
    assert [written[key] for key in of_dataset] == [1] * len(of_dataset)
    assert not [key for key in written if "/drafts/" in key]
