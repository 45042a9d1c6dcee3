"""Pool of encoder processes: tasks in, results out, as plain pickles.

Processes instead of threads, because Pillow's encoders do not scale on threads. Not
`concurrent.futures.ProcessPoolExecutor`, because of its speed and of what happens when a process is
killed (docs/adr/0028-encoder-process-pool.md). A child ends with its parent, on Linux at once.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import ForkProcess
from typing import Any, ParamSpec, TypeVar

from recordmill.errors import RunError
from recordmill.option_names import are_flags, option_name
from recordmill.processes import by_value, child_process, environment
from recordmill.processes.row_tasks import (
    RowTask,
    WorkerCrashedError,
    WorkerDiedError,
    crash_fault,
    run_isolated,
)
from recordmill.processes.shared_memory import (
    CAPACITY,
    ChildChannel,
    ParentChannel,
    create_shared_memory,
)
from recordmill.processes.task_watch import NO_LIMITS, TaskLimits, TaskWatch, Watched

# Signals of a crash. Others, such as SIGKILL, come from outside of the process.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
_JEMALLOC_THREAD = "jemalloc_bg_thd\n"

P = ParamSpec("P")
T = TypeVar("T")


class WorkerStartError(RunError):
    """The operating system refused to start a process of the pool."""


class ProcessPool:
    """Runs functions in child processes.

    If this process has no threads yet, up to one child per core is forked from it at once: that
    takes milliseconds, and the children share the modules that were imported so far. All other
    children, such as the replacement of one that was killed, are new interpreters that start when
    there is a task for them. No child ever imports this process's main module.

    workers: maximum number of children.
    imports: modules that tasks need; the children have them before the first task.
    forked: children that were forked earlier (`fork_children`).
    """

    def __init__(
        self, workers: int, *, imports: Sequence[str] = (), forked: Sequence[_Child] = ()
    ) -> None:
        self.workers = workers
        started = [*forked[:workers]]
        _close(forked[workers:])
        self._children = [*(_Child(imports) for _ in range(workers - len(started))), *started]
        if not started and _is_single_threaded():
            _import(imports)
            try:
                _fork(self._children[-process_count(0) :])
            except OSError as error:
                self.kill()
                raise WorkerStartError(_describe_refusal(error)) from error
        # Last in, first out: a child that is already running is preferred.
        self._idle: queue.LifoQueue[_Child] = queue.LifoQueue()
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="pool")
        self._watch = TaskWatch()

    @property
    def is_running(self) -> bool:
        """True if a child runs already, and a task need not start one."""
        return any(child.is_running for child in self._children)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call the function in the next idle child; a task must not submit tasks itself.

        The future raises the exception of the function, or WorkerDiedError if its process died.
        """
        return self._threads.submit(self._run, by_value.dumps((function, args, kwargs)))

    def submit_rows(self, task: RowTask[T]) -> Future[T]:
        """Run a task over rows as `submit` does, without the rows that crash its process."""
        return self._threads.submit(self._run_rows, task)

    def _run_rows(self, task: RowTask[T]) -> T:
        child = self._idle.get()

        def run(call: Callable[[], Any], limits: TaskLimits) -> Any:
            return child.run((call, (), {}), self._watch, limits)

        try:
            return run_isolated(task, run)
        finally:
            self._idle.put(child)

    def _run(self, task: bytes) -> Any:
        child = self._idle.get()
        try:
            return child.run(task, self._watch)
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """Kill the children, even during tasks, and wait for their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._watch.close()
        _close(self._children)

    def kill(self) -> None:
        """Kill the children without taking a lock or waiting; safe in a signal handler."""
        for child in self._children:
            child.kill()


class _ForkedProcess(ForkProcess):
    """Forked process with the interface of subprocess.Popen, as far as the pool uses it."""

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.join(timeout)
        return self.exitcode


class _Child:
    """A child process and the channel to it; a child that has ended is replaced when needed."""

    def __init__(self, imports: Sequence[str]) -> None:
        self._imports = [*imports]
        self._process: _ForkedProcess | subprocess.Popen[bytes] | None = None
        self._channel: ParentChannel | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def fork(self, siblings: Sequence[_Child]) -> None:
        """Fork the child from this process, which must have no other threads."""
        with self._open_channel() as (socket, memory):
            arguments = (socket, memory, siblings)
            process = _ForkedProcess(target=_main_of_fork, args=arguments, daemon=True)
            process.start()
        self._process = process

    def run(
        self,
        task: bytes | tuple[Callable[..., Any], tuple[()], dict[str, Any]],
        watch: TaskWatch,
        limits: TaskLimits = NO_LIMITS,
    ) -> Any:
        """Run a task, and return its result or raise its exception.

        task: (function, arguments, keyword arguments), or their pickle.
        """
        watched: Watched | None = None
        try:
            with self._lock:
                if self._closed:
                    raise EOFError
                if self._process is not None and self._process.poll() is not None:
                    self._forget_process()  # killed between two tasks
                if self._process is None:
                    try:
                        self._spawn()
                    except OSError as error:
                        raise WorkerStartError(_describe_refusal(error)) from error
                channel, process = self._channel, self._process
            assert channel is not None
            assert process is not None
            with watch.watch(process, limits) as watched:
                done, result = channel.call(task)
            if watched.fault is not None:  # killed after it had sent its result
                with self._lock:
                    self._forget_process()
        except (EOFError, OSError) as error:
            with self._lock:
                code = self._forget_process()
            if watched is not None and watched.fault is not None:
                what = watched.fault.detail.removesuffix(" for it")
                raise WorkerCrashedError(
                    f"{what}, although no single record does: raise the limit", watched.fault
                ) from error
            if code is not None and -code in _CRASHES:
                raise WorkerCrashedError(_describe_death(code), crash_fault()) from error
            raise WorkerDiedError(_describe_death(code)) from error
        if done:
            return result
        raise result

    def kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Kill the child, and start no other one."""
        with self._lock:
            self._closed = True
            self.kill()

    def wait(self) -> None:
        """Wait for the end of the child."""
        with self._lock:
            if self._process is not None:
                self._process.wait()

    def close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def _spawn(self) -> None:
        """Start the child as a new interpreter."""
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        main = "from recordmill.processes.child_process import main"
        with self._open_channel() as (socket, memory):
            call = f"main({socket.fileno()}, {memory}, {self._imports})"
            self._process = subprocess.Popen(
                # -P: modules in the current folder must not shadow those of the library.
                [sys.executable, "-P", "-c", f"{main}; {call}"],
                stdin=subprocess.DEVNULL,
                pass_fds=[socket.fileno(), memory],
                env=os.environ | environment.VARIABLES | {"PYTHONPATH": path},
                process_group=0,  # Ctrl-C is handled by this process alone
            )

    @contextlib.contextmanager
    def _open_channel(self) -> Iterator[tuple[Connection, int]]:
        """Open a new channel, and yield the socket and the memory of the child's end."""
        ours, theirs = Pipe()
        memory = create_shared_memory()
        try:
            self._channel = ParentChannel(ours, memory)
            yield theirs, memory
        finally:
            theirs.close()
            os.close(memory)

    def _forget_process(self) -> int | None:
        """Return the exit code of the process, or None if it was not started or is not known."""
        process, self._process = self._process, None
        self.close_channel()
        if process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(5)
        return None


