"""Tasks over rows that go on without the rows that end the encoder process.

Libraries in native code may crash on the content of a record, or take all memory. The rows are then
tried block by block, and those of the block that crashes one by one
(docs/adr/0041-records-that-crash.md).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from recordmill.errors import Reason, RecordError, RunError

T = TypeVar("T")

MAX_MEMORY = 8 << 30  # bytes of an encoder process; a valid record takes far less

Faults = Mapping[int, RecordError]  # by index of a row
NO_FAULTS: Faults = MappingProxyType({})
_Run = Callable[[Callable[[], Any]], Any]


class WorkerDiedError(RunError):
    """A process of the pool ended during a task."""


class WorkerCrashedError(WorkerDiedError):
    """A process ended because of its task: it crashed, or exceeded its memory.

    fault: the reject of the row, if one row alone does it.
    """

    def __init__(self, message: str, fault: RecordError) -> None:
        super().__init__(message)
        self.fault = fault


def crash_fault() -> RecordError:
    """Return the reject of a row that crashes its process."""
    return RecordError(
        Reason.CRASHED_DECODER,
        "the library that decodes it crashed on its content: leave it out, or repair it",
    )


def memory_fault(limit: int) -> RecordError:
    """Return the reject of a row that needs more memory than `limit` bytes."""
    return RecordError(
        Reason.TOO_LARGE,
        f"an encoder process needs more than --max-worker-memory {limit} bytes for it",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowTask(Generic[T]):
    """A task over rows that can leave out rows, and be tried on some of them.

    count: number of rows.
    call: returns the call that does the task without the rows of faults, as a picklable function
      without arguments; it returns the faults as rejects in its result.
    trial: tries the rows of a range, without lasting effect; a picklable function.
    memory: bytes of memory that the process may have; 0 is no limit.
    """

    count: int
    call: Callable[[Faults], Callable[[], T]]
    trial: Callable[[range], Any]
    memory: int = MAX_MEMORY


def run_isolated(task: RowTask[T], run: _Run) -> T:
    """Run a task, without the rows that crash the process even if they are tried alone.

    run: runs a call in a process, a new one if the last ended.

    Raises:
      WorkerDiedError: a process ended for another reason, or no row alone is the cause.
    """
    faults: dict[int, RecordError] = {}
    repeated = False
    while True:
        try:
            result: T = run(task.call(faults))
        except WorkerCrashedError:
            # The first crash may come from what earlier tasks left in the process.
            if repeated:
                found = _find(task, run)
                if found.keys() <= faults.keys():
                    raise
                faults |= found
            repeated = True
        else:
            return result


def _find(task: RowTask[T], run: _Run) -> dict[int, RecordError]:
    """Return the faults of the rows of a task.

    The rows are tried in blocks, so that a row costs three crashes, of the block, of the row and of
    the row alone in a new process, and few calls.

    Raises:
      WorkerCrashedError: a process ends without any row, as if its memory is too little for itself.
    """
    run(functools.partial(_try_in_turn, task.trial, (), os.devnull))
    found: dict[int, RecordError] = {}
    step = math.isqrt(task.count) or 1
    blocks = [range(at, min(at + step, task.count)) for at in range(0, task.count, step)]
    while blocks and (crash := _first_crash(task, run, blocks)) is not None:
        block, blocks = blocks[crash.at], blocks[crash.at + 1 :]
        rows = [range(row, row + 1) for row in block]
        while rows and (crash := _first_crash(task, run, rows)) is not None:
            row, rows = rows[crash.at], rows[crash.at + 1 :]
            again = _first_crash(task, run, [row])
            if again is not None:
                found[row.start] = again.fault
    return found


class _Crash(NamedTuple):
    """Crash of a process. at: index of the range that it tried."""

    at: int
    fault: RecordError


def _first_crash(task: RowTask[T], run: _Run, ranges: Sequence[range]) -> _Crash | None:
    """Try ranges of rows in turn, up to the first crash."""
    with tempfile.NamedTemporaryFile() as progress:
        try:
            run(functools.partial(_try_in_turn, task.trial, ranges, progress.name))
        except WorkerCrashedError as crash:
            return _Crash(int(progress.read() or b"0"), crash.fault)
    return None


def _try_in_turn(trial: Callable[[range], Any], ranges: Sequence[range], progress: str) -> None:
    """Try ranges of rows, and write the index of each into the file of progress before."""
    with open(progress, "wb", buffering=0) as file:
        for at, some in enumerate(ranges):
            os.pwrite(file.fileno(), b"%08d" % at, 0)
            trial(some)
