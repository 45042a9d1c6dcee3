import contextlib
import errno
import hashlib
import io
import os
import pathlib
import pickle
import resource
import threading
import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from recordmill.errors import ConfigError
from recordmill.storage import local_files, storage_errors
from recordmill.storage.files import Location, MissingError, PathError, StorageError
from recordmill.storage.input_files import InputFile, open_file, read_file
from recordmill.storage.local_files import LocalFiles
from recordmill.storage.storage_errors import ChangedInputError
from recordmill.storage.stores import ArrowFiles, GuardedStream


@pytest.fixture(params=["local", "pyarrow"])
def folder(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Location:
    """Return a folder on each type of store; pyarrow's mock filesystem is in memory."""
    text = str(tmp_path) if request.param == "local" else f"mock:///{uuid.uuid4().hex}"
    place = Location.parse(text) / "a folder"
    place.make_dirs()
    return place


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/a//b/../c/", "/a/c"),
        ("/", "/"),
        ("file:///a%20b/c", "/a b/c"),
        ("s3://bucket", "s3://bucket"),
        ("S3://bucket/a b/100%25/", "s3://bucket/a b/100%25"),
        ("s3://bucket/a?region=eu-west-1", "s3://bucket/a?region=eu-west-1"),
        ("s3://bucket/who?.jpg", "s3://bucket/who?.jpg"),
        ("abfs://box@account.dfs.core.windows.net/a", "abfs://box@account.dfs.core.windows.net/a"),
    ],
)
def test_parse(text: str, shown: str) -> None:
    place = Location.parse(text)
    assert str(place) == shown
    assert Location.parse(shown) == place
    assert pickle.loads(pickle.dumps(place)) == place


@pytest.mark.parametrize(
    "path", ["/a b/c", "/\u00fc/\u6f22\u5b57", os.fsdecode(b"/a%20/\xff\xc3\xa9"), "/a?b=c/100%25"]
)
def test_a_place_can_be_spelled_in_utf_8(path: str) -> None:
    spelling = Location.parse(path).spelling
    assert spelling.encode("utf-8")
    assert Location.parse(spelling).local_path == path


def test_a_relative_path_becomes_absolute(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.parse("x/y").local_path == f"{tmp_path}/x/y"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a path or a URI, got ''"),
        ("a\0b", "expected a path or a URI"),
        (
            "http://host/a",
            "'http://host/a' is a web address, and nothing is downloaded: download it",
        ),
        ("file://host/a", "expected file:///PATH without a host"),
        ("s3:///a", "expected s3://BUCKET/PATH, got 's3:///a'"),
        ("s3://key:secret@bucket/a", "set them in the environment"),
        ("s3://bucket//a/b?region=x", "take the empty part before 'a/b' out"),
        ("s3://bucket/a//b", "take the empty part before 'b' out"),
        (
            "s3://bucket/a?scheme=http&endpoint_overide=x:9000",
            "unknown option 'endpoint_overide' in a s3:// URI (did you mean 'endpoint_override'?):"
            " expected one of endpoint_override, scheme, region, ",
        ),
        ("s3://bucket/a?access_key=secret", "unknown option 'access_key' in a s3:// URI"),
        ("gs://bucket/a?endpoint=x", "(did you mean 'endpoint_override'?)"),
        (
            "s3://bucket/a?endpoint_override=http://x&scheme=https",
            "scheme=https contradicts endpoint_override=http://...",
        ),
    ],
)
def test_parse_refuses(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Location.parse(text)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    ["smart_defaults=standard", "scheme=http&endpoint_override=http://x", "tls_ca_file_path=/a"],
)
def test_known_options_are_accepted(query: str) -> None:
    assert Location.parse(f"s3://bucket/a?{query}").query == query


