"""Tasks for pools; in a module of few imports, because each new process imports it."""

import math
import os
import pathlib
import signal
import threading
import time

from recordmill.processes.shared_memory import allocate


class NotUnpicklableError(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class PanicError(BaseException):
    """Stands for pyo3_runtime.PanicException."""


class NotPicklableError(Exception):
    def __reduce__(self):
        raise TypeError("not this one")


def double(array, *, plus=0):
    return array * 2 + plus


def overflow(array):
    return array * array


def len_of(thing):
    return type(thing), len(thing)


def process_id(_=None):
    return os.getpid()


def fail(error):
    raise error


def fail_not_unpicklable():
    raise NotUnpicklableError("salt", "pepper")


def fail_not_picklable():
    raise NotPicklableError("no way out")


def leave(code):
    os._exit(code)


def kill(number):
    os.kill(os.getpid(), number)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def wait_for(path):
    """Return when the pipe has been opened and closed by a writer."""
    read(path)
    return os.getpid()


def unpicklable():
    return threading.Lock()


def act(rows, faults):
    """Crash at -1, be killed at -2, work without an end at -4, panic at -6.

    Otherwise the rows without faults are returned, after 50 ms of work for each -5.
    """
    for row, value in enumerate(rows):
        if row in faults:
            continue
        work(math.inf if value == -4 else 0.05 if value == -5 else 0)
        if value == -6:
            raise PanicError
        if value in (-1, -2) and row not in faults:
            os.kill(os.getpid(), signal.SIGABRT if value == -1 else signal.SIGKILL)
    if rows.count(-3) > 1:
        os.kill(os.getpid(), signal.SIGBUS)
    return [row for row in range(len(rows)) if row not in faults]


def work(seconds):
    """Use the processor for some seconds."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(10_000))


def try_some(rows, some):
    act(rows[some.start : some.stop], {})


def command() -> str:
    """Return the parent's id, and the command line of this process."""
    line = pathlib.Path("/proc/self/cmdline").read_text().replace("\0", " ")
    assert os.getpgid(0) == os.getpid(), "Ctrl-C in a terminal reaches the parent's process group"
    return f"{os.getppid()} {line}".replace("\n", " ")


def lend(sizes, *, fill=1, beside=0, sliced=False):
    """Return data in memory from `allocate`, and other bytes beside them."""
    parts = [allocate(size) for size in sizes]
    for part in parts:
        part[:] = bytes([fill]) * len(part)
    return [part[:-1] for part in parts] if sliced else parts, bytes(beside)
