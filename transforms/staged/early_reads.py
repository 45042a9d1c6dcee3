"""Reading of rows before the pipeline runs: encoder processes read while Beam is imported."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait

from recordmill.job.staging import StagedPart
from recordmill.processes.pool import running_pool, shared_pool
from recordmill.processes.task_watch import TaskLimits
from recordmill.transforms.staged.row_reader import RowReader, read_rows_task

# Keys are the staging folder and the name of the part, because jobs may run at the same time.
_early: dict[tuple[str, str], Future[list[StagedPart]]] = {}


@contextlib.contextmanager
def early_reads(
    reader: RowReader | None, parts: Sequence[StagedPart], task_limits: TaskLimits
) -> Iterator[None]:
    """Begin to read the parts of a listing, the largest first, if encoder processes are running.

    `read_rows` in this process takes the results. When the block ends, tasks that have not begun
    are cancelled, and the others are awaited.
    """
    pool = running_pool()
    begun: dict[tuple[str, str], Future[list[StagedPart]]] = {}
    if reader is not None and pool is not None:
        for part in sorted(parts, key=lambda part: (-part.reads, part.name)):
            task = read_rows_task(reader, part, task_limits)
            begun[_place(reader, part)] = pool.submit_rows(task)
    _early.update(begun)
    try:
        yield
    finally:
        for place, future in begun.items():
            _early.pop(place, None)
            future.cancel()
        wait(begun.values())


def _place(reader: RowReader, part: StagedPart) -> tuple[str, str]:
    return reader.staging.root.spelling, part.name


def read_rows(
    reader: RowReader, part: StagedPart, *, workers: int, task_limits: TaskLimits
) -> list[StagedPart]:
    """Read a part of a listing in an encoder process, or take the result of its early read."""
    early = _early.pop(_place(reader, part), None)
    if early is None:
        early = shared_pool(workers).submit_rows(read_rows_task(reader, part, task_limits))
    return early.result()
