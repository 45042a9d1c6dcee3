"""Local files that are on disk once they are closed, and syncing of folders.

A file system may keep data in memory for a minute after a file is closed, and a power cut then
leaves an empty file under its name. fsync(2) waits until the data are on disk; that of the folder
makes the name durable.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_WRITE_BACK_BYTES = 8 << 20  # written before their write-back begins
_SYNC_FILE_RANGE_WRITE = 2  # from <fcntl.h>: begin the write-back, without waiting for it
# Errors of file systems that have no fsync for folders.
_NO_FOLDER_SYNC = {errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS}


class SyncedFile(io.FileIO):
    """A new file that is on disk once `close` returns.

    The disk writes while the file is being written, so that `close` waits for the last bytes only.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, "wb")
        self._written = 0
        self._begun = 0  # bytes from the start whose write-back has begun
        self._failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            count = super().write(data) or 0
        except OSError:
            self._failed = True
            raise
        self._written += count
        if self._written - self._begun >= _WRITE_BACK_BYTES:
            _begin_write_back(self.fileno(), self._begun, self._written - self._begun)
            self._begun = self._written
        return count

    def close(self) -> None:
        if not self.closed:
            try:
                if not self._failed:  # its error must not replace that of the write
                    os.fsync(self.fileno())
            finally:
                super().close()


def sync_file(path: str) -> None:
    """Wait until an existing file, and not just its name, is on disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: str) -> None:
    """Wait until the entries of a folder are on disk: names of new, moved and deleted files."""
    try:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        pass  # a folder that may be entered but not listed cannot be opened
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def make_folders(path: str) -> None:
    """Create a folder and its parents, and put the names of those that were missing on disk."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
        with contextlib.suppress(FileNotFoundError):  # another run has removed it again
            sync_folder(os.path.dirname(folder))


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _begin_write_back(descriptor: int, offset: int, length: int) -> None:
    """Begin to write a range of a file to disk; only a hint, so errors are left to fsync."""
    _sync_file_range()(descriptor, offset, length, _SYNC_FILE_RANGE_WRITE)


@functools.cache
def _sync_file_range() -> Callable[[int, int, int, int], object]:
    """Return Linux's sync_file_range(2), which Python's `os` lacks; elsewhere nothing begins."""
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is None:
        return lambda descriptor, offset, length, flags: None
    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    call: Callable[[int, int, int, int], object] = function
    return call
