"""The operations of a filesystem, and their implementation by pyarrow's filesystems."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, Protocol, cast

import pyarrow as pa
from pyarrow import fs

from recordmill.storage.storage_errors import call_with_retries, error_code

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

Kind = Literal["file", "dir"]
Guard = AbstractContextManager[None]
_MD5 = re.compile(rb'"([0-9a-f]{32})"')
_MD5_OF_NOTHING = hashlib.md5(usedforsecurity=False).hexdigest().encode()
_MARKS = (0xA5, 0x5A)  # a byte that was read cannot be both


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectoryEntry:
    """A file or folder; links are followed. size: bytes; mtime_ns: since the epoch."""

    name: str
    kind: Kind
    size: int
    mtime_ns: int


class ListedPath(NamedTuple):
    """A file or folder of a listing. path: relative to the listed folder."""

    path: str
    size: int
    mtime_ns: int
    is_folder: bool = False


Page = list[ListedPath]  # in the order of the paths; that of a folder is compared with a slash


class Store(Protocol):
    """Operations on paths. They raise OSError or pa.ArrowException; `Location` converts these."""

    def stat(self, path: str) -> DirectoryEntry | None: ...
    def is_kind(self, path: str, kind: Kind) -> bool: ...
    def list_dir(self, path: str) -> list[DirectoryEntry]: ...
    def open_input(self, path: str) -> BinaryIO: ...
    def open_output(self, path: str) -> BinaryIO: ...
    def open_scratch(self, path: str) -> BinaryIO: ...
    def read_range(self, path: str, offset: int, length: int) -> bytes: ...
    def write_bytes(self, path: str, data: ReadableBuffer, *, scratch: bool) -> None: ...
    def create_exclusive(self, path: str, data: bytes) -> bool: ...
    def rename(self, source: str, target: str) -> None: ...
    def move_or_copy(self, source: str, target: str) -> None: ...
    def delete(self, path: str) -> None: ...
    def delete_tree(self, path: str) -> None: ...
    def make_dirs(self, path: str) -> None: ...
    def sync_file(self, path: str) -> None: ...
    def sync_folder(self, path: str) -> None: ...


class ArrowFiles:
    """The `Store` of a pyarrow filesystem; paths are relative to `base`.

    Object stores acknowledge an upload, a copy or a deletion once it is durable: nothing is synced.

    has_folders: whether a folder must exist before a file is written to it, as on HDFS. Object
      stores have no folders; pyarrow would write an empty marker object for each.
    """

    def __init__(self, filesystem: Any, base: str, *, has_folders: bool) -> None:
        self.filesystem = filesystem
        self.base = base.rstrip("/")
        self._has_folders = has_folders
        self._is_s3 = getattr(filesystem, "type_name", None) == "s3"
        self._etags_are_sums = self._is_s3

    def path(self, path: str) -> str:
        """Return the path for the pyarrow filesystem."""
        return f"{self.base}/{path}".rstrip("/") if path else self.base or "/"

    def stat(self, path: str) -> DirectoryEntry | None:
        info = self.filesystem.get_file_info(self.path(path))
        if info.type == fs.FileType.NotFound:
            return None
        entry = directory_entry(info)
        if entry.kind == "file" and not entry.size:
            self._check_empty(path)
            if self._is_s3 and not entry.mtime_ns:
                raise _no_size()
        return entry

    def is_kind(self, path: str, kind: Kind) -> bool:
        entry = self.stat(path)
        return entry is not None and entry.kind == kind

    def _check_empty(self, path: str) -> None:
        """Check that a file is empty: pyarrow takes a length that is missing in the answer for 0.

        Raises:
          OSError: another answer, the ETag or the listing of its folder says that it is not.
        """
        place = self.path(path)
        if not self._is_s3:
            if self.filesystem.get_file_info(place).size:
                raise _no_size()
            return
        with self.filesystem.open_input_file(place) as file:
            if file.size():
                raise _no_size()
            etag = _MD5.fullmatch(file.metadata().get("ETag", b""))
        if etag is not None and etag[1] == _MD5_OF_NOTHING:
            return
        try:  # an encrypted object has an ETag that is no MD5
            listed = self.filesystem.get_file_info(fs.FileSelector(place.rpartition("/")[0]))
        except OSError as error:
            if error_code(error) != errno.EACCES:
                raise
            return  # nothing contradicts the answer
        if any(info.path == place and info.size for info in listed):
            raise _no_size()

    def list_dir(self, path: str) -> list[DirectoryEntry]:
        found = self.filesystem.get_file_info(fs.FileSelector(self.path(path)))
        return sorted((directory_entry(info) for info in found), key=lambda item: item.name)

    def list_folder(self, path: str, *, recursive: bool) -> Page:
        """Return the files and folders in a folder; if recursive, all files below it."""
        place = self.path(path)
        selector = fs.FileSelector(place, recursive=recursive)
        found = call_with_retries(self.filesystem.get_file_info, selector)
        listed = [
            ListedPath(
                info.path[len(place) :].removeprefix("/"),
                info.size or 0,
                info.mtime_ns or 0,
                info.type == fs.FileType.Directory,
            )
            for info in found
        ]
        # Sorted, because stores list in different orders.
        return sorted(one for one in listed if not (recursive and one.is_folder))

    def open_lister(self) -> Lister:
        """Return a lister, which must be closed."""
        return Lister(self)

    def open_input(self, path: str) -> BinaryIO:
        return cast(BinaryIO, _WholeInput(self._open(path)))

    def _open(self, path: str) -> Any:
        file = self.filesystem.open_input_file(self.path(path))
        if self._is_s3 and not file.size():
            self._check_empty(path)
        return file

    def open_output(self, path: str) -> BinaryIO:
        # By default pyarrow would compress a file with .gz in its name.
        stream: BinaryIO = self.filesystem.open_output_stream(self.path(path), compression=None)
        return stream

    def open_scratch(self, path: str) -> BinaryIO:
        return self.open_output(path)

    def read_listed(
        self, path: str, offset: int, length: int, size: int
    ) -> tuple[DirectoryEntry, bytes]:
        """Return the entry of a file and the bytes of a range.

        There are no bytes if the file is not of `size`.
        """
        entry = self.stat(path)
        if entry is None:
            raise FileNotFoundError
        return entry, self.read_range(path, offset, length) if entry.size == size else b""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with self._open(path) as file:
            size = int(file.size())
            wanted = max(0, min(length, size - offset))
            data: bytes = call_with_retries(_read_at, file, offset, wanted)
            if len(data) == size and self._etags_are_sums and not _matches_etag(file, data):
                self._check_again(path, data)
            return data

    def _check_again(self, path: str, data: bytes) -> None:
        """Read a file again whose MD5 is not its ETag, which encrypted objects have as well.

        Raises:
          OSError: the bytes are others now, so the store sent wrong ones.
        """
        with self.filesystem.open_input_file(self.path(path)) as file:
            if _read_at(file, 0, len(data)) != data:
                raise OSError(errno.EPROTO, "the store sent other bytes than it stores")
        self._etags_are_sums = False

    def write_bytes(self, path: str, data: ReadableBuffer, *, scratch: bool = False) -> None:
        with self.open_output(path) as file:
            file.write(data)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        if self.stat(path) is not None:
            return False
        self.write_bytes(path, data)
        return True

    def rename(self, source: str, target: str) -> None:
        old, new = self.path(source), self.path(target)
        try:
            if self._has_folders:
                self.filesystem.move(old, new)
            else:
                self.filesystem.copy_file(old, new)
                self.delete(source)
        except OSError:  # for a missing source S3 raises no FileNotFoundError, but NO_SUCH_KEY
            if self.stat(source) is not None or self.stat(target) is None:
                raise

    def move_or_copy(self, source: str, target: str) -> None:
        """Move a file from a folder that is deleted later; in object stores only copy it."""
        if self._has_folders:
            self.rename(source, target)
        else:
            self.filesystem.copy_file(self.path(source), self.path(target))

    def delete(self, path: str) -> None:
        self.filesystem.delete_file(self.path(path))

    def delete_tree(self, path: str) -> None:
        if self.stat(path) is not None:
            self.filesystem.delete_dir(self.path(path))

    def make_dirs(self, path: str) -> None:
        if self._has_folders:
            self.filesystem.create_dir(self.path(path), recursive=True)

    def sync_file(self, path: str) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass


class Lister:
    """Lists folders. ahead: number of folders to list at the same time."""

    ahead = 1

    def __init__(self, files: ArrowFiles) -> None:
        self._files = files

    def begin(self, folder: str, *, recursive: bool) -> Iterator[Page]:
        """Begin to list a folder; return its pages, or those of all files below it if recursive."""
        yield self._files.list_folder(folder, recursive=recursive)

    def close(self) -> None:
        """Stop all listings."""


def directory_entry(info: Any) -> DirectoryEntry:
    """Convert a pyarrow FileInfo. Raises OSError if the store's answer was incomplete."""
    if info.type == fs.FileType.Unknown or (info.type == fs.FileType.File and info.size is None):
        raise _no_size()
    return DirectoryEntry(
        name=info.base_name,
        kind="dir" if info.type == fs.FileType.Directory else "file",
        size=info.size or 0,
        mtime_ns=info.mtime_ns or 0,
    )


