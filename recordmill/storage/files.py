"""Files and folders on any filesystem: a local path, or a URI that pyarrow.fs supports.

    >>> out = Location.parse("s3://bucket/flowers?region=eu-west-1")
    >>> str(out / "dataset.json")
    's3://bucket/flowers/dataset.json?region=eu-west-1'

The path of a URI is not percent-decoded (as with `aws s3` and `gsutil`), except for `file://`. Its
query holds options of pyarrow's filesystem. Access keys are taken from the environment.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import io
import itertools
import os
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import pyarrow as pa

from recordmill.errors import ConfigError, StorageError
from recordmill.storage.filesystems import filesystem_of
from recordmill.storage.local_files import LocalFiles
from recordmill.storage.no_links import pinned_path
from recordmill.storage.redaction import holds_keys, shown
from recordmill.storage.s3_keys import check_query
from recordmill.storage.s3_objects import S3Files
from recordmill.storage.storage_errors import (
    MissingError,
    PathError,
    call_with_retries,
    raise_storage_errors,
)
from recordmill.storage.stores import ArrowFiles, DirectoryEntry, Guard, GuardedStream, Kind, Store

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

T = TypeVar("T")
R = TypeVar("R")

__all__ = [
    "DirectoryEntry",
    "Location",
    "MissingError",
    "PathError",
    "StorageError",
    "is_uri",
    "shown",
    "sync_folders",
]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)/?(.*)", re.DOTALL)
# The text after the last '?' is a query only if it has the form of one: keys may contain a '?'.
_QUERY = re.compile(r"\?((?:[a-z_]+=[^?]*)?)\Z")
_BUCKETS = ("s3", "gs", "gcs", "abfs", "abfss")
_HAVE_FOLDERS = ("hdfs", "viewfs", "mock")
_WEB = ("http", "https")
_SIDE_BY_SIDE = 16  # requests to a store
_READ_BUFFER = 1 << 20  # bytes
_WRITE_BUFFER = 1 << 17  # larger writes are not copied; a shard that is written has five


def is_uri(text: str) -> bool:
    """Return whether the text is a URI (scheme://...), not a local path."""
    return _URI.match(text) is not None


def from_here(path: str) -> str:
    """Return a local path that names the same file for a process in another working directory."""
    return path if not path or is_uri(path) else os.path.join(os.getcwd(), path)


@dataclasses.dataclass(frozen=True)
class Location:
    """The place of a file or folder, made by `parse`. It is hashable and picklable.

    root: '' for a local path, otherwise scheme://authority.
    path: absolute for a local path, otherwise relative to the root; parts are separated by '/'.
    query: options of the filesystem; only URIs have them.
    top: length of the path of `without_links`, which is the default for all that lies in it.

    Operations raise StorageError, and MissingError if the file or folder does not exist.
    """

    root: str
    path: str
    query: str = ""
    top: int = dataclasses.field(default=0, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, *, checked: bool = True) -> Location:
        """Parse a path or a URI, without access to the filesystem.

        checked: whether the options in a URI must be known ones.

        Raises:
          ConfigError: the text is invalid, or its scheme or an option is not supported.
        """
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
            if scheme in _WEB:
                raise ConfigError(
                    f"{shown(text)!r} is a web address, and nothing is downloaded: download it,"
                    " for example with curl -LO, and pass the path of the file"
                )
            raise ConfigError(
                f"unknown scheme {uri[1]!r} in {shown(text)!r}: expected a local path, or one of "
                "file://, s3://, gs://, abfs://, hdfs://"
            )
        if scheme in _BUCKETS and not authority:
            raise ConfigError(f"expected {scheme}://BUCKET/PATH, got {shown(text)!r}")
        if holds_keys(text):
            raise ConfigError(
                f"access keys in {scheme}:// URIs end up in logs and listings: take them out and "
                "set them in the environment (for S3 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
            )
        query = _QUERY.search(rest)
        path = rest[: query.start()] if query else rest
        if checked and scheme in _BUCKETS and "//" in f"/{path}":
            raise ConfigError(
                f"expected {scheme}://BUCKET/PATH with a name between two slashes, got"
                f" {shown(text)!r}: take the empty part before"
                f" {f'/{path}'.partition('//')[2]!r} out, or give the objects other keys"
            )
        if checked and query and query[1]:
            check_query(scheme, query[1])
        return cls(f"{scheme}://{authority}", path.strip("/"), query[1] if query else "")

    def __str__(self) -> str:
        if self.is_local:
            return self.path
        text = f"{self.root}/{self.path}" if self.path else self.root
        return f"{text}?{self.query}" if self.query or _QUERY.search(self.path) else text

    @property
    def spelling(self) -> str:
        """The text that `parse` turns into this place; always valid UTF-8, unlike `str`."""
        text = str(self)
        if text.isascii() or text == text.encode("utf-8", "replace").decode():
            return text
        return f"file://{urllib.parse.quote(os.fsencode(text))}"

    def __truediv__(self, name: str) -> Location:
        """Return the place `name` (parts separated by '/') inside this one.

        Raises:
          ValueError: the name leads out of this place.
        """
        if not name or name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"expected a name inside {shown(self)}, got {name!r}")
        path = f"{self.path.rstrip('/')}/{name}" if self.path else name
        return dataclasses.replace(self, path=path)

    @property
    def name(self) -> str:
        """Last part of the path; '' for a root."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """Folder that contains the place; a root is its own parent."""
        head = self.path.rpartition("/")[0]
        return dataclasses.replace(self, path=head or ("/" if self.is_local else ""))

    def without_links(self) -> Location:
        """Return this folder, inside of which links are not followed to write or delete files."""
        return dataclasses.replace(self, top=len(self.path) if self.is_local else 0)

    @property
    def is_local(self) -> bool:
        return not self.root

    @property
    def can_move(self) -> bool:
        """False for object stores, which can only copy and delete files."""
        return self.root.partition(":")[0] not in _BUCKETS

    @property
    def local_path(self) -> str:
        """Path for `open` and `os`; raises ValueError for a place that is not local."""
        if not self.is_local:
            raise ValueError(f"expected a local path, got {shown(self)}")
        return self.path

    @property
    def store(self) -> Store:
        """Filesystem of the place, connected once per process."""
        return _LOCAL if self.is_local else arrow_store(self.root, self.query)

    def stat(self) -> DirectoryEntry:
        """Return type, size and modification time."""
        with raise_storage_errors("access", self):
            found = call_with_retries(self.store.stat, self.path)
            if found is None:
                raise FileNotFoundError
            return found

    def exists(self) -> bool:
        """Return whether there is a file or folder."""
        with raise_storage_errors("access", self):
            return call_with_retries(self.store.stat, self.path) is not None

    def is_dir(self) -> bool:
        """Return whether there is a folder."""
        return self._is_kind("dir")

    def is_file(self) -> bool:
        """Return whether there is a file."""
        return self._is_kind("file")

    def _is_kind(self, kind: Kind) -> bool:
        with raise_storage_errors("access", self):
            return call_with_retries(self.store.is_kind, self.path, kind)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self.stat().size

    def list_dir(self) -> list[DirectoryEntry]:
        """Return the entries of this folder, sorted by name."""
        with raise_storage_errors("list", self):
            return call_with_retries(self.store.list_dir, self.path)

    def scan_dir(self) -> Iterator[DirectoryEntry]:
        """Yield the entries of this folder in any order, those of S3 page by page."""
        store = self.store
        if not isinstance(store, ArrowFiles):
            yield from self.list_dir()
            return
        with raise_storage_errors("list", self), contextlib.closing(store.open_lister()) as lister:
            for name, size, mtime, is_folder in itertools.chain.from_iterable(
                lister.begin(self.path, recursive=False)
            ):
                kind: Kind = "dir" if is_folder else "file"
                yield DirectoryEntry(name=name, kind=kind, size=size, mtime_ns=mtime)

    def list_if_exists(self) -> list[DirectoryEntry]:
        """Return the entries of this folder, sorted by name; none if it does not exist."""
        try:
            return self.list_dir()
        except MissingError:
            return []
        except PathError:  # also for a path below a file
            if self.exists():
                raise
            return []

    def open_input(self) -> BinaryIO:
        """Open the file as a seekable, buffered stream, whose methods raise StorageError, too."""
        return self.open_guarded(functools.partial(raise_storage_errors, "read", self))

    def open_guarded(self, guard: Callable[[], Guard]) -> BinaryIO:
        """Open the file as `open_input` does, with every operation inside a context of `guard`."""
        with guard():
            raw = call_with_retries(self.store.open_input, self.path)
        return io.BufferedReader(GuardedStream(raw, guard, reads=True), _READ_BUFFER)

    def open_output(self) -> BinaryIO:
        """Open a new file as a buffered stream; its content is on disk once that is closed.

        This is not atomic: write to a temporary name, then call `rename_to`.
        """
        return self._open_new(scratch=False)

    def open_scratch(self) -> BinaryIO:
        """Open a new file, as `open_output` does, that no later run reads: it is not synced."""
        return self._open_new(scratch=True)

    def _open_new(self, *, scratch: bool) -> BinaryIO:
        guard = functools.partial(raise_storage_errors, "write", self)
        with guard(), self.pinned(itself=True) as path:
            store = self.store
            raw = store.open_scratch(path) if scratch else store.open_output(path)
        return io.BufferedWriter(GuardedStream(raw, guard, reads=False), _WRITE_BUFFER)

    def read_bytes(self) -> bytes:
        """Return the content of the file."""
        with self.open_input() as file:
            return file.read()

    def read_if_exists(self) -> bytes | None:
        """Return the content of the file; None if it does not exist."""
        try:
            return self.read_bytes()
        except MissingError:
            return None
        except PathError:  # also for a path below a file
            if self.exists():
                raise
            return None

    def read_range(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`; fewer only at the end of the file."""
        try:
            return call_with_retries(self.store.read_range, self.path, offset, length)
        except (OSError, pa.ArrowException):
            with raise_storage_errors(
                "read", self
            ):  # entered only here: it takes as long as opening a file
                raise

    def write_bytes(self, data: ReadableBuffer, *, scratch: bool = False) -> None:
        """Write the file atomically: it has either its old content or all of the new.

        The content is on disk before it gets the name, unless the file is scratch, which no later
        run trusts; the name is on disk after `sync_folder`.
        """
        with raise_storage_errors("write", self), self.pinned() as path:
            self.store.write_bytes(path, data, scratch=scratch)

    def create_exclusive(self, data: bytes) -> bool:
        """Create the file unless it exists; return whether this call created it.

        On a local filesystem exactly one of several creators succeeds, and the content appears
        atomically. On object stores two creators at the same moment may both return True.
        """
        with raise_storage_errors("create", self), self.pinned() as path:
            return self.store.create_exclusive(path, data)

    def rename_to(self, target: Location) -> None:
        """Move a file within its filesystem, and replace the target if it exists.

        It can be repeated: if the file is missing and the target exists, nothing happens.
        """
        if (self.root, self.query) != (target.root, target.query):
            raise ValueError(
                f"cannot rename {shown(self)} to {shown(target)}: they are on different filesystems"
            )
        with (
            raise_storage_errors(f"move to {shown(target)} the file", self),
            self.pinned() as path,
            target.pinned() as new,
        ):
            self.store.rename(path, new)

    def delete(self, *, missing_ok: bool = False) -> None:
        """Delete the file."""
        with raise_storage_errors("delete", self):
            try:
                with self.pinned() as path:
                    self.store.delete(path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def delete_tree(self) -> None:
        """Delete the folder and its content, if it exists."""
        with (
            raise_storage_errors("delete", self),
            contextlib.suppress(FileNotFoundError),
            self.pinned(itself=True) as path,
        ):
            self.store.delete_tree(path)

    def make_dirs(self) -> None:
        """Create this folder and its parents; nothing happens on object stores."""
        with raise_storage_errors("create the folder", self):
            for place in self._folders_without_links():
                with place.pinned(itself=True) as path:
                    self.store.make_dirs(path)

    def _folders_without_links(self) -> list[Location]:
        """Return the folder, after those above it in which links are not followed."""
        folders = [self]
        while 0 < folders[0].top < len(folders[0].path):
            folders.insert(0, folders[0].parent)
        return folders

    def pinned(self, *, itself: bool = False) -> contextlib.AbstractContextManager[str]:
        """Return a context with the path to use, which follows no link; see `pinned_path`."""
        if not 0 < self.top < len(self.path):
            return contextlib.nullcontext(self.path)
        return pinned_path(self.path, top=self.top, itself=itself)

    def sync_file(self) -> None:
        """Wait until the content of a file that another program wrote is on disk."""
        with raise_storage_errors("sync", self), self.pinned(itself=True) as path:
            self.store.sync_file(path)

    def sync_folder(self) -> None:
        """Wait until the names in this folder are on disk: of new, moved and deleted files."""
        with raise_storage_errors("sync the folder", self), self.pinned(itself=True) as path:
            self.store.sync_folder(path)


def for_each(call: Callable[[T], object], items: Iterable[T], *, at: Location) -> None:
    """Call a function with each item; in a store in parallel, as `results_of_each` does."""
    for _ in results_of_each(call, items, at=at):
        pass


def results_of_each(
    call: Callable[[T], R], items: Iterable[T], *, at: Location, most: int = _SIDE_BY_SIDE
) -> Iterator[R]:
    """Yield the result of a call for each item, in order; in a store calls run in parallel.

    at: any place on the filesystem of the items. most: results in memory, at most; one for local
      files.

    Raises the error of the first call that fails, once the calls that have begun end.
    """
    if at.is_local:
        yield from map(call, items)
        return
    left = iter(items)
    with ThreadPoolExecutor(most) as pool:
        begun = collections.deque(pool.submit(call, item) for item in itertools.islice(left, most))
        try:
            while begun:
                yield begun.popleft().result()
                begun.extend(pool.submit(call, item) for item in itertools.islice(left, 1))
        finally:
            pool.shutdown(cancel_futures=True)


def results_of(*calls: Callable[[], Any], at: Location) -> list[Any]:
    """Return the results of calls, which run in parallel in a store.

    at: as in `results_of_each`.
    """
    return [*results_of_each(lambda call: call(), calls, at=at)]


def move_or_copy(files: Mapping[Location, Location]) -> None:
    """Move files to new places on the same filesystem, from a folder that is deleted later.

    An object store can only copy: there the originals stay. files: {file: its new place}.
    """
    for_each(lambda pair: _move_or_copy(*pair), [*files.items()], at=next(iter(files), _HERE))


def _move_or_copy(source: Location, target: Location) -> None:
    with (
        raise_storage_errors(f"move to {shown(target)} the file", source),
        source.pinned() as path,
        target.pinned() as new,
    ):
        call_with_retries(source.store.move_or_copy, path, new)


def sync_folders(places: Iterable[Location], *, top: Location) -> None:
    """Sync the folders of files, and their parents up to `top`, which contains all of them."""
    folders: set[Location] = {top}
    for place in places:
        folder = place.parent
        while folder not in folders:
            folders.add(folder)
            folder = folder.parent
    for folder in folders:
        folder.sync_folder()


_LOCAL = LocalFiles()
_HERE = Location("", "/")


_opening = threading.Lock()  # threads that read ahead all need the same store at first


def _forget_lock() -> None:
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def arrow_store(root: str, query: str) -> ArrowFiles:
    """Return the pyarrow filesystem of a URI. Raises OSError or pa.ArrowException."""
    with _opening:
        # The child of a fork must not use the connections of its parent.
        return _open_store(root, query, os.getpid())


@functools.lru_cache(maxsize=64)
def _open_store(root: str, query: str, process: int) -> ArrowFiles:
    if root.startswith("s3:") and "allow_delayed_open=" not in query:
        # A small object is then uploaded in one request, not in the three of a multipart upload.
        query = f"{query}&allow_delayed_open=true".lstrip("&")
    filesystem, base = filesystem_of(f"{root}/?{query}" if query else f"{root}/")
    if root.startswith("s3:"):
        return S3Files(filesystem, base, query=query)
    return ArrowFiles(filesystem, base, has_folders=root.split(":")[0] in _HAVE_FOLDERS)
