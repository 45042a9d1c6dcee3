"""Maps a function over files in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from typing import TypeVar

from recordmill.processes.pool import ProcessPool, process_count

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_processes(
    function: Callable[[Task], Result], tasks: Iterable[Task], *, workers: int
) -> Iterator[Result]:
    """Yield the results of a module-level function over tasks, in the order of completion.

    workers: number of processes; 0 is one per core.
    """
    waiting = list(tasks)
    if not waiting:
        return
    pool = ProcessPool(min(process_count(workers), len(waiting)))
    try:
        for future in as_completed([pool.submit(function, task) for task in waiting]):
            yield future.result()
    finally:
        pool.close()
