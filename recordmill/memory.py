"""How a process that does the work of a job gets memory: what is free is for what comes next.

Arrow's own allocator gives it back to the system at once, as glibc does with what is large, and to
get it anew took a tenth of the time that texts take. And where each thread of glibc's has an arena
of its own, what is free in one is of no use to the others: for a table of a million rows that were
200 MB more, and a second of system time.
"""

from __future__ import annotations

import ctypes
import os

_KEPT = 256 << 20  # bytes
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt(3)

# Read by a process when it starts, and by Arrow when it is imported.
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(_KEPT),
    "MALLOC_MMAP_THRESHOLD_": str(_KEPT),
}


def keep_freed() -> None:
    """For this process, which has not imported Arrow yet, and those that it starts."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # where the C library is glibc
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _KEPT)
