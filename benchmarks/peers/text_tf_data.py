"""The loop of TensorFlow's guides: TextVectorization learns its vocabulary with `adapt` and makes
the ids in tf.data, TFRecordWriter writes.

Words are what its defaults make them: lower case, punctuation taken out, split at whitespace.
"""

from __future__ import annotations

import os
import pathlib
import sys

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

import tensorflow as tf  # type: ignore[import-untyped]

from benchmarks.documents import LENGTH, VOCABULARY
from benchmarks.peers.text_work import LABELS, make_example

_BATCH = 1024


def split(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Labels and texts, string[n] each."""
    columns = tf.strings.split(lines, "\t").to_tensor(shape=[None, 2])
    return columns[:, 0], columns[:, 1]


def main(source: str, output: str) -> None:
    rows = tf.data.TextLineDataset(source).skip(1).batch(_BATCH)
    rows = rows.map(split, num_parallel_calls=tf.data.AUTOTUNE)
    vectorize = tf.keras.layers.TextVectorization(
        max_tokens=VOCABULARY + 2,  # which counts padding and the unknown
        output_sequence_length=LENGTH,
    )
    vectorize.adapt(rows.map(lambda label, text: text))
    numbers = tf.keras.layers.StringLookup(vocabulary=LABELS, num_oov_indices=0)

    def encode(label: tf.Tensor, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tokens = vectorize(text)
        mask = tf.cast(tokens != 0, tf.int64)
        return tokens, mask, tf.reduce_sum(mask, axis=1), numbers(label)

    encoded = rows.map(encode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    pathlib.Path(output).mkdir()
    with tf.io.TFRecordWriter(f"{output}/all.tfrecord") as writer:
        for batch in encoded.as_numpy_iterator():
            for row in zip(*(column.tolist() for column in batch), strict=True):
                writer.write(make_example(*row).SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
