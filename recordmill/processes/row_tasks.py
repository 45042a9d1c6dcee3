"""Runs tasks over rows, and rejects the rows that crash or hang the encoder process.

Native libraries may crash on the content of a record, take all memory, or never return.
The rows are then tried block by block, and those of the block that crashes one by one
(docs/adr/0041-records-that-crash.md).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from recordmill.errors import Reason, RecordError, RunError
from recordmill.processes.task_watch import DEFAULT_LIMITS, NO_LIMITS, TaskLimits

T = TypeVar("T")

_MOST_ALIKE = 8  # rows that fail before others are tried, because no row may be the cause

Faults = Mapping[int, RecordError]  # by index of a row
NO_FAULTS: Faults = MappingProxyType({})
_Run = Callable[[Callable[[], Any], TaskLimits], Any]
"""Function that runs a call in a process, a new one if the last ended, within limits."""


class WorkerDiedError(RunError):
    """A process of the pool ended during a task."""


class WorkerCrashedError(WorkerDiedError):
    """A process ended because of its task: it crashed, or exceeded a limit.

    fault: the reject of the row, if one row alone does it.
    """

    def __init__(self, message: str, fault: RecordError) -> None:
        super().__init__(message, fault)  # Beam makes an error again of its arguments
        self.fault = fault

    def __str__(self) -> str:
        return str(self.args[0])


def crash_fault() -> RecordError:
    """Return the reject of a row that crashes its process."""
    return RecordError(
        Reason.CRASHED_DECODER,
        "the library that decodes it crashed on its content: leave it out, or repair it",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowTask(Generic[T]):
    """A task over rows that can leave out rows, and be tried on some of them.

    count: number of rows.
    call: returns the call that does the task without the rows of faults, as a picklable function
      without arguments; it returns the faults as rejects in its result.
    trial: tries the rows of a range, without lasting effect; a picklable function.
    limits: of the process, for the task and for each trial.
    """

    count: int
    call: Callable[[Faults], Callable[[], T]]
    trial: Callable[[range], Any]
    limits: TaskLimits = DEFAULT_LIMITS


def run_isolated(task: RowTask[T], run: _Run) -> T:
    """Run a task, without the rows that end the process even if they are tried alone.

    Raises:
      WorkerDiedError: a process ended for another reason, or no row alone is the cause.
    """
    faults: dict[int, RecordError] = {}
    limits = task.limits
    repeated = False
    while True:
        try:
            result: T = run(task.call(faults), limits)
        except WorkerCrashedError as crash:
            is_slow = _is_slow(crash.fault)
            # The first crash may come from what earlier tasks left in the process.
            if repeated or is_slow:
                found = _find(task, run)
                if not found.keys() <= faults.keys():
                    faults |= found
                elif is_slow and limits == task.limits and task.count > 1:
                    # Each row is within the limit.
                    limits = limits._replace(seconds=limits.seconds * task.count)
                else:
                    raise
            repeated = True
        else:
            return result


def _find(task: RowTask[T], run: _Run) -> dict[int, RecordError]:
    """Return the faults of the rows of a task.

    The rows are tried in blocks, so that a row costs three crashes, of the block, of the row and of
    the row alone in a new process, and few calls.

    Raises:
      WorkerCrashedError: a process ends without any row, as if its memory is too little for itself;
        or with every row that is tried, as if a file that all of them need is the cause.
    """
    run(_nothing, task.limits)
    found: dict[int, RecordError] = {}
    passed = False
    step = math.isqrt(task.count) or 1
    for start in range(0, task.count, step):
        block = range(start, min(start + step, task.count))
        if _fault(task, run, block) is None:
            passed = True
            continue
        for row in block:
            fault = _row_fault(task, run, row)
            if fault is None:
                passed = True
                continue
            found[row] = fault
            if len(found) == _MOST_ALIKE and not passed:
                _check_others(task, run, row, fault)
    return found


def _row_fault(task: RowTask[T], run: _Run, row: int) -> RecordError | None:
    """Return the fault of a row that ends the process alone; None of other rows."""
    alone = range(row, row + 1)
    fault = _fault(task, run, alone)
    if fault is None or _is_slow(fault):
        return fault  # its time is its own
    return _fault(task, run, alone)  # in a new process


def _fault(task: RowTask[T], run: _Run, some: range) -> RecordError | None:
    """Try rows, and return the fault that ends the process; None if it does not end."""
    run(_nothing, NO_LIMITS)  # the start of a new process counts for no row
    try:
        run(functools.partial(task.trial, some), task.limits)
    except WorkerCrashedError as crash:
        return crash.fault
    return None


def _check_others(task: RowTask[T], run: _Run, last: int, fault: RecordError) -> None:
    """Try some of the rows after the last one that was tried.

    Raises:
      WorkerCrashedError: they end the process, too.
    """
    step = max((task.count - last - 1) // _MOST_ALIKE, 1)
    others = range(last + 1, task.count, step)[:_MOST_ALIKE]
    if others and all(_row_fault(task, run, row) is not None for row in others):
        what = fault.detail.partition(":")[0]
        raise WorkerCrashedError(
            f"{_MOST_ALIKE + len(others)} records of {task.count}, all that were tried alone, end"
            f" their encoder process ({what}): the cause is more likely a"
            " file that all of them need, such as a tokenizer, or an option; change it",
            fault,
        )


def _is_slow(fault: RecordError) -> bool:
    return fault.reason is Reason.TOO_SLOW


def _nothing() -> None:
    """Do nothing, to check that a process can run a task."""
