"""What peers with TensorFlow share: a tf.train.Example as its guides put it together."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf  # type: ignore[import-untyped]

from benchmarks.rows import NUMBERS


def make_example(values: Sequence[float], label: int) -> tf.train.Example:
    """values: scaled, in the order of `NUMBERS`."""
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
        for name, value in zip(NUMBERS, values, strict=True)
    }
    features["label"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
    return tf.train.Example(features=tf.train.Features(feature=features))
