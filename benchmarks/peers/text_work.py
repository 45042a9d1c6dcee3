"""What peers with TensorFlow share: a tf.train.Example as its guides put it together."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf  # type: ignore[import-untyped]

LABELS = ["ham", "spam"]


def integers(values: Sequence[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def make_example(
    tokens: Sequence[int], mask: Sequence[int], length: int, label: int
) -> tf.train.Example:
    features = {
        "tokens": integers(tokens),
        "tokens/mask": integers(mask),
        "tokens/length": integers([length]),
        "label": integers([label]),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))
