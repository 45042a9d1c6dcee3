"""Jobs on one and two TaskManagers, one at a quarter of the speed, and a store with latency.

    sudo .venv/bin/python -m benchmarks.cluster
    sudo .venv/bin/python -m benchmarks.cluster --only images,one-shard --images 4000 --runs 1

The cluster is that of `make cluster-test`: machines that share nothing but the network, and a store
from which and to which the jobs run. After a few short jobs, a control group gives each
TaskManager, with its worker pool and its encoder processes, the same share of a core, so that both
fit beside the submitter, the JobManager and the store. Then jobs run in alternation in the slots of
one TaskManager and of both; or in the slots of both, with and without a quarter of the share for
one of them, or 20 ms until the store answers. A run on the submitter's machine alone must give the
same digest.
"""

from __future__ import annotations

import argparse
import compileall
import json
import pathlib
import signal
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.measure import PHOTOS, ROOT, FailedError, bar, machine, two_cores
from benchmarks.rows import DISTINCT_SCALED, FILE, write_distinct_rows
from tests.cluster.machines import SLOTS, TASK_MANAGERS, Machines
from tests.s3_server import BUCKET

_SHARE = 0.45  # of a core, for each TaskManager
_CLASSES = 10
_WARM_UPS = 8  # jobs, until both JVMs have compiled what these jobs need
_WARM_UP_FRACTION = 0.02  # of the records
_LIMIT = 3600  # s of a job
_SPLITS = ("--splits", "train=0.8,test=0.2", "--seed", "7")
_PHOTO_OPTIONS = ("--size", "128", *_SPLITS, "--num-shards")


class Way(NamedTuple):
    """The conditions of a job.

    managers: number of TaskManagers. share: CPU of the last TaskManager relative to the others.
    latency: seconds until the store answers.
    """

    managers: int = len(TASK_MANAGERS)
    share: float = 1.0
    latency: float = 0.0


class Case(NamedTuple):
    """Jobs of a data type under two conditions. at_least, at_most: bar of their ratio in time."""

    kind: str
    options: tuple[str, ...]
    ways: tuple[Way, Way]
    at_least: float | None = None
    at_most: float | None = None


_SPEEDUP = (Way(managers=1), Way())
_MANY_SHARDS = (*_PHOTO_OPTIONS, "train=48,test=12")
_CASES: Mapping[str, Case] = {
    "images": Case("images", _MANY_SHARDS, _SPEEDUP, at_least=1.85),
    "table": Case(
        "table",
        (
            *("--zscore", ",".join(DISTINCT_SCALED), "--one-hot", "city", "--vocabulary"),
            *("product", "--num-shards", "train=16,test=4", *_SPLITS),
        ),
        _SPEEDUP,
        at_least=1.7,
    ),
    "one-shard": Case("images", (*_PHOTO_OPTIONS, "train=1,test=1"), _SPEEDUP, at_least=1.7),
    "slow": Case("images", _MANY_SHARDS, (Way(share=0.25), Way()), at_most=2.0),
    "latency": Case("images", _MANY_SHARDS, (Way(latency=0.02), Way()), at_most=1.3),
}


def compare(
    machines: Machines, name: str, source: str, *, records: int, share: float, runs: int
) -> None:
    """Print the seconds of the runs of a case, in a table."""
    case = _CASES[name]
    digests = {_run(machines, case, source, f"{name}-local", None)[1]}
    seconds: dict[Way, list[float]] = {way: [] for way in case.ways}
    for run in range(runs):
        for number, way in [*enumerate(case.ways)][:: -1 if run % 2 else 1]:
            machines.hosts[TASK_MANAGERS[-1]].limit(share * way.share)
            with machines.store.answering(delay=way.latency):
                took, digest = _run(machines, case, source, f"{name}-{run}-{number}", way.managers)
            seconds[way].append(took)
            digests.add(digest)
            print(f"run {run}: {name}, {way}: {took:.1f} s", file=sys.stderr)
    if len(digests) != 1:
        raise FailedError(f"{name}: the datasets differ: {', '.join(sorted(digests))}")
    print(f"\n{name}: {records:,} records, {share:g} of a core each, {runs} runs in alternation\n")
    print("| TaskManagers | share of the last | latency, ms | s, median (least-most) |")
    print("|--:|--:|--:|--:|")
    medians = [statistics.median(seconds[way]) for way in case.ways]
    for way, median in zip(case.ways, medians, strict=True):
        spread = f"{median:.1f} ({min(seconds[way]):.1f}-{max(seconds[way]):.1f})"
        print(f"| {way.managers} | {way.share:g} | {1000 * way.latency:g} | {spread} |")
    print(f"\n- digest of all, and of the local runner: {digests.pop()}")
    ratio = medians[0] / medians[1]
    found = bar(f"{name}, first / second", ratio, at_least=case.at_least, at_most=case.at_most)
    print(found, flush=True)


