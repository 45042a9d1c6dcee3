"""Forkserver of Beam workers: imports once what every worker needs, then forks workers on request.

A forked worker is ready 1.5 s earlier, and Flink starts new workers for each stage of a job. Each
request on standard input, a Unix socket, brings the channel of a new worker, and is answered by a
line with its process id; the forkserver ends at the end of its input. It starts no threads of its
own, because a fork copies only the calling thread (OpenBLAS and Arrow's allocator handle forks
themselves).

A worker reads its flags, a line of JSON, from its channel, and answers ACCEPTED. When its runner
has disconnected, and if no bundle failed, it answers FINISHED and waits for the flags of its next
run, for a few seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn

from recordmill.processes import environment
from recordmill.processes.pool import fork_children
from recordmill.runners.beam_patches import permanent_imports

ACCEPTED, FINISHED = b"+", b"-"
_KEPT_SECONDS = (
    5.0  # for which a worker waits for its next run; the next stage of a job follows within 0.1 s
)
_BOOT = "recordmill.runners.workers.boot"


def main(modules: Sequence[str]) -> None:
    """Import the modules and fork workers until the end of standard input."""
    environment.set_up()
    importlib.import_module("grpc")  # every worker uses it, so it must not be deferred
    with permanent_imports():
        for module in (_BOOT, "apache_beam.runners.worker.sdk_worker_main", *modules):
            importlib.import_module(module)
    sys.modules[_BOOT].versions.installed()  # caches the versions of the imported code
    # Exit codes are not needed, as the runner notices the end of a worker.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=0)
    while channels := socket.recv_fds(requests, 1, 1)[1]:
        worker = os.fork()
        if not worker:
            _become_worker(channels[0])
        os.close(channels[0])
        requests.sendall(b"%d\n" % worker)


def _become_worker(channel: int) -> NoReturn:
    code = 1
    boot = sys.modules[_BOOT]
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.setpgid(0, 0)  # Ctrl-C is handled by the process that runs the pool
        fork_children()
        sys.stderr = boot.WorkerLog()
        threading.excepthook = boot.print_thread_error
        code = _serve(socket.socket(fileno=channel))
    except BaseException as error:  # noqa: BLE001 (must not return to the loop of the forkserver)
        if not boot.is_hang_up(error):
            traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve(channel: socket.socket) -> int:
    """Run workers in this process, one after the other, and return the exit code of the last."""
    boot = sys.modules[_BOOT]
    boot.exit_with_parent()
    code = 0
    with channel.makefile("r") as requests:
        try:
            while flags := requests.readline():
                channel.sendall(ACCEPTED)
                code, is_reusable = boot.run_worker(json.loads(flags))
                if not is_reusable:
                    break
                channel.settimeout(_KEPT_SECONDS)
                channel.sendall(FINISHED)
        except (TimeoutError, BrokenPipeError):  # no further run, or the pool has ended
            pass
    return code
