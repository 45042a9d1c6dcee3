"""A cache on this machine for files of datasets in stores: blocks of files, bounded in bytes.

A block is a file of its own. Its name is a hash of the URI, the sha256 and the size of the whole
file, and of the number of the block: a dataset that was replaced, and one that claims the hashes
of another, have other blocks. It begins with a hash of its name and content. Several processes can
share a cache: they write, count and delete blocks while they hold a lock, and blocks get their
names once they are complete. Readers need no lock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import xxhash

from recordmill.errors import ConfigError
from recordmill.options.values import byte_size, show_bytes
from recordmill.storage.files import Location, is_uri
from recordmill.storage.local_files import open_regular, read_exactly

BLOCK = 1 << 18  # bytes of a file
DEFAULT_BYTES = 100 * 10**9
_SUM_BYTES = 16
_USAGE_BYTES = 20  # of the file that is locked, which has the bytes of all blocks
_LEAST = BLOCK + _SUM_BYTES + _USAGE_BYTES
_FOLDER = "recordmill-blocks"
_USAGE = "usage"
_UNFINISHED = "unfinished"  # only the process with the lock has such a file

_log = logging.getLogger(__name__)
_given_up: set[str] = set()  # folders in which this process no longer writes


class StoredFile(NamedTuple):
    """A file of a dataset. size: bytes, as in the manifest."""

    place: Location
    size: int
    sha256: str

    def block_size(self, number: int) -> int:
        """Return the bytes of a block."""
        return min(BLOCK, self.size - number * BLOCK)

    def block_name(self, number: int) -> str:
        """Return the name of a block in a cache."""
        facts = f"{self.place}\n{self.sha256}\n{self.size}\n{number}"
        return hashlib.sha256(facts.encode("utf-8", "surrogateescape")).hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockCache:
    """A cache of blocks. It has no open files, so that it can be pickled and forked.

    folder: the folder of the blocks. size: bytes of all blocks together, at most.
    """

    folder: str
    size: int

    def read(
        self, file: StoredFile, start: int, end: int, fetch: Callable[[int, int], bytes]
    ) -> bytes:
        """Return the bytes start..end-1 of a file, fewer only at its end.

        Blocks that are missing are fetched, one request for neighbours, and stored.

        fetch: reads bytes start..end-1 of the file, up to its end.
        """
        numbers = range(start // BLOCK, -(-min(end, file.size) // BLOCK))
        if not numbers:
            return b""
        parts = []
        stored = {number: self._stored(file, number) for number in numbers}
        at = numbers.start
        while at < numbers.stop:
            block = stored[at]
            if block is not None:
                parts.append(block)
                at += 1
                continue
            first = at
            while at < numbers.stop and stored[at] is None:
                at += 1
            data = fetch(first * BLOCK, at * BLOCK)
            self._store(_blocks(file, first, data))
            parts.append(data)
            if len(data) < min(at * BLOCK, file.size) - first * BLOCK:
                break  # the file ends too early
        begin = numbers.start * BLOCK
        return b"".join(parts)[start - begin : end - begin]

    def discard(self, file: StoredFile, start: int, end: int) -> bool:
        """Delete the blocks with the bytes start..end-1 of a file; return whether there were any.

        It is called for blocks whose records turned out to be damaged.
        """
        found = False
        for number in range(start // BLOCK, -(-end // BLOCK)):
            with contextlib.suppress(OSError):
                os.unlink(self._path(file.block_name(number)))
                found = True
        return found

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _stored(self, file: StoredFile, number: int) -> bytes | None:
        """Return a block that is stored, and mark it as used; None if it is missing or damaged."""
        name = file.block_name(number)
        path = self._path(name)
        try:
            descriptor, status = open_regular(path)
        except OSError:
            return None
        try:
            content = read_exactly(descriptor, 0, min(status.st_size, _SUM_BYTES + BLOCK + 1))
        except OSError:
            content = b""
        finally:
            os.close(descriptor)
        data = content[_SUM_BYTES:]
        if content[:_SUM_BYTES] != _sum(name, data) or len(data) != file.block_size(number):
            _log.warning("the cache file %s is damaged: it is read from the store again", path)
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return data

    def _store(self, blocks: Iterable[tuple[str, bytes]]) -> None:
        """Store blocks, and evict others for them; after an error this process stores no more."""
        if self.folder in _given_up:
            return
        try:
            with self._locked() as usage:
                total = _read_total(usage)
                if total is None:
                    total = self._evict(0)
                for name, data in blocks:
                    total = self._store_block(usage, total, name, data)
        except OSError as error:
            if self.folder not in _given_up:
                _given_up.add(self.folder)
                why = os.strerror(error.errno or errno.EIO).lower()
                _log.warning(
                    "cannot write to the cache %s: %s; from now on, what it does not hold is read"
                    " from the store each time",
                    self.folder,
                    why,
                )

    def _store_block(self, usage: int, total: int, name: str, data: bytes) -> int:
        """Store a block while the lock is held, and return the bytes of all blocks."""
        path = self._path(name)
        if os.path.lexists(path):  # another process was faster
            return total
        content = _sum(name, data) + data
        if total + len(content) > self._limit:
            total = self._evict(len(content))
        _write_total(usage, total + len(content))  # first, so that a kill leaves no block uncounted
        unfinished = self._path(_UNFINISHED)
        try:
            _write_file(unfinished, content)
            os.rename(unfinished, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            _write_total(usage, total)
            raise
        return total + len(content)

    @property
    def _limit(self) -> int:
        return self.size - _USAGE_BYTES

    def _evict(self, needed: int) -> int:
        """Delete the least recently used blocks until `needed` bytes fit, and return the total.

        A tenth of the cache is freed at once, because this lists all blocks.
        """
        found, total = [], 0
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name == _UNFINISHED:  # of a process that was killed
                    os.unlink(entry.path)
                elif entry.name != _USAGE:
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime_ns, entry.path, status.st_size))
                        total += status.st_size
        if total + needed > self._limit:
            wanted = min(self._limit - needed, self._limit * 9 // 10)
            for _, path, size in sorted(found):
                if total <= wanted:
                    break
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                total -= size
        return total

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the lock; yield the descriptor of the file with the total."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path(_USAGE), flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            # A child that was forked meanwhile has the descriptor, so closing would not unlock it.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def open_cache(cache: Any, cache_size: Any) -> BlockCache | None:
    """Return the cache of the options `cache` and `cache_size`; None without a folder.

    cache: a local folder, which is made if it is missing; or an opened cache. cache_size: bytes, or
      text such as 100GB; None for 100 GB.

    Raises:
      ConfigError: they are invalid, or the folder is not writable.
    """
    if isinstance(cache, BlockCache):
        return cache
    if cache is None:
        if cache_size is not None:
            raise ConfigError("cache_size applies to a cache: set cache to a folder")
        return None
    if not isinstance(cache, str | os.PathLike) or not os.fspath(cache) or is_uri(str(cache)):
        raise ConfigError(f"cache: expected a folder on this machine, got {cache!r}")
    try:
        size = DEFAULT_BYTES if cache_size is None else byte_size(str(cache_size))
    except ValueError as error:
        raise ConfigError(f"cache_size: {error}") from error
    if isinstance(cache_size, bool) or size < _LEAST:
        raise ConfigError(
            f"cache_size: expected at least {_LEAST} bytes, which one block of"
            f" {show_bytes(BLOCK)} needs, got {cache_size!r}"
        )
    made = BlockCache(folder=os.path.join(os.path.abspath(cache), _FOLDER), size=size)
    try:
        os.makedirs(made.folder, exist_ok=True)
        with made._locked():
            pass
    except OSError as error:
        why = os.strerror(error.errno or errno.EIO).lower()
        raise ConfigError(
            f"cache: cannot write to {made.folder}: {why}; name another folder"
        ) from error
    return made


def _sum(name: str, data: bytes) -> bytes:
    found = xxhash.xxh3_128(name.encode())
    found.update(data)
    return found.digest()


def _blocks(file: StoredFile, first: int, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each block in data that has the length it must have."""
    for at in range(0, len(data), BLOCK):
        number = first + at // BLOCK
        block = data[at : at + BLOCK]
        if len(block) == file.block_size(number):
            yield file.block_name(number), block


def _read_total(usage: int) -> int | None:
    """Return the stated bytes of all blocks; None if they have to be counted."""
    text = os.pread(usage, _USAGE_BYTES + 1, 0)
    return int(text) if len(text) == _USAGE_BYTES and text.isdigit() else None


def _write_total(usage: int, total: int) -> None:
    os.pwrite(usage, b"%0*d" % (_USAGE_BYTES, total), 0)


def _write_file(path: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o666)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
