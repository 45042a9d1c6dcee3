"""End of the process of a command."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process as `sys.exit` does, without freeing every object of the interpreter.

    After a job that takes 0.03 s of CPU, and the operating system frees the memory anyway. If other
    threads still run, the interpreter ends as usual, because it knows how to wait for them.
    """
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
