"""A light object store that speaks S3, in threads of this process, with a log of requests.

It has buckets for any name, objects in memory, and the requests that Arrow and boto3 make: listing
(version 2), GET with ranges, HEAD, PUT, copies, multipart uploads, DELETE of one key or several. A
request takes a tenth of what it takes moto (`tests.s3_server`, which has far more of what S3 does).
Signatures are not checked, only that the access key is known.
"""

from __future__ import annotations

import bisect
import contextlib
import datetime
import email.utils
import hashlib
import http.server
import io
import itertools
import pathlib
import re
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_PAGE = 1000  # keys of one answer to a listing
_REFUSALS = {
    "denied": (403, "AccessDenied"),
    "failing": (503, "SlowDown"),
    "error": (500, "InternalError"),
    "unsupported": (501, "NotImplemented"),
}
_DAMAGED = "the store's answer is incomplete or damaged; check the network"
LASTING = {  # {kind of a fault that stays: the sentence that a command ends with}
    "failing": "the store reports 'slow down'; check that the storage is reachable",
    "denied": "permission denied; check its owner, mode or access policy",
    "cut": _DAMAGED,
    "short": _DAMAGED,
    "unsized": _DAMAGED,
    "stalled": "connection timed out; check that the storage is reachable",
}


class Request(NamedTuple):
    """An answered request. seconds: on the monotonic clock. operation: LIST, or the HTTP method."""

    seconds: float
    client: str
    operation: str
    key: str
    part: str
    status: int
    sent: int


class _Object(NamedTuple):
    content: bytes
    time: float
    etag: str


