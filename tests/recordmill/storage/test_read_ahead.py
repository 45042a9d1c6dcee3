"""Reads ahead: order, bounds, errors at their own file, and nothing for local files."""

import threading
from collections.abc import Iterator

import pytest

from recordmill.storage import input_files, read_ahead
from recordmill.storage.files import Location, StorageError
from recordmill.storage.input_files import open_file, read_file
from recordmill.storage.read_ahead import InputRange, RangesAhead, SequentialReads
from recordmill.storage.storage_errors import ChangedInputError

PHOTOS = {f"in/{number:03}.jpg": bytes([number]) * (1000 + number) for number in range(120)}
File = tuple[str, int, int]


@pytest.fixture
def files(store) -> list[File]:
    """The photos as a listing has them."""
    for name, content in PHOTOS.items():
        store.put(f"bucket/{name}", content)
    folder = Location.parse(store.uri("in"))
    found = [(str(folder / one.name), one.size, one.mtime_ns) for one in folder.list_dir()]
    store.requests.clear()
    return found


def is_free() -> bool:
    """Return whether no range is held, which the last answers may still have to become."""
    reads = read_ahead._reads
    if reads.threads is not None:
        reads.threads.shutdown()
        reads.threads = None
    return (input_files._ahead._begun, reads.requests, reads.bytes) == ({}, 0, 0)


def test_files_are_read_once_and_in_order(store, files):
    found = [read_file(p, size=s, mtime=m) for p, s, m in input_files.read_ahead(files, files)]
    assert found == [*PHOTOS.values()]
    assert [one.operation for one in store.requests] == ["GET"] * len(PHOTOS)
    assert len({one.key for one in store.requests}) == len(PHOTOS)
    assert is_free()


def test_the_beginnings_of_files_serve_streams(store, files, monkeypatch):
    monkeypatch.setattr(input_files, "_BUFFER", 1001)
    heads = []
    for path, size, mtime in input_files.read_ahead(files, files, head=True):
        with open_file(path, size=size, mtime=mtime) as file:
            heads.append(file.read(1001))
    assert heads == [content[:1001] for content in PHOTOS.values()]
    assert len(store.requests) == len(PHOTOS)
    assert is_free()


def test_several_files_of_an_item_and_items_without_one(store, files):
    masks = [None if number % 3 else file for number, file in enumerate(files[::-1])]
    given = [one or (None, 0, 0) for one in masks]
    count = 0
    for row, file in enumerate(input_files.read_ahead(files, files, given)):
        for path, size, mtime in filter(None, (file, masks[row])):
            assert len(read_file(path, size=size, mtime=mtime)) == size
            count += 1
    assert count == len(files) + len(files) // 3
    # A file that is needed again soon is kept; the others are read again.
    assert len(files) <= len(store.requests) <= count
    assert is_free()


def test_neighbours_in_a_file_are_read_together():
    read = []
    content = bytes(range(256)) * 100

    def answer(wanted: InputRange) -> bytes:
        read.append((wanted.start, wanted.end))
        return content[wanted.start : wanted.end]

    ahead = RangesAhead(answer)
    places = [(0, 100), (150, 300), (300, 400), (200_000, 200_100)]
    ranges = [(row, InputRange("s3://a", None, *place)) for row, place in enumerate(places)]
    for row in ahead.of_items(range(4), ranges):
        if row < 3:
            assert ahead.take(ranges[row][1]) == content[slice(*places[row])]
        else:
            assert ahead.take(ranges[row][1]) in (None, b"")
    assert sorted(read) == [(0, 400), (200_000, 200_100)]


