"""Encoding of rows ahead in all encoder processes, with the results in the order of the rows."""

from __future__ import annotations

import collections
import threading
from collections.abc import Generator
from concurrent.futures import Future

import pyarrow as pa

from recordmill.processes.pool import ProcessPool
from recordmill.processes.row_tasks import MAX_MEMORY
from recordmill.transforms.model import limits
from recordmill.transforms.planning.plan import SplitPlan
from recordmill.transforms.staged.encoder_tasks import EncodedChunk, encode_chunk, row_task


class _TaskBudget:
    """Limits the tasks in flight of all writers of a process, and the bytes of their results.

    One task per encoder process and the first of each writer are allowed: no writer waits for one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0
        self._tasks = 0

    def take(self, size: int, *, tasks: int, must: bool) -> bool:
        with self._lock:
            if (
                not must
                and self._tasks >= tasks
                and self._bytes + size > tasks * limits.LOOK_AHEAD_BYTES
            ):
                return False
            if not must and self._tasks >= 8 * tasks:
                return False
            self._bytes += size
            self._tasks += 1
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._bytes -= size
            self._tasks -= 1


_budget = _TaskBudget()


def encode_in_order(
    rows: pa.RecordBatch,
    *,
    packed: bytes,
    split: SplitPlan,
    compression: str,
    pool: ProcessPool,
    memory: int = MAX_MEMORY,
    first: int = 0,
) -> Generator[tuple[int, EncodedChunk]]:
    """Yield (index of its first row, encoded chunk) in order, encoding ahead within the budget.

    first: index of the first row to encode, a multiple of the rows of a task.
    """
    step = split.task_rows
    size = step * split.estimate.record_bytes
    waiting: collections.deque[tuple[int, Future[EncodedChunk]]] = collections.deque()

    def oldest() -> tuple[int, EncodedChunk]:
        start, future = waiting.popleft()
        try:
            return start, future.result()
        finally:
            _budget.give_back(size)

    try:
        for start in range(first, len(rows), step):
            chunk = rows.slice(start, step)
            task = row_task(encode_chunk, packed, compression, rows=chunk, memory=memory)
            while not _budget.take(size, tasks=pool.workers, must=not waiting):
                yield oldest()
            try:
                future = pool.submit_rows(task)
            except BaseException:
                _budget.give_back(size)
                raise
            waiting.append((start, future))
        while waiting:
            yield oldest()
    finally:  # if the encoder or the consumer failed, the other results are not needed
        for _, future in waiting:
            future.cancel()
            _budget.give_back(size)
