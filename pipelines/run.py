"""Runs a job as a person or a scheduler sees it: progress, signals, words for what went wrong."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from recordmill.errors import RunError
from recordmill.format.manifest import load
from recordmill.job import lock
from recordmill.job.staging import FOLDER
from recordmill.pipelines.job import Job, JobOutcome
from recordmill.pipelines.options.config import CommonConfig
from recordmill.pipelines.road import Road
from recordmill.pipelines.watch import JobProgress
from recordmill.processes.pool import kill_shared_pool, process_count
from recordmill.profile import drift, statistics_file
from recordmill.runners import direct
from recordmill.runners.failures import strip_stage
from recordmill.runners.progress import Watcher
from recordmill.storage.files import shown
from recordmill.transforms.checks.violations import too_far
from recordmill.transforms.model.data_type import DataType, RowSource

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recordmill.runners.flink.job import FlinkJob


def run(config: CommonConfig, kind: DataType, beam_options: Sequence[str], *, prog: str) -> int:
    """Runs a job to its end and returns its exit code.

    Raises:
      ConfigError, RunError
    """
    started = time.monotonic()
    job = Job(config, kind)
    job.check_output()
    on_flink = None if config.runner == "direct" else _on_flink(config, job, beam_options, prog)
    progress = JobProgress(job.staging, waiting=on_flink.waiting if on_flink else None)

    def run_pipeline(road: Road) -> None:
        if on_flink is None:
            try:
                direct.run(
                    road.build, workers=process_count(config.workers), beam_options=beam_options
                )
            except RunError as error:
                raise RunError(strip_stage(str(error))) from error
            return
        if config.detach:
            lock.leave_to(job.output / FOLDER, on_flink.url, on_flink.id)
        try:
            on_flink.run(road.build, activity=progress.poll)
        except BaseException:
            lock.end_detached(job.output / FOLDER)
            raise

    watcher = Watcher(progress.poll, quiet=config.quiet)
    with _ended_by_signals(watcher, on_flink, prog), watcher:
        outcome = job.run(run_pipeline, on_listed=progress.listed, is_running=_is_running)
    if not config.quiet:
        of_source = kind.source.notes if isinstance(kind.source, RowSource) else ()
        for note in (*of_source, *job.asked.notes):
            print(f"{prog}: note: {note}", file=sys.stderr)
        _say(outcome, job, seconds=time.monotonic() - started)
    if outcome.status == "detached" and on_flink is not None:
        # What a script goes on with, --quiet or not.
        print(f"submitted to {on_flink.url}: job {on_flink.id}")
    if outcome.verdict is not None:
        from recordmill.pipelines.terminal import report

        table = report.rejects_table(report.sum_up(outcome.rejects))
        if table is not None:
            report.show(table, stream=sys.stderr)
        print(f"{prog}: error: {outcome.verdict.message}", file=sys.stderr)
        return outcome.verdict.code
    return 0


def _on_flink(config: CommonConfig, job: Job, beam_options: Sequence[str], prog: str) -> FlinkJob:
    from recordmill.runners.flink.job import FlinkJob
    from recordmill.runners.flink.options import FlinkOptions

    name = config.job_name or f"{prog.replace(' ', '-')}-{job.output.name}"
    options = FlinkOptions(
        master=config.flink_master,
        environment=config.environment,
        environment_config=config.environment_config,
        parallelism=config.parallelism,
        job_name=name,
        job_server_jar=config.flink_job_server_jar,
        detach=config.detach,
        stall_seconds=config.stall_timeout,
        imports=["recordmill.pipelines.road", *job.kind.modules],
        beam=tuple(beam_options),
    )
    return FlinkJob(options, workers=process_count(config.workers))


def _is_running(cluster: str, job: str) -> bool:
    from recordmill.runners.flink.rest import Cluster, ClusterError

    try:
        return Cluster(cluster).is_running(job)
    except ClusterError as error:
        raise RunError(
            f"the output was left to the Flink job {job}, and whether that still runs cannot be"
            f" asked: {error}. If the cluster is gone for good, remove {lock.DETACHED} from"
            f" {FOLDER} in the output"
        ) from error


def _say(outcome: JobOutcome, job: Job, *, seconds: float) -> None:
    # Tables take a tenth of a second to import, which who wants --quiet need not wait for.
    from recordmill.pipelines.terminal import report

    plan = None if outcome.plan is None else report.PlanView.from_json(outcome.plan)
    match outcome.status:
        case "planned" if plan is not None:
            report.show(report.plan_table(plan))
        case "inferred":
            print(
                f"a schema of the input is in {job.config.infer_schema}:"
                " edit it, and give it as --schema"
            )
        case "unchanged" if outcome.resumed:
            report.show(report.closing(load(job.output), output=shown(job.output)))
            print("This run finished the publishing of an interrupted one; nothing is left to do")
        case "unchanged":
            print(f"nothing has changed since {shown(job.output)} was written; nothing to do")
        case "published":
            report.show(
                report.closing(
                    load(job.output),
                    output=shown(job.output),
                    plan=plan,
                    rejects=outcome.rejects,
                    seconds=seconds,
                    distances=_distances(job),
                )
            )


def _distances(job: Job) -> list[RenderableType]:
    """How far the splits of a dataset are apart, and how far it is from the one compared with."""
    from rich.text import Text

    from recordmill.pipelines.terminal import distances

    slices = statistics_file.read(job.output, load(job.output))
    if slices is None:
        return []
    asked = job.asked
    moved = None
    if asked.compared is not None:
        moved = drift.drift(statistics_file.parse(asked.compared), slices)
    tables = distances.tables(drift.skew(slices), moved, other=job.config.compare_with)
    if moved is not None and asked.rules is not None:
        tables += [Text(f"Warning: {one}") for one in too_far(moved, asked.rules)]
    return tables


@contextmanager
def _ended_by_signals(watcher: Watcher, on_flink: FlinkJob | None, prog: str) -> Iterator[None]:
    """SIGINT and SIGTERM end the process at once: staging is made to be left at any moment.

    A job on Flink is cancelled before, or it would go on.
    """

    def end(number: int, _: FrameType | None) -> None:
        for again in before:
            signal.signal(again, signal.SIG_IGN)
        watcher.__exit__(None, None, None)
        if on_flink is not None:
            try:
                on_flink.cancel()
            except RunError as error:
                print(f"{prog}: {error}", file=sys.stderr)
        print(
            f"{prog}: stopped by {signal.Signals(number).name}; the same command continues",
            file=sys.stderr,
            flush=True,
        )
        # Right before the end: the threads that wait for these processes would tell of their death.
        kill_shared_pool()
        os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
