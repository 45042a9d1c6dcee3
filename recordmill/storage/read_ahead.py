"""Ranges of files in stores that are read before they are needed, by threads of this process.

A range is tried once. After an error that may pass, the code that needs the range reads it itself,
with retries. All errors are raised for their own file, in the order of a process that reads nothing
ahead.
"""

from __future__ import annotations

import collections
import copy
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeAlias, TypeVar

from recordmill.storage.storage_errors import may_pass

REQUESTS = 32  # ranges of a process that are read ahead, or are not released
BYTES = 32 << 20  # of these ranges
LARGEST = BYTES // 4  # bytes of a range
_GAP = 1 << 16  # bytes between two ranges of a file that are read as one
_JOINED = 1 << 20  # bytes of such a range

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


class _Begun:
    """A range that is read ahead. uses: the number of times that it was begun."""

    __slots__ = ("future", "uses")

    def __init__(self, future: Future[bytes]) -> None:
        self.future = future
        self.uses = 1


class RangesAhead:
    """The ranges that this process reads ahead, within a budget of requests and bytes.

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
        self._requests = 0
        self._bytes = 0
        self._threads: ThreadPoolExecutor | None = None

    def begin(self, wanted: InputRange) -> bool:
        """Begin to read a range; return False if the budget does not allow it now."""
        size = wanted.end - wanted.start
        with self._lock:
            begun = self._begun.get(wanted.path, {}).get(wanted)
            if begun is not None:
                begun.uses += 1
                return True
            if self._requests >= REQUESTS or self._bytes + size > BYTES:
                return False
            if self._threads is None:
                self._threads = ThreadPoolExecutor(REQUESTS, thread_name_prefix="read-ahead")
            future = self._threads.submit(self._read, wanted)
            self._begun.setdefault(wanted.path, {})[wanted] = _Begun(future)
            self._requests += 1
            self._bytes += size
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
        future.add_done_callback(lambda _: self._give_back(begun.end - begun.start))

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._requests -= 1
            self._bytes -= size

    def of_items(self, items: Sequence[T], ranges: Iterable[tuple[int, InputRange]]) -> Iterator[T]:
        """Yield items in order, while the ranges of later ones are read.

        ranges: (index of the item, range), in the order of the items.
        """
        joined = _join(one for one in ranges if one[1].end - one[1].start <= LARGEST)
        following = next(joined, None)
        begun: collections.deque[tuple[int, InputRange]] = collections.deque()
        try:
            for index, item in enumerate(items):
                while begun and begun[0][0] < index:
                    self.release(begun.popleft()[1])
                while following is not None:
                    if following[0] >= index:
                        if not self.begin(following[1]):
                            break
                        begun.append(following)
                    following = next(joined, None)
                yield item
        finally:
            for _, one in begun:
                self.release(one)


def _join(ranges: Iterable[tuple[int, InputRange]]) -> Iterator[tuple[int, InputRange]]:
    """Yield (index of the last item, range), with neighbours in a file as one range."""
    last: tuple[int, InputRange] | None = None
    for index, one in ranges:
        if last is not None:
            before = last[1]
            if (
                before[:2] == one[:2]
                and 0 <= one.start - before.end <= _GAP
                and one.end - before.start <= _JOINED
            ):
                last = (index, before._replace(end=one.end))
                continue
            yield last
        last = (index, one)
    if last is not None:
        yield last
