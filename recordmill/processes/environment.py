"""How a process that does the work of a job is set up, before it imports what that takes.

One thread of it works, beside as many processes as there are cores, so NumPy is to start no others.

What is free stays with it, for what comes next. Arrow's own allocator gives it back to the system
at once, as glibc does with what is large, and to get it anew took a tenth of the time that texts
take. And where each thread of glibc's has an arena of its own, what is free in one is of no use to
the others: for a table of a million rows that were 200 MB more, and a second of system time.
"""

from __future__ import annotations

import ctypes
import os

_KEPT = 256 << 20  # bytes
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt(3)

# Read by a process when it starts, and by Arrow and NumPy when they are imported.
VARIABLES = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(_KEPT),
    "MALLOC_MMAP_THRESHOLD_": str(_KEPT),
    "OPENBLAS_NUM_THREADS": "1",
}


def set_up() -> None:
    """Sets up this process, which has not imported Arrow or NumPy yet, and those it starts."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # where the C library is glibc
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _KEPT)
