"""Local files through `os`: faster than pyarrow, and with names that are not UTF-8, too."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat as modes
import uuid
from typing import TYPE_CHECKING, BinaryIO

from recordmill.storage import durability
from recordmill.storage.stores import DirectoryEntry, Kind

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Errors of filesystems without hard links.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class LocalFiles:
    """The `Store` of local files; it raises OSError."""

    def stat(self, path: str) -> DirectoryEntry | None:
        try:
            return _entry(os.path.basename(path), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_kind(self, path: str, kind: Kind) -> bool:
        entry = self.stat(path)
        return entry is not None and entry.kind == kind

    def list_dir(self, path: str) -> list[DirectoryEntry]:
        entries = []
        with os.scandir(path) as found:
            for item in found:
                try:
                    entries.append(_entry(item.name, item.stat()))
                except FileNotFoundError:
                    # Deleted since it was listed, or a dangling link.
                    with contextlib.suppress(FileNotFoundError):
                        entries.append(_entry(item.name, item.stat(follow_symlinks=False)))
        return sorted(entries, key=lambda entry: entry.name)

    def open_input(self, path: str) -> BinaryIO:
        return io.FileIO(open_regular(path)[0], "rb")

    def open_output(self, path: str) -> BinaryIO:
        return durability.SyncedFile(path)

    def open_scratch(self, path: str) -> BinaryIO:
        return io.FileIO(path, "wb")

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        # Not `open`, which takes longer than reading a few bytes.
        descriptor, _ = open_regular(path)
        try:
            return read_exactly(descriptor, offset, length)
        finally:
            os.close(descriptor)

    def write_bytes(self, path: str, data: ReadableBuffer, *, scratch: bool) -> None:
        temporary = _write_temporary(path, data, sync=not scratch)
        try:
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise

    def create_exclusive(self, path: str, data: bytes) -> bool:
        temporary = _write_temporary(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _create_in_place(path, data)
        finally:
            os.unlink(temporary)
        return True

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(source, target)
        except FileNotFoundError:
            if not os.path.exists(target):
                raise

    def move_or_copy(self, source: str, target: str) -> None:
        self.rename(source, target)

    def delete(self, path: str) -> None:
        os.unlink(path)

    def delete_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def make_dirs(self, path: str) -> None:
        durability.make_folders(path)

    def sync_file(self, path: str) -> None:
        durability.sync_file(path)

    def sync_folder(self, path: str) -> None:
        durability.sync_folder(path)


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading, and return its descriptor and status.

    A file may have been replaced since it was listed, and opening a pipe would wait for a writer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if modes.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not modes.S_ISREG(status.st_mode):
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status


def read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """Return up to `length` bytes at `offset`; fewer only at the end of the file."""
    data = os.pread(descriptor, length, offset)
    # One call reads at most 2 GiB (read(2)), and network mounts may return less than requested.
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def _entry(name: str, status: os.stat_result) -> DirectoryEntry:
    kind: Kind = "dir" if modes.S_ISDIR(status.st_mode) else "file"
    return DirectoryEntry(name=name, kind=kind, size=status.st_size, mtime_ns=status.st_mtime_ns)


def _write_temporary(path: str, data: ReadableBuffer, *, sync: bool = True) -> str:
    """Write to a temporary file in the folder of `path`, and return its name."""
    temporary = os.path.join(os.path.dirname(path), f".{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _create_in_place(path: str, data: bytes) -> bool:
    """Create the file where hard links are missing: readers may see partial content."""
    try:
        with open(path, "xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True
