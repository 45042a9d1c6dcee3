"""Listings of S3 in pages: their entries, their requests, and the faults of stores."""

import functools
import itertools
import random
from collections.abc import Callable, Iterator

import pytest

import tests.s3_store
from recordmill.errors import Reason, RecordError, Reject
from recordmill.storage import s3_listing, s3_objects
from recordmill.storage.files import Location, StorageError
from recordmill.storage.s3_listing import S3Lister
from recordmill.storage.stores import ArrowFiles, ListedPath
from recordmill.transforms.sources.files.path_rules import PathRules
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, SkippedPath, WalkItem, glob, walk
from tests.s3_store import LASTING, S3Store

NAMES = ("a", "a-b", "a0", "b.c", "\u00fc +%20", "~")


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch) -> None:
    for name, value in (("_KEYS", 3), ("_AHEAD", 2), ("_PART", 4), ("_SKIPS", 1)):
        monkeypatch.setattr(s3_listing, name, value)
    monkeypatch.setattr(S3Lister, "ahead", 3)
    monkeypatch.setattr(tests.s3_store, "_PAGE", 3)


def put(store: S3Store, *keys: str) -> None:
    for key in keys:
        store.put(f"bucket/{key}", b"" if key.endswith(("/", "empty")) else b"x")


def files_of(store: S3Store, path: str = "in") -> ArrowFiles:
    files = Location.parse(store.uri(path)).store
    assert isinstance(files, ArrowFiles)
    return files


def listed(files: ArrowFiles, folder: str, *, recursive: bool) -> list[ListedPath]:
    lister = files.open_lister()
    try:
        assert isinstance(lister, S3Lister)
        return [*itertools.chain.from_iterable(lister.begin(folder, recursive=recursive))]
    finally:
        lister.close()


def by_pyarrow(files: ArrowFiles, folder: str, *, recursive: bool) -> list[ListedPath]:
    return sorted({*files.list_folder(folder, recursive=recursive)})