def _no_size() -> OSError:
    return OSError(errno.EPROTO, "the store's answer has no type or size of the file")


def shortened(got: int, size: int) -> OSError:
    """Return the error for a store that sent too few bytes."""
    return OSError(errno.EPROTO, f"the store sent {got} of {size} bytes")


def _read_at(file: Any, offset: int, length: int) -> bytes:
    """Return exactly `length` bytes. Raises OSError if the store sent fewer."""
    buffer = bytearray(length)
    if length:
        file.seek(offset)
    done = 0
    while done < length:
        count = _read_into(file, memoryview(buffer)[done:])
        if not count:
            raise shortened(offset + done, offset + length)
        done += count
    return bytes(buffer)


def _read_into(file: Any, buffer: memoryview) -> int:
    """Read into a buffer, whose last byte must be filled if pyarrow says that it is.

    For S3 pyarrow returns the requested size whatever the store has sent, and leaves the rest of
    the buffer as it was.
    """
    if not buffer:
        return 0
    start = file.tell()
    for mark in _MARKS:
        buffer[-1] = mark
        file.seek(start)
        count = int(file.readinto(buffer))
        if count < len(buffer) or buffer[-1] != mark:
            return count
    raise OSError(errno.EPROTO, f"the store sent less than the {count} requested bytes")


