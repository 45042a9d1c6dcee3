"""One run of the whole road over synthetic references; `benchmarks.scale` measures it from outside.

python -m benchmarks.run_references ROWS OUTPUT
"""

from __future__ import annotations

import sys
import time

from benchmarks.references import Counted, NumberEncoder
from pipelines.config import CommonConfig
from pipelines.job import Job
from pipelines.road import Road
from recordmill.pool import close_shared_pool
from runners import direct
from transforms.kind import Kind

_CLASSES = 1000
_SHARDS = 64
_WORKERS = 2


def main(rows: int, output: str) -> None:
    config = CommonConfig(
        input="/synthetic",
        output=output,
        balance="oversample",
        num_shards=_SHARDS,
        workers=_WORKERS,
    )
    source = Counted(rows=rows, classes=_CLASSES)
    started = listed = time.perf_counter()

    def run_pipeline(road: Road) -> None:
        nonlocal listed
        listed = time.perf_counter()
        direct.run(road.build, workers=_WORKERS)

    job = Job(config, Kind(name="numbers", source=source, encoder=NumberEncoder()))
    try:
        outcome = job.run(run_pipeline, on_listed=lambda _: None)
    finally:
        close_shared_pool()
    if outcome.status != "published":
        sys.exit(f"expected a published dataset, got {outcome.status}: {outcome.verdict}")
    ended = time.perf_counter()
    print(f"listing {listed - started:.1f} s, pipeline {ended - listed:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
