"""Ranges of files of a dataset: those in a store are read in parallel, before they are needed.

Threads read a range once. After an error that may pass, the loop that needs the range reads it
itself, with retries. Errors are raised in the order of the ranges. Local files are read by the
loop, one range after another.
"""

from __future__ import annotations

import collections
import copy
import functools
import io
import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, TypeVar

from recordmill.errors import RunError
from recordmill.storage.block_cache import BlockCache, StoredFile
from recordmill.storage.read_ahead import LARGEST, begin_read, release_read
from recordmill.storage.redaction import shown
from recordmill.storage.storage_errors import call_with_retries, may_pass, raise_storage_errors

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_RANGES = 128  # that are read ahead; all blocks of a window of training
_PIECE = 1 << 20  # bytes of a stream that are read at once
_PIECES = 8  # of a stream that are read ahead

_log = logging.getLogger(__name__)

T = TypeVar("T")


class FileRange(NamedTuple):
    """The bytes start..end-1 of a file, which may end before them."""

    file: StoredFile
    start: int
    end: int


class _Begun(NamedTuple):
    """A range that is read by a thread."""

    wanted: FileRange
    future: Future[bytes]


class _Ahead(Generic[T]):
    """The next items of a loop: those whose ranges have begun, and one that waits for the budget.

    read: reads a range once. most: ranges that are read ahead. error: that of the iterator of
      items, which is raised after the items before it.
    """

    def __init__(
        self, items: Iterable[tuple[T, FileRange]], read: Callable[[FileRange], bytes], most: int
    ) -> None:
        self._left = iter(items)
        self._read = read
        self._most = most
        self._process = os.getpid()
        self.begun: collections.deque[tuple[T, _Begun]] = collections.deque()
        self.waiting: tuple[T, FileRange] | None = None
        self.error: Exception | None = None

    def fill(self) -> None:
        """Begin to read ranges, as many as the budget allows."""
        while len(self.begun) < self._most and (self.waiting is not None or self._take_next()):
            assert self.waiting is not None
            item, wanted = self.waiting
            size = wanted.end - wanted.start
            if wanted.file.place.is_local or not 0 < size <= LARGEST:
                return
            future = begin_read(size, self._read, wanted, most=_RANGES)
            if future is None:
                return
            self.begun.append((item, _Begun(wanted, future)))
            self.waiting = None

    def _take_next(self) -> bool:
        if self.error is None:
            try:
                self.waiting = next(self._left, None)
            except (RunError, ValueError, LookupError) as error:
                self.error = error
        return self.waiting is not None

    def content(self, one: _Begun) -> bytes | None:
        """Return the bytes of a range that has begun; None if it must be read again."""
        if self._process != os.getpid():  # a child process has no threads
            return None
        release_read(one.future, one.wanted.end - one.wanted.start)
        error = one.future.exception()
        if error is None:
            return one.future.result()
        if may_pass(error):
            return None
        with raise_storage_errors("read", one.wanted.file.place):
            raise copy.copy(error) from error.__cause__  # a traceback would hold the range

    def close(self) -> None:
        """Give all ranges back to the budget."""
        if self._process == os.getpid():
            for _, one in self.begun:
                release_read(one.future, one.wanted.end - one.wanted.start)


class StoredRanges:
    """Reads ranges of files, in local folders and in stores.

    It keeps no file open, can be pickled and forked, and can be used by several threads.

    Raises:
      MissingError: a file is missing.
      StorageError: the storage fails, even after retries.
    """

    def __init__(self, cache: BlockCache | None = None) -> None:
        """Prepare to read. cache: of files in stores."""
        self._cache = cache

    def read(self, wanted: FileRange) -> bytes:
        """Return the bytes of a range."""
        place = wanted.file.place
        if place.is_local:
            return place.read_range(wanted.start, wanted.end - wanted.start)
        with raise_storage_errors("read", place):
            return call_with_retries(self._read_once, wanted, outages=True)

    def discard(self, wanted: FileRange) -> None:
        """Delete a range from the cache, because its records are damaged."""
        if self._cache is not None and self._cache.discard(*wanted):
            _log.warning(
                "the cache of %s, bytes %d to %d, is damaged: they are read from the store again",
                shown(wanted.file.place),
                wanted.start,
                wanted.end - 1,
            )

    def read_all(
        self, items: Iterable[tuple[T, FileRange]], *, most: int = _RANGES
    ) -> Iterator[tuple[T, bytes]]:
        """Yield each item with the bytes of its range, in order.

        If the files are in a store, items are taken, and their ranges read, before they are needed.
        most: ranges that are read ahead, if the budget of the process allows it.
        """
        ahead = _Ahead(items, self._read_once, most)
        try:
            while True:
                ahead.fill()
                if ahead.begun:
                    item, one = ahead.begun.popleft()
                    content = ahead.content(one)
                    yield item, self.read(one.wanted) if content is None else content
                    del content
                elif ahead.waiting is not None:
                    item, wanted = ahead.waiting
                    ahead.waiting = None
                    yield item, self.read(wanted)
                elif ahead.error is not None:
                    raise ahead.error
                else:
                    return
        finally:
            ahead.close()

    def open_all(self, parts: Iterable[FileRange]) -> Iterator[BinaryIO]:
        """Yield a buffered stream of each part of a file, in order.

        In a store the next pieces are read ahead, also those of later parts. Taking the next stream
        discards the rest of the one before.
        """
        pieces = (
            (len(cut) - number, piece)
            for cut in map(_pieces, parts)
            for number, piece in enumerate(cut)
        )
        contents = self.read_all(pieces, most=_PIECES)
        for count, first in contents:
            left = itertools.islice(contents, count - 1)
            several = itertools.chain([first], (content for _, content in left))
            yield io.BufferedReader(_PieceStream(several), _PIECE)
            collections.deque(several, maxlen=0)

    def _read_once(self, wanted: FileRange) -> bytes:
        file, start, end = wanted
        fetch = functools.partial(_fetch, file)
        return fetch(start, end) if self._cache is None else self._cache.read(*wanted, fetch)


def _fetch(file: StoredFile, start: int, end: int) -> bytes:
    return file.place.store.read_range(file.place.path, start, end - start)


def _pieces(part: FileRange) -> list[FileRange]:
    """Cut a part of a file into the ranges that a stream reads, one after another."""
    # From the second piece on they consist of whole blocks of a cache.
    aligned = range(part.start // _PIECE * _PIECE + _PIECE, part.end - 1, _PIECE)
    cuts = itertools.pairwise([part.start, *aligned, part.end])
    return [FileRange(part.file, start, end) for start, end in cuts]


class _PieceStream(io.RawIOBase):
    """The pieces of a file, one after the other, as a raw stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
