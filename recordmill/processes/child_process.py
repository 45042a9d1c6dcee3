"""Child process of a pool: runs one task after another until the pool closes the channel.

A child is either forked from the process of the pool, or started as a new Python interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import pickle
import signal
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection

from recordmill.processes.shared_memory import ChildChannel
from recordmill.processes.standard_streams import open_null

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def main(socket: int, memory: int, imports: Sequence[str]) -> None:
    """Import the modules and run tasks, in a new interpreter that inherited both descriptors."""
    end_with_parent()
    for module in imports:
        with contextlib.suppress(Exception):  # a task that needs the module reports the error
            importlib.import_module(module)
    drop_stderr()
    channel = ChildChannel(Connection(socket), memory)
    os.close(memory)
    run_tasks(channel)


def end_with_parent() -> None:
    """Have the system kill this process when the thread that started it ends; Linux only.

    Elsewhere, a process whose parent was killed ends after its task. Until then nothing limits the
    memory that the task takes.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def drop_stderr() -> None:
    """Write no more to the user's terminal; the parent reports how this process ends.

    C libraries print warnings about bad data. A crash of the process becomes a reject, and is
    printed only if the user asks for it.
    """
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable(os.fdopen(os.dup(2), "w"))
    null = open_null()
    os.dup2(null, 2)
    os.close(null)


def run_tasks(channel: ChildChannel) -> None:
    """Run tasks and send their results until the other end of the channel is closed."""
    gc.freeze()  # the collector does not write to pages that are shared with the parent
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            # The previous result stays allocated until here, so that malloc keeps its memory.
            message, _result = _run_task(channel, channel.receive())
            channel.send(message)


def _run_task(channel: ChildChannel, task: bytes | memoryview) -> tuple[bytes | int, object]:
    """Run a task, and return the message with its result, and the result."""
    try:
        function, args, kwargs = pickle.loads(task)
        result = function(*args, **kwargs)
        return channel.pack((True, result)), result
    except Exception as error:  # noqa: BLE001 (the pool raises it in the parent)
        return _dump_error(error), None
    except BaseException:  # noqa: BLE001 (a panic in a Rust library is a crash)
        traceback.print_exc()
        os.abort()


def _dump_error(error: Exception) -> bytes:
    """Pickle an exception with its traceback as a note, because tracebacks cannot be pickled."""
    text = "".join(traceback.format_exception(error)).rstrip()
    note = f"In the encoder process {os.getpid()}:\n{text}"
    error.add_note(note)
    try:
        result = pickle.dumps((False, error))
        pickle.loads(result)  # fails if __init__ takes other arguments than Exception's
    except Exception as unpicklable:  # noqa: BLE001
        message = f"{type(error).__name__}: {error} (not picklable: {unpicklable})"
        substitute = RuntimeError(message)
        substitute.add_note(note)
        result = pickle.dumps((False, substitute))
    return result
