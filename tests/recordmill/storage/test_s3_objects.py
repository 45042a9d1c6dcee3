"""Reads of objects: one request each, and the faults of stores."""

import http.server
import io
import json
import os
import random
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recordmill.errors import RecordError
from recordmill.storage import s3_objects, storage_errors
from recordmill.storage.files import Location, StorageError
from recordmill.storage.input_files import open_file, read_file
from recordmill.storage.members import Member
from recordmill.storage.storage_errors import ChangedInputError
from tests.s3_store import LASTING, S3Store

CONTENT = bytes(range(256)) * 40
LARGE = CONTENT * 200  # 2 MB, more than a buffer


def place_of(store: S3Store, key: str, options: str = "") -> Location:
    return Location.parse(store.uri(key) + options)


def put(store: S3Store, key: str, content: bytes = CONTENT) -> Callable[[], bytes]:
    """Put an object, and return the function that reads it as an input file."""
    store.put(f"bucket/{key}", content)
    place = place_of(store, key)
    entry = place.stat()
    store.requests.clear()
    return lambda: read_file(str(place), size=entry.size, mtime=entry.mtime_ns)


def sent(store: S3Store) -> list[tuple[str, str]]:
    return [(one.operation, one.part) for one in store.requests]


@pytest.mark.parametrize("odd", ["", "in/x/", "in/x/a//b", "in/x/./c"])
def test_a_folder_is_deleted_without_a_trace(store, odd):
    for key in ("in/x/a", "in/x/b/c", "in/x/b/\u00fc +%20", "in/xy", *filter(None, [odd])):
        store.put(f"bucket/{key}", b"" if key.endswith("/") else b"x")
    place = place_of(store, "in/x")
    place.delete_tree()
    assert store.names("bucket/in/x") == ["bucket/in/xy"]
    if not odd:
        assert [operation for operation, _ in sent(store)] == ["LIST", "POST"]
    place.delete_tree()


@pytest.mark.parametrize("kind", ["failing", "reset", "lost"])
@pytest.mark.parametrize("delete", [Location.delete, Location.delete_tree])
def test_a_deletion_is_repeated(store, kind, delete, monkeypatch):
    monkeypatch.setattr(storage_errors, "PAUSES", (0, 0))
    store.put("bucket/in/a/b", b"x")
    store.faults["DELETE bucket/in/a/b"] = (kind, 2)
    delete(place_of(store, "in/a" if delete is Location.delete_tree else "in/a/b"))
    assert store.names() == []


@pytest.mark.parametrize("kind", ["failing", "reset", "denied"])
@pytest.mark.parametrize("delete", [Location.delete, Location.delete_tree])
def test_a_deletion_that_fails_writes_no_marker(store, kind, delete, monkeypatch):
    monkeypatch.setattr(storage_errors, "PAUSES", (0, 0))
    store.put("bucket/in/a/b", b"x")
    store.faults["DELETE bucket/in/a/b"] = (kind, 100)
    place = place_of(store, "in/a" if delete is Location.delete_tree else "in/a/b")
    with pytest.raises(StorageError, match="cannot delete s3://bucket/in/a"):
        delete(place)
    assert store.names() == ["bucket/in/a/b"]


def test_a_store_that_cannot_delete_several_objects_deletes_one(store):
    store.put("bucket/in/a/b", b"x")
    store.faults["DELETE bucket/in/a/b"] = ("unsupported", 1)
    place_of(store, "in/a/b").delete()
    assert store.names() == ["bucket/in/a/"]


@pytest.mark.parametrize("content", [CONTENT, b"x", b""], ids=["long", "short", "empty"])
def test_an_object_is_read_with_one_request(store, content):
    read = put(store, "a b+c%20\u00fc?.jpg", content)
    assert read() == content
    assert sent(store) == [("GET", "")]


def test_a_stream_needs_no_other_requests_than_those_of_its_bytes(store):
    for content, expected in ((CONTENT, 1), (LARGE, 2)):
        put(store, "a", content)
        place = place_of(store, "a")
        entry = place.stat()
        store.requests.clear()
        with open_file(str(place), size=entry.size, mtime=entry.mtime_ns) as file:
            assert file.read(10) == content[:10]
            file.seek(3)
            assert file.read() == content[3:]
        assert [operation for operation, _ in sent(store)] == ["GET"] * expected


