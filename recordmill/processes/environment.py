"""Memory allocator and thread settings of the processes of a job.

NumPy must start no threads of its own, because as many processes as there are cores work side by
side.

Freed memory stays with the process. By default Arrow's allocator returns it to the system at once,
as glibc does with large blocks, and getting it again took a tenth of the time of a text job. One
arena serves all threads, because a thread cannot reuse what is free in the arena of another: on a
table of a million rows, separate arenas took 200 MB more and a second more of system time.
"""

from __future__ import annotations

import ctypes
import os
import threading

_TRIM_THRESHOLD_BYTES = 256 << 20
_LARGE_BLOCK_BYTES = 64 << 10
_PROBED_THREADS = 12
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # parameters of mallopt(3)

# glibc reads them at process start, Arrow and NumPy when they are imported.
VARIABLES = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(_TRIM_THRESHOLD_BYTES),
    "MALLOC_MMAP_THRESHOLD_": str(_TRIM_THRESHOLD_BYTES),
    "OPENBLAS_NUM_THREADS": "1",
}


def set_up() -> None:
    """Apply the settings to this process, before it imports Arrow or NumPy, and to its children."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _TRIM_THRESHOLD_BYTES)


def return_free_memory() -> None:
    """Return freed memory to the system, after a step that needs more than later ones."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def keep_memory_low() -> None:
    """Return freed memory to the system, now and whenever a large block is freed.

    It is for steps that allocate little memory for the time that they take. Otherwise large blocks
    are allocated among small ones, and the gaps that they leave become ever harder to reuse.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
    return_free_memory()


def expect_threads() -> None:
    """Check that this user may start some more threads, because libraries abort without them.

    Raises:
      RuntimeError: a thread cannot be started.
    """
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(_PROBED_THREADS)]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
    finally:
        done.set()
        for thread in started:
            thread.join()
