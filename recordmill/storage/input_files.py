"""Input files of a run: opened and read only if they are still as they were listed.

A path may be a reference to a member of an archive (`members`); then the archive must be as it was
listed. If it refers to a staged file, the content must be the one that this job wrote there.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NoReturn, TypeVar

import pyarrow as pa
import xxhash

from recordmill.errors import RecordError, RunError
from recordmill.storage.files import Location, arrow_store, is_uri
from recordmill.storage.local_files import open_regular, read_exactly
from recordmill.storage.members import LOCAL_HEADER, Member
from recordmill.storage.read_ahead import InputRange, Listed, RangesAhead, SequentialReads
from recordmill.storage.redaction import shown
from recordmill.storage.storage_errors import (
    ChangedInputError,
    call_with_retries,
    error_code,
    raise_storage_errors,
)
from recordmill.storage.stores import RangeStream

_SECOND = 10**9  # nanoseconds
_BUFFER = 1 << 20  # bytes
_PIECE = 4 << 20  # bytes read at once for a checksum

T = TypeVar("T")


def open_file(path: str, *, size: int | None = None, mtime: int | None = None) -> BinaryIO:
    """Open an input file, by its path or URI, as a seekable stream.

    size, mtime: size (bytes) and modification time (nanoseconds since the epoch) of the listing;
      if both are given, the file must still have them.

    Raises:
      ChangedInputError: the file has changed since it was listed, or is missing.
      RecordError: it is a member of an archive, and damaged.
      StorageError: the storage or the machine fails, even after retries.
    """
    member = Member.of(path)
    if member is not None:
        with _staged_errors(member):
            return InputFile(path, size=member.size, mtime=mtime).stream()
    location = Location.parse(path)
    if size is not None and mtime is not None:
        if not location.is_local:
            return InputFile(path, size=size, mtime=mtime).stream()
        _check_unchanged(location, path, (size, mtime))
    return location.open_guarded(functools.partial(_input_errors, path))


def read_file(path: str, *, size: int, mtime: int) -> bytes:
    """Return the content of an input file, by its path or URI, if it is still as listed.

    size, mtime: as for `open_file`, which raises the same errors.
    """
    member = Member.of(path)
    if member is not None:
        return _read_member(member, mtime)
    data = _read_range(path, (size, mtime), 0, size)
    _compare(path, (size, mtime), (len(data), mtime))
    return data


def read_ahead(
    items: Sequence[T], *files: Sequence[tuple[str | None, int, int]], head: bool = False
) -> Iterable[T]:
    """Return the items; files in stores are read while earlier items are processed.

    Each file is then read by `read_file` or `open_file`, which raise the errors. Iterate over the
    result directly, without a variable for it, so that an error in the loop ends the reading at
    once.

    files: one sequence for each file of an item, with (path, size, mtime) for each item; the path
      is a path, URI or reference, or None without a file.
    head: only the beginnings of files are read.
    """
    if not any(path and path[0] != "/" for column in files for path, _, _ in column):
        return items
    ranges = (
        (index, _range_of(path, size, mtime, head=head))
        for index, of_item in enumerate(zip(*files, strict=True))
        for path, size, mtime in of_item
        if path and path[0] != "/" and size
    )
    return _ahead.of_items(items, ranges)


def _range_of(path: str, size: int, mtime: int, *, head: bool) -> InputRange:
    """Return the range of a file that is read first. head: only the beginning."""
    member = Member.of(path)
    if member is None:
        return InputRange(path, (size, mtime), 0, min(size, _BUFFER) if head else size)
    listed = None if member.method == "staged" else (member.archive_size, mtime)
    start, length = member.span
    end = start + (min(length, _BUFFER) if head and member.is_bare else length)
    return InputRange(member.archive, listed, start, end)


def _read_member(member: Member, mtime: int) -> bytes:
    """Return the content of a member of an archive, with one read if possible."""
    if member.method == "staged":
        return _read_staged(member)
    path, listed = member.archive, (member.archive_size, mtime)
    try:
        return _content(member, functools.partial(_read_range, path, listed))
    except RecordError:
        if path.startswith("/"):
            raise
    # Stores have no checksums of parts of objects, so this can be a fault of the store.
    with _input_errors(path):
        return call_with_retries(_content, member, functools.partial(_read_twice, path, listed))


def _content(member: Member, read: Callable[[int, int], bytes]) -> bytes:
    """Return the content of a member. read: returns up to `length` bytes at `offset`."""
    offset, length = member.span
    data = read(offset, length)
    start = member.start_in(data)
    stored = data[start : start + member.length] if start else data
    if len(stored) < member.length:  # the extra field is longer than usual, or the file has shrunk
        stored = read(offset + start, member.length)
        if len(stored) < member.length:
            _changed(member.archive, "became shorter while the job ran")
    return member.content(stored)


def _read_twice(path: str, listed: Listed, offset: int, length: int) -> bytes:
    """Return a range of a file in a store. Raises OSError if two reads differ."""
    wanted = InputRange(path, listed, offset, offset + length)
    data = _read_remote(wanted)
    if _read_remote(wanted) != data:
        raise OSError(errno.EPROTO, "the store sent other bytes than it stores")
    return data


def _read_staged(member: Member) -> bytes:
    """Return a range of a staged file, if it is the one that this job wrote."""
    with _staged_errors(member):
        data = _read_range(member.archive, None, member.offset, member.size)
    if xxhash.xxh3_128_intdigest(data) % (1 << 64) != member.crc:
        raise damaged_staging(member.archive)
    return data


@contextlib.contextmanager
def _staged_errors(member: Member) -> Iterator[None]:
    """Raise RunError instead of ChangedInputError if a member is a range of a staged file."""
    try:
        yield
    except ChangedInputError as error:
        if member.method != "staged":
            raise
        raise damaged_staging(member.archive) from error


def damaged_staging(path: str) -> RunError:
    """Return the error for a staged file that is missing, or is not the one that this job wrote."""
    folder = shown(Location.parse(path).parent)
    return RunError(
        f"{shown(path)} is not the file that this job wrote: remove {folder} and run the same"
        " command again"
    )


class InputFile:
    """An input file, opened once and read in ranges, if it is still as listed.

    A compressed member of an archive, and a part of a record, is held in memory.

    path: path, URI, or reference to a member of an archive. size: bytes. mtime: as for `open_file`,
      which raises the same errors; None if it was checked before.
    """

    def __init__(self, path: str, *, size: int, mtime: int | None) -> None:
        self.path = path
        self.size = size
        self.mtime = mtime
        self._descriptor: int | None = None
        self._remote: SequentialReads | None = None
        self._start = 0  # of the content in the file
        self._content: bytes | None = None
        member = Member.of(path)
        if member is not None and member.method == "staged":
            self.mtime = None  # a hash takes its place, because attempts write equal files
        self._file = path if member is None else member.archive
        file_size = size if member is None else member.archive_size
        self._listed = None if self.mtime is None else (file_size, self.mtime)
        self._open(file_size)
        if member is not None:
            try:
                self._enter(member)
            except BaseException:
                self.close()
                raise

    def _open(self, size: int) -> None:
        if not self._file.startswith("/"):
            if self._listed is not None and not size:  # otherwise the reads compare it
                _check_unchanged(Location.parse(self._file), self._file, self._listed)
            self._remote = SequentialReads(
                lambda offset, length: _read_range(self._file, self._listed, offset, length),
                lambda offset, length: _read_remote(
                    InputRange(self._file, self._listed, offset, offset + length)
                ),
                size,
            )
            return
        with _input_errors(self._file):
            self._descriptor, status = call_with_retries(open_regular, self._file)
        found = (status.st_size, status.st_mtime_ns)
        listed = found if self.mtime is None else (size, self.mtime)
        if found != listed:
            self.close()
        _compare(self._file, listed, found)

    def _enter(self, member: Member) -> None:
        """Find the content of a member, and check it. Raises RecordError."""
        header = self.read(member.offset, LOCAL_HEADER) if member.in_zip else b""
        start = member.offset + member.start_in(header)
        if member.method in ("deflated", "record"):
            self._content = member.content(self.read(start, member.length))
            self.close()
            return
        self._start = start
        if member.method == "stored":
            crc = 0
            for at in range(0, self.size, _PIECE):
                crc = zlib.crc32(self.read(at, min(_PIECE, self.size - at)), crc)
            member.check(member.length, crc)

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if self._remote is not None:
            self._remote.close()

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes at `offset`.

        Raises:
          ChangedInputError: the file ends before them.
        """
        if self._content is not None:
            return self._content[offset : offset + length]
        offset += self._start
        if self._remote is not None:
            data = self._remote.read(offset, length)
        else:
            assert self._descriptor is not None
            with _input_errors(self._file):
                data = call_with_retries(read_exactly, self._descriptor, offset, length)
        if len(data) < length:
            _changed(self._file, "became shorter while the job ran")
        return data

    def stream(self) -> BinaryIO:
        """Return the content as a seekable, buffered stream, which closes the file."""
        if self._descriptor is None and self._content is None and 0 < self.size <= _BUFFER:
            self._content = self.read(0, self.size)
        if self._content is not None:
            return io.BytesIO(self._content)
        return io.BufferedReader(RangeStream(self.read, self.size, self.close), _BUFFER)

    def map(self) -> mmap.mmap | None:
        """Map a local file into memory; return None for others, and for members of archives."""
        if self._descriptor is None or self._file != self.path:
            return None
        with _input_errors(self.path):
            return call_with_retries(self._map)

    def _map(self) -> mmap.mmap:
        assert self._descriptor is not None
        return mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)


