"""What Flink costs beside the local runner, and what a job takes there in memory.

    python -m benchmarks.flink                              all of it, at full size
    python -m benchmarks.flink --only pictures --pictures 2000 --runs 1
    python -m benchmarks.flink --only references --rows 100000
    python -m benchmarks.flink --only payload --gigabytes 1

On a standalone cluster on loopback that is up before the clock runs: a JobManager, a TaskManager of
two slots, and a pool of Python workers. pictures: a dataset of them, on the cluster and by
the local runner with two workers, in alternation. references: 1,000,000 synthetic ones through
plan, balance, shuffle and a writer of tiny records. payload: batches of 5 GB in all in a pipeline
of one's own, on a TaskManager of 1.5 GB and by the local runner; both have to give the same
dataset. Needs `make flink flink-job-server`.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.contest import Contender, alternate, medians, table
from benchmarks.flink_cluster import FlinkCluster, on_flink, worker_pool
from benchmarks.images import check, copy_photos, ours
from benchmarks.measure import FailedError, Measured, bar, machine, python, run, two_cores
from benchmarks.payload import BYTES, ROWS
from benchmarks.references import check_written
from recordmill.format.manifest import Manifest, load
from recordmill.storage.files import Location

_GIB = 1 << 30
_PICTURES = 10_000
_PICTURES_BAR = 1.15  # Flink over the local runner
_REFERENCES = 1_000_000
_GIGABYTES = 5.0
_SMALL = "1536m"  # a TaskManager's memory, as Flink writes it
_LOCAL_PEAK = 2 * _GIB


@contextmanager
def _cluster(*, memory: str = "2g") -> Iterator[tuple[pathlib.Path, FlinkCluster, str]]:
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "cluster").mkdir()
        with FlinkCluster(folder / "cluster", memory=memory) as cluster, worker_pool() as pool:
            yield folder, cluster, pool


def pictures(count: int, runs: int) -> None:
    """Against the local runner."""
    with _cluster() as (folder, cluster, pool):
        options = [
            f"--{name.replace('_', '-')}={value}"
            for name, value in on_flink(cluster.master, pool).items()
        ]
        contenders = (
            Contender(name="direct", what="two local workers", command=ours("--workers", 2)),
            Contender(
                name="flink",
                what="Flink, two slots",
                command=ours(*options),
                beside=cluster.processes,
            ),
        )
        source = folder / "input"
        copy_photos(count, source)
        all_there = functools.partial(check, pictures=count)
        results = alternate(contenders, source=source, check=all_there, runs=runs)
    print(f"\n{count:,} pictures, {runs} runs of each in alternation\n")
    print(table(contenders, results, records=count, unit="pictures"))
    print(f"\n- memory on Flink: {_shares(results['flink'][0])}")
    found = medians(results)
    print(
        bar("Flink / local runner", found["flink"] / found["direct"], at_most=_PICTURES_BAR),
        flush=True,
    )


def references(rows: int) -> None:
    """Many that cost nothing."""
    with _cluster() as (folder, cluster, pool):
        command = python("benchmarks.run_references", rows, folder / "out", cluster.master, pool)
        measured = run(command, memory=True, beside=cluster.processes)
        check_written(folder / "out", rows)
    print(f"\n{rows:,} references on Flink: {measured.wall:.1f} s wall, {_shares(measured)}")


def payload(gigabytes: float) -> None:
    """More than fits."""
    batches = round(gigabytes * 1e9 / (ROWS * BYTES))
    with _cluster(memory=_SMALL) as (folder, cluster, pool):
        command = python("benchmarks.run_payload", batches, folder / "out", cluster.master, pool)
        there = run(command, memory=True, beside=cluster.processes)
        expected = _checked(folder / "out", batches)
    print(f"\n{gigabytes:g} GB of payload, TaskManager of {_SMALL}: {there.wall:.1f} s wall")
    print(f"- memory: {_shares(there)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as name:
        output = pathlib.Path(name, "out")
        here = run(python("benchmarks.run_payload", batches, output), memory=True)
        if _checked(output, batches) != expected:
            raise FailedError("the dataset is another one than that of Flink")
    print(f"- by the local runner: {here.wall:.1f} s wall, the same dataset")
    print(bar("peak GiB", here.peak / _GIB, at_most=_LOCAL_PEAK / _GIB), flush=True)


def _checked(output: pathlib.Path, batches: int) -> Manifest:
    run(python("recordmill", "verify", "--dataset", output), memory=False)
    manifest = load(Location.parse(str(output)))
    if manifest.ledger.records.written != batches * ROWS:
        raise FailedError(f"expected {batches * ROWS} records, got {manifest.ledger}")
    return manifest


def _shares(measured: Measured) -> str:
    shares = ", ".join(f"{name} {size / 2**20:.0f}" for name, size in measured.peaks.items())
    return f"peak {measured.peak / 2**20:.0f} MiB ({shares})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["pictures", "references", "payload"])
    parser.add_argument("--pictures", type=int, default=_PICTURES)
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each, of pictures")
    parser.add_argument("--rows", type=int, default=_REFERENCES, help="of references")
    parser.add_argument("--gigabytes", type=float, default=_GIGABYTES, help="of payload")
    arguments = parser.parse_args()
    two_cores()
    print(machine())
    if arguments.only in (None, "pictures"):
        pictures(arguments.pictures, arguments.runs)
    if arguments.only in (None, "references"):
        references(arguments.rows)
    if arguments.only in (None, "payload"):
        payload(arguments.gigabytes)


if __name__ == "__main__":
    main()
