"""`recordmill.run`: runs a custom pipeline on this machine or on Flink."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.runner import PipelineResult, PipelineState

from recordmill.errors import ConfigError, RunError
from recordmill.option_checks import expect_one_of, expect_whole, unknown_option
from recordmill.pipelines.jobs.execution import exit_on_signals, make_flink_job, run_here
from recordmill.pipelines.jobs.watch import JobProgress
from recordmill.pipelines.options.common.flink import FlinkConfig
from recordmill.runners.flink.environments import Environment
from recordmill.runners.flink.job import FlinkJob
from recordmill.runners.progress import JobView, Snapshot, Watcher
from recordmill.transforms.model.run_spec import RunSpec

_PROG = "recordmill"
_FLINK = {field.name: field for field in dataclasses.fields(FlinkConfig)}


def run(
    build: Callable[[beam.Pipeline], object],
    *,
    runner: Literal["direct", "flink"] = "direct",
    workers: int = 0,
    progress: bool = True,
    beam_options: Sequence[str] = (),
    **options: Any,
) -> PipelineResult:
    """Run a pipeline on this machine or on Flink, and wait until it finishes.

    SIGINT (Ctrl-C), SIGTERM and SIGHUP end the process at once with exit code 128 + the number of
    the signal, and cancel the job on Flink, unless the program handles the signal itself. In an
    interactive interpreter or a notebook Ctrl-C raises KeyboardInterrupt.

    Args:
      build: Applies transforms to the pipeline that it is called with. Classes and functions of the
        script that is run are pickled by value.
      runner: `direct` for this machine, or `flink`.
      workers: Number of encoder processes, and of task slots of a Flink cluster that is started on
        this machine; 0 is one per core.
      progress: Whether progress is shown on standard error: on a terminal as one updated line,
        otherwise as a line every ten seconds.
      beam_options: Beam's own options, as flags, such as `--setup_file=./setup.py`.
      **options: Options of the runner `flink`, as in commands, such as `flink_master`,
        `environment`, `parallelism` and `flink_job_server_jar`. Without `flink_master`, a Flink
        cluster is started on this machine.

    Returns:
      The result. On this machine, its `metrics()` has the counters of the pipeline; Flink shows
      them itself. Its state is `RUNNING` if the job was detached, otherwise `DONE`.

    Raises:
      ConfigError: An option or the input cannot be used; `exit_code` of the error is 2.
      RunError: The pipeline failed because of its data or of the machine; `exit_code` is 1. Any
        other exception of a transform is raised as it is on this machine, and as a RunError after
        its traceback on Flink.
    """
    config = _flink_config(runner, options)
    expect_whole("workers", workers, least=0)
    if not callable(build):
        raise ConfigError(f"build: expected a function that takes a pipeline, got {build!r}")
    on_flink: FlinkJob | None = None
    datasets = _Datasets(lambda: on_flink.waiting() if on_flink else None)
    watcher = Watcher(datasets.poll, quiet=not progress)
    if runner == "flink":
        on_flink = make_flink_job(
            config,
            name=f"{_PROG}-{getattr(build, '__name__', 'pipeline')}",
            workers=workers,
            imports=["recordmill.pipelines.jobs.road"],
            beam_options=beam_options,
            view=JobView(
                activity=datasets.activity,
                is_working=datasets.is_writing,
                unanswered=datasets.unanswered,
                notice=lambda message: watcher.say(f"{_PROG}: {message}"),
            ),
        )
        if progress and (note := on_flink.note()) is not None:
            print(f"{_PROG}: note: {note}", file=sys.stderr)
    with contextlib.ExitStack() as stack:

        def build_and_watch(pipeline: beam.Pipeline) -> None:
            build(pipeline)
            pipeline.visit(datasets)
            # After `build`, which forks encoder processes: a process with threads cannot.
            stack.enter_context(_stops(watcher, on_flink))
            stack.enter_context(watcher)

        if on_flink is None:
            return run_here(
                build_and_watch, workers=workers, beam_options=beam_options, checks=True
            )
        try:
            on_flink.run(build_and_watch)
        except KeyboardInterrupt:
            on_flink.cancel()
            raise
        return PipelineResult(PipelineState.RUNNING if config.detach else PipelineState.DONE)


class _Datasets(PipelineVisitor):
    """Progress of the datasets that a pipeline writes, which it finds among the transforms.

    waiting: returns what the pipeline waits for before its first stage, or None.
    """

    def __init__(self, waiting: Callable[[], str | None]) -> None:
        self._waiting = waiting
        self._jobs: dict[str, JobProgress] = {}

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        self.visit_transform(transform_node)

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        """Add the dataset of a step."""
        for value in vars(transform_node.transform or self).values():
            if isinstance(value, RunSpec) and value.output:
                staging = value.staging
                self._jobs.setdefault(
                    staging.root.spelling, JobProgress(staging, waiting=self._waiting)
                )

    def poll(self) -> Snapshot | None:
        """Return the progress of the dataset that is written now, or None."""
        snapshots = [job.poll() for job in self._jobs.values()]
        return next((one for one in snapshots if one is not None and one.done != one.total), None)

    def activity(self) -> object:
        """Return a value that changes as the pipeline progresses."""
        with contextlib.suppress(RunError):  # the pipeline reads damaged files itself
            return [job.poll() for job in self._jobs.values()]
        return None

    def unanswered(self) -> str:
        """Return the message of the first dataset whose store does not answer, or ''."""
        return next(filter(None, (job.unanswered() for job in self._jobs.values())), "")

    def is_writing(self) -> bool:
        """Return whether records were missing in a shard at the last poll."""
        return any(job.is_writing() for job in self._jobs.values())


@contextlib.contextmanager
def _stops(watcher: Watcher, on_flink: FlinkJob | None) -> Iterator[None]:
    """Handle signals in a program; other threads and interactive interpreters do it themselves."""
    if threading.current_thread() is threading.main_thread() and not hasattr(sys, "ps1"):
        with exit_on_signals(watcher, on_flink, _PROG, only_unhandled=True):
            yield
    else:
        yield


def _flink_config(runner: Any, options: dict[str, Any]) -> FlinkConfig:
    """Return the options of Flink. Raises ConfigError for unknown ones, and for other types."""
    expect_one_of("runner", runner, ("direct", "flink"))
    known = ("runner", "workers", "progress", "beam_options", *_FLINK)
    for name, value in options.items():
        if name not in _FLINK:
            takes = f"expected some of {', '.join(known)}"
            raise unknown_option("recordmill.run", name, known, takes)
        if runner != "flink" and value != _FLINK[name].default:
            raise ConfigError(f"{name}: has no effect with runner='direct'; use runner='flink'")
        default = _FLINK[name].default
        if name == "environment":
            if value is not None:
                expect_one_of(name, value, get_args(Environment))
        elif name in ("parallelism", "stall_timeout"):
            if value is not None or default is not None:
                expect_whole(name, value, least=1)
        elif name == "retries":
            expect_whole(name, value, least=0)
        elif isinstance(default, bool):
            if not isinstance(value, bool):
                raise ConfigError(f"{name}: expected True or False, got {value!r}")
        elif value is not None and not isinstance(value, str):
            raise ConfigError(f"{name}: expected text, got {value!r}")
    return FlinkConfig(**options)
