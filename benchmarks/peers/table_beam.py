"""The pipeline that Beam's own parts make, row by row: ReadFromText, Map, CombineGlobally for mean
and deviation, and WriteToTFRecord of tf.train.Example.

On the same runner as ours, with the one worker that Beam comes with.
"""

import os
import sys
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

import apache_beam as beam
import numpy as np

from benchmarks.peers.table_work import make_example
from benchmarks.rows import LABELS
from recordmill.runners import direct

Row = tuple[list[float], int]  # numbers and label
Scale = tuple[np.ndarray, np.ndarray]  # mean and deviation, float64[6]


class FindScale(beam.CombineFn):
    """Adds up values and their squares."""

    def create_accumulator(self) -> Any:
        return 0, 0.0, 0.0

    def add_input(self, accumulator: Any, row: Row) -> Any:
        count, total, squares = accumulator
        values = np.array(row[0])
        return count + 1, total + values, squares + values * values

    def merge_accumulators(self, accumulators: Any) -> Any:
        return tuple(map(sum, zip(*accumulators, strict=True)))

    def extract_output(self, accumulator: Any) -> Scale:
        count, total, squares = accumulator
        mean = total / count
        return mean, np.sqrt(squares / count - mean * mean)


def parse(line: str) -> Row:
    _, *values, label = line.split(",")
    return list(map(float, values)), int(label == LABELS[1])


def encode(row: Row, scale: Scale) -> bytes:
    values, label = row
    mean, deviation = scale
    scaled = (np.array(values) - mean) / deviation
    return make_example(scaled.tolist(), label).SerializeToString()


def main(source: str, output: str) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        rows = (
            pipeline
            | "Read" >> beam.io.ReadFromText(source, skip_header_lines=1)
            | "Parse" >> beam.Map(parse)
        )
        scale = beam.pvalue.AsSingleton(rows | "FindScale" >> beam.CombineGlobally(FindScale()))
        (
            rows
            | "Encode" >> beam.Map(encode, scale)
            | "Write" >> beam.io.WriteToTFRecord(f"{output}/all.tfrecord")
        )

    direct.run(build, workers=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
