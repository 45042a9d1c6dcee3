"""A script with a source, a check, an encoder and functions of its own, which tests run.

python script_pipeline.py OUT [OPTIONS], as JSON
"""

import json
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping

import apache_beam as beam
import numpy as np
import pyarrow as pa

import recordmill
from recordmill.errors import ConfigError, Reason, RecordError, RunError
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    Check,
    Publish,
    Read,
    Rebalance,
    Reshuffle,
    RunSpec,
    WriteToTFRecord,
)
from recordmill.transforms.model.data_type import Context, Encoded, OutcomeCollector, RowOutcome
from recordmill.transforms.model.source import ListingPart

FACTOR = 3
REACHED = os.environ.get("REACHED")  # a file that the encoder makes before it waits for its end


def times_factor(value: int) -> int:
    return value * FACTOR


class Numbers:
    """Source of the numbers from 0."""

    unique_keys = True

    def __init__(self, count: int) -> None:
        self.count = count

    def scan(self) -> Iterator[ListingPart]:
        columns = {
            "__key__": pa.array([f"number {i}" for i in range(self.count)]),
            "__label__": pa.array([("even", "odd")[i % 2] for i in range(self.count)]),
            "__group__": pa.nulls(self.count, pa.string()),
            "__split__": pa.nulls(self.count, pa.string()),
            "number": pa.array(range(self.count)),
        }
        yield ListingPart(rows=pa.RecordBatch.from_pydict(columns))


class NotSeven:
    """Check that rejects the number 7."""

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        outcomes = OutcomeCollector("check")
        pairs = zip(rows["__key__"].to_pylist(), rows["number"].to_pylist(), strict=True)
        for row, (key, number) in enumerate(pairs):
            if number == 7:
                outcomes.leave_out(key, RecordError(Reason.BAD_VALUE, "it is seven"))
            else:
                outcomes.keep(row)
        return outcomes.result()


class NumberEncoder:
    """Encoder of a number, to which it applies a function."""

    def __init__(self, function) -> None:
        self.function = function

    def features(self, rows: pa.Schema, context: Context) -> Features:
        return {"number": Feature(dtype="int64")}

    def versions(self) -> Mapping[str, str]:
        return {}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        if REACHED:
            pathlib.Path(REACHED).touch()
            signal.pause()
        values = [self.function(number) for number in rows["number"].to_pylist()]
        columns = pa.RecordBatch.from_pydict({"number": pa.array(values, pa.int64())})
        return Encoded(columns=columns, rows=RowOutcome(kept=np.arange(len(rows))))


output, *rest = sys.argv[1:]
options = json.loads(rest[0]) if rest else {}
run = RunSpec(
    output=output,
    encoder=NumberEncoder(times_factor),
    splits={"train": 0.5, "test": 0.5},
    max_reject_fraction=options.pop("max_reject_fraction", 0.5),
    seed=1,
)


def build(pipeline: beam.Pipeline) -> None:
    (
        pipeline
        | Read.from_source(Numbers(20), run)
        | Check(check=NotSeven())
        | AssignSplits()
        | Analyze()
        | Rebalance()
        | Reshuffle()
        | WriteToTFRecord()
        | Publish()
    )


# Encoder processes are new interpreters then, and not forks of this process.
threading.Thread(target=threading.Event().wait, daemon=True).start()
try:
    recordmill.run(build, **options)
except (ConfigError, RunError) as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
