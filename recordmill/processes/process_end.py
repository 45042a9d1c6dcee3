"""End of the process of a command."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process as `sys.exit` does, without freeing every object of the interpreter.

    The operating system frees the memory anyway, which saves 0.03 s of CPU after a job. If other
    threads still run, the interpreter ends as usual, because it waits for them.
    """
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
