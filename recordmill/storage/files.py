"""A place on any filesystem: a local path, or a URI that pyarrow.fs understands.

    >>> out = Location.parse("s3://bucket/flowers?region=eu-west-1")
    >>> str(out / "dataset.json")
    's3://bucket/flowers/dataset.json?region=eu-west-1'

The path of a URI is taken as written, without percent-decoding (as `aws s3` and `gsutil` do), but
for `file://`. Its query holds pyarrow's options; access keys come from the environment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import io
import mmap
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import pyarrow as pa
from pyarrow import fs

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.storage.local_files import LocalFiles, read_exactly
from recordmill.storage.storage_errors import (
    ChangedInputError,
    MissingError,
    StorageError,
    error_code,
    explained,
    reason,
    shown,
)
from recordmill.storage.stores import ArrowFiles, DirectoryEntry, ExplainedStream, Guard, Store

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "ChangedInputError",
    "DirectoryEntry",
    "InputFile",
    "Location",
    "MissingError",
    "StorageError",
    "is_uri",
    "open_file",
    "read_file",
    "shown",
]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)/?(.*)", re.DOTALL)
# What follows the last '?' is the query if it looks like one, so that keys may have a '?'.
_QUERY = re.compile(r"\?((?:[a-z_]+=[^?]*)?)\Z")
_BUCKETS = ("s3", "gs", "gcs", "abfs", "abfss")
_HAVE_FOLDERS = ("hdfs", "viewfs", "mock")
_BUFFER = 1 << 20  # bytes
_SECOND = 10**9  # nanoseconds


def is_uri(text: str) -> bool:
    """Whether the text names a place by scheme://, not by a local path."""
    return _URI.match(text) is not None