def _run(
    machines: Machines,
    case: Case,
    source: str,
    output: str,
    managers: int | None,
    *,
    is_timed: bool = True,
) -> tuple[float, str]:
    """Run a job, and return its seconds and the digest of the dataset, which is deleted.

    managers: number of TaskManagers whose slots it takes; None for the local runner.
    is_timed: check that the job ran on all of them; for short jobs Flink reports this too late.
    """
    kind, options = case.kind, (*case.options, "--quiet")
    target = machines.uri(output)
    before = _jobs(machines)
    if managers is None:
        places = ("--input", source, "--output", target)
        command = machines.recordmill(kind, *places, *options)
    else:
        slots = ("--parallelism", str(SLOTS * managers))
        command = machines.submit(kind, *options, *slots, source=source, output=target)
    ended = command.end(_LIMIT)
    if ended.code != 0:
        raise FailedError(ended.err)
    if managers is not None and is_timed:
        [job] = _jobs(machines) - before
        if len(took_part := _took_part(machines, job)) != managers:
            raise FailedError(f"expected {managers} TaskManagers at work, got {took_part}")
    found = machines.store.get(f"{BUCKET}/{output}/dataset.json")
    assert found is not None
    for name in machines.store.names(f"{BUCKET}/{output}/"):
        machines.store.delete(name)
    return ended.seconds, json.loads(found.content)["digest"]


def _jobs(machines: Machines) -> set[str]:
    with machines.flink() as flink:
        return set(flink.jobs())


def _took_part(machines: Machines, job: str) -> set[str]:
    """Return the TaskManagers that ran tasks of a job, as of up to 3 s before its end."""
    with machines.flink() as flink:

        def get(path: str) -> Any:
            with urllib.request.urlopen(f"{flink.url}/v1/jobs/{job}{path}") as answer:
                return json.load(answer)

        found = {
            manager["host"].partition(":")[0]
            for vertex in get("")["vertices"]
            for manager in get(f"/vertices/{vertex['id']}/taskmanagers")["taskmanagers"]
        }
        return found - {"(unassigned)"}


def _fill(machines: Machines, kind: str, count: int) -> str:
    """Put an input of so many records into the store, and return its URI."""
    folder = f"{kind}-{count}"
    if kind == "images":
        photos = [path.read_bytes() for path in sorted(PHOTOS.rglob("*.jpg"))]
        for i in range(count):
            name = f"{folder}/class-{i % _CLASSES}/{i:06d}.jpg"
            machines.store.put(f"{BUCKET}/{name}", photos[i % len(photos)])
        return machines.uri(folder)
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as name:
        path = pathlib.Path(name, FILE)
        write_distinct_rows(count, path)
        return machines.fill(folder, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(_CASES), help="cases, joined with commas")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=_SHARE, help="of a core, per TaskManager")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each")
    arguments = parser.parse_args()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)  # KeyboardInterrupt ends the machines
    # The users of the machines may not write bytecode: each process would compile all modules.
    compileall.compile_dir(ROOT / "recordmill", quiet=1)
    two_cores()
    print(machine())
    counts = {"images": arguments.images, "table": arguments.rows}
    cases = arguments.only.split(",")
    kinds = {_CASES[name].kind: name for name in cases}
    with Machines() as machines:
        for kind, name in kinds.items():
            few = _fill(machines, kind, round(counts[kind] * _WARM_UP_FRACTION))
            for number in range(_WARM_UPS):
                output, both = f"{kind}-warm-{number}", len(TASK_MANAGERS)
                _run(machines, _CASES[name], few, output, both, is_timed=False)
        for manager in TASK_MANAGERS:
            machines.hosts[manager].limit(arguments.share)
        sources = {kind: _fill(machines, kind, counts[kind]) for kind in kinds}
        for name in cases:
            kind = _CASES[name].kind
            compare(
                machines, name, sources[kind],
                records=counts[kind], share=arguments.share, runs=arguments.runs,
            )  # fmt: skip


if __name__ == "__main__":
    main()
