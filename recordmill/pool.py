"""Encoder processes: one pool per process, tasks in, results out, in plain pickles over a socket.

Processes and not threads, because Pillow's encoders do not scale on threads; our own and not
`concurrent.futures`, because its spawned children import the parent's main module (Beam: 1.6 s
each), and because those it leaves behind when the parent is killed wait for ever. A child ends when
its socket does, so it never outlives the parent by more than a task.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from typing import Any, ParamSpec, TypeVar

from recordmill.errors import RunError

# Of a process that does the work of a job, before it imports anything large.
ENVIRONMENT = {
    # One thread per process is the plan: numpy's BLAS must not start more.
    "OPENBLAS_NUM_THREADS": "1",
    # What is free is for the next task. Arrow's own allocator gives it back at once, as glibc does
    # with what is large, and to get it anew took a tenth of the time that texts take.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
}

P = ParamSpec("P")
T = TypeVar("T")


class WorkerDied(RunError):
    """A process of the pool ended in the middle of a task."""


class ProcessPool:
    """Runs module-level functions in processes that import nothing but what the functions need.

    As many as there are cores start now, but for one all at the same time, as the process that
    makes the pool has something to do meanwhile; others (of `workers`) when there are tasks for
    them.
    imports: modules to have ready before the first task comes.
    """

    def __init__(self, workers: int, *, imports: Sequence[str] = ()) -> None:
        self.workers = workers
        self._children = [_Child() for _ in range(workers)]
        self._imports = _dump_task(_import, tuple(imports))
        cores = len(os.sched_getaffinity(0))
        # Last in, first out: one that has not started is taken when there is no other.
        self._idle: queue.LifoQueue[_Child] = queue.LifoQueue()
        for child in self._children[cores:]:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="pool")
        self._starters = ThreadPoolExecutor(max(1, cores - 1), thread_name_prefix="pool-start")
        for child in self._children[:cores]:
            self._starters.submit(self._start, child)

    def _start(self, child: _Child) -> None:
        with contextlib.suppress(Exception):  # what fails here fails in the first task too
            self._call(child, self._imports)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls the function in the next free process; a task must not submit tasks itself.

        The future raises what the function raised, and WorkerDied where its process died.
        """
        return self._threads.submit(self._call_next, _dump_task(function, *args, **kwargs))

    def _call_next(self, task: bytes) -> Any:
        return self._call(self._idle.get(), task)

    def _call(self, child: _Child, task: bytes) -> Any:
        try:
            return child.call(task)
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """Ends the processes at once, tasks or not."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._starters.shutdown(wait=False, cancel_futures=True)
        self.kill()
        self._starters.shutdown()
        for child in self._children:
            child.close()

    def kill(self) -> None:
        """Ends the processes and waits for nothing."""
        for child in self._children:
            child.kill()


def _dump_task(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bytes:
    return pickle.dumps((function, args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


class _Child:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        self._pipe, theirs = Pipe()
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        # -P: a queue.py in the folder where the user stands is not the one we mean.
        serve_it = f"from recordmill.pool import serve; serve({theirs.fileno()})"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", serve_it],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | ENVIRONMENT | {"PYTHONPATH": paths},
            process_group=0,  # Ctrl-C reaches the whole group; what it means is for us to say
        )
        theirs.close()
        return self._process

    def call(self, task: bytes) -> Any:
        process = self._process
        if process is None or process.poll() is not None:
            # It died in an earlier task, which the engine may have begun again.
            process = self.start()
        try:
            self._pipe.send_bytes(task)
            done, result = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise WorkerDied(_cause(process)) from error
        if done:
            return result
        raise result

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        self.kill()
        if self._process is not None:
            self._process.wait()
            self._pipe.close()


def _cause(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        code = 0
    how = f"exit code {code}"
    if code < 0:
        how = f"signal {-code}, {signal.strsignal(-code)}"
    return (
        f"an encoder process died in the middle of its work ({how}); if the machine ran out of"
        " memory, use fewer --workers; the same command continues the job"
    )


def serve(descriptor: int) -> None:
    """The life of a child: call what comes in, answer, end with the socket."""
    # C libraries print what they think of bad data; only a crash of the process itself is news.
    faulthandler.enable(os.fdopen(os.dup(2), "w"))
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    pipe = Connection(descriptor)
    while True:
        try:
            task = pipe.recv_bytes()
        except (EOFError, ConnectionError):
            return
        try:
            function, args, kwargs = pickle.loads(task)
            answer = pickle.dumps((True, function(*args, **kwargs)), protocol=5)
        except Exception as error:  # noqa: BLE001  (all of it goes to the parent, which raises it)
            answer = _dump_error(error)
        try:
            pipe.send_bytes(answer)
        except ConnectionError:
            return


def _dump_error(error: Exception) -> bytes:
    """With its traceback as a note, as the traceback itself stays behind."""
    told = "".join(traceback.format_exception(error)).rstrip()
    note = f"In the encoder process {os.getpid()}:\n{told}"
    error.add_note(note)
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)  # an error whose __init__ takes other arguments fails only here
    except Exception as unpicklable:  # noqa: BLE001
        words = f"{type(error).__name__}: {error} (not picklable: {unpicklable})"
        stand_in = RuntimeError(words)
        stand_in.add_note(note)
        answer = pickle.dumps((False, stand_in))
    return answer


_lock = threading.Lock()
_shared: ProcessPool | None = None


def shared_pool(workers: int = 0, *, imports: Sequence[str] = ()) -> ProcessPool:
    """The pool of this process, made at the first call; `workers` 0 means one per core."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = ProcessPool(workers or len(os.sched_getaffinity(0)), imports=imports)
        return _shared


def close_shared_pool() -> None:
    """Ends the processes of the shared pool, if there is one."""
    global _shared
    with _lock:
        if _shared is not None:
            _shared.close()
            _shared = None


def kill_shared_pool() -> None:
    """Ends them from a signal handler, in a process that ends itself right after.

    It takes no lock, as the thread that holds it may be the one that the signal has interrupted.
    """
    if _shared is not None:
        _shared.kill()