@dataclasses.dataclass(frozen=True)
class Location:
    """A place. Made by `parse`; hashable, picklable, and holds no connection.

    root: '' for a local path, else scheme://authority.
    path: absolute for a local path, else relative to the root; '/' between its parts.
    query: options of the filesystem, of a URI only.

    Operations raise StorageError (MissingError where something is not there).
    """

    root: str
    path: str
    query: str = ""

    @classmethod
    def parse(cls, text: str) -> Location:
        """Raises ConfigError for text that can be no place. Touches no storage."""
        if not text or "\0" in text:
            raise ConfigError(f"expected a path or a URI, got {text!r}")
        uri = _URI.match(text)
        if uri is None:
            return cls("", os.path.abspath(text))
        scheme, authority, rest = uri[1].lower(), uri[2], uri[3]
        if scheme == "file":
            if authority not in ("", "localhost"):
                raise ConfigError(f"expected file:///PATH without a host, got {shown(text)!r}")
            return cls(
                "", os.path.abspath("/" + urllib.parse.unquote(rest, errors="surrogateescape"))
            )
        if scheme not in (*_BUCKETS, *_HAVE_FOLDERS):
            raise ConfigError(
                f"unknown scheme {uri[1]!r} in {shown(text)!r}: expected a local path, or one of "
                "file://, s3://, gs://, abfs://, hdfs://"
            )
        if scheme in _BUCKETS and not authority:
            raise ConfigError(f"expected {scheme}://BUCKET/PATH, got {shown(text)!r}")
        if ":" in authority.rpartition("@")[0]:
            raise ConfigError(
                f"access keys in {scheme}:// URIs end up in logs and listings: take them out and "
                "set them in the environment (for S3 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
            )
        query = _QUERY.search(rest)
        path = rest[: query.start()] if query else rest
        return cls(f"{scheme}://{authority}", path.strip("/"), query[1] if query else "")

    def __str__(self) -> str:
        if self.is_local:
            return self.path
        text = f"{self.root}/{self.path}" if self.path else self.root
        return f"{text}?{self.query}" if self.query or _QUERY.search(self.path) else text

    @property
    def spelling(self) -> str:
        """What `parse` makes this place of, in UTF-8 whatever the bytes of its name."""
        text = str(self)
        if text.isascii() or text == text.encode("utf-8", "replace").decode():
            return text
        return f"file://{urllib.parse.quote(os.fsencode(text))}"

    def __truediv__(self, name: str) -> Location:
        """The place `name` (parts divided by '/') inside this one.

        Raises ValueError for a name that would lead out of it.
        """
        if not name or name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"expected a name inside {shown(self)}, got {name!r}")
        path = f"{self.path.rstrip('/')}/{name}" if self.path else name
        return dataclasses.replace(self, path=path)

    @property
    def name(self) -> str:
        """The last part of the path; '' for a root."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The folder around it; a root is its own parent."""
        head = self.path.rpartition("/")[0]
        return dataclasses.replace(self, path=head or ("/" if self.is_local else ""))

    @property
    def is_local(self) -> bool:
        return not self.root

    @property
    def local_path(self) -> str:
        """The path for `open` and `os`. Raises ValueError where there is none."""
        if not self.is_local:
            raise ValueError(f"expected a local path, got {shown(self)}")
        return self.path

    @property
    def store(self) -> Store:
        """The filesystem, connected once per process."""
        return _LOCAL if self.is_local else arrow_store(self.root, self.query)

    def stat(self) -> DirectoryEntry:
        with explained("look at", self):
            found = self.store.stat(self.path)
            if found is None:
                raise FileNotFoundError
            return found

    def exists(self) -> bool:
        with explained("look at", self):
            return self.store.stat(self.path) is not None

    def is_dir(self) -> bool:
        with explained("look at", self):
            found = self.store.stat(self.path)
            return found is not None and found.kind == "dir"

    def size(self) -> int:
        """Bytes."""
        return self.stat().size

    def list_dir(self) -> list[DirectoryEntry]:
        """What stands in this folder, sorted by name."""
        with explained("list", self):
            return self.store.list_dir(self.path)

    def open_input(self) -> BinaryIO:
        """A seekable, buffered stream; what goes wrong later is a StorageError too."""
        return self._open_input(functools.partial(explained, "read", self))

    def _open_input(self, guard: Callable[[], Guard]) -> BinaryIO:
        with guard():
            raw = self.store.open_input(self.path)
        return io.BufferedReader(ExplainedStream(raw, guard, reads=True), _BUFFER)

    def open_output(self) -> BinaryIO:
        """A buffered stream. Not atomic: write under a temporary name, then `rename_to`."""
        guard = functools.partial(explained, "write", self)
        with guard():
            raw = self.store.open_output(self.path)
        return io.BufferedWriter(ExplainedStream(raw, guard, reads=False), _BUFFER)

    def read_bytes(self) -> bytes:
        with self.open_input() as file:
            return file.read()

    def read_range(self, offset: int, length: int) -> bytes:
        """bytes[<= length] at `offset`; shorter only at the end of the file."""
        try:
            return self.store.read_range(self.path, offset, length)
        except (OSError, pa.ArrowException):
            with explained("read", self):  # entered here only: it takes as long as to open a file
                raise

    def write_bytes(self, data: ReadableBuffer) -> None:
        """The file has the old content or all of the new, never a part."""
        with explained("write", self):
            self.store.write_bytes(self.path, data)

    def create_exclusive(self, data: bytes) -> bool:
        """Makes the file if there is none; returns whether this call made it.

        Local: just one of several creators wins, and the content appears at once or not at all.
        Elsewhere best effort: two creators in the same moment may both believe they won.
        """
        with explained("create", self):
            return self.store.create_exclusive(self.path, data)

    def rename_to(self, target: Location) -> None:
        """Moves a file within its filesystem, over what is there.

        Repeatable: done already where this is gone and the target is there.
        """
        if (self.root, self.query) != (target.root, target.query):
            raise ValueError(f"cannot rename {shown(self)} to {shown(target)}: another filesystem")
        with explained(f"move to {shown(target)} the file", self):
            self.store.rename(self.path, target.path)

    def delete(self, *, missing_ok: bool = False) -> None:
        """Removes a file."""
        with explained("delete", self):
            try:
                self.store.delete(self.path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def delete_tree(self) -> None:
        """Removes a folder and all in it; nothing happens if it is not there."""
        with explained("delete", self):
            self.store.delete_tree(self.path)

    def make_dirs(self) -> None:
        """Makes this folder and those above it; object stores need none."""
        with explained("make the folder", self):
            self.store.make_dirs(self.path)


_LOCAL = LocalFiles()


@functools.lru_cache(maxsize=64)
def arrow_store(root: str, query: str) -> ArrowFiles:
    """The pyarrow filesystem of a URI. Raises OSError, pa.ArrowException."""
    if root.startswith("s3:") and "allow_delayed_open=" not in query:
        # A small object goes in one request, not in the three of a multipart upload.
        query = f"{query}&allow_delayed_open=true".lstrip("&")
    filesystem, base = fs.FileSystem.from_uri(f"{root}/?{query}" if query else f"{root}/")
    return ArrowFiles(filesystem, base, has_folders=root.split(":")[0] in _HAVE_FOLDERS)


def open_file(path: str, *, size: int | None = None, mtime: int | None = None) -> BinaryIO:
    """Opens an input file, by its path or URI, as a seekable stream.

    With `size` (bytes) and `mtime` (nanoseconds since the epoch), what the listing saw is compared
    with what is there. Raises ChangedInputError if it differs or the file has vanished, RecordError
    if the file cannot be read.
    """
    location = Location.parse(path)
    if size is not None and mtime is not None:
        _stat_listed(location, path, (size, mtime))
    return location._open_input(functools.partial(_accounted, path))


def read_file(path: str, *, size: int, mtime: int) -> bytes:
    """All of an input file, by its path or URI, if it is still what the listing saw.

    size: bytes; mtime: nanoseconds since the epoch. Raises as `open_file`.
    """
    if path.startswith("/"):
        with _accounted(path):
            data = _read_local(path, size, mtime)
    else:
        location = Location.parse(path)
        _stat_listed(location, path, (size, mtime))
        with _accounted(path):
            data = location.store.read_range(location.path, 0, size)
    _compare(path, (size, mtime), (len(data), mtime))
    return data


class InputFile:
    """An input file that is read in parts, if it is still what the listing saw.

    Opened once: by its path or URI, with the size (bytes) and mtime (nanoseconds since the epoch)
    of the listing. Raises as `open_file`.
    """

    def __init__(self, path: str, *, size: int, mtime: int) -> None:
        self.path = path
        self.size = size
        self.mtime = mtime
        self._descriptor: int | None = None
        if not path.startswith("/"):
            _stat_listed(Location.parse(path), path, (size, mtime))
            return
        with _accounted(path):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._descriptor)
        found = (status.st_size, status.st_mtime_ns)
        if found != (size, mtime):
            self.close()
        _compare(path, (size, mtime), found)

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def read(self, offset: int, length: int) -> bytes:
        """bytes[length] at `offset`. Raises ChangedInputError where the file ends before."""
        with _accounted(self.path):
            if self._descriptor is not None:
                data = read_exactly(self._descriptor, offset, length)
            else:
                location = Location.parse(self.path)
                data = location.store.read_range(location.path, offset, length)
        if len(data) < length:
            _changed(self.path, "became shorter while the job ran")
        return data

    def map(self) -> mmap.mmap | None:
        """All of a local file, without reading it; None where it is on another filesystem."""
        if self._descriptor is None:
            return None
        with _accounted(self.path):
            return mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)


