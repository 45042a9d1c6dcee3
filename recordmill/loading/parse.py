"""Parses serialized Examples into tensors, as the manifest declares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recordmill.errors import ConfigError
from recordmill.tfrecord.features import Feature, Features

Tensors = dict[str, Any]  # tf.Tensor or tf.RaggedTensor by the name of the feature

_DTYPES = {"int64": tf.int64, "float32": tf.float32, "string": tf.string}
# tf.io.decode_raw does not support these dtypes: the bits are decoded as another, and then cast.
_BITCAST = {"uint32": tf.int32, "uint64": tf.int64}


def make_parser(features: Features) -> Callable[[Any], Tensors]:
    """Return a function from string[n] of serialized Examples or SequenceExamples to tensors.

    It returns {feature: [n, ...]}; features whose length varies between records are ragged.
    """
    spec = {name: _spec(feature) for name, feature in features.items()}
    lists = {name: spec.pop(name) for name, feature in features.items() if feature.sequence}
    if not lists:
        return lambda payloads: dict(tf.io.parse_example(payloads, spec))

    def parse(payloads: Any) -> Tensors:
        context, steps, lengths = tf.io.parse_sequence_example(
            payloads, context_features=spec or None, sequence_features=lists
        )
        found = dict(context)
        for name, values in steps.items():
            size = features[name].shape[0]
            if isinstance(values, tf.RaggedTensor):
                found[name] = values
            elif size is None:
                found[name] = tf.RaggedTensor.from_tensor(values, lengths[name])
            else:
                found[name] = tf.ensure_shape(values, [None, size, *values.shape[2:]])
        return found

    return parse


def _spec(feature: Feature) -> Any:
    dtype = _DTYPES[feature.dtype]
    shape = feature.shape[1:] if feature.sequence else feature.shape
    if None not in shape:
        if feature.sequence:
            # A record may lack a feature list, which then has no steps.
            return tf.io.FixedLenSequenceFeature(shape, dtype, allow_missing=True)
        return tf.io.FixedLenFeature(shape, dtype)
    rest = shape[1:]
    if None in rest or shape[0] is not None:  # then the values stay flat
        rest = ()
    lengths = [tf.io.RaggedFeature.UniformRowLength(size) for size in rest]
    return tf.io.RaggedFeature(dtype, partitions=lengths)


def decode_arrays(tensors: Tensors, features: Features) -> Tensors:
    """Decode arrays that are stored as bytes, of all records in a batch at once.

    At most one dimension of an array may be unknown, and it must be equal in all of the batch.
    """
    return {
        name: decode_array(value, features[name]) if is_array(features[name]) else value
        for name, value in tensors.items()
    }


def is_array(feature: Feature) -> bool:
    """Return whether a feature holds arrays, stored as bytes."""
    return feature.kind == "raw" and feature.raw_dtype is not None and feature.raw_shape is not None


def decode_array(value: Any, feature: Feature, shape: Any = None) -> Any:
    """Decode string[...] of bytes to arrays [..., *shape].

    shape: of an array, if the feature does not declare all of it.

    Raises:
      ConfigError: TensorFlow does not have the dtype.
    """
    name = str(feature.raw_dtype)
    dtype = getattr(tf, name, None)
    if not isinstance(dtype, tf.DType):
        raise ConfigError(
            f"TensorFlow has no dtype {name}: choose other inputs, or read with recordmill.read"
        )
    flat = tf.io.decode_raw(value, _BITCAST.get(name, dtype))
    if name in _BITCAST:
        flat = tf.bitcast(flat, dtype)
    if shape is None:
        shape = [-1 if size is None else size for size in feature.raw_shape or ()]
    array = tf.reshape(flat, tf.concat([tf.shape(value), tf.cast(shape, tf.int32)], 0))
    return tf.ensure_shape(array, [*value.shape, *(feature.raw_shape or ())])


def is_uniform(feature: Feature) -> bool:
    """Return whether many records can be decoded at once: all arrays have the same shape."""
    if is_array(feature):
        return None not in (feature.raw_shape or ())
    return True