@given(st.lists(st.text(st.characters(blacklist_characters="/\0"), min_size=1), min_size=1))
def test_joining_and_parents_are_inverse(names: list[str]) -> None:
    names = [name for name in names if name not in (".", "..")]
    for root in (Location("", "/r"), Location("s3://b", ""), Location("s3://b", "r", "region=x")):
        place = root
        for name in names:
            inner = place / name
            assert (inner.parent, inner.name) == (place, name)
            place = inner
        if root.root:
            assert Location.parse(str(place)).root == root.root
            assert Location.parse(str(place)) == place


@pytest.mark.parametrize("name", ["", "/etc/passwd", "..", "a/../../b"])
def test_joined_names_stay_inside(name: str) -> None:
    with pytest.raises(ValueError, match="expected a name inside"):
        Location.parse("/out") / name


def test_write_read_list_delete(folder: Location) -> None:
    file = folder / "b.bin"
    assert not file.exists()
    file.write_bytes(b"old")
    file.write_bytes(b"0123456789")
    (folder / "a").make_dirs()
    (folder / "a" / "x").write_bytes(b"")
    assert file.read_bytes() == b"0123456789"
    assert file.read_range(3, 4) == b"3456"
    assert file.read_range(8, 100) == b"89"
    assert file.size() == 10
    assert [(e.name, e.kind) for e in folder.list_dir()] == [("a", "dir"), ("b.bin", "file")]
    assert folder.list_dir()[1] == file.stat()
    assert (folder.is_dir(), file.is_dir()) == (True, False)
    file.delete()
    file.delete(missing_ok=True)
    folder.delete_tree()
    folder.delete_tree()
    assert not folder.exists()


def test_streams(folder: Location) -> None:
    file = folder / "big"
    with file.open_output() as out:
        for i in range(300):
            out.write(bytes([i % 256]) * 10_000)
    with file.open_input() as stream:
        stream.seek(10_000)
        assert stream.read(2) == b"\1\1"
        assert stream.tell() == 10_002
        stream.seek(-1, io.SEEK_END)
        assert stream.read() == bytes([299 % 256])
    assert len(file.read_bytes()) == 3_000_000


def test_names_of_any_bytes(tmp_path: pathlib.Path) -> None:
    file = Location.parse(f"{tmp_path}/\udcff\n😀")
    file.write_bytes(b"x")
    assert file.parent.list_dir()[0].name == "\udcff\n😀"
    file.delete()
    with pytest.raises(StorageError) as caught:
        file.read_bytes()
    assert "\\xff" in str(caught.value).encode().decode()  # can be printed


def test_create_exclusive(folder: Location) -> None:
    assert (folder / "lock").create_exclusive(b"one")
    assert not (folder / "lock").create_exclusive(b"two")
    assert (folder / "lock").read_bytes() == b"one"
    assert [entry.name for entry in folder.list_dir()] == ["lock"]


def _race(place: Location, creators: int = 16) -> list[bytes]:
    winners: list[bytes] = []
    start = threading.Barrier(creators)

    def create(content: bytes) -> None:
        start.wait()
        if place.create_exclusive(content):
            winners.append(content)

    threads = [threading.Thread(target=create, args=(b"%d" % i,)) for i in range(creators)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return winners


def test_one_of_many_creators_wins(tmp_path: pathlib.Path) -> None:
    place = Location.parse(str(tmp_path)) / "lock"
    assert _race(place) == [place.read_bytes()]
    assert [entry.name for entry in place.parent.list_dir()] == ["lock"]


def test_one_creator_wins_without_hard_links(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, "no links on this filesystem")

    monkeypatch.setattr(os, "link", link)
    place = Location.parse(str(tmp_path)) / "lock"
    assert _race(place) == [place.read_bytes()]
    assert [entry.name for entry in place.parent.list_dir()] == ["lock"]


def test_rename_can_be_repeated(folder: Location) -> None:
    old, new = folder / "old", folder / "new"
    old.write_bytes(b"new content")
    new.write_bytes(b"x")
    old.rename_to(new)
    old.rename_to(new)
    assert (old.exists(), new.read_bytes()) == (False, b"new content")
    with pytest.raises(MissingError):
        old.rename_to(folder / "other")
    with pytest.raises(ValueError, match="different filesystems"):
        new.rename_to(Location.parse("s3://bucket/new"))


class _Missing:
    """A pyarrow filesystem that reports a missing file as S3 does, by a plain OSError."""

    def __init__(self) -> None:
        self._filesystem = fs._MockFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)

    def copy_file(self, old: str, new: str) -> None:
        try:
            self._filesystem.copy_file(old, new)
        except FileNotFoundError:
            raise OSError("AWS Error NO_SUCH_KEY during CopyObject operation") from None


