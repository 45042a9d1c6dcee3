"""Runs a job as a person or a scheduler sees it: progress, signals, words for what went wrong."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from pipelines import report
from pipelines.config import CommonConfig
from pipelines.job import Job, Outcome
from pipelines.road import Road
from pipelines.watch import JobProgress
from recordmill.errors import ConfigError, RunError
from recordmill.files import shown
from recordmill.manifest import load
from recordmill.pool import kill_shared_pool
from runners import direct
from runners.progress import Watcher
from transforms.kind import Kind

# What Beam adds to the message of an error: the name of a stage, which is no user's concern.
_STEP = re.compile(r" \[while running '.*'\]\Z", re.DOTALL)


def run(config: CommonConfig, kind: Kind, beam_options: Sequence[str], *, prog: str) -> int:
    """Runs a job to its end and returns its exit code.

    Raises:
      ConfigError, RunError
    """
    if config.runner != "direct":
        raise ConfigError(f"--runner {config.runner} is not in this version; leave it out")
    started = time.monotonic()
    job = Job(config, kind)
    job.check_output()
    workers = config.workers or len(os.sched_getaffinity(0))
    progress = JobProgress(job.staging)

    def run_pipeline(road: Road) -> None:
        try:
            direct.run(road.build, workers=workers, beam_options=beam_options)
        except RunError as error:
            raise RunError(_STEP.sub("", str(error))) from error

    watcher = Watcher(progress.poll, quiet=config.quiet)
    with _ended_by_signals(watcher, prog), watcher:
        outcome = job.run(run_pipeline, on_listed=progress.listed)
    if not config.quiet:
        _say(outcome, job, seconds=time.monotonic() - started)
    if outcome.verdict is not None:
        table = report.rejects_table(report.sum_up(outcome.rejects))
        if table is not None:
            report.show(table, stream=sys.stderr)
        print(f"{prog}: error: {outcome.verdict.message}", file=sys.stderr)
        return outcome.verdict.code
    return 0


def _say(outcome: Outcome, job: Job, *, seconds: float) -> None:
    plan = None if outcome.plan is None else report.PlanView.from_json(outcome.plan)
    match outcome.status:
        case "planned" if plan is not None:
            report.show(report.plan_table(plan))
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
                )
            )


@contextmanager
def _ended_by_signals(watcher: Watcher, prog: str) -> Iterator[None]:
    """SIGINT and SIGTERM end the process at once: staging is made to be left at any moment."""

    def end(number: int, _: FrameType | None) -> None:
        watcher.__exit__(None, None, None)
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
