"""Encoding of rows ahead in all encoder processes, with the results in the order of the rows."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future

import pyarrow as pa

from recordmill.processes.pool import ProcessPool
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.transforms.model import limits
from recordmill.transforms.planning.plan import SplitPlan
from recordmill.transforms.reuse.row_recipes import RowRecipes
from recordmill.transforms.staged.encoder_tasks import EncodedChunk, encode_chunk, row_task


def _no_recipes() -> None:
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowChunk:
    """Rows of a shard that one task encodes.

    inputs: the columns that the encoder gets. recipes: returns the recipes of the rows; None if
      they have none. digest: as in `shard_rows.Chunk`. refers: whether the rows refer to files.
    """

    rows: pa.RecordBatch
    inputs: pa.RecordBatch
    recipes: Callable[[], RowRecipes | None] = _no_recipes
    digest: bytes = b""
    refers: bool = False


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
    chunks: Iterable[RowChunk],
    *,
    packed: bytes,
    split: SplitPlan,
    compression: str,
    pool: ProcessPool,
    task_limits: TaskLimits = DEFAULT_LIMITS,
) -> Generator[tuple[RowChunk, EncodedChunk]]:
    """Yield (rows, encoded rows) in order, encoding ahead within the budget."""
    size = split.task_rows * split.estimate.record_bytes
    waiting: collections.deque[tuple[RowChunk, Future[EncodedChunk]]] = collections.deque()

    def oldest() -> tuple[RowChunk, EncodedChunk]:
        chunk, future = waiting.popleft()
        try:
            return chunk, future.result()
        finally:
            _budget.give_back(size)

    try:
        for chunk in chunks:
            task = row_task(
                encode_chunk, packed, compression, rows=chunk.inputs, task_limits=task_limits
            )
            while not _budget.take(size, tasks=pool.workers, must=not waiting):
                yield oldest()
            try:
                future = pool.submit_rows(task)
            except BaseException:
                _budget.give_back(size)
                raise
            waiting.append((chunk, future))
        while waiting:
            yield oldest()
    finally:  # if the encoder or the consumer failed, the other results are not needed
        for _, future in waiting:
            future.cancel()
            _budget.give_back(size)
