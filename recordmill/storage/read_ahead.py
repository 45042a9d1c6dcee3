"""Ranges of files in stores that are read before they are needed, by threads of this process.

`RangesAhead` reads the files that a loop will need. `SequentialReads` reads the next ranges of a
file that is read sequentially. A range is tried once. After an error that may pass, the code that
needs the range reads it itself, with retries. Errors are raised for the same files, and in the same
order, as without reading ahead.
"""

from __future__ import annotations

import collections
import copy
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from recordmill.errors import RunError
from recordmill.storage.storage_errors import may_pass

REQUESTS = 32  # ranges of a process that are read ahead, or are not released
BYTES = 32 << 20  # of these ranges
LARGEST = BYTES // 4  # bytes of a range
_GAP = 1 << 16  # bytes between two ranges of a file that are read as one
_JOINED = 1 << 20  # bytes of such a range
_PIECE = 1 << 20  # bytes of a range of a sequential file
_PIECES = 8  # ranges of a sequential file that are read ahead
_SKIPPED = 1 << 20  # most bytes between two sequential reads

T = TypeVar("T")

Listed: TypeAlias = tuple[int, int] | None  # size and modification time of the listing


class InputRange(NamedTuple):
    """A range of a file. path: path or URI. listed: as in the listing; None if not compared."""

    path: str
    listed: Listed
    start: int
    end: int

    def holds(self, other: InputRange) -> bool:
        """Return whether another range is inside of this one."""
        return (
            self.start <= other.start
            and other.end <= self.end
            and (self.path, self.listed) == (other.path, other.listed)
        )


class _Reads:
    """Reads of this process in the background, within a budget of requests and bytes."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Forget all reads; in a child process, too, because a fork has no threads."""
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes = 0
        self.threads: ThreadPoolExecutor | None = None

    def begin(
        self, size: int, read: Callable[..., bytes], *arguments: object, most: int | None = None
    ) -> Future[bytes] | None:
        """Begin to read `size` bytes; return None if the budget does not allow it now.

        most: ranges that may wait, be read, or not be released; `REQUESTS` by default. Not more
          than `REQUESTS` of them are read at the same time.
        """
        with self._lock:
            if self.requests >= (most or REQUESTS) or self.bytes + size > BYTES:
                return None
            if self.threads is None:
                self.threads = ThreadPoolExecutor(REQUESTS, thread_name_prefix="read-ahead")
            self.requests += 1
            self.bytes += size
            return self.threads.submit(read, *arguments)

    def release(self, future: Future[bytes], size: int) -> None:
        """Return a read to the budget once it has ended."""
        future.add_done_callback(lambda _: self._give_back(size))

    def _give_back(self, size: int) -> None:
        with self._lock:
            self.requests -= 1
            self.bytes -= size


_reads = _Reads()
begin_read, release_read = _reads.begin, _reads.release


class _Piece(NamedTuple):
    start: int
    end: int
    future: Future[bytes]