def _read_range(path: str, listed: Listed, offset: int, length: int) -> bytes:
    """Return up to `length` bytes of a file that is still as listed; fewer only at its end.

    listed: its size and modification time; None to compare nothing.
    """
    if path.startswith("/"):
        try:  # no `with _input_errors`, which takes longer than opening the file
            return call_with_retries(_read_local, path, listed, offset, length)
        except (OSError, pa.ArrowException) as error:
            _raise_input_error(path, error)
    wanted = InputRange(path, listed, offset, offset + length)
    with _input_errors(path):
        data = _ahead.take(wanted)
        return call_with_retries(_read_remote, wanted, outages=True) if data is None else data


def _read_remote(wanted: InputRange) -> bytes:
    """Return the bytes of a range of a file in a store, which may be fewer at its end."""
    path, listed, offset, end = wanted
    location = Location.parse(path)
    store = arrow_store(location.root, location.query)
    if listed is None:
        return store.read_range(location.path, offset, end - offset)
    found, data = store.read_listed(location.path, offset, end - offset, listed[0])
    _compare(path, listed, (found.size, found.mtime_ns))
    return data


_ahead = RangesAhead(_read_remote)


def _read_local(path: str, listed: Listed, offset: int, length: int) -> bytes:
    descriptor, status = open_regular(path)
    try:
        if listed is not None:
            _compare(path, listed, (status.st_size, status.st_mtime_ns))
        return read_exactly(descriptor, offset, length)
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
        _raise_input_error(path, error)


def _raise_input_error(path: str, error: OSError | pa.ArrowException) -> NoReturn:
    code = error_code(error)
    if code in (errno.ENOENT, errno.ENOTDIR):
        _changed(path, "vanished while the job ran")
    if code in (errno.EISDIR, errno.ENOTSUP, errno.ELOOP):
        _changed(path, "was replaced by something else than a file while the job ran")
    with raise_storage_errors("read", path):
        raise error
