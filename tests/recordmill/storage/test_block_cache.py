"""The cache of blocks: bounded, shared, checked, and never in the way."""

import errno
import logging
import multiprocessing
import os
import pathlib
import random

import pytest

from recordmill.errors import ConfigError
from recordmill.storage import block_cache
from recordmill.storage.block_cache import BlockCache, StoredFile, open_cache
from recordmill.storage.files import Location

CONTENT = random.Random(1).randbytes(10_000)
BLOCK = 1000
ENTRY = BLOCK + 16
USAGE = 20
FILE = StoredFile(Location.parse("s3://bucket/out/a"), len(CONTENT), "0" * 64)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(block_cache, "BLOCK", BLOCK)
    monkeypatch.setattr(block_cache, "_LEAST", ENTRY + USAGE)
    monkeypatch.setattr(block_cache, "_given_up", set())


class Fetches:
    """A store; `ranges` are those that were read."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int) -> bytes:
        self.ranges.append((start, end))
        return self.content[start:end]


def cache_of(folder: pathlib.Path, blocks: int) -> BlockCache:
    made = open_cache(folder, blocks * ENTRY + USAGE)
    assert made is not None
    return made


def bytes_in(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_blocks_are_read_from_the_store_once(tmp_path) -> None:
    cache, store = cache_of(tmp_path, 100), Fetches()
    assert cache.read(FILE, 1500, 3200, store) == CONTENT[1500:3200]
    assert cache.read(FILE, 1000, 4000, store) == CONTENT[1000:4000]
    assert cache.read(FILE, 500, 5500, store) == CONTENT[500:5500]
    assert store.ranges == [(1000, 4000), (0, 1000), (4000, 6000)]
    assert cache.read(FILE, 9000, 10_001, store) == CONTENT[9000:]
    assert cache.read(FILE, 9999, 10_001, store) == CONTENT[9999:]
    assert cache.read(FILE, 10_000, 10_001, store) == b""
    assert store.ranges[3:] == [(9000, 10_000)]


def test_it_never_has_more_bytes_than_its_size(tmp_path) -> None:
    cache, store, rng = cache_of(tmp_path, 4), Fetches(), random.Random(2)
    for _ in range(200):
        start = rng.randrange(len(CONTENT))
        end = start + rng.randrange(1, 6000)
        assert cache.read(FILE, start, end, store) == CONTENT[start:end]
        assert bytes_in(tmp_path) <= cache.size


def test_the_least_recently_used_blocks_are_evicted(tmp_path, monkeypatch) -> None:
    cache, store = cache_of(tmp_path, 3), Fetches()
    for number in (0, 1, 2):
        cache.read(FILE, number * BLOCK, number * BLOCK + 1, store)
        path = pathlib.Path(cache.folder, FILE.block_name(number))
        os.utime(path, ns=(number, number))
    cache.read(FILE, 0, 1, store)  # used again
    cache.read(FILE, 5 * BLOCK, 5 * BLOCK + 1, store)
    names = {number: FILE.block_name(number) for number in range(10)}
    held = {number for number, name in names.items() if name in os.listdir(cache.folder)}
    assert held == {0, 2, 5}


def test_files_with_another_hash_or_place_have_other_blocks(tmp_path) -> None:
    cache = cache_of(tmp_path, 100)
    cache.read(FILE, 0, 10_000, Fetches())
    other = bytes(10_000)
    for file in (
        FILE._replace(sha256="1" * 64),
        FILE._replace(place=Location.parse("s3://other/out/a")),
    ):
        assert cache.read(file, 0, 10_000, Fetches(other)) == other
    assert cache.read(FILE, 0, 10_000, Fetches(b"")) == CONTENT


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other", "long", "pipe", "folder"])
def test_damaged_blocks_are_read_from_the_store_again(tmp_path, damage, caplog) -> None:
    cache, store = cache_of(tmp_path, 100), Fetches()
    cache.read(FILE, 0, 3000, store)
    path = pathlib.Path(cache.folder, FILE.block_name(1))
    content = path.read_bytes()
    if damage == "flip":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "other":
        path.write_bytes(pathlib.Path(cache.folder, FILE.block_name(2)).read_bytes())
    elif damage in ("pipe", "folder"):
        path.unlink()
        os.mkfifo(path) if damage == "pipe" else path.mkdir()
    else:
        path.write_bytes({"cut": content[:-1], "empty": b"", "long": content + b"x"}[damage])
    assert cache.read(FILE, 0, 3000, store) == CONTENT[:3000]
    assert store.ranges[1:] == [(1000, 2000)]
    if damage in ("flip", "cut", "empty", "other", "long"):
        assert "is damaged: it is read from the store again" in caplog.text
        cache.read(FILE, 0, 3000, store)
        assert len(store.ranges) == 2


def test_a_forged_block_of_another_length_is_discarded(tmp_path) -> None:
    cache, name = cache_of(tmp_path, 100), FILE.block_name(1)
    forged = CONTENT[1000:1500]
    pathlib.Path(cache.folder, name).write_bytes(block_cache._sum(name, forged) + forged)
    assert cache.read(FILE, 0, 3000, Fetches()) == CONTENT[:3000]


def test_discarded_blocks_are_read_again(tmp_path) -> None:
    cache, store = cache_of(tmp_path, 100), Fetches()
    cache.read(FILE, 0, 3000, store)
    assert cache.discard(FILE, 1500, 1600)
    assert not cache.discard(FILE, 1500, 1600)
    cache.read(FILE, 0, 3000, store)
    assert store.ranges == [(0, 3000), (1000, 2000)]


def test_a_truncated_file_is_not_cached(tmp_path) -> None:
    cache = cache_of(tmp_path, 100)
    cut = Fetches(CONTENT[:2500])
    assert cache.read(FILE, 500, 4000, cut) == CONTENT[500:2500]
    assert cache.read(FILE, 500, 4000, Fetches()) == CONTENT[500:4000]
    longer = Fetches(CONTENT + b"more")
    assert cache.read(FILE, 9500, 10_001, longer) == CONTENT[9500:]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_full_disk_is_one_warning(tmp_path, monkeypatch, caplog, code) -> None:
    cache, store = cache_of(tmp_path, 100), Fetches()
    cache.read(FILE, 0, 1000, store)

    def fail(path: str, content: bytes) -> None:
        pathlib.Path(path).write_bytes(content[:10])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(block_cache, "_write_file", fail)
    for _ in range(3):
        assert cache.read(FILE, 0, 5000, store) == CONTENT[:5000]
    assert store.ranges == [(0, 1000)] + 3 * [(1000, 5000)]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert os.strerror(code).lower() in record.message
    assert bytes_in(tmp_path) == ENTRY + USAGE


def test_files_of_a_killed_process_are_counted_and_deleted(tmp_path) -> None:
    cache, store = cache_of(tmp_path, 3), Fetches()
    pathlib.Path(cache.folder, "unfinished").write_bytes(bytes(700))
    pathlib.Path(cache.folder, "usage").write_bytes(b"torn")
    for start in range(0, 9000, 1000):
        cache.read(FILE, start, start + 1000, store)
        assert bytes_in(tmp_path) <= cache.size
    assert "unfinished" not in os.listdir(cache.folder)


def test_other_files_in_the_folder_stay(tmp_path) -> None:
    (tmp_path / "mine").write_bytes(bytes(100_000))
    cache = cache_of(tmp_path, 2)
    for start in range(0, 9000, 1000):
        cache.read(FILE, start, start + 1000, Fetches())
    assert (tmp_path / "mine").stat().st_size == 100_000


def _read_at_random(cache: BlockCache, seed: int) -> None:
    block_cache.BLOCK = BLOCK
    rng = random.Random(seed)
    for _ in range(300):
        start = rng.randrange(len(CONTENT))
        end = start + rng.randrange(1, 4000)
        assert cache.read(FILE, start, end, Fetches()) == CONTENT[start:end]
        # Another process may delete a file between its listing and its stat.
        sizes = []
        for entry in os.scandir(cache.folder):
            try:
                sizes.append(entry.stat().st_size)
            except FileNotFoundError:
                sizes = []
                break
        assert len(sizes) <= 7


def test_processes_share_a_cache(tmp_path) -> None:
    cache = cache_of(tmp_path, 5)
    fork = multiprocessing.get_context("fork")
    several = [fork.Process(target=_read_at_random, args=(cache, seed)) for seed in range(4)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert [one.exitcode for one in several] == [0] * 4
    assert bytes_in(tmp_path) <= cache.size


@pytest.mark.parametrize(
    ("cache", "cache_size", "message"),
    [
        (None, 10**9, r"cache_size applies to a cache: set cache to a folder"),
        (5, None, r"cache: expected a folder on this machine, got 5"),
        (True, None, r"cache: expected a folder on this machine, got True"),
        ("", None, r"cache: expected a folder on this machine, got ''"),
        ("s3://bucket/cache", None, r"cache: expected a folder on this machine, got 's3:"),
        ("here", "many", r"cache_size: expected bytes, such as 128MB.*; got 'many'"),
        ("here", -1, r"cache_size: expected bytes"),
        ("here", True, r"cache_size: expected"),
        ("here", 1000, r"cache_size: expected at least 1036 bytes, which one block of"),
    ],
)
def test_invalid_options(cache, cache_size, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        open_cache(cache, cache_size)


def test_sizes_are_those_of_other_options(tmp_path) -> None:
    assert open_cache(None, None) is None
    sizes = {None: 10**11, "100GB": 10**11, "10GiB": 10 << 30, 10**7: 10**7, "5000000": 5 * 10**6}
    for given, size in sizes.items():
        made = open_cache(tmp_path / "new" / "cache", given)
        assert made is not None
        assert made.size == size


def test_a_folder_that_is_not_writable(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"cache: cannot write to .*: not a directory; name anot"):
        open_cache(tmp_path / "file", None)