def test_a_range_is_read_with_one_request(store):
    put(store, "a")
    place = place_of(store, "a")
    assert place.read_range(5, 10) == CONTENT[5:15]
    assert place.read_range(len(CONTENT) - 3, 10) == CONTENT[-3:]
    assert sent(store) == [
        ("GET", "bytes=5-14"),
        ("GET", f"bytes={len(CONTENT) - 3}-{len(CONTENT) + 6}"),
    ]
    assert place.read_range(len(CONTENT), 10) == b""


def test_files_and_folders_are_found_with_one_request(store):
    for name in ("a", "folder/b", "marked/"):
        store.put(f"bucket/{name}", CONTENT)
    store.requests.clear()
    names = ("a", "folder", "marked", "folder/b", "none")
    places = [place_of(store, name) for name in names]
    assert [place.is_file() for place in places] == [True, False, False, True, False]
    assert [place.is_dir() for place in places] == [False, True, True, False, False]
    assert [operation for operation, _ in sent(store)] == ["HEAD"] * 5 + ["LIST"] * 5


def test_denied_access_to_a_file_is_an_error(store):
    place = place_of(store, "a")
    with store.answering(status=403):
        for is_kind in (place.is_file, place.is_dir):
            with pytest.raises(StorageError, match="permission denied"):
                is_kind()


def test_a_key_that_the_client_refuses_is_read_by_pyarrow(store):
    store.put("bucket/a\nb", CONTENT)
    assert place_of(store, "a\nb").read_range(0, 20) == CONTENT[:20]


def test_a_changed_object_is_named(store):
    read = put(store, "a")
    store.put("bucket/a", CONTENT + b"more")
    with pytest.raises(ChangedInputError, match=r"/a\?.* changed while the job ran \(was 10240"):
        read()
    put(store, "a")
    place = place_of(store, "a")
    with pytest.raises(ChangedInputError, match="modified after it was listed, same size"):
        read_file(str(place), size=len(CONTENT), mtime=10**18)
    store.delete("bucket/a")
    with pytest.raises(ChangedInputError, match="vanished while the job ran"):
        read()


PASSING = ["failing", "cut", "short", "unsized", "flipped", "stalled"]


@pytest.mark.parametrize("kind", PASSING)
def test_a_fault_that_passes_is_not_noticed(store, kind, monkeypatch):
    if kind == "stalled":
        monkeypatch.setattr(s3_objects, "STALL_SECONDS", 2)
    read = put(store, "a")
    store.faults["bucket/a"] = (kind, 1)
    assert read() == CONTENT


@pytest.mark.parametrize(("kind", "why"), [*LASTING.items()])
def test_a_fault_that_stays_is_a_sentence(store, kind, why, monkeypatch):
    if kind == "stalled":
        monkeypatch.setattr(s3_objects, "STALL_SECONDS", 0.2)
    read = put(store, "a")
    store.faults["bucket/a"] = (kind, 100)
    with pytest.raises(StorageError) as caught:
        read()
    assert str(caught.value).startswith(f"cannot read {place_of(store, 'a')}: {why}")
    assert "\n" not in str(caught.value)
    attempts = 1 if kind == "denied" else 6
    if kind != "stalled":  # a busy machine may not answer in that time
        assert [operation for operation, _ in sent(store)].count("GET") == attempts


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_flipped_member_of_an_archive_is_read_again(store, compression, monkeypatch):
    """Parts of objects have no checksum of the store; those of a zip have one of their own."""
    monkeypatch.setattr(storage_errors, "PAUSES", (0, 0))
    content = random.Random(0).randbytes(20_000)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("a", content)
        archive.writestr("b", CONTENT)
        found = archive.getinfo("a")
    store.put("bucket/in.zip", file.getvalue())
    place = place_of(store, "in.zip")
    entry = place.stat()
    method = "deflated" if compression else "stored"
    sizes = (entry.size, found.header_offset, found.compress_size, found.file_size)

    def read(crc: int = found.CRC) -> bytes:
        member = Member(str(place), *sizes, method, crc, "a")
        return read_file(member.reference, size=len(content), mtime=entry.mtime_ns)

    store.faults["bucket/in.zip"] = ("flipped", 1)
    assert read() == content
    store.faults["bucket/in.zip"] = ("flipped", 100)
    with pytest.raises(StorageError, match="answer is incomplete or damaged"):
        read()
    store.faults.clear()
    with pytest.raises(RecordError, match="CRC-32"):
        read(crc=found.CRC ^ 1)