def random_keys(seed: int) -> Iterator[str]:
    """Yield keys below `in`: also markers, empty objects, and names of files and folders."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 5, 20, 40))):
        key = "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 3)))
        yield f"in/{key}{rng.choice(('', '', '/empty', '/'))}"
        if not rng.randrange(40):
            yield f"in/{key}//x"


@pytest.mark.parametrize("recursive", [True, False])
def test_a_listing_is_that_of_pyarrow(recursive, store):
    for seed in range(40):
        put(store, *(f"{seed}-{key}" for key in random_keys(seed)))
    files = files_of(store)
    for folder in (*(f"{seed}-in" for seed in range(40)), ""):
        found = listed(files, folder, recursive=recursive)
        if not recursive:
            found.sort()
        assert found == by_pyarrow(files, folder, recursive=recursive)


def kinds(store: S3Store) -> list[str]:
    return [one.operation for one in store.requests]


@pytest.mark.parametrize(
    ("keys", "requests"),
    [
        ([], 1),
        (["in/a/b", "in/c"], 1),
        ([f"in/{number:02}" for number in range(20)], 7),
        # The first page, one list of the folders, and two pages of each folder.
        ([f"in/{number // 4}/{number:02}" for number in range(20)], 12),
    ],
)
def test_a_page_takes_one_request(keys, requests, store):
    put(store, "in/", *keys)
    found = listed(files_of(store), "in", recursive=True)
    assert [f"in/{one.path}" for one in found] == keys
    assert kinds(store) == ["LIST"] * requests


@pytest.mark.parametrize("recursive", [True, False])
def test_a_folder_of_files_is_not_held_in_memory(recursive, store, monkeypatch):
    """It is not listed by pyarrow or with a delimiter, because both return all names at once."""
    put(store, *(f"in/{number:02}" for number in range(20)), "in/9/a", "in/9/b")
    files = files_of(store)
    monkeypatch.setattr(files, "list_folder", None)
    paths = [one.path for one in listed(files, "in", recursive=recursive)]
    assert paths == [f"{number:02}" for number in range(20)] + (
        ["9/a", "9/b"] if recursive else ["9"]
    )


def test_a_scan_of_a_folder_has_the_entries_of_a_listing(store):
    put(store, *random_keys(3), "in/c/", "in/d", "in/e/f")
    place = Location.parse(store.uri("in"))
    entries = sorted(place.scan_dir(), key=lambda entry: (entry.name, entry.kind))
    assert entries == sorted({*place.list_dir()}, key=lambda entry: (entry.name, entry.kind))
    assert {"dir", "file"} == {entry.kind for entry in entries}


def test_few_pages_are_requested_ahead(store):
    put(store, *(f"in/{number // 30}/{number:03}" for number in range(300)))
    lister = files_of(store).open_lister()
    pages = lister.begin("in", recursive=True)
    next(pages)
    assert kinds(store) == ["LIST"]
    next(pages)
    lister.close()
    assert len(kinds(store)) <= 1 + 4 + 4 * 2  # the names of the folders take 4


def test_markers_take_a_request_and_files_do_not(store):
    put(store, "in/a/", "in/a/1", "in/b", "in/c.jpg", "in/d/")
    assert [one.path for one in listed(files_of(store), "in", recursive=True)] == [
        *("a/1", "b", "c.jpg")
    ]
    assert kinds(store).count("HEAD") == 2


def test_many_empty_files_take_few_requests(store, monkeypatch):
    monkeypatch.setattr(s3_listing, "_HEADS", 2)
    names = [f"{number}.empty" for number in range(9)]
    put(store, *(f"in/{name}" for name in names))
    assert [one.path for one in listed(files_of(store), "in", recursive=True)] == names
    assert kinds(store).count("HEAD") == 2


def fails_after_a_page(store: S3Store, kind: str, times: int) -> Callable[[], list[str]]:
    """Return the function that walks a folder, whose listings fail after the first page."""
    put(store, *(f"in/{number:02}" for number in range(20)))

    def walk_all() -> list[str]:
        items = walk(Location.parse(store.uri("in")), skipped_among_media, depth=0)
        first = next(items)
        store.faults["bucket"] = (kind, times)
        return [one.key for one in itertools.chain([first], items) if isinstance(one, File)]

    return walk_all


PASSING = ["failing", "cut", "short", "unsized", "stalled"]


@pytest.mark.parametrize("kind", PASSING)
def test_a_fault_that_passes_is_not_noticed(kind, store, monkeypatch):
    if kind == "stalled":
        monkeypatch.setattr(s3_objects, "STALL_SECONDS", 2)
    walk_all = fails_after_a_page(store, kind, 1)
    assert walk_all() == [f"{number:02}" for number in range(20)]
    assert len(kinds(store)) == 7 + (kind != "unsized")


@pytest.mark.parametrize(
    ("kind", "why"), [(kind, why) for kind, why in LASTING.items() if kind != "unsized"]
)
def test_a_fault_that_stays_is_a_sentence(kind, why, store, monkeypatch):
    if kind == "stalled":
        monkeypatch.setattr(s3_objects, "STALL_SECONDS", 0.2)
    walk_all = fails_after_a_page(store, kind, 100)
    with pytest.raises(StorageError) as caught:
        walk_all()
    place = Location.parse(store.uri("in"))
    assert str(caught.value).startswith(f"cannot list {place}: {why}")
    assert "\n" not in str(caught.value)


def test_a_missing_folder_is_a_sentence(store):
    with pytest.raises(StorageError, match=r"cannot list .*/in.*: it or its folder does not exist"):
        [*walk(Location.parse(store.uri("in")), skipped_among_media, depth=0)]


def test_without_credentials_for_obstore_pyarrow_lists(store, monkeypatch):
    put(store, *(f"in/{number}/x" for number in range(5)))
    place = Location.parse(f"{store.uri('in')}&smart_defaults=standard")
    keys = [one.key for one in walk(place, skipped_among_media, depth=1) if isinstance(one, File)]
    assert keys == [f"{number}/x" for number in range(5)]


def test_a_walk_lists_a_store_as_a_folder(store, tmp_path):
    for seed in range(8):
        keys = [key for key in random_keys(seed) if "//" not in key and not key.endswith("/")]
        keys = [key for key in keys if not any(one.startswith(f"{key}/") for one in keys)]
        for key in (*keys, "in/.git/a/b", "in/a0/_temporary/x"):
            put(store, f"{seed}{key}")
            path = tmp_path / f"{seed}{key}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"" if key.endswith("empty") else b"x")
    skip = skipped_among_media
    calls: list[Callable[[Location], Iterator[WalkItem]]] = [
        *(functools.partial(walk, leave_out=skip, depth=depth) for depth in range(3)),
        *(functools.partial(glob, pattern=way, leave_out=skip) for way in ("*/*", "**/a*", "*")),
    ]
    for call, seed in itertools.product(calls, range(8)):
        here, there = tmp_path / f"{seed}in", Location.parse(store.uri(f"{seed}in"))
        local, stored = ([*call(root)] for root in (Location.parse(str(here)), there))
        found = [one for one in stored if isinstance(one, File)]
        assert sorted((one.key, one.size) for one in found) == sorted(
            (one.key, one.size) for one in local if isinstance(one, File)
        )
        assert all(Location.parse(one.path) == there / one.key for one in found)
        counts = [
            sum(one.files for one in items if isinstance(one, SkippedPath))
            for items in (local, stored)
        ]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_objects_in_folders_without_a_name_are_rejected(depth, store):
    """The path of such an object is that of another one: `a//1` would be read as `a/1`."""
    put(store, "in/a/1", "in/a//1", "in//1", "in//a/1", "in/a/b//c/2", "in/a/b/3")
    found = [*walk(Location.parse(store.uri("in")), skipped_among_media, depth=depth)]
    rejected = [one for one in found if isinstance(one, Reject)]
    assert sorted(one.key for one in found if isinstance(one, File)) == ["a/1", "a/b/3"]
    assert sorted(one.key for one in rejected) == ["/1", "/a/1", "a//1", "a/b//c/2"]
    assert {one.reason for one in rejected} == {Reason.BAD_NAME}


@pytest.mark.parametrize("key", ["in/a//1", "in//1", "/in/1", "in/1//"])
def test_a_row_that_names_such_an_object_is_rejected(key, store):
    put(store, "in/1")
    root = Location.parse(store.uri("in"))
    rules = PathRules.of(root, root, stores=(), confine=False)
    with pytest.raises(RecordError) as caught:
        rules.resolve(f"s3://bucket/{key}")
    assert caught.value.reason == Reason.BAD_NAME
    assert rules.resolve("s3://bucket/in/1").is_file()
