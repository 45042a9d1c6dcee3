"""Input files of a run: opened and read only if they are still as they were listed."""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

import pyarrow as pa

from recordmill.storage.files import Location, is_uri
from recordmill.storage.local_files import open_regular, read_exactly
from recordmill.storage.redaction import shown
from recordmill.storage.storage_errors import (
    ChangedInputError,
    call_with_retries,
    error_code,
    raise_storage_errors,
)

_SECOND = 10**9  # nanoseconds


def open_file(path: str, *, size: int | None = None, mtime: int | None = None) -> BinaryIO:
    """Open an input file, by its path or URI, as a seekable stream.

    size, mtime: size (bytes) and modification time (nanoseconds since the epoch) of the listing;
      if both are given, the file must still have them.

    Raises:
      ChangedInputError: the file has changed since it was listed, or is missing.
      StorageError: the storage or the machine fails, even after retries.
    """
    location = Location.parse(path)
    if size is not None and mtime is not None:
        _check_unchanged(location, path, (size, mtime))
    return location.open_guarded(functools.partial(_input_errors, path))


def read_file(path: str, *, size: int, mtime: int) -> bytes:
    """Return the content of an input file, by its path or URI, if it is still as listed.

    size, mtime: as for `open_file`, which raises the same errors.
    """
    if path.startswith("/"):
        with _input_errors(path):
            data = call_with_retries(_read_local, path, size, mtime)
    else:
        location = Location.parse(path)
        _check_unchanged(location, path, (size, mtime))
        with _input_errors(path):
            data = call_with_retries(location.store.read_range, location.path, 0, size)
    _compare(path, (size, mtime), (len(data), mtime))
    return data


class InputFile:
    """An input file, opened once and read in ranges, if it is still as listed.

    path: path or URI. size, mtime: as for `open_file`, which raises the same errors.
    """

    def __init__(self, path: str, *, size: int, mtime: int) -> None:
        self.path = path
        self.size = size
        self.mtime = mtime
        self._descriptor: int | None = None
        if not path.startswith("/"):
            _check_unchanged(Location.parse(path), path, (size, mtime))
            return
        with _input_errors(path):
            self._descriptor = call_with_retries(open_regular, path)
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
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes at `offset`.

        Raises:
          ChangedInputError: the file ends before them.
        """
        with _input_errors(self.path):
            if self._descriptor is not None:
                data = call_with_retries(read_exactly, self._descriptor, offset, length)
            else:
                location = Location.parse(self.path)
                read_range = location.store.read_range
                data = call_with_retries(read_range, location.path, offset, length)
        if len(data) < length:
            _changed(self.path, "became shorter while the job ran")
        return data

    def map(self) -> mmap.mmap | None:
        """Map a local file into memory; return None for a file on another filesystem."""
        if self._descriptor is None:
            return None
        with _input_errors(self.path):
            return call_with_retries(self._map)

    def _map(self) -> mmap.mmap:
        assert self._descriptor is not None
        return mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)


def _read_local(path: str, size: int, mtime: int) -> bytes:
    descriptor = open_regular(path)
    try:
        status = os.fstat(descriptor)
        _compare(path, (size, mtime), (status.st_size, status.st_mtime_ns))
        return read_exactly(descriptor, 0, size)
    finally:
        os.close(descriptor)


def _check_unchanged(location: Location, path: str, listed: tuple[int, int]) -> None:
    with _input_errors(path):
        found = call_with_retries(location.store.stat, location.path)
        if found is None:
            raise FileNotFoundError
    _compare(path, listed, (found.size, found.mtime_ns))


def _compare(path: str, listed: tuple[int, int], found: tuple[int, int]) -> None:
    """Compare (size, mtime) of the listing and of the file.

    Raises:
      ChangedInputError: they differ.
    """
    if listed == found:
        return
    # S3 returns milliseconds when it lists objects, and seconds for a single object.
    if listed[0] == found[0] and is_uri(path) and listed[1] // _SECOND == found[1] // _SECOND:
        return
    how = (
        f"was {listed[0]} bytes, is {found[0]}"
        if listed[0] != found[0]
        else "modified after it was listed, same size"
    )
    _changed(path, f"changed while the job ran ({how})")


def _changed(path: str, what: str) -> NoReturn:
    raise ChangedInputError(
        f"{shown(path)} {what}: run the same command again to list the input anew"
    )


@contextlib.contextmanager
def _input_errors(path: str) -> Iterator[None]:
    """Raise ChangedInputError for a file that is gone or replaced, StorageError for all else."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        code = error_code(error)
        if code in (errno.ENOENT, errno.ENOTDIR):
            _changed(path, "vanished while the job ran")
        if code in (errno.EISDIR, errno.ENOTSUP, errno.ELOOP):
            _changed(path, "was replaced by something else than a file while the job ran")
        with raise_storage_errors("read", path):
            raise