def test_encrypted_objects_have_other_etags_than_sums(store):
    """Their content is read twice once, and then believed."""
    content = store.put("bucket/a", CONTENT)
    store.put("bucket/b", CONTENT)
    for name in ("bucket/a", "bucket/b"):
        found = store.get(name)
        store._objects[name] = found._replace(etag=content.replace('"', "")[::-1].join('""'))
    place = place_of(store, "a")
    entry = place.stat()
    assert read_file(str(place), size=entry.size, mtime=entry.mtime_ns) == CONTENT
    store.requests.clear()
    assert read_file(str(place_of(store, "b")), size=entry.size, mtime=entry.mtime_ns) == CONTENT
    assert sent(store) == [("GET", "")]


READ = """
import json, os, sys
from recordmill.storage.files import Location
place = Location.parse(sys.argv[1])
print(json.dumps([place.read_range(0, 5).decode(), "obstore" in sys.modules]))
"""


def read_in_a_process(uri: str, *, folder, variables=()) -> list:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {**kept, "HOME": str(folder), **dict(variables)}
    done = subprocess.run(
        [sys.executable, "-c", READ, uri], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


KEYS = "aws_access_key_id = test\naws_secret_access_key = x\n"


@pytest.mark.parametrize(
    ("files", "variables"),
    [
        ({"credentials": f"[default]\n{KEYS}"}, {}),
        ({"credentials": f"[mine]\n{KEYS}"}, {"AWS_PROFILE": "mine"}),
        ({"config": f"[profile mine]\n{KEYS}"}, {"AWS_PROFILE": "mine"}),
        ({}, {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "x"}),
    ],
    ids=["default", "profile", "config", "variables"],
)
def test_keys_are_found_where_the_sdk_finds_them(store, tmp_path, files, variables):
    store.put("bucket/a", b"hello")
    (tmp_path / ".aws").mkdir()
    for name, content in files.items():
        (tmp_path / ".aws" / name).write_text(content)
    # No proxy of the environment is used, and no other variable of the client.
    more = {"HTTP_PROXY": "http://127.0.0.1:9", "AWS_SKIP_SIGNATURE": "true"}
    more |= {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9", "AWS_EC2_METADATA_DISABLED": "true"}
    found = read_in_a_process(
        str(place_of(store, "a")), folder=tmp_path, variables={**more, **variables}
    )
    assert found == ["hello", True]
    assert [operation for operation, _ in sent(store)] == ["GET"]


def test_keys_that_only_the_sdk_gets_are_its_own(store, tmp_path):
    store.put("bucket/a", b"hello")
    (tmp_path / ".aws").mkdir()
    answer = json.dumps({"Version": 1, "AccessKeyId": "test", "SecretAccessKey": "x"})
    (tmp_path / "keys").write_text(answer)
    process = f"[default]\ncredential_process = cat {tmp_path}/keys\n"
    (tmp_path / ".aws" / "config").write_text(process)
    variables = {"AWS_EC2_METADATA_DISABLED": "true"}
    found = read_in_a_process(str(place_of(store, "a")), folder=tmp_path, variables=variables)
    assert found == ["hello", False]


class KeyServer(http.server.BaseHTTPRequestHandler):
    """Answers as the endpoints of containers and of EC2 instances do."""

    def do_PUT(self) -> None:
        self.answer("TOKEN")

    def do_GET(self) -> None:
        if self.path.endswith("/security-credentials/"):
            self.answer("role")
        else:
            keys = {"AccessKeyId": "test", "SecretAccessKey": "x", "Token": "t"}
            self.answer(
                json.dumps({"Code": "Success", "Expiration": "2100-01-01T00:00:00Z", **keys})
            )

    def answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Print nothing."""


@pytest.fixture
def key_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), KeyServer) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("variables", "by_obstore"),
    [
        (
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "{}/keys",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "token",
            },
            True,
        ),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{}/keys"}, False),
        ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "{}"}, True),
    ],
    ids=["pod", "container", "instance"],
)
def test_keys_of_roles_are_requested(variables, by_obstore, store, key_server, tmp_path):
    store.put("bucket/a", b"hello")
    (tmp_path / "token").write_text("token")
    variables = {
        name: str(tmp_path / text) if text == "token" else text.format(key_server)
        for name, text in variables.items()
    }
    found = read_in_a_process(str(place_of(store, "a")), folder=tmp_path, variables=variables)
    assert found == ["hello", by_obstore]
    assert {one.status for one in store.requests} <= {200, 206}


def test_the_endpoint_of_the_environment(store, tmp_path):
    store.put("bucket/a", b"hello")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "x"}
    variables = {**keys, "AWS_ENDPOINT_URL": f"http://{store.address}"}
    uri = "s3://bucket/a?region=us-east-1"
    assert read_in_a_process(uri, folder=tmp_path, variables=variables) == ["hello", True]


@pytest.mark.parametrize("options", ["", "&scheme=http"])
def test_the_scheme_of_an_endpoint_counts(options, store, tmp_path):
    store.put("bucket/a", b"hello")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "x"}
    uri = f"s3://bucket/a?endpoint_override=http://{store.address}/&region=us-east-1{options}"
    assert read_in_a_process(uri, folder=tmp_path, variables=keys) == ["hello", True]


@pytest.mark.parametrize("further", ["", "&smart_defaults=standard"])  # by obstore, by pyarrow
@pytest.mark.parametrize(
    ("scheme", "host", "cause"),
    [
        ("https", None, "the store's address does not speak https (scheme=http in the URI"),
        ("http", "127.0.0.1:1", "nothing accepts connections at the store's address; check"),
        ("http", "store.invalid:80", "the name of the store's host cannot be resolved; check"),
    ],
)
def test_the_cause_of_a_failed_connection_is_named(
    scheme, host, cause, further, store, monkeypatch
):
    monkeypatch.setattr(storage_errors, "PAUSES", ())
    endpoint = f"{scheme}://{host or store.address}"
    place = f"s3://bucket/a?endpoint_override={endpoint}&region=us-east-1{further}"
    with pytest.raises(StorageError, match=re.escape(cause)):
        Location.parse(place).read_bytes()


def test_options_that_the_client_does_not_take_are_those_of_pyarrow(store, tmp_path):
    store.put("bucket/a", b"hello")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "x"}
    uri = str(place_of(store, "a", "&smart_defaults=standard"))
    assert read_in_a_process(uri, folder=tmp_path, variables=keys) == ["hello", False]


@pytest.mark.parametrize(
    ("options", "is_opened"),
    [
        ("region=cn-north-1", False),
        ("region=us-isob-east-1", False),
        ("region=cn-north-1&endpoint_override=store:9000", True),
        ("region=us-gov-west-1", True),
        ("region=eu-west-1", True),
    ],
)
def test_regions_with_hosts_of_other_domains_are_left_to_pyarrow(options, is_opened, monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    files = Location.parse(f"s3://bucket/a?{options}").store
    assert isinstance(files, s3_objects.S3Files)
    assert (files._open_client() is not None) == is_opened


def test_a_child_of_a_fork_reads_without_the_threads_of_its_parent(store):
    store.put("bucket/a", b"hello")
    place = place_of(store, "a")
    assert place.read_range(0, 5) == b"hello"
    program = f"""
import os, sys
from recordmill.storage.files import Location
place = Location.parse({str(place)!r})
assert place.read_range(0, 5) == b"hello"
child = os.fork()
if not child:
    os._exit(0 if place.read_range(0, 5) == b"hello" else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_local_files_need_no_client(tmp_path):
    (tmp_path / "a").write_bytes(b"hello")
    found = read_in_a_process(str(tmp_path / "a"), folder=tmp_path)
    assert found == ["hello", False]
