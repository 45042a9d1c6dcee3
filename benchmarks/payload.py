"""Rows that carry their data: a custom pipeline whose batches exceed any memory."""

import apache_beam as beam
import numpy as np
import pyarrow as pa

from benchmarks.references import ColumnEncoder
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    Publish,
    Rebalance,
    Reshuffle,
    RunSpec,
    StageBatches,
    WriteToTFRecord,
)
from recordmill.transforms.model import batch

ROWS = 1024  # of a batch
BYTES = 16 << 10  # of a row
_SHARD = 128 << 20  # bytes
WORKERS = 2


def make_batch(number: int) -> pa.RecordBatch:
    """Random bytes, the same for the same number."""
    data = pa.py_buffer(np.random.default_rng(number).bytes(ROWS * BYTES))
    ends = pa.py_buffer(np.arange(0, ROWS * BYTES + 1, BYTES, dtype=np.int32))
    columns = {
        batch.KEY: pa.array([f"{number:06d}-{i:04d}" for i in range(ROWS)]),
        batch.LABEL: pa.nulls(ROWS, pa.string()),
        "payload": pa.Array.from_buffers(pa.binary(), ROWS, [None, ends, data]),
    }
    return pa.RecordBatch.from_pydict(columns)


def build(pipeline: beam.Pipeline, *, batches: int, output: str) -> None:
    """Make the batches on the workers and write all of them."""
    run = RunSpec(
        output=output,
        encoder=ColumnEncoder(column="payload", dtype="string"),
        splits={"train": 1},
        num_shards=-(-batches * ROWS * BYTES // _SHARD),
        workers=WORKERS,
    )
    (
        pipeline
        | "Numbers" >> beam.Create(range(batches))
        | "SpreadNumbers" >> beam.Reshuffle()
        | "MakeBatch" >> beam.Map(make_batch).with_output_types(pa.RecordBatch)
        | StageBatches(run)
        | AssignSplits()
        | Analyze()
        | Rebalance()
        | Reshuffle()
        | WriteToTFRecord()
        | Publish()
    )
