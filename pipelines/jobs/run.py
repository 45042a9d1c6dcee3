"""Runs a job from the command line: progress, signals, the closing tables and error messages."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from recordmill import strict_json
from recordmill.errors import RunError, StorageError
from recordmill.format.manifest import JOB, JobContent, load
from recordmill.job import lock
from recordmill.job.staging import FOLDER, Staging
from recordmill.option_names import option_name
from recordmill.pipelines.earlier.published import warn_complete
from recordmill.pipelines.jobs.execution import exit_on_signals, make_flink_job, run_here
from recordmill.pipelines.jobs.job import Job
from recordmill.pipelines.jobs.job_outcome import JobOutcome
from recordmill.pipelines.jobs.plan_json import plan_json
from recordmill.pipelines.jobs.watch import JobProgress
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.printable import printable
from recordmill.processes import standard_streams
from recordmill.processes.pool import process_count
from recordmill.profile import drift, statistics_file
from recordmill.runners.progress import JobView, Snapshot, Watcher
from recordmill.storage import shared_places
from recordmill.storage.files import Location, shown
from recordmill.storage.machine_faults import machine_fault
from recordmill.transforms.checks.violations import drift_violations
from recordmill.transforms.model.data_type import DataType

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recordmill.pipelines.jobs.road import Road
    from recordmill.runners.flink.job import FlinkJob

_NO_CLUSTER = (
    f"If that cluster no longer exists, remove {lock.CLUSTER_JOB} from {FOLDER} in the output"
)


def run(
    config: CommonConfig, data_type: DataType, beam_options: Sequence[str], *, prog: str
) -> int:
    """Run a job to its end and return its exit code.

    beam_options: Beam's own options for Flink, each as `--name=value`. prog: starts each message,
    such as `recordmill images`.

    Raises:
      ConfigError: options, input or output cannot work.
      RunError: the job failed.
    """
    started = time.monotonic()
    job = Job(config, data_type)
    job.check_output()
    on_flink: FlinkJob | None = None
    progress = JobProgress(job.staging, waiting=lambda: on_flink.waiting() if on_flink else None)
    watcher = Watcher(progress.poll, quiet=config.quiet)

    def notice(message: str) -> None:
        watcher.say(f"{prog}: {printable(message)}")

    def activity() -> Snapshot | None:
        with contextlib.suppress(RunError):  # the job reads damaged files itself, and reports them
            return progress.poll()
        return None

    if config.runner == "flink":
        view = JobView(
            activity=activity,
            is_working=progress.is_writing,
            unanswered=progress.unanswered,
            notice=notice,
        )
        on_flink = _on_flink(config, job, view, beam_options, prog)

    has_begun = False

    def run_pipeline(road: Road) -> None:
        nonlocal has_begun
        has_begun = True
        if on_flink is None:
            run_here(road.build, workers=process_count(config.workers), checks=False)
            return
        if not config.quiet and (note := on_flink.note()) is not None:
            print(f"{prog}: note: {note}", file=sys.stderr)
        spec = dataclasses.replace(road.run, several_machines=bool(on_flink.url))
        with _recorded(job, on_flink) as record:
            on_flink.run(
                dataclasses.replace(road, run=spec).build,
                on_submit=record,
                check=(shared_places.find_unreachable, _shared_places(job)),
            )

    def follow(running: lock.ClusterJob) -> None:
        assert on_flink is not None, "only a run on its cluster follows a job"
        notice(f"following the Flink job {running.job}, which an earlier run has started")
        with _recorded(job, on_flink):
            on_flink.follow(running.job)

    try:
        with exit_on_signals(watcher, on_flink, prog), watcher:
            outcome = job.run(
                run_pipeline,
                on_listed=progress.listed,
                on_interpreted=(lambda facts: None) if config.quiet else _print_interpretation,
                follow=follow,
                is_running=functools.partial(_is_running, on_flink),
                private=on_flink is None or on_flink.is_private,
            )
    except StorageError as error:
        if not has_begun:
            raise
        raise StorageError(str(error)) from error  # exit code 1: the configuration was valid
    if outcome.status in ("published", "unchanged", "described"):
        standard_streams.make_stdout_optional()
    if outcome.leftovers:
        warn_complete(prog, outcome.leftovers)
    if not config.quiet:
        # The closing tables of a dataset end with its notes.
        if outcome.notes and outcome.status != "published":
            for note in outcome.notes:
                print(f"{prog}: note: {printable(note)}", file=sys.stderr)
        if not config.json:
            _print_outcome_if_readable(outcome, job, seconds=time.monotonic() - started, prog=prog)
    if outcome.status in ("published", "unchanged", "described", "repaired"):
        from recordmill.pipelines.earlier.report_file import update_report

        update_report(job.output, wanted=config.report, prog=prog, quiet=config.quiet)
    if config.json:
        strict_json.show(plan_json(outcome))
    if outcome.status == "detached" and on_flink is not None:
        # Printed with --quiet too, because scripts read it.
        print(f"submitted to {on_flink.url}: job {on_flink.id}")
    if outcome.verdict is not None:
        from recordmill.pipelines.terminal import report

        table = report.rejects_table(report.sum_up(outcome.rejects))
        if table is not None:
            report.show(table, stream=sys.stderr)
        print(f"{prog}: error: {printable(outcome.verdict.message)}", file=sys.stderr)
        return outcome.verdict.code
    return 0


def _on_flink(
    config: CommonConfig, job: Job, view: JobView, beam_options: Sequence[str], prog: str
) -> FlinkJob:
    earlier = lock.cluster_job(job.output / FOLDER)
    try:
        return make_flink_job(
            config,
            name=f"{prog.replace(' ', '-')}-{job.output.name}",
            workers=config.workers,
            imports=["recordmill.pipelines.jobs.road", *job.data_type.modules],
            beam_options=beam_options,
            view=view,
            earlier="" if earlier is None else earlier.cluster,
        )
    except RunError as error:
        from recordmill.runners.flink.standstill import GivenUpError

        if not isinstance(error, GivenUpError):
            raise
        raise RunError(f"{error}. {_NO_CLUSTER}") from error


@contextlib.contextmanager
def _recorded(job: Job, on_flink: FlinkJob) -> Iterator[Callable[[bool], None]]:
    """Yield a function that records the job on a cluster (`on_submit` of `FlinkJob.run`).

    The record is removed when the job has ended. It stays if the job is detached, or if the cluster
    does not say that it has ended.
    """
    folder = job.output / FOLDER

    def record(accepted: bool) -> None:
        lock.record_cluster_job(
            folder,
            lock.ClusterJob(
                cluster=on_flink.url,
                job=on_flink.id,
                run=job.id,
                detached=job.config.detach,
                accepted=accepted,
                needs_command=on_flink.needs_command,
            ),
        )

    def end() -> None:
        if on_flink.url and on_flink.has_ended:
            with contextlib.suppress(StorageError):  # the next run removes it
                lock.end_cluster_job(folder)

    with lock.released_by(end):
        try:
            yield record
        except BaseException:
            end()
            raise
        if not job.config.detach:
            end()


def _shared_places(job: Job) -> Mapping[str, str]:
    """Return {path or URI: option} of what the workers must be able to read."""
    found = {}
    for one in job.config.input:
        place = Location.parse(one.path)
        if place.is_local:
            found[shared_places.existing_part(place.local_path)] = option_name("input")
        else:
            found[str(place)] = option_name("input")
    return found | {str(job.staging.place("listing.json")): option_name("output")}


def _is_running(on_flink: FlinkJob | None, job: lock.ClusterJob) -> bool:
    """Return whether a job of an earlier run still runs, if this command names its cluster.

    The cluster is named by a file in the output, which others may have written. A job whose workers
    ended with its command is cancelled.
    """
    if on_flink is None or on_flink.url != job.cluster:
        raise RunError(
            f"the Flink job {job.job} at {job.cluster} holds the output, and this command does not"
            " name that cluster, so it cannot ask it: if you trust the cluster, pass --runner flink"
            f" --flink-master {job.cluster}; if it no longer exists, remove {lock.CLUSTER_JOB} from"
            f" {FOLDER} in the output"
        )
    try:
        running = on_flink.is_running(job.job, accepted=job.accepted)
        if running and job.needs_command:
            on_flink.cancel_other(job.job)
            return False
    except RunError as error:
        raise RunError(
            f"the Flink job {job.job} holds the output, and its cluster does not say whether it is"
            f" still running: {error}. {_NO_CLUSTER}"
        ) from error
    return running


def _print_interpretation(facts: Mapping[str, str]) -> None:
    width = max(map(len, facts))
    for name, fact in facts.items():
        print(f"{name.ljust(width)}  {printable(fact)}", file=sys.stderr)


def _print_outcome_if_readable(outcome: JobOutcome, job: Job, *, seconds: float, prog: str) -> None:
    try:
        _print_outcome(outcome, job, seconds=seconds)
    except (RunError, OSError, MemoryError) as error:
        if outcome.status != "published":
            raise
        warn_complete(prog, f"its summary cannot be shown: {machine_fault(error) or error}")


def _print_outcome(outcome: JobOutcome, job: Job, *, seconds: float) -> None:
    # Imported here because the tables take 0.1 s to import, and --quiet does not need them.
    from recordmill.pipelines.terminal import report

    plan = None if outcome.plan is None else report.PlanView.from_json(outcome.plan)
    match outcome.status:
        case "planned" if plan is not None:
            report.show(report.plan_table(plan, rejects=outcome.rejects))
        case "inferred":
            print(
                f"the inferred schema was written to {job.config.infer_schema}:"
                " edit it, then pass it as --schema"
            )
        case "unchanged" if outcome.resumed:
            facts = Staging(job.output).read_json(JOB, JobContent) or {}
            compared = facts.get("compared", ())
            report.show(
                report.closing(load(job.output), output=shown(job.output), compared=compared)
            )
            print("Publishing of an interrupted run was completed; there is nothing else to do")
        case "unchanged":
            checked = (
                "the contents of its files are those of its manifest"
                if job.config.verify
                else "sizes agree; run recordmill verify, or add --verify, to check contents"
            )
            print(f"nothing has changed since {shown(job.output)} was written: {checked}")
        case "described":
            print(f"the card of {shown(job.output)} was replaced; its shards are as before")
        case "repaired":
            names = ", ".join(outcome.repaired)
            print(f"damaged shards of {shown(job.output)} were written again: {names}")
        case "published":
            facts = Staging(job.output).read_json(JOB, JobContent) or {}
            report.show(
                report.closing(
                    load(job.output),
                    output=shown(job.output),
                    plan=plan,
                    rejects=outcome.rejects,
                    seconds=seconds,
                    distances=_distances(job),
                    reused=facts.get("reused"),
                    compared=facts.get("compared", ()),
                )
            )


def _distances(job: Job) -> list[RenderableType]:
    """Return tables of skew between the splits and, with --compare-with, of drift."""
    from rich.text import Text

    from recordmill.pipelines.terminal import distances

    request = job.schema_request
    is_compared = request.compared is not None
    slices = statistics_file.read(job.output, load(job.output), whole=is_compared)
    if slices is None:
        return []
    drifted = None
    if request.compared is not None:
        drifted = drift.drift(statistics_file.parse(request.compared), slices)
    other = job.config.compare_with or job.config.learned_from
    tables = distances.tables(drift.skew(slices), drifted, other=other)
    if drifted is not None and request.rules is not None:
        found = drift_violations(drifted, request.rules, "drift")
        tables += [Text(f"Warning: {one}") for one in found]
    return tables
