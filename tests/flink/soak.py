"""Flink at length: one dataset wherever it is made, and after every kill.

    python -m tests.flink.soak                  all environments, 1, 2 and 4 slots; 5 kills each
    python -m tests.flink.soak --parallelism 2 --kills 1

Sameness: the photos of clothing, balanced and augmented, plain and gzipped, by the local runner, an
embedded Flink, and a cluster of two TaskManagers with two slots each, its workers in a pool and in
processes. Kills: of all Python workers, and of the TaskManager with another one started, after ever
more shards; the job ends well by itself, or the same command continues it. Needs `make flink
flink-job-server`.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import tempfile
import time
from collections.abc import Sequence

from benchmarks.flink_cluster import FlinkCluster, wait_for_end_of_workers, worker_pool
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from tests.flink.jobs import (
    FOLDER,
    LARGE,
    LONG,
    Job,
    disturbed,
    kill_workers,
    replace_taskmanager,
)
from tests.soak.command import PHOTOS, end

_STEP = 4  # shards that are finished before the first kill; before each one after, so many more


def compare(folder: pathlib.Path, parallelisms: Sequence[int]) -> list[str]:
    """Prints a row per run; returns the differences."""
    (folder / "cluster").mkdir()
    differences = []
    print("| run | compression | slots | s | digest |\n|---|---|--:|--:|---|")
    with (
        FlinkCluster(folder / "cluster", taskmanagers=2) as cluster,
        worker_pool() as pool,
    ):
        for compression in ("none", "gzip"):
            options = (*LARGE, "--compression", compression)
            expected = Job(folder / f"direct-{compression}", *options, source=PHOTOS)
            _print_row("local runner", compression, 2, _finish(expected), expected)
            for slots in parallelisms:
                for name in ("embedded", "loopback", "process", "external"):
                    job = Job(folder / "out", *options, source=PHOTOS)
                    flags = ["--parallelism", str(slots)]
                    if name == "external":
                        flags += ["--environment-config", pool]
                    embedded = name == "embedded"
                    job = job.on_flink(*flags) if embedded else job.on(cluster, name, *flags)
                    _print_row(name, compression, slots, _finish(job), job)
                    if job.files != expected.files:
                        differences.append(f"{name}, {compression}, {slots} slots")
                    shutil.rmtree(job.output)
    return differences


def _finish(job: Job) -> float:
    started = time.monotonic()
    job.finish()
    return time.monotonic() - started


def _print_row(name: str, compression: str, slots: int, seconds: float, job: Job) -> None:
    digest = load(Location.parse(str(job.output))).digest
    print(f"| {name} | {compression} | {slots} | {seconds:.0f} | {digest} |", flush=True)


def kill(folder: pathlib.Path, times: int) -> list[str]:
    """Prints a row per kill; returns the differences."""
    expected = Job(folder / "undisturbed", *LONG)
    expected.finish()
    differences = []
    print("\n| killed | after shards | ended | finished |\n|---|--:|--:|---|")
    for number in range(times):
        shards = _STEP * (number + 1)
        for name, strike in (("workers", kill_workers), ("TaskManager", replace_taskmanager)):
            where = folder / f"{name}-{number}"
            where.mkdir()
            with FlinkCluster(where) as cluster:
                job = Job(folder / "killed", *LONG).on(cluster, "process")
                code = disturbed(job, cluster, strike, shards=shards)
                same = job.files == expected.files
                clean = not (folder / "killed" / FOLDER).exists()
            # Beam keeps the worker of a task that is cancelled as it starts, till the cluster ends.
            wait_for_end_of_workers()
            word = "the same" if same and clean else "DIFFERENT"
            print(f"| {name} | {shards} | {code} | {word} |", flush=True)
            if word != "the same":
                differences.append(f"{name} killed after {shards} shards")
            shutil.rmtree(folder / "killed")
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parallelism", default="1,2,4", help="slots, one number or several")
    parser.add_argument("--kills", type=int, default=5, help="of each kind")
    arguments = parser.parse_args()
    differences: list[str] = []
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
        if arguments.parallelism:
            slots = [int(number) for number in arguments.parallelism.split(",")]
            differences += compare(pathlib.Path(folder), slots)
        differences += kill(pathlib.Path(folder), arguments.kills)
    end(differences)


if __name__ == "__main__":
    main()