def test_at_most_the_given_number_of_items_is_read_ahead():
    begun, gates = [], [threading.Event() for _ in range(4)]

    def answer(wanted: InputRange) -> bytes:
        begun.append(wanted.start // 10)
        gates[wanted.start // 10].set()
        return bytes(wanted.end - wanted.start)

    ahead = RangesAhead(answer)
    ranges = [(row, InputRange("s3://a", None, 10 * row, 10 * row + 10)) for row in range(4)]
    for row in ahead.of_items(range(4), ranges, most=1):
        last = min(row + 1, 3)
        assert gates[last].wait(timeout=30)
        assert sorted(begun) == [*range(last + 1)]


def test_no_more_than_the_budget_is_held(monkeypatch):
    held, most, lock = 0, [], threading.Lock()
    budget, size = 10_000, 1000
    monkeypatch.setattr(read_ahead, "BYTES", budget)
    monkeypatch.setattr(read_ahead, "LARGEST", 5000)

    def answer(wanted: InputRange) -> bytes:
        nonlocal held
        with lock:
            held += 1
            most.append(held)
        return bytes(wanted.end - wanted.start)

    ahead = RangesAhead(answer)
    ranges = [(row, InputRange(f"s3://{row}", None, 0, size)) for row in range(100)]
    ranges.append((100, InputRange("s3://large", None, 0, 5001)))
    for row in ahead.of_items(range(101), ranges):
        found = ahead.take(ranges[row][1])
        assert found == (bytes(size) if row < 100 else None)
        with lock:
            held -= 1
    assert max(most) <= budget // size + 1


def test_no_more_requests_than_allowed_are_sent(monkeypatch):
    monkeypatch.setattr(read_ahead, "REQUESTS", 4)
    may_answer = threading.Event()

    def answer(_: InputRange) -> bytes:
        may_answer.wait()
        return b"x"

    ahead = RangesAhead(answer)
    ranges = [InputRange(f"s3://{number}", None, 0, 1) for number in range(6)]
    assert [ahead.begin(one) for one in ranges] == [True] * 4 + [False] * 2
    assert ahead.begin(ranges[3])  # the same range needs no other request
    ahead.release(ranges[3])
    ahead.release(ranges[0])
    assert not ahead.begin(ranges[4])  # its request is not answered yet
    may_answer.set()
    assert [ahead.take(one) for one in ranges] == [None, b"x", b"x", b"x", None, None]
    for one in ranges[1:4]:
        ahead.release(one)
    assert ahead.begin(ranges[4])
    ahead.release(ranges[4])


def read_all(files: list[File]) -> Iterator[bytes]:
    for path, size, mtime in input_files.read_ahead(files, files):
        yield read_file(path, size=size, mtime=mtime)


@pytest.mark.parametrize("kind", ["failing", "cut", "short", "unsized", "flipped"])
def test_a_fault_that_passes_is_not_noticed(store, files, kind):
    store.faults["bucket/in/040.jpg"] = (kind, 1)
    assert [*read_all(files)] == [*PHOTOS.values()]
    assert is_free()


@pytest.mark.parametrize("kind", ["failing", "denied", "cut", "short", "unsized"])
def test_a_fault_is_raised_for_its_own_file(store, files, kind):
    store.faults["bucket/in/040.jpg"] = (kind, 100)
    read = []
    with pytest.raises(StorageError) as caught:
        read.extend(read_all(files))
    assert "/in/040.jpg?" in str(caught.value)
    assert read == [*PHOTOS.values()][:40]
    gets = [one for one in store.requests if (one.operation, one.key) == ("GET", "in/040.jpg")]
    assert len(gets) == (1 if kind == "denied" else 7)
    assert is_free()


def test_a_changed_file_is_named_when_it_is_needed(store, files):
    store.put("bucket/in/050.jpg", b"other")
    store.delete("bucket/in/060.jpg")
    changed = []
    for path, size, mtime in input_files.read_ahead(files, files):
        try:
            read_file(path, size=size, mtime=mtime)
        except ChangedInputError as error:
            changed.append(str(error).partition("?")[0])
    assert changed == ["s3://bucket/in/050.jpg", "s3://bucket/in/060.jpg"]
    assert is_free()


def test_nothing_is_held_after_an_error(store, files):
    read = read_all(files)
    assert next(read) == PHOTOS["in/000.jpg"]
    read.close()
    assert is_free()
    assert len(store.requests) <= 2 * read_ahead.REQUESTS


def test_local_files_are_not_read_ahead(tmp_path):
    files = []
    for name, content in PHOTOS.items():
        path = tmp_path / name.rpartition("/")[2]
        path.write_bytes(content)
        files.append((str(path), len(content), path.stat().st_mtime_ns))
    assert input_files.read_ahead(files, files) is files


LARGE = bytes(range(256)) * 40_960  # 10 MiB


class Reads:
    """A file whose reads are noted."""

    def __init__(self, content: bytes = LARGE) -> None:
        self.content = content
        self.direct: list[tuple[int, int]] = []
        self.ahead: list[tuple[int, int]] = []
        self.reads = SequentialReads(self.read, self.once, len(content))

    def read(self, offset: int, length: int) -> bytes:
        self.direct.append((offset, length))
        return self.content[offset : offset + length]

    def once(self, offset: int, length: int) -> bytes:
        self.ahead.append((offset, length))
        return self.content[offset : offset + length]


@pytest.mark.parametrize("length", [1 << 20, 300_000, 3_000_001], ids=["piece", "less", "more"])
def test_what_follows_in_a_file_is_read_ahead(length):
    file = Reads()
    found = [file.reads.read(at, length) for at in range(0, len(LARGE) + length, length)]
    assert b"".join(found) == LARGE
    assert {len(part) for part in found[: len(LARGE) // length]} == {length}
    # Each byte is read once, and no read follows another that was not read ahead.
    assert sum(size for _, size in file.direct + file.ahead) == len(LARGE)
    assert file.direct[:2] == [(0, length), (length, length)]
    assert sum(size for _, size in file.direct[2:]) <= (0 if length <= 1 << 20 else length)
    assert is_free()


def test_reads_anywhere_read_nothing_ahead():
    file = Reads()
    for at in (5_000_000, 0, 3_000_000, 100):
        assert file.reads.read(at, 1000) == LARGE[at : at + 1000]
    assert file.reads.read(len(LARGE), 10) == b""
    assert file.ahead == []
    # A member that is skipped does not end a sequence, which then goes on where it is.
    for at in range(0, 3_000_000, 500_000):
        assert file.reads.read(at, 1000) == LARGE[at : at + 1000]
    assert file.direct[-2:] == [(0, 1000), (500_000, 1000)]
    file.reads.close()
    assert is_free()


@pytest.mark.parametrize("fault", ["error", "short"])
def test_what_fails_ahead_is_read_again(fault):
    def once(offset: int, length: int) -> bytes:
        if offset < 4_000_000:
            return file.once(offset, length)
        if fault == "error":
            raise OSError("reset")
        return b"x"

    file = Reads()
    reads = SequentialReads(file.read, once, len(LARGE))
    found = [reads.read(at, 1 << 20) for at in range(0, len(LARGE), 1 << 20)]
    assert b"".join(found) == LARGE
    reads.close()
    assert is_free()


def test_what_follows_is_not_read_beyond_the_budget(monkeypatch):
    monkeypatch.setattr(read_ahead, "BYTES", 2 << 20)
    files = [Reads(), Reads()]
    for at in range(0, len(LARGE), 1 << 20):
        for file in files:
            assert file.reads.read(at, 1 << 20) == LARGE[at : at + (1 << 20)]
            assert read_ahead._reads.bytes <= 2 << 20
    for file in files:
        assert file.ahead
        file.reads.close()
    assert is_free()


def test_streams_of_objects_read_ahead(store):
    store.put("bucket/large", LARGE)
    place = Location.parse(store.uri("large"))
    entry = place.stat()
    for opened in (
        lambda: open_file(str(place), size=entry.size, mtime=entry.mtime_ns),
        place.open_input,
    ):
        store.requests.clear()
        with opened() as file:
            file.seek(1000)
            assert file.read(4_000_000) == LARGE[1000:4_001_000]
            assert read_ahead._reads.requests
            assert file.read() == LARGE[4_001_000:]
        assert sum(one.sent for one in store.requests) < 1.5 * len(LARGE)
        assert is_free()


def test_an_object_that_changes_while_it_is_read_in_sequence_is_named(store):
    store.put("bucket/large", LARGE)
    place = Location.parse(store.uri("large"))
    entry = place.stat()
    with open_file(str(place), size=entry.size, mtime=entry.mtime_ns) as file:
        assert file.read(3_000_000) == LARGE[:3_000_000]
        store.put("bucket/large", LARGE[::-1] + b"x")
        with pytest.raises(ChangedInputError, match="large"):
            file.read()
    assert is_free()
