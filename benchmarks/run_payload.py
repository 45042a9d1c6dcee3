"""One run of the pipeline of `benchmarks.payload`; others measure it from outside.

python -m benchmarks.run_payload BATCHES OUTPUT [FLINK_MASTER POOL]
"""

from __future__ import annotations

import functools
import sys

from benchmarks import payload
from benchmarks.flink_cluster import on_flink
from recordmill.processes.pool import close_shared_pool
from recordmill.runners import direct
from recordmill.runners.flink.job import FlinkJob
from recordmill.runners.flink.options import FlinkOptions


def main(batches: int, output: str, *cluster: str) -> None:
    build = functools.partial(payload.build, batches=batches, output=output)
    if not cluster:
        try:
            direct.run(build, workers=payload.WORKERS)
        finally:
            close_shared_pool()
        return
    given = on_flink(*cluster)
    options = FlinkOptions(
        master=given["flink_master"],
        environment=given["environment"],
        environment_config=given["environment_config"],
        job_server_jar=given["flink_job_server_jar"],
        imports=[payload.__name__],
    )
    FlinkJob(options, workers=payload.WORKERS).run(build)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
