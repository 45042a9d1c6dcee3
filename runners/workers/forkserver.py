"""Forkserver of Beam workers: imports once what every worker needs, then forks workers on request.

A forked worker is ready 1.5 s earlier, and Flink starts new workers for each stage of a job. A
request is a line of JSON on standard input with the flags of a worker, answered by a line with its
process id; the forkserver ends at the end of its input. It starts no threads of its own, because a
fork copies only the calling thread (OpenBLAS and Arrow's allocator handle forks themselves).
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from recordmill.processes import environment
from recordmill.processes.pool import fork_children
from recordmill.runners.beam_patches import permanent_imports

_BOOT = "recordmill.runners.workers.boot"


def main(modules: Sequence[str]) -> None:
    """Import the modules and fork workers until the end of standard input."""
    environment.set_up()
    importlib.import_module("grpc")  # every worker uses it, so it must not be deferred
    with permanent_imports():
        for module in (_BOOT, "apache_beam.runners.worker.sdk_worker_main", *modules):
            importlib.import_module(module)
    # Exit codes are not needed, as the runner notices the end of a worker.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        flags = json.loads(line)
        worker = os.fork()
        if not worker:
            _become_worker(flags)
        print(worker, flush=True)


def _become_worker(flags: list[str]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.setpgid(0, 0)  # Ctrl-C is handled by the process that runs the pool
        fork_children()
        code = sys.modules[_BOOT].main(flags)
    except BaseException:  # noqa: BLE001 (must not return to the loop of the forkserver)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
