"""Objects of S3: obstore reads and deletes them with one request each, and lists them.

pyarrow sends a HEAD before each GET, and writes an empty object for the folder around an object
that it deletes. It still writes and copies objects. obstore uses the credentials and the address
that pyarrow uses (`s3_keys`). pyarrow does all of this if obstore cannot get the credentials, or
does not support an option of the URI or the name of the object.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import hashlib
import os
import re
import threading
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from recordmill.storage.read_ahead import SequentialReads
from recordmill.storage.s3_keys import endpoint_of, key_options
from recordmill.storage.s3_listing import S3Lister
from recordmill.storage.storage_errors import (
    call_with_retries,
    error_code,
    http_status,
    lacks_bucket,
    may_pass,
    raise_as_pyarrow,
)
from recordmill.storage.stores import (
    ArrowFiles,
    DirectoryEntry,
    Kind,
    Lister,
    RangeStream,
    shortened,
)

if TYPE_CHECKING:
    import obstore
    from obstore.store import ClientConfig, S3Store

STALL_SECONDS = 30.0  # without a byte, until a request has failed
_CONNECT_SECONDS = 5.0
_FIRST = 1 << 20  # bytes of an object that are read when it is opened
_KEYS = 1000  # that one request deletes, at most
_LONGEST = datetime.timedelta(days=1)  # of a request that makes progress
# pyarrow does not use the proxies of the environment.
_NO_PROXY: ClientConfig = {"proxy_url": "http://127.0.0.1:9", "proxy_excludes": "*,0.0.0.0/0,::/0"}
# Options of URIs that do not concern reads, and those that obstore takes as well.
_KNOWN_OPTIONS = frozenset(
    {
        *("allow_bucket_creation", "allow_bucket_deletion", "allow_delayed_open"),
        *("background_writes", "check_directory_existence_before_creation"),
        *("region", "scheme", "endpoint_override"),
    }
)
# Beginnings of regions whose hosts are not in amazonaws.com.
_OTHER_PARTITIONS = ("cn-", "us-iso", "eu-iso", "eusc-")
_MD5 = re.compile(r'"([0-9a-f]{32})"')


class S3Files(ArrowFiles):
    """The `Store` of a bucket. query: options of the URI."""

    def __init__(self, filesystem: Any, base: str, *, query: str) -> None:
        super().__init__(filesystem, base, has_folders=False)
        self._query = query
        self._lock = threading.Lock()
        self._is_opened = False
        self._client: S3Store | None = None

    def read_listed(
        self, path: str, offset: int, length: int, size: int
    ) -> tuple[DirectoryEntry, bytes]:
        answer = self._get(path, offset, length, is_whole=(offset, length) == (0, size))
        if answer is None:
            return super().read_listed(path, offset, length, size)
        entry = _entry(path, answer)
        if entry.size == size:
            return entry, self._content(path, answer, offset, length)
        entry = self.stat(path) or entry
        if entry.size == size:  # the object has not changed
            raise OSError(errno.EPROTO, "the store's answer is shorter or longer than the object")
        return entry, b""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        answer = self._get(path, offset, length, is_whole=False)
        if answer is None:
            return super().read_range(path, offset, length)
        return self._content(path, answer, offset, length)

    def open_input(self, path: str) -> BinaryIO:
        answer = self._get(path, 0, _FIRST, is_whole=False)
        if answer is None:
            return super().open_input(path)
        first, size = self._content(path, answer, 0, _FIRST), answer.meta["size"]

        def read(offset: int, length: int) -> bytes:
            data = first[offset : offset + length]
            if len(data) < length:
                data += self.read_range(path, offset + len(data), length - len(data))
            if len(data) < length:
                raise shortened(offset + len(data), size)
            return data

        ahead = SequentialReads(read, functools.partial(self.read_range, path), size)
        return cast(BinaryIO, RangeStream(ahead.read, size, ahead.close))

    def is_kind(self, path: str, kind: Kind) -> bool:
        """Return whether there is an object, or a folder, by one request; pyarrow sends two.

        Raises:
          OSError: a request failed, or there is no such bucket, which only a listing says.
        """
        client = self._open_client() if path and _is_plain(path) else None
        if client is not None:
            import obstore

            key = self.path(path).partition("/")[2]
            try:
                if kind == "dir":
                    return bool(next(iter(obstore.list(client, key)), ()))
                obstore.head(client, key)
            except (OSError, obstore.exceptions.BaseError) as error:
                if lacks_bucket(error):
                    raise_as_pyarrow(error, "ListObjectsV2")
                if kind == "file" and http_status(error) == 404:
                    return False
            else:
                return True
        return super().is_kind(path, kind)

    def delete(self, path: str) -> None:
        """Delete an object.

        If obstore cannot, pyarrow deletes it, and writes an empty object for its folder.
        """
        if not self._has_deleted(path, is_folder=False):
            super().delete(path)

    def delete_tree(self, path: str) -> None:
        """Delete all objects of a folder, as `delete` does."""
        if not self._has_deleted(path, is_folder=True):
            super().delete_tree(path)

    def _has_deleted(self, path: str, *, is_folder: bool) -> bool:
        """Delete an object or a folder with obstore; return False if pyarrow has to do it.

        Raises:
          OSError: access is denied, or retries did not help against an error that may pass.
        """
        client = self._open_client() if _is_plain(path) else None
        if client is None:
            return False
        key = self.path(path).partition("/")[2]
        try:
            return call_with_retries(_delete_folder if is_folder else _delete, client, key)
        except OSError as error:
            if may_pass(error) or error_code(error) == errno.EACCES:
                raise
            return False  # a store may not know the request, which can name several objects

    def open_lister(self) -> Lister:
        bucket = self.path("").partition("/")[0]
        # Directory buckets do not list their keys in order.
        client = None if bucket.endswith("--x-s3") else self._open_client()
        return super().open_lister() if client is None else S3Lister(client, self)

    def _get(
        self, path: str, offset: int, length: int, *, is_whole: bool
    ) -> obstore.GetResult | None:
        """Return the answer to a request for a range; None if pyarrow has to read it.

        Raises:
          OSError: the request failed.
        """
        client = self._open_client() if (length or is_whole) and _is_plain(path) else None
        if client is None:
            return None
        import obstore

        key = self.path(path).partition("/")[2]
        try:
            if is_whole:
                return obstore.get(client, key)
            return obstore.get(client, key, options={"range": (offset, offset + length)})
        except (OSError, obstore.exceptions.BaseError) as error:
            if http_status(error) == 416:  # the object is empty, or shorter
                return None
            raise_as_pyarrow(error, "GetObject")

    def _content(self, path: str, answer: obstore.GetResult, offset: int, length: int) -> bytes:
        """Return the bytes of an answer. Raises OSError if they are not those of the object."""
        import obstore

        size = answer.meta["size"]
        try:
            data = bytes(answer.bytes())
        except (OSError, obstore.exceptions.BaseError) as error:
            raise_as_pyarrow(error, "GetObject")
        wanted = max(0, min(length, size - offset))
        if len(data) != wanted:
            raise OSError(errno.EPROTO, f"the store sent {len(data)} of {wanted} bytes")
        etag = _MD5.fullmatch(answer.meta["e_tag"] or "")
        if (
            self._etags_are_sums
            and etag is not None
            and len(data) == size
            and hashlib.md5(data, usedforsecurity=False).hexdigest() != etag[1]
        ):
            self._check_again(path, data)
        return data

    def _open_client(self) -> S3Store | None:
        """Return the client, opened by the first call; None if pyarrow has to read."""
        if _forked or _avoided.is_set:
            return None
        if not self._is_opened:
            with self._lock:
                if not self._is_opened:
                    self._client = self._new_client()
                    self._is_opened = True
        return self._client

    def _new_client(self) -> S3Store | None:
        options = dict(urllib.parse.parse_qsl(self._query, keep_blank_values=True))
        keys = key_options(os.environ) if options.keys() <= _KNOWN_OPTIONS else None
        if keys is None:
            return None
        bucket, region = self.path("").partition("/")[0], self.filesystem.region
        endpoint = endpoint_of(options, os.environ)
        if endpoint is None and region.startswith(_OTHER_PARTITIONS):
            return None
        import obstore
        from obstore.store import S3Store

        _note_start()
        # the wildcard certificate of S3 does not cover names with dots
        is_virtual = endpoint is None and "." not in bucket
        if endpoint is None:
            host = f"{bucket}.s3" if is_virtual else "s3"
            endpoint = f"{options.get('scheme', 'https')}://{host}.{region}.amazonaws.com"
        is_plain_http = endpoint.startswith("http:")
        timeouts: ClientConfig = {
            "connect_timeout": datetime.timedelta(seconds=_CONNECT_SECONDS),
            "read_timeout": datetime.timedelta(seconds=STALL_SECONDS),
            "timeout": _LONGEST,
        }
        try:
            # Each of these settings may have a variable, which would count otherwise.
            client = S3Store(
                bucket,
                region=region,
                endpoint=endpoint,
                aws_endpoint_url_s3=endpoint,
                virtual_hosted_style_request=is_virtual,
                client_options={"allow_http": is_plain_http, **timeouts, **_NO_PROXY},
                retry_config={"max_retries": 0},  # those of `call_with_retries` count
                **{"skip_signature": False, **keys},
            )
            if not keys.get("skip_signature"):
                # It asks for the keys, so that a machine without any is found now.
                obstore.sign(client, "GET", "key", datetime.timedelta(minutes=1))
        except (OSError, ValueError, KeyError, obstore.exceptions.BaseError):
            return None
        return client


# The threads of obstore end with a fork: a child would wait for them for ever.
_forked = False
_has_started = False


class _Avoided(threading.local):
    is_set = False


_avoided = _Avoided()


@contextlib.contextmanager
def without_threads() -> Iterator[None]:
    """Let pyarrow read in this thread, inside the block, so that a fork can still use obstore."""
    before, _avoided.is_set = _avoided.is_set, True
    try:
        yield
    finally:
        _avoided.is_set = before


def _note_start() -> None:
    global _has_started
    _has_started = True


def _note_fork() -> None:
    global _forked
    _forked = _has_started


os.register_at_fork(after_in_child=_note_fork)


def _delete(client: S3Store, keys: str | list[str]) -> bool:
    import obstore

    try:
        obstore.delete(client, keys)
    except (OSError, obstore.exceptions.BaseError) as error:
        raise_as_pyarrow(error, "DeleteObjects")
    return True


def _delete_folder(client: S3Store, folder: str) -> bool:
    """Delete the objects of a folder; return False if its marker is left.

    obstore does not accept the name of the marker, FOLDER/.
    """
    import obstore

    has_marker = False
    try:
        for some in obstore.list(client, folder, chunk_size=_KEYS):
            keys = [one["path"] for one in some]
            _delete(client, keys)
            has_marker |= folder in keys
    except obstore.exceptions.BaseError as error:
        raise_as_pyarrow(error, "ListObjectsV2")
    return not has_marker


def _is_plain(path: str) -> bool:
    """Return whether obstore takes a key as it is."""
    return path.isprintable() and not any(part in ("", ".", "..") for part in path.split("/"))


def _entry(path: str, answer: obstore.GetResult) -> DirectoryEntry:
    name, modified = path.rpartition("/")[2], answer.meta["last_modified"]
    mtime_ns = round(modified.timestamp()) * 10**9
    return DirectoryEntry(name=name, kind="file", size=answer.meta["size"], mtime_ns=mtime_ns)
