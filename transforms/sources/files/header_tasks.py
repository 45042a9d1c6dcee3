"""Reading of the headers of listed files in encoder processes, because some crash their library."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias, TypeVar

from recordmill.errors import RecordError
from recordmill.processes.pool import shared_pool
from recordmill.processes.row_tasks import NO_FAULTS, Faults, RowTask
from recordmill.processes.task_watch import TaskLimits
from recordmill.transforms.model import limits

F = TypeVar("F")
H = TypeVar("H")


# Files of each task, and whether they are in an object store, where they are read concurrently.
Tasks: TypeAlias = Iterable[tuple[Sequence[F], bool]]


def read_headers(
    read: Callable[[F], H], tasks: Tasks[F], *, task_limits: TaskLimits | None
) -> Iterator[H | RecordError]:
    """Yield the headers of files in order, read in encoder processes.

    A file without a valid header, or one that crashes the process or exceeds a limit, yields a
    RecordError.

    Args:
      read: Returns the header of a file; picklable.
      tasks: Files of each task, and whether they are remote.
      task_limits: Limits of a task; None if this is an encoder process, which reads the headers.
    """
    if task_limits is None:
        for files, remote in tasks:
            yield from _read(read, files, remote, range(len(files)), NO_FAULTS)
        return
    pool = shared_pool()
    waiting: collections.deque[Future[list[H | RecordError]]] = collections.deque()
    for files, remote in tasks:
        call = functools.partial(_read, read, files, remote)
        waiting.append(pool.submit_rows(_task(call, len(files), task_limits)))
        if len(waiting) > 2 * pool.workers:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


def _task(
    read: Callable[[range, Faults], list[H | RecordError]], count: int, task_limits: TaskLimits
) -> RowTask[list[H | RecordError]]:
    return RowTask(
        count=count,
        call=lambda faults: functools.partial(read, range(count), dict(faults)),
        trial=functools.partial(_try, read),
        limits=task_limits,
    )


def _try(read: Callable[[range, Faults], object], some: range) -> None:
    read(some, NO_FAULTS)


def _read(
    read: Callable[[F], H], files: Sequence[F], remote: bool, some: range, faults: Faults
) -> list[H | RecordError]:
    """Read the headers of some of the files of a task, without those of faults."""

    def one(number: int) -> H | RecordError:
        try:
            return faults[number] if number in faults else read(files[number])
        except RecordError as error:
            return error

    if not remote:
        return [one(number) for number in some]
    with ThreadPoolExecutor(limits.REQUESTS) as pool:
        return [*pool.map(one, some)]
