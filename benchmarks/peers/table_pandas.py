"""The loop of TensorFlow's guides: pandas reads and scales whole columns, then a tf.train.Example
of each row goes to TFRecordWriter.

All rows stay in memory and in their order; nothing is split.
"""

from __future__ import annotations

import os
import pathlib
import sys

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

import pandas as pd  # type: ignore[import-untyped]
import tensorflow as tf  # type: ignore[import-untyped]

from benchmarks.peers.table_work import make_example
from benchmarks.rows import LABEL, LABELS, NUMBERS


def main(source: str, output: str) -> None:
    rows = pd.read_csv(source)
    numbers = rows[list(NUMBERS)]
    scaled = (numbers - numbers.mean()) / numbers.std(ddof=0)
    labels = (rows[LABEL] == LABELS[1]).astype(int)
    pathlib.Path(output).mkdir()
    with tf.io.TFRecordWriter(f"{output}/all.tfrecord") as writer:
        for values, label in zip(scaled.to_numpy().tolist(), labels.tolist(), strict=True):
            writer.write(make_example(values, label).SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
