"""Datasets as TensorFlow reads them."""

import os

import tensorflow as tf

from recordmill.format.schema import feature_spec
from tests.image_runs import Made


def parse(made: Made, split: str) -> list[dict[str, tf.Tensor]]:
    """Parse a split with TensorFlow by the declared features."""
    spec, dataset = _spec(made), _serialized(made, split)
    return list(dataset.map(lambda example: tf.io.parse_single_example(example, spec)))


def parse_at_once(made: Made, split: str) -> dict[str, tf.Tensor]:
    """Parse all records of a split as one batch."""
    (records,) = _serialized(made, split).batch(made.manifest.splits[split].records)
    return tf.io.parse_example(records, _spec(made))


def _spec(made: Made) -> dict[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]:
    return {
        name: tf.io.VarLenFeature(tf.as_dtype(feature.dtype))
        if feature.shape is None
        else tf.io.FixedLenFeature(feature.shape, tf.as_dtype(feature.dtype))
        for name, feature in feature_spec(made.manifest.features).items()
    }


def _serialized(made: Made, split: str) -> tf.data.Dataset:
    manifest = made.manifest
    files = [os.fspath(made.folder / shard.file) for shard in manifest.splits[split].shards]
    return tf.data.TFRecordDataset(files, manifest.compression.upper().replace("NONE", ""))
