"""A process that has imported all a worker needs, and becomes one by forking: 1.5 s sooner.

On a cluster Flink ends the workers of a stage with it and starts others for the next. It is spoken
to through its input: a line of JSON with the flags of a worker, answered by a line with its process
id; it ends when its input does. It starts no threads, so that a fork is a whole process (those of
OpenBLAS and of Arrow's allocator see to themselves).
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
from recordmill.runners.permanent_imports import lasting

_BOOT = "recordmill.runners.workers.boot"


def main(modules: Sequence[str]) -> None:
    """Imports the modules and forks workers until its input ends."""
    environment.set_up()
    with lasting():
        for module in (_BOOT, "apache_beam.runners.worker.sdk_worker_main", *modules):
            importlib.import_module(module)
    # Nobody asks how a worker has ended: Flink notices.
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
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.setpgid(0, 0)  # Ctrl-C is for whoever runs the pool to understand
        code = sys.modules[_BOOT].main(flags)
    except BaseException:  # noqa: BLE001 (it must not become a second zygote)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
