"""Datasets as TensorFlow reads them."""

import os

import tensorflow as tf

from recordmill.format.schema import feature_spec
from tests.image_runs import Made


def parse(made: Made, split: str) -> list[dict[str, tf.Tensor]]:
    """Parse a split with TensorFlow by the declared features."""
    manifest = made.manifest
    spec = {
        name: tf.io.VarLenFeature(tf.as_dtype(feature.dtype))
        if feature.shape is None
        else tf.io.FixedLenFeature(feature.shape, tf.as_dtype(feature.dtype))
        for name, feature in feature_spec(manifest.features).items()
    }
    files = [os.fspath(made.folder / shard.file) for shard in manifest.splits[split].shards]
    dataset = tf.data.TFRecordDataset(files, manifest.compression.upper().replace("NONE", ""))
    return list(dataset.map(lambda example: tf.io.parse_single_example(example, spec)))