def _read_local(path: str, size: int, mtime: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _compare(path, (size, mtime), (status.st_size, status.st_mtime_ns))
        return read_exactly(descriptor, 0, size)
    finally:
        os.close(descriptor)


def _stat_listed(location: Location, path: str, listed: tuple[int, int]) -> None:
    with _accounted(path):
        found = location.store.stat(location.path)
        if found is None:
            raise FileNotFoundError
    _compare(path, listed, (found.size, found.mtime_ns))


def _compare(path: str, listed: tuple[int, int], found: tuple[int, int]) -> None:
    """Compares (size, mtime) of then and now."""
    if listed == found:
        return
    # S3 lists times in milliseconds and heads them in seconds.
    if listed[0] == found[0] and is_uri(path) and listed[1] // _SECOND == found[1] // _SECOND:
        return
    how = (
        f"was {listed[0]} bytes, is {found[0]}"
        if listed[0] != found[0]
        else "written to after it was listed, same size"
    )
    _changed(path, f"changed while the job ran ({how})")


def _changed(path: str, what: str) -> NoReturn:
    raise ChangedInputError(
        f"{shown(path)} {what}: run the same command again, it lists the input anew"
    )


@contextlib.contextmanager
def _accounted(path: str) -> Iterator[None]:
    """Tells the file's own trouble (a reject) from the run's (a network that fails)."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        code = error_code(error)
        if code in (errno.ENOENT, errno.ENOTDIR):
            _changed(path, "vanished while the job ran")
        if code in (errno.EMFILE, errno.ENFILE) or (is_uri(path) and code != errno.EACCES):
            with explained("read", path):
                raise
        raise RecordError(Reason.UNREADABLE, reason(error)) from error