def _matches_etag(file: Any, data: bytes) -> bool:
    """Return whether data has the MD5 that is the object's ETag; True if that is no MD5."""
    etag = _MD5.fullmatch(file.metadata().get("ETag", b""))
    return etag is None or hashlib.md5(data, usedforsecurity=False).hexdigest() == etag[1].decode()


class _WholeInput(io.RawIOBase):
    """An input stream of pyarrow, which must not end before the size that the store states."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._size = int(raw.size())

    def readinto(self, buffer: WriteableBuffer) -> int:
        start = int(self._raw.tell())
        view = memoryview(buffer).cast("B")[: max(0, self._size - start)]
        try:
            count = _read_into(self._raw, view)
            if not count and len(view):
                raise shortened(start, self._size)
        except (OSError, pa.ArrowException):
            self._raw.seek(start)  # so that the read can be repeated
            raise
        return count

    def readall(self) -> bytes:
        start = int(self._raw.tell())
        return _read_at(self._raw, start, max(0, self._size - start))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._raw.seek(offset, whence))

    def tell(self) -> int:
        return int(self._raw.tell())

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
            super().close()


class RangeStream(io.RawIOBase):
    """A file of `size` bytes as a raw stream, read in ranges.

    read: returns exactly `length` bytes at `offset`. close: called when the stream is closed.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        size: int,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._read = read
        self._size = size
        self._close = close
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._at))
        view[:count] = self._read(self._at, count)
        self._at += count
        return count

    def readall(self) -> bytes:
        data = self._read(self._at, max(0, self._size - self._at))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._close()
        super().close()


class GuardedStream(io.RawIOBase):
    """A raw stream of a store, with every operation inside a context that converts its errors.

    guard: returns such a context.
    """

    def __init__(self, raw: Any, guard: Callable[[], Guard], *, reads: bool) -> None:
        self._raw = raw
        self._guard = guard
        self._reads = reads

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return not self._reads

    def seekable(self) -> bool:
        return self._reads

    def readinto(self, buffer: WriteableBuffer) -> int:
        with self._guard():
            return int(call_with_retries(self._raw.readinto, buffer))

    def readall(self) -> bytes:
        with self._guard():
            return call_with_retries(self._read_from, self._raw.tell())

    def _read_from(self, start: int) -> bytes:
        self._raw.seek(start)  # a failed attempt may have read some of it
        return bytes(self._raw.readall())

    def write(self, data: ReadableBuffer) -> int:
        with self._guard():
            return int(self._raw.write(data))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return int(self._raw.seek(offset, whence))
        except OSError as error:
            # A place before the file comes from the content of a damaged file, not from the store.
            if error.errno == errno.EINVAL:
                raise
            with self._guard():
                raise

    def tell(self) -> int:
        return int(self._raw.tell())

    def close(self) -> None:
        if not self.closed:
            try:
                with self._guard():
                    self._raw.close()
            finally:
                super().close()
