"""Runs a pipeline on this machine or on Flink: options, signals and errors of both.

It is shared by the commands and by `recordmill.run`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from recordmill.errors import ConfigError, RunError
from recordmill.job import lock
from recordmill.pipelines.options.common.flink import FlinkConfig
from recordmill.processes.pool import kill_shared_pool, process_count
from recordmill.runners.beam_patches import permanent_imports
from recordmill.runners.failures import strip_stage
from recordmill.runners.progress import JobView, Watcher
from recordmill.storage.machine_faults import machine_fault

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.runners.runner import PipelineResult

    from recordmill.runners.flink.job import FlinkJob


def run_here(
    build: Callable[[beam.Pipeline], None],
    *,
    workers: int,
    beam_options: Sequence[str] = (),
    checks: bool,
) -> PipelineResult:
    """Run a pipeline on this machine, as `direct.run` does, with errors that users understand.

    Raises:
      ConfigError: an option or the input cannot be used.
      RunError: the pipeline failed because of its data, or of the machine.
    """
    with permanent_imports():
        from recordmill.runners import direct
    try:
        return direct.run(build, workers=workers, beam_options=beam_options, checks=checks)
    except ConfigError as error:
        raise ConfigError(strip_stage(str(error))) from error
    except RunError as error:
        raise RunError(strip_stage(str(error))) from error
    except Exception as error:
        fault = machine_fault(error)
        if fault is None:
            raise
        raise RunError(strip_stage(fault)) from error


def make_flink_job(
    config: FlinkConfig,
    *,
    name: str,
    workers: int,
    imports: Sequence[str],
    beam_options: Sequence[str],
    view: JobView,
    earlier: str = "",
) -> FlinkJob:
    """Return a job on Flink, which is not started yet.

    name: of the job, if the options give none. imports: modules that workers on this machine import
    in advance. beam_options: Beam's own options, as flags. view, earlier: as for `FlinkJob`.

    Raises:
      ConfigError: the options do not fit the cluster or this machine.
      RunError: the cluster or a worker pool does not answer.
    """
    with permanent_imports():
        from recordmill.runners.flink.job import FlinkJob
        from recordmill.runners.flink.options import FlinkOptions

    options = FlinkOptions(
        master=config.flink_master,
        environment=config.environment,
        environment_config=config.environment_config,
        worker_secret_file=config.worker_secret_file,
        parallelism=config.parallelism,
        job_name=config.job_name or name,
        token_file=config.flink_token_file,
        ca_file=config.flink_ca_file,
        job_server_jar=config.flink_job_server_jar,
        job_server_sha256=config.flink_job_server_sha256,
        whole_jar=config.flink_whole_jar,
        detach=config.detach,
        stall_seconds=config.stall_timeout,
        retries=config.retries,
        imports=imports,
        beam=tuple(beam_options),
    )
    return FlinkJob(options, workers=process_count(workers), view=view, earlier=earlier)


@contextmanager
def exit_on_signals(
    watcher: Watcher, on_flink: FlinkJob | None, prog: str, *, only_unhandled: bool = False
) -> Iterator[None]:
    """Exit at once on SIGINT, SIGTERM and SIGHUP; the staging folder can be left in any state.

    A job on Flink is cancelled first, because it would keep running; then the locks of outputs are
    released. SIGHUP stays ignored if it is, as with nohup. A thread waits for the signals. Python
    runs handlers in the main thread alone, which may hold a lock that the end needs, and whose own
    wait for a lock goes on if another thread got the signal.

    only_unhandled: leave signals alone for which the program has a handler.
    """

    def end(number: int) -> None:
        with suppress(OSError):  # after SIGHUP the terminal may be gone
            watcher.__exit__(None, None, None)
        lines = []
        if on_flink is not None:
            try:
                on_flink.cancel()
            except RunError as error:
                lines.append(f"{prog}: {error}")
        name = signal.Signals(number).name
        lines.append(f"{prog}: stopped by {name}; run the same command again to continue")
        with suppress(OSError):
            print("\n".join(lines), file=sys.stderr, flush=True)
        lock.release_all()
        # Last, because the threads that wait for these processes would report their death.
        kill_shared_pool()
        os._exit(128 + number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    if only_unhandled:
        unhandled = (signal.SIG_DFL, signal.default_int_handler)
        numbers = [number for number in numbers if signal.getsignal(number) in unhandled]
    previous = {number: signal.signal(number, _go_on) for number in numbers}
    try:
        with _waiting_for_signals(numbers, end):
            yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _go_on(number: int, frame: FrameType | None) -> None:
    """Handle a signal in the main thread: do nothing, as another thread waits for it."""


@contextmanager
def _waiting_for_signals(numbers: Sequence[int], end: Callable[[int], None]) -> Iterator[None]:
    """Call a function in a thread on each of these signals."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def wait() -> None:
        while number := reader.recv(1):
            if number[0] in numbers:
                end(number[0])

    thread = threading.Thread(target=wait, name="signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()
        thread.join()
        reader.close()