def test_rename_on_an_object_store() -> None:
    store = ArrowFiles(_Missing(), "", has_folders=False)
    store.write_bytes("old", b"content")
    for _ in range(2):  # it can be repeated
        store.rename("old", "new")
        assert (store.stat("old"), store.read_range("new", 0, 9)) == (None, b"content")
    with pytest.raises(OSError, match="NO_SUCH_KEY"):
        store.rename("old", "other")


def test_a_failed_write_leaves_the_old_content(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Location.parse(str(tmp_path)) / "file"
    place.write_bytes(b"old")

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="no space left on device"):
        place.write_bytes(b"new")
    assert place.read_bytes() == b"old"
    assert [entry.name for entry in place.parent.list_dir()] == ["file"]


def test_a_full_device_is_a_storage_error_at_any_write() -> None:
    out = Location.parse("/dev/full").open_output()
    out.write(b"x" * 100)
    with pytest.raises(StorageError) as caught:
        out.close()
    assert str(caught.value) == (
        "cannot write /dev/full: no space left on device; free some space, then run the same "
        "command again"
    )


def test_a_limit_of_file_sizes_is_a_storage_error(tmp_path: pathlib.Path) -> None:
    place = Location.parse(str(tmp_path / "shard"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(StorageError) as caught, place.open_output() as file:
            file.write(b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value) == (
        f"cannot write {place}: file too large; raise the limit (ulimit -f), then run the"
        " same command again, or use more shards"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "cannot list {}: no space left on device; free some space, then run"),
        (errno.EDQUOT, "cannot list {}: the disk quota is used up; free"),
        (errno.EROFS, "cannot list {}: the filesystem is read-only; mount it writable"),
        (errno.EACCES, "cannot list {}: permission denied; check its owner, mode"),
        (errno.EIO, "cannot list {}: input/output error; check the disk or the mount"),
        (errno.ENOENT, "cannot list {}: it or its folder does not exist; check the path"),
        (errno.ETIMEDOUT, "cannot list {}: connection timed out; check that the storage is"),
    ],
)
def test_storage_errors_say_what_to_do(
    code: int, message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_dir(self: LocalFiles, path: str) -> None:
        raise OSError(code, "whatever")

    monkeypatch.setattr(LocalFiles, "list_dir", list_dir)
    with pytest.raises(StorageError) as caught:
        Location.parse(str(tmp_path)).list_dir()
    assert str(caught.value).startswith(message.format(tmp_path))
    assert isinstance(caught.value.__cause__, OSError)
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("AWS Error ACCESS_DENIED during PutObject: long talk", "permission denied"),
        ("AWS Error NO_SUCH_BUCKET during PutObject", "the store has no such bucket; check"),
        ("AWS Error SLOW_DOWN during PutObject", "the store reports 'slow down'"),
        (
            "AWS Error UNKNOWN (HTTP status 500) during HeadObject: No response body.",
            "the store answers with HTTP status 500; check",
        ),
        ("Unable to load libjvm\ndlopen: a\ndlopen: b", "Unable to load libjvm;"),
    ],
)
def test_messages_of_object_stores_are_shortened(
    said: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stat(self: ArrowFiles, path: str) -> None:
        raise OSError(said)

    monkeypatch.setattr(ArrowFiles, "stat", stat)
    with pytest.raises(StorageError) as caught:
        Location.parse("mock:///x").exists()
    assert f"cannot access mock:///x: {why}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_raise_missing_error(folder: Location) -> None:
    gone = folder / "gone"
    for operation in (gone.read_bytes, gone.stat, gone.list_dir, gone.delete, gone.open_input):
        with pytest.raises(MissingError):
            operation()


# Inputs


def _listed(folder: Location, data: bytes) -> tuple[Location, int, int]:
    file = folder / "in.jpg"
    file.write_bytes(data)
    entry = file.stat()
    return file, entry.size, entry.mtime_ns


def test_an_unchanged_input_is_read(folder: Location) -> None:
    file, size, mtime = _listed(folder, b"picture")
    assert read_file(str(file), size=size, mtime=mtime) == b"picture"
    with open_file(str(file), size=size, mtime=mtime) as stream:
        stream.seek(3)
        assert stream.read() == b"ture"


def test_a_changed_input_fails_the_job_by_name(folder: Location) -> None:
    file, size, mtime = _listed(folder, b"picture")
    for read in (read_file, open_file):
        with pytest.raises(ChangedInputError) as caught:
            read(str(file), size=99, mtime=mtime)
        assert str(caught.value) == (
            f"{file} changed while the job ran (was 99 bytes, is 7): run the same command again "
            "to list the input anew"
        )
        with pytest.raises(ChangedInputError, match="modified after it was listed"):
            read(str(file), size=size, mtime=mtime - 10**10)
    file.delete()
    for read in (read_file, open_file):
        with pytest.raises(ChangedInputError, match="vanished while the job ran"):
            read(str(file), size=size, mtime=mtime)


def test_object_stores_may_round_times_to_seconds() -> None:
    folder = Location.parse(f"mock:///{uuid.uuid4().hex}")
    folder.make_dirs()
    file, size, mtime = _listed(folder, b"picture")
    whole = mtime // 10**9 * 10**9
    assert read_file(str(file), size=size, mtime=whole) == b"picture"


_TRIED_AGAIN = (errno.EIO, errno.EMFILE, errno.ETIMEDOUT, errno.ENOMEM, errno.ENOSPC, errno.ESTALE)


@pytest.mark.parametrize("code", [*_TRIED_AGAIN, errno.EACCES, errno.EPERM, errno.ENXIO])
@pytest.mark.parametrize("call", ["open", "pread", "readinto"])
@pytest.mark.parametrize("times", [1, 1000])
def test_a_fault_is_retried_and_then_names_the_file(
    call: str, code: int, times: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, size, mtime = _listed(Location.parse(str(tmp_path)), b"picture")
    monkeypatch.setattr(storage_errors, "PAUSES", (0, 0))
    calls = _fail(call, code, times, monkeypatch)

    def read() -> bytes:
        if call == "readinto":
            with open_file(str(file), size=size, mtime=mtime) as stream:
                return stream.read()
        with InputFile(str(file), size=size, mtime=mtime) as opened:
            assert opened.read(0, size) == b"picture"
        return read_file(str(file), size=size, mtime=mtime)

    if times == 1 and code in _TRIED_AGAIN:
        assert read() == b"picture"
        return
    with pytest.raises(StorageError, match=f"^cannot read {file}: [^\n]*; .* again$"):
        read()
    assert len(calls) == (3 if code in _TRIED_AGAIN else 1)


def _fail(call: str, code: int, times: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the first calls of os.open, os.pread or FileIO.readall fail; return the failed ones."""
    calls: list[int] = []

    def fail() -> None:
        if len(calls) < times:
            calls.append(code)
            raise OSError(code, "at address 0x7f")

    if call == "readinto":

        class FailingIO(io.FileIO):
            def readall(self) -> bytes:
                data = super().readall()
                fail()  # after it has read something
                return data

        monkeypatch.setattr(local_files.io, "FileIO", FailingIO)
        return calls
    real = getattr(os, call)

    def failing(*args: Any, **options: Any) -> Any:
        fail()
        return real(*args, **options)

    monkeypatch.setattr(os, call, failing)
    return calls


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_file_replaced_by_a_pipe_or_a_folder_has_changed(
    make: Callable[[pathlib.Path], None], tmp_path: pathlib.Path
) -> None:
    """Opening a pipe as it is would wait for ever."""
    file, size, mtime = _listed(Location.parse(str(tmp_path)), b"picture")
    path = pathlib.Path(str(file))
    path.unlink()
    make(path)
    for read in (read_file, InputFile):
        with pytest.raises(ChangedInputError, match="was replaced by something else than a file"):
            read(str(file), size=size, mtime=mtime)
    with pytest.raises(PathError):
        file.read_range(0, 1)
    with pytest.raises(PathError):
        file.open_input()


@pytest.mark.parametrize(
    ("message", "passing"),
    [
        ("AWS Error SLOW_DOWN during GetObject operation", True),
        ("AWS Error UNKNOWN (HTTP status 429) during HeadObject operation: No response body", True),
        ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body", True),
        ("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 56", True),
        ("google::cloud::Status(UNAVAILABLE: try again)", True),
        ("AWS Error UNKNOWN (HTTP status -1) during ListObjectsV2: XML_ERROR_PARSING", True),
        ("AWS Error ACCESS_DENIED during GetObject operation", False),
        ("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation", False),
        ("AWS Error NO_SUCH_KEY during GetObject operation", False),
    ],
)
def test_errors_of_stores_that_may_pass(message: str, passing: bool) -> None:
    assert storage_errors.may_pass(OSError(message)) == passing


class _Short:
    """A pyarrow stream that ends early, once or for ever."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._file = io.BytesIO(b"0123456789")

    def size(self) -> int:
        return 10

    def readinto(self, buffer: Any) -> int:
        if self._times:
            self._times -= 1
            return 0
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        pass


def test_a_stream_that_ends_before_its_size_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_errors, "PAUSES", (0,))
    for times, read in ((1, b"01234"), (2, None)):
        system = mock.Mock(open_input_file=mock.Mock(return_value=_Short(times)))
        store = ArrowFiles(system, "", has_folders=False)
        stream = GuardedStream(store.open_input("x"), contextlib.nullcontext, reads=True)
        buffer = bytearray(5)
        if read is None:
            with pytest.raises(OSError, match="the store sent 0 of 10 bytes"):
                stream.readinto(buffer)
        else:
            assert (stream.readinto(buffer), bytes(buffer)) == (5, read)


@pytest.mark.parametrize(
    ("contents", "expected", "opened"),
    [
        ([b"good", b"good"], [b"good", b"good"], 2),  # the ETag is the MD5
        ([b"evil", b"good", b"good"], [None, b"good"], 3),
        ([b"else", b"else", b"else"], [b"else", b"else"], 3),  # encrypted: it is no MD5
    ],
)
def test_an_object_is_compared_with_its_etag(
    contents: list[bytes], expected: list[bytes | None], opened: int
) -> None:
    etag = f'"{hashlib.md5(b"good").hexdigest()}"'.encode()
    files = [io.BytesIO(content) for content in contents]
    for file in files:
        file.size = lambda: 4  # type: ignore[attr-defined]
        file.metadata = lambda: {"ETag": etag}  # type: ignore[attr-defined]
    system = mock.Mock(type_name="s3", open_input_file=mock.Mock(side_effect=files))
    store = ArrowFiles(system, "", has_folders=False)
    for data in expected:
        if data is None:
            with pytest.raises(OSError, match="other bytes than it stores"):
                store.read_range("x", 0, 9)
        else:
            assert store.read_range("x", 0, 9) == data
    assert system.open_input_file.call_count == opened


def test_a_network_that_fails_is_not_the_files_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Location.parse(f"mock:///{uuid.uuid4().hex}")
    folder.make_dirs()
    file, size, mtime = _listed(folder, b"picture")

    def read_range(self: ArrowFiles, path: str, offset: int, length: int) -> bytes:
        raise OSError("AWS Error NETWORK_CONNECTION during GetObject")

    monkeypatch.setattr(ArrowFiles, "read_range", read_range)
    with pytest.raises(StorageError, match="the store reports 'network connection'"):
        read_file(str(file), size=size, mtime=mtime)
