"""Encoder processes that the runs of one test session share: starting one takes 0.6 s of CPU.

A pool that is closed leaves its idle processes to the next pool that has the same environment and
import path, whatever its number of processes; a process that started in another current folder
changes to that of this process. Everything else of a pool, such as the death of a process or
closing during a task, is as ever.
"""

import contextlib
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from recordmill.processes.pool import _Child

_KEPT = 4  # per process of pytest; each takes about 100 MB
_METHODS = {name: getattr(_Child, name) for name in ("_spawn", "run", "close")}


@contextlib.contextmanager
def reused_encoders() -> Iterator[None]:
    """Encoder processes are reused inside the block, and end with it."""
    idle: OrderedDict[Any, Hashable] = OrderedDict()  # (process, channel): where it started
    lock = threading.Lock()
    # A process ends with the thread that started it, so this one starts all of them.
    starter = ThreadPoolExecutor(1)
    spawn, run, close = _METHODS.values()

    def end(process: Any, channel: Any) -> None:
        process.kill()
        process.wait()
        channel.close()

    def spawn_or_reuse(child: Any) -> None:
        child._started_at = _place()
        with lock:
            found = next((one for one in reversed(idle) if idle[one] == child._started_at), None)
            if found is not None:
                del idle[found]
        if found is None:
            starter.submit(spawn, child).result()
        else:
            child._process, child._channel = process, channel = found
            if process.poll() is None:
                done, result = channel.call((os.chdir, (os.getcwd(),), {}))
                assert done, result

    def run_and_note(child: Any, *arguments: Any) -> Any:
        child._busy = True
        # After any exception, also one of the task, the child stays busy, and its process is not
        # reused unless a later task succeeds.
        result = run(child, *arguments)
        child._busy = False
        return result

    def keep_or_close(child: Any) -> None:
        with child._lock:
            is_reusable = (
                hasattr(child, "_started_at")
                and not getattr(child, "_busy", False)
                and child._process is not None
                and child._process.poll() is None
            )
            if is_reusable:
                child._closed = True
                with lock:
                    idle[child._process, child._channel] = child._started_at
                    too_many = [idle.popitem(last=False)[0] for _ in range(_KEPT, len(idle))]
                for one in too_many:
                    end(*one)
                child._process = child._channel = None
        close(child)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Child, "_spawn", spawn_or_reuse)
        patch.setattr(_Child, "run", run_and_note)
        patch.setattr(_Child, "close", keep_or_close)
        yield
    for process, channel in idle:
        end(process, channel)
    starter.shutdown()


@contextlib.contextmanager
def fresh_encoders() -> Iterator[None]:
    """Every encoder process is a new one inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name, method in _METHODS.items():
            patch.setattr(_Child, name, method)
        yield


def _place() -> Hashable:
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    path = tuple(folder or os.getcwd() for folder in sys.path)
    return path, frozenset(environment.items())