def _close(children: Sequence[_Child]) -> None:
    """Kill children, then wait for their end: each takes milliseconds to free its memory."""
    for child in children:
        child.close()
    for child in children:
        child.wait()


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        with contextlib.suppress(Exception):  # a task that needs it reports the error
            importlib.import_module(module)


def _fork(children: Sequence[_Child]) -> None:
    for child in children:
        child.fork(children)


def _main_of_fork(socket: Connection, memory: int, siblings: Sequence[_Child]) -> None:
    child_process.end_with_parent()
    child_process.drop_stderr()
    os.setpgid(0, 0)  # Ctrl-C is handled by the parent alone
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for child in siblings:  # or the siblings would not notice the parent's end before this child's
        child.close_channel()
    channel = ChildChannel(socket, memory)
    os.close(memory)
    child_process.run_tasks(channel)


def _is_single_threaded() -> bool:
    """Return whether this process has one thread only, so that it can be forked safely.

    The threads of Arrow's allocator do not count, because jemalloc restarts them after a fork.
    """
    threads = pathlib.Path("/proc/self/task").glob("*/comm")
    try:
        return [path.read_text() == _JEMALLOC_THREAD for path in threads].count(False) == 1
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has just ended, so others may run


def _describe_refusal(error: OSError) -> str:
    advice = f"use fewer {option_name('workers')} or raise the limits (ulimit -n, -u, -v)"
    if error.errno == errno.EFBIG:  # of the shared memory of its channel
        advice = f"raise the limit of file sizes (ulimit -f) to {CAPACITY >> 20} MiB or more"
    return (
        f"cannot start an encoder process: {str(error.strerror or error).lower()}; {advice}, then"
        " run the same command again"
    )


def _describe_death(code: int | None) -> str:
    how = f"exit code {code}"
    if code is None:
        how = "unknown exit code"
    elif code < 0:
        how = f"signal {-code}, {signal.strsignal(-code)}"
    return (
        f"an encoder process died in the middle of its work ({how}); if the machine ran out of"
        f" memory, use fewer {option_name('workers')}; run the same command again to continue"
    )


def process_count(workers: int) -> int:
    """Return the number of processes for `--workers`: 0 is one per core."""
    return workers or len(os.sched_getaffinity(0))


_lock = threading.Lock()
_shared: ProcessPool | None = None
_names_flags = False  # as the processes of the shared pool name options
_forked: list[_Child] = []


def fork_children(imports: Sequence[str] = ()) -> None:
    """Fork a child per core for the shared pool, before this process starts its first thread.

    A new interpreter takes 0.3 s of CPU to import what tasks need; a forked child has these modules
    already. If the process has other threads, or a pool, nothing is forked.

    imports: modules that tasks need, imported before.
    """
    if _shared is not None or _forked or not _is_single_threaded():
        return
    _import(imports)
    children = [_Child(()) for _ in range(process_count(0))]
    try:
        _fork(children)
    except OSError:  # new interpreters may still start later
        _close(children)
    else:
        _forked.extend(children)


def shared_pool(workers: int = 0, *, imports: Sequence[str] = ()) -> ProcessPool:
    """Return the pool of this process, created by the first call; 0 workers is one per core.

    It is created anew if a command follows a pipeline in Python, or the other way round: processes
    name options as they did when they were started.
    """
    global _shared, _names_flags
    with _lock:
        if _shared is not None and _names_flags != are_flags():
            _shared.close()
            _shared = None
        if _shared is None:
            _names_flags = are_flags()
            _shared = ProcessPool(process_count(workers), imports=imports, forked=_forked)
            _forked.clear()
        return _shared


def running_pool() -> ProcessPool | None:
    """Return the shared pool if it exists and its children run already, else None."""
    return _shared if _shared is not None and _shared.is_running else None


def close_shared_pool() -> None:
    """Close the shared pool, if there is one."""
    global _shared
    with _lock:
        if _shared is not None:
            _shared.close()
            _shared = None


def kill_shared_pool() -> None:
    """Kill the shared pool's children in a process that ends right after, because of a signal.

    It takes no lock, because a thread that is never resumed may hold it.
    """
    if _shared is not None:
        _shared.kill()
