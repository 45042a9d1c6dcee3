"""Encoding of rows ahead in all encoder processes, with the results in the order of the rows."""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Generator, Sequence
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


def chunk_bounds(rows: int, step: int, *, tapered: bool) -> list[tuple[int, int]]:
    """Return (first row, number of rows) of the chunks of a shard, each of which is one task.

    tapered: whether the last chunks are smaller, so that all encoder processes are busy until the
      end. Other processes may encode the rows, but a record must not depend on its chunk.
    """
    whole = max(rows // step - limits.TAPERED_TASKS, 0) * step if tapered else rows
    small = max(step // limits.TAPER, 1)
    starts = [*range(0, whole, step), *range(whole, rows, small)]
    return [(start, end - start) for start, end in itertools.pairwise([*starts, rows])]


def encode_in_order(
    rows: pa.RecordBatch,
    bounds: Sequence[tuple[int, int]],
    *,
    packed: bytes,
    split: SplitPlan,
    compression: str,
    pool: ProcessPool,
    memory: int = MAX_MEMORY,
) -> Generator[tuple[int, EncodedChunk]]:
    """Yield (index of its first row, encoded chunk) in order, encoding ahead within the budget.

    bounds: those of `chunk_bounds` that are to be encoded.
    """
    waiting: collections.deque[tuple[int, int, Future[EncodedChunk]]] = collections.deque()

    def oldest() -> tuple[int, EncodedChunk]:
        start, size, future = waiting.popleft()
        try:
            return start, future.result()
        finally:
            _budget.give_back(size)

    try:
        for start, count in bounds:
            chunk, size = rows.slice(start, count), count * split.estimate.record_bytes
            task = row_task(encode_chunk, packed, compression, rows=chunk, memory=memory)
            while not _budget.take(size, tasks=pool.workers, must=not waiting):
                yield oldest()
            try:
                future = pool.submit_rows(task)
            except BaseException:
                _budget.give_back(size)
                raise
            waiting.append((start, size, future))
        while waiting:
            yield oldest()
    finally:  # if the encoder or the consumer failed, the other results are not needed
        for _, size, future in waiting:
            future.cancel()
            _budget.give_back(size)
