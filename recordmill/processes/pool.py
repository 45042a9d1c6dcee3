"""Encoder processes: one pool per process, tasks in, results out, in plain pickles.

Processes and not threads, because Pillow's encoders do not scale on threads; our own and not
`concurrent.futures`, because its spawned children import the parent's main module (Beam: 1.6 s
each), and because those it leaves behind when the parent is killed wait for ever. A child ends when
its socket does, so it never outlives the parent by more than a task.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import send_handle
from typing import Any, ParamSpec, TypeVar

from recordmill.errors import RunError
from recordmill.processes import environment, forkserver
from recordmill.processes.shared_memory import Exchange, shared_memory

_OF_ALLOCATOR = "jemalloc_bg_thd\n"

P = ParamSpec("P")
T = TypeVar("T")


class WorkerDied(RunError):
    """A process of the pool ended in the middle of a task."""


class ProcessPool:
    """Runs module-level functions in processes that import nothing but what the functions need.

    What forks them starts now, itself a fork of this process, which has imported much of it, unless
    that has threads. They themselves start, up to `workers`, when there are tasks for them.
    imports: modules to have ready before the first task comes.
    """

    def __init__(self, workers: int, *, imports: Sequence[str] = ()) -> None:
        self.workers = workers
        self._nursery = _Nursery(imports)
        # Last in, first out: one that has not started is taken when there is no other.
        self._idle: queue.LifoQueue[_Child] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(_Child(self._nursery))
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="pool")

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls the function in the next free process; a task must not submit tasks itself.

        The future raises what the function raised, and WorkerDied where its process died.
        """
        return self._threads.submit(self._call_next, _dump_task(function, *args, **kwargs))

    def _call_next(self, task: bytes) -> Any:
        child = self._idle.get()
        try:
            return child.call(task)
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """Ends the processes at once, tasks or not."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._nursery.close()

    def kill(self) -> None:
        """Ends the processes and waits for nothing."""
        self._nursery.kill()


def _dump_task(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bytes:
    return pickle.dumps((function, args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Process:
    """handle: stays with this process, whoever gets its id when it has ended (pidfd_open)."""

    number: int
    handle: int
    nursery: int  # the id of the process that forked it

    def has_ended(self, timeout: float = 0.0) -> bool:
        return bool(wait([self.handle], timeout))

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)


class _Forked:
    """A child, with as much of Popen as it takes."""

    def __init__(self, number: int) -> None:
        self.pid = number
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        return self._ended(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, options: int) -> int | None:
        if self._code is None:
            number, status = os.waitpid(self.pid, options)
            if number:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def _can_fork() -> bool:
    """Whether a fork of this process is a whole one: it has no thread but those of Arrow's
    allocator, which see to themselves.
    """
    threads = pathlib.Path("/proc/self/task").glob("*/comm")
    others = [name for name in (path.read_text() for path in threads) if name != _OF_ALLOCATOR]
    return len(others) == 1


class _Nursery:
    """The process that forks the others (`forkserver.main`), or the next where it has died."""

    def __init__(self, imports: Sequence[str]) -> None:
        self._imports = [*imports]
        self._forked: list[_Process] = []
        self._closed = False
        self._lock = threading.Lock()
        self._process: _Forked | subprocess.Popen[bytes]
        self._start()

    def _start(self) -> None:
        self._control, theirs = Pipe()
        self._process = self._fork(theirs) if _can_fork() else self._spawn(theirs)
        theirs.close()

    def _fork(self, theirs: Connection) -> _Forked:
        number = os.fork()
        if not number:
            self._control.close()
            forkserver.main_and_exit(theirs.fileno(), self._imports)
        return _Forked(number)

    def _spawn(self, theirs: Connection) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        # -P: a queue.py in the folder where the user stands is not the one we mean.
        main = "from recordmill.processes.forkserver import main"
        return subprocess.Popen(
            [sys.executable, "-P", "-c", f"{main}; main({theirs.fileno()}, {self._imports})"],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | environment.VARIABLES | {"PYTHONPATH": paths},
            process_group=0,  # Ctrl-C reaches the whole group; what it means is for us to say
        )

    def fork(self, pipe: int, memory: int) -> _Process:
        """Returns a new process, which serves the other end of an exchange.

        Raises:
          EOFError, OSError: there is none.
        """
        with self._lock:
            if self._closed:
                raise EOFError
            if self._process.poll() is not None:
                self._control.close()
                self._start()
            self._control.send(None)
            for descriptor in (pipe, memory):
                send_handle(self._control, descriptor, self._process.pid)
            number = self._control.recv()
            process = _Process(
                number=number, handle=os.pidfd_open(number), nursery=self._process.pid
            )
            self._forked.append(process)
            return process

    def has_ended(self, process: _Process) -> bool:
        with self._lock:
            return self._closed or process.has_ended()

    def bury(self, process: _Process) -> int | None:
        """Returns the exit code of a process that has ended; None where nobody can tell."""
        with self._lock:
            if self._closed or not process.has_ended(timeout=5):
                return None
            self._forked.remove(process)
            os.close(process.handle)
            if process.nursery != self._process.pid:
                return None
            try:
                self._control.send(process.number)
                return os.waitstatus_to_exitcode(self._control.recv())
            except (EOFError, OSError):
                return None

    def kill(self) -> None:
        self._process.kill()
        for process in self._forked:
            process.kill()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for process in self._forked:
                process.kill()
            if not self._forked:  # it may still be importing
                self._process.kill()
            self._control.close()
            self._process.wait()
            for process in self._forked:
                os.close(process.handle)


class _Child:
    def __init__(self, nursery: _Nursery) -> None:
        self._nursery = nursery
        self._process: _Process | None = None

    def call(self, task: bytes) -> Any:
        try:
            if self._process is not None and self._nursery.has_ended(self._process):
                self._bury()  # killed between two tasks
            if self._process is None:
                self._start()
            self._exchange.send(task)
            done, result = pickle.loads(self._exchange.receive())
        except (EOFError, OSError) as error:
            raise WorkerDied(_cause(self._bury())) from error
        if done:
            return result
        raise result

    def _start(self) -> None:
        pipe, theirs = Pipe()
        memory = shared_memory()
        try:
            self._exchange = Exchange(pipe, memory)
            self._process = self._nursery.fork(theirs.fileno(), memory)
        finally:
            theirs.close()
            os.close(memory)

    def _bury(self) -> int | None:
        """Returns the exit code, where it is known."""
        process, self._process = self._process, None
        return None if process is None else self._nursery.bury(process)


def _cause(code: int | None) -> str:
    how = f"exit code {code}"
    if code is None:
        how = "nobody saw how"
    elif code < 0:
        how = f"signal {-code}, {signal.strsignal(-code)}"
    return (
        f"an encoder process died in the middle of its work ({how}); if the machine ran out of"
        " memory, use fewer --workers; the same command continues the job"
    )


def process_count(workers: int) -> int:
    """How many processes `--workers` means: 0 is one per core."""
    return workers or len(os.sched_getaffinity(0))


_lock = threading.Lock()
_shared: ProcessPool | None = None


def shared_pool(workers: int = 0, *, imports: Sequence[str] = ()) -> ProcessPool:
    """The pool of this process, made at the first call; workers: as `process_count` has them."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = ProcessPool(process_count(workers), imports=imports)
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