class SequentialReads:
    """Reads of a file in a store. While they are sequential, the next ranges are read ahead.

    read: returns up to `length` bytes at `offset`, fewer only at the end of the file.
    once: the same without retries.
    size: size of the file in bytes.
    """

    def __init__(
        self, read: Callable[[int, int], bytes], once: Callable[[int, int], bytes], size: int
    ) -> None:
        self._read = read
        self._once = once
        self._size = size
        self._end: int | None = None  # end of the last read
        self._pieces = 0  # number of ranges to read ahead
        self._begun: collections.deque[_Piece] = collections.deque()
        self._process = os.getpid()

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`; fewer only at the end of the file."""
        self._follow(offset, offset + length)
        end = min(offset + length, self._size)
        parts = []
        while offset < end:
            part = self._next(offset, end)
            offset += len(part)
            parts.append(part)
            if not part:
                break
        self._end = offset
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _follow(self, start: int, end: int) -> None:
        """Begin to read the ranges after start..end, if that read follows the last one."""
        if self._process != os.getpid():  # a fork has no threads
            self._begun.clear()
            self._process = os.getpid()
        if self._end is None or not 0 <= start - self._end <= _SKIPPED:
            self.close()
            return
        while self._begun and self._begun[0].end <= start:
            self._drop_first()
        self._pieces = min(max(1, 2 * self._pieces), _PIECES)
        following = self._begun[-1].end if self._begun else end
        while len(self._begun) < self._pieces and following < self._size:
            size = min(_PIECE, self._size - following)
            future = _reads.begin(size, self._once, following, size)
            if future is None:
                return
            self._begun.append(_Piece(following, following + size, future))
            following += size

    def _next(self, offset: int, end: int) -> bytes:
        """Return the first bytes of offset..end; none only at the end of the file."""
        first = self._begun[0] if self._begun else None
        if first is None or first.start > offset:
            return self._read(offset, (end if first is None else min(end, first.start)) - offset)
        error = first.future.exception()
        if error is not None and not isinstance(error, (OSError, pa.ArrowException, RunError)):
            raise error
        data = b"" if error is not None else first.future.result()
        if len(data) < first.end - first.start:
            self.close()
            return self._read(offset, end - offset)
        if first.end <= end:
            self._drop_first()
        return data[offset - first.start : end - first.start]

    def _drop_first(self) -> None:
        piece = self._begun.popleft()
        _reads.release(piece.future, piece.end - piece.start)

    def close(self) -> None:
        """Forget the ranges that were read ahead."""
        while self._begun:
            self._drop_first()
        self._pieces = 0


class _Begun:
    """A range that is read ahead. uses: the number of times that it was begun."""

    __slots__ = ("future", "uses")

    def __init__(self, future: Future[bytes]) -> None:
        self.future = future
        self.uses = 1


class RangesAhead:
    """The ranges that this process reads ahead for its loops.

    read: returns the bytes of a range, or raises any exception.
    """

    def __init__(self, read: Callable[[InputRange], bytes]) -> None:
        self._read = read
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Forget all ranges, also in a child process, which has none of the threads."""
        self._lock = threading.Lock()
        self._begun: dict[str, dict[InputRange, _Begun]] = {}

    def begin(self, wanted: InputRange) -> bool:
        """Begin to read a range; return False if the budget does not allow it now."""
        with self._lock:
            begun = self._begun.get(wanted.path, {}).get(wanted)
            if begun is not None:
                begun.uses += 1
                return True
            future = _reads.begin(wanted.end - wanted.start, self._read, wanted)
            if future is None:
                return False
            self._begun.setdefault(wanted.path, {})[wanted] = _Begun(future)
        return True

    def take(self, wanted: InputRange) -> bytes | None:
        """Return the bytes of a range that was read ahead.

        None if it was not, or if its error may pass.

        Raises:
          Exception: any other error.
        """
        with self._lock:
            of_file = self._begun.get(wanted.path, {})
            found = next((one for one in of_file if one.holds(wanted)), None)
            if found is None:
                return None
            future = of_file[found].future
        error = future.exception()
        if error is not None:
            if may_pass(error):
                return None
            raise copy.copy(error) from error.__cause__  # a traceback would hold the range
        data = future.result()
        if found == wanted:
            return data
        is_whole = len(data) == found.end - found.start
        return data[wanted.start - found.start : wanted.end - found.start] if is_whole else None

    def release(self, begun: InputRange) -> None:
        """End one use of a range.

        After the last use its memory is freed, once the read has ended.
        """
        with self._lock:
            of_file = self._begun[begun.path]
            of_file[begun].uses -= 1
            if of_file[begun].uses:
                return
            future = of_file.pop(begun).future
            if not of_file:
                del self._begun[begun.path]
        _reads.release(future, begun.end - begun.start)

    def of_items(
        self,
        items: Sequence[T],
        ranges: Iterable[tuple[int, InputRange]],
        *,
        most: int | None = None,
    ) -> Iterator[T]:
        """Yield items in order, while the ranges of later ones are read.

        ranges: (index of the item, range), in the order of the items. most: number of later items
          to read ahead; None if only the budget limits them.
        """
        joined = _join(
            (one for one in ranges if one[1].end - one[1].start <= LARGEST), across=most is None
        )
        following = next(joined, None)
        begun: collections.deque[tuple[int, InputRange]] = collections.deque()
        try:
            for index, item in enumerate(items):
                while begun and begun[0][0] < index:
                    self.release(begun.popleft()[1])
                while following is not None and (most is None or following[0] <= index + most):
                    if following[0] >= index:
                        if not self.begin(following[1]):
                            break
                        begun.append(following)
                    following = next(joined, None)
                yield item
        finally:
            for _, one in begun:
                self.release(one)


def _join(
    ranges: Iterable[tuple[int, InputRange]], *, across: bool
) -> Iterator[tuple[int, InputRange]]:
    """Yield (index of the last item, range), with neighbours in a file as one range.

    across: whether neighbours may belong to different items.
    """
    last: tuple[int, InputRange] | None = None
    for index, one in ranges:
        if last is not None:
            before = last[1]
            if (
                (across or index == last[0])
                and before[:2] == one[:2]
                and 0 <= one.start - before.end <= _GAP
                and one.end - before.start <= _JOINED
            ):
                last = (index, before._replace(end=one.end))
                continue
            yield last
        last = (index, one)
    if last is not None:
        yield last