class S3Store:
    """A store that serves inside its `with` block.

    listener: the socket to accept on, which may belong to another network namespace.
    access_key: of all requests; others are denied.
    requests: all that were answered.
    faults: {BUCKET/KEY or BUCKET: (kind of fault, number of its GETs that are answered with it)};
      `DELETE BUCKET/KEY` and the like for other operations (those of `take_fault`).
      `denied`, `failing`, `error`, `unsupported`: 403, 503, 500, 501. `reset`: the connection is
      reset. These do nothing else; `lost` resets the connection after the request is done.
      `hidden`: the status is 200, and the body is an error. `cut`: half of the content is sent.
      `short`: as well, and the headers say that this is all. `unsized`: no length is sent.
      `flipped`: a bit is flipped, each time in another place. `stalled`: half of the content
      is sent, and nothing more until the client hangs up.
    """

    def __init__(self, listener: socket.socket, *, access_key: str) -> None:
        self.access_key = access_key
        self.requests: list[Request] = []
        self.faults: dict[str, tuple[str, int]] = {}
        self.status, self.delay = 0, 0.0  # see `answering`
        self.lost_every = 0  # of this many requests, one gets no answer; 0 loses none
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._objects: dict[str, _Object] = {}
        self._names: list[str] = []  # of the objects, sorted
        self.uploads: dict[str, dict[int, bytes]] = {}
        self._server = _Server(listener, self)
        host, port = listener.getsockname()
        self.address = f"{host}:{port}"

    def uri(self, key: str) -> str:
        """Return the URI of a key in the bucket named bucket."""
        options = f"scheme=http&endpoint_override={self.address}&region=us-east-1"
        return f"s3://bucket/{key}?{options}"

    def __enter__(self) -> S3Store:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextlib.contextmanager
    def answering(self, *, status: int = 0, delay: float = 0.0) -> Iterator[None]:
        """Inside the block, answer all requests with this status, or after a delay in seconds."""
        self.status, self.delay = status, delay
        try:
            yield
        finally:
            self.status, self.delay = 0, 0.0

    def get(self, name: str) -> _Object | None:
        """Return the object BUCKET/KEY."""
        with self._lock:
            return self._objects.get(name)

    def put(self, name: str, content: bytes, *, modified: float = 0) -> str:
        """Write the object BUCKET/KEY, and return its etag. modified: its time; 0 is now."""
        made = _Object(content, modified or time.time(), _etag(content))
        with self._lock:
            if name not in self._objects:
                bisect.insort(self._names, name)
            self._objects[name] = made
        return made.etag

    def put_folder(self, folder: pathlib.Path, key: str) -> str:
        """Write the files below a folder, and return the URI of the key."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(f"bucket/{key}/{path.relative_to(folder)}", path.read_bytes())
        return self.uri(key)

    def delete(self, name: str) -> None:
        """Delete the object BUCKET/KEY, if there is one."""
        with self._lock:
            if self._objects.pop(name, None) is not None:
                del self._names[bisect.bisect_left(self._names, name)]

    def take_fault(self, operation: str, name: str) -> str:
        """Return the kind of fault for a request, or ''.

        operation: LIST, COPY, or the HTTP method; DELETE, too, if it is a POST. name: BUCKET/KEY,
          or BUCKET/PREFIX of a LIST; the first of several.
        """
        if self.lost_every and next(self._numbers) % self.lost_every == 0:
            return "reset"
        if operation == "LIST":
            name = name.partition("/")[0]
        elif operation != "GET":
            name = f"{operation} {name}"
        with self._lock:
            kind, times = self.faults.get(name, ("", 0))
            self.faults[name] = (kind, times - 1)
        return kind if times > 0 else ""

    def names(self, prefix: str = "") -> list[str]:
        """Return the BUCKET/KEY of all objects that start with a prefix, sorted."""
        with self._lock:
            start = bisect.bisect_left(self._names, prefix)
            rest = itertools.islice(self._names, start, None)
            return list(itertools.takewhile(lambda name: name.startswith(prefix), rest))


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, store: S3Store) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.store = store

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that were killed close their connections at any time."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # the base class calls do_GET and the like
            return self._handle
        raise AttributeError(name)

    def handle_expect_100(self) -> bool:
        self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.wfile.flush()
        return True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Print nothing."""

    def _handle(self) -> None:
        store = self.server.store
        parts = urllib.parse.urlsplit(self.path)
        self._name = urllib.parse.unquote(parts.path).strip("/")  # BUCKET/KEY
        if parts.path.endswith("/") and "/" in self._name:
            self._name += "/"  # an object that stands for a folder
        self._query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        content = self._read()
        time.sleep(store.delay)
        given = re.search("Credential=([^/]*)/", self.headers.get("Authorization", ""))
        operation, name = self._operation(), self._name
        if operation == "LIST":
            name = f"{name}/{self._query.get('prefix', '')}".rstrip("/")
        elif operation == "DELETE" and self.command == "POST":
            name = f"{name}/{_keys(content)[0]}"
        self._fault = store.take_fault(operation, name)
        if self._fault in _REFUSALS:
            self._send_error(*_REFUSALS[self._fault])
        elif self._fault == "reset" or (self._fault == "stalled" and self.command != "GET"):
            if self._fault == "stalled":
                self.connection.recv(1)
            self._hang_up()
        elif self._fault == "hidden":
            self._send_error(200, "InternalError")
        elif store.status:
            self._send_error(store.status, "SlowDown")
        elif given is None:
            self._send_error(403, "AccessDenied")
        elif given[1] != store.access_key:
            self._send_error(403, "InvalidAccessKeyId")
        else:
            {"PUT": self._put, "POST": self._post}.get(self.command, self._get)(store, content)
        if self.connection.fileno() != -1:
            self.wfile.flush()

    def _operation(self) -> str:
        """Return the operation, as for `S3Store.take_fault`."""
        if self.command == "GET" and "/" not in self._name:
            return "LIST"
        if self.command == "POST" and "delete" in self._query:
            return "DELETE"
        return "COPY" if "x-amz-copy-source" in self.headers else self.command

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.close(self.connection.detach())

    def _get(self, store: S3Store, _: bytes) -> None:
        """Answer GET, HEAD and DELETE."""
        if self.command == "DELETE":
            if store.uploads.pop(self._query.get("uploadId", ""), None) is None:
                store.delete(self._name)
            self._send(b"", 204)
        elif "/" not in self._name:
            self._send(self._list(store) if self.command == "GET" else b"")
        elif (found := store.get(self._name)) is None:
            self._send_error(404, "NoSuchKey")
        else:
            self._send_object(found)

    def _put(self, store: S3Store, content: bytes) -> None:
        if "partNumber" in self._query:
            store.uploads[self._query["uploadId"]][int(self._query["partNumber"])] = content
            self._send(b"", ETag=_etag(content))
        elif "x-amz-copy-source" not in self.headers:
            self._send(b"", ETag=store.put(self._name, content))
        else:
            source = urllib.parse.unquote(self.headers["x-amz-copy-source"]).lstrip("/")
            if (found := store.get(source)) is None:
                self._send_error(404, "NoSuchKey")
                return
            self._send(_xml("CopyObjectResult", _elements(ETag=store.put(self._name, found[0]))))

    def _post(self, store: S3Store, content: bytes) -> None:
        bucket, _, key = self._name.partition("/")
        if "uploads" in self._query:
            upload = f"upload-{time.monotonic_ns()}"
            store.uploads[upload] = {}
            body = _elements(Bucket=bucket, Key=key, UploadId=upload)
            self._send(_xml("InitiateMultipartUploadResult", body))
        elif "uploadId" in self._query:
            parts = store.uploads.pop(self._query["uploadId"])
            etag = store.put(self._name, b"".join(parts[number] for number in sorted(parts)))
            body = _elements(Bucket=bucket, Key=key, ETag=etag)
            self._send(_xml("CompleteMultipartUploadResult", body))
        else:
            keys = _keys(content)
            for one in keys:
                store.delete(f"{bucket}/{one}")
            is_quiet = b"<Quiet>true</Quiet>" in content
            said = [] if is_quiet else [f"<Deleted>{_elements(Key=one)}</Deleted>" for one in keys]
            self._send(_xml("DeleteResult", "".join(said)))

    def _list(self, store: S3Store) -> bytes:
        query = self._query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = int(query.get("max-keys", _PAGE))
        entries: list[tuple[str, _Object | None]] = []
        for name in store.names(f"{self._name}/{prefix}"):
            key = name.partition("/")[2]
            head, cut, _ = key[len(prefix) :].partition(delimiter or "\0")
            entry = prefix + head + delimiter if cut else key
            if entry > after and (not entries or entry != entries[-1][0]):
                entries.append((entry, None if cut else store.get(name)))
        page, rest = entries[:most], entries[most:]
        quote = urllib.parse.quote if query.get("encoding-type") == "url" else str
        body = _elements(
            Name=self._name, Prefix=quote(prefix), KeyCount=len(page), MaxKeys=most,
            IsTruncated="true" if rest else "false",
            **({"NextContinuationToken": page[-1][0]} if rest else {}),
        )  # fmt: skip
        for entry, one in page:
            if one is None:
                body += f"<CommonPrefixes>{_elements(Prefix=quote(entry))}</CommonPrefixes>"
                continue
            when = datetime.datetime.fromtimestamp(one.time, datetime.UTC)
            facts = _elements(
                Key=quote(entry), ETag=one.etag, Size=len(one.content), StorageClass="STANDARD",
                LastModified=when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            )  # fmt: skip
            body += f"<Contents>{facts}</Contents>"
        return _xml("ListBucketResult", body)

    def _send_object(self, found: _Object) -> None:
        headers = {"ETag": found.etag, "Content-Type": "binary/octet-stream"}
        headers["Last-Modified"] = email.utils.formatdate(found.time, usegmt=True)
        part = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if part is None:
            self._send(found.content, **headers)
            return
        size = len(found.content)
        start = int(part[1]) if part[1] else max(0, size - int(part[2]))
        end = min(int(part[2]) if part[1] and part[2] else size - 1, size - 1)
        if start >= size:
            self._send_error(416, "InvalidRange")
            return
        headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        self._send(found.content[start : end + 1], 206, **headers)

    def _send_error(self, status: int, code: str) -> None:
        self._send(_xml("Error", _elements(Code=code, Message=code)), status)

    def _send(self, body: bytes, status: int = 200, **headers: str) -> None:
        fault = self._fault
        lists = self._operation() == "LIST"
        if fault == "flipped" and body:
            at = 0 if lists else len(self.server.store.requests) * 7919 % len(body)
            body = body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]
        half = body[: len(body) // 2]
        body = half if fault == "short" else body
        sent = b"" if self.command == "HEAD" else half if fault in ("cut", "stalled") else body
        key = self._query.get("prefix", "") if lists else self._name.partition("/")[2]
        operation = "LIST" if lists else self.command
        part = self.headers.get("Range", "")
        # Logged before it is sent: a client that has the answer finds it in the log.
        self.server.store.requests.append(
            Request(
                time.monotonic(), self.client_address[0], operation, key, part, status, len(sent)
            )
        )
        if fault == "lost":
            self._hang_up()
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if fault == "unsized":
            self.send_header("Connection", "close")
        elif status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(sent)
        if fault == "stalled":
            self.wfile.flush()
            self.connection.recv(1)
        self.close_connection = self.close_connection or fault in ("cut", "stalled", "unsized")

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = _join_chunks(self.rfile)
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            return _join_chunks(io.BytesIO(content))
        return content


def _join_chunks(file: BinaryIO) -> bytes:
    """Read chunks, each after a line with its size, and the lines after the last one."""
    chunks = []
    while size := int(file.readline().partition(b";")[0], 16):
        chunks.append(file.read(size))
        file.readline()
    while file.readline().strip():
        """A trailer, such as a checksum."""
    return b"".join(chunks)


def _keys(content: bytes) -> list[str]:
    """Return the keys in a request that deletes several objects."""
    found = ElementTree.fromstring(content).iter()
    return [one.text or "" for one in found if one.tag.rpartition("}")[2] == "Key"]


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _elements(**texts: object) -> str:
    return "".join(f"<{name}>{escape(str(text))}</{name}>" for name, text in texts.items())


def _xml(name: str, body: str) -> bytes:
    space = "" if name == "Error" else f' xmlns="{_NAMESPACE}"'
    return f'<?xml version="1.0" encoding="UTF-8"?><{name}{space}>{body}</{name}>'.encode()
