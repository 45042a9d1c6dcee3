"""One run of the whole road over synthetic references; others measure it from outside.

python -m benchmarks.run_references ROWS OUTPUT [FLINK_MASTER POOL]
"""

from __future__ import annotations

import sys

from benchmarks.flink_cluster import on_flink
from benchmarks.references import ColumnEncoder, Counted
from recordmill.pipelines.jobs import run
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.processes.pool import close_shared_pool
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.files.input_paths import InputPath

_CLASSES = 1000
_SHARDS = 64
_WORKERS = 2


def main(rows: int, output: str, *cluster: str) -> int:
    config = CommonConfig(
        input=(InputPath("/synthetic"),),
        output=output,
        balance="oversample",
        num_shards=_SHARDS,
        workers=_WORKERS,
        **(on_flink(*cluster) if cluster else {}),
    )
    source = Counted(rows=rows, classes=_CLASSES)
    try:
        encoder = ColumnEncoder(column="value", dtype="int64")
        kind = DataType(name="numbers", source=source, encoder=encoder)
        return run.run(config, kind, (), prog="references")
    finally:
        close_shared_pool()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
