"""Shapes of values in elements: values of varying length, and the arguments of `map`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from recordmill.errors import ConfigError
from recordmill.loading.parse import Tensors


def only_record(value: Any) -> Any:
    """Return the value of the only record in a batch."""
    found = value[0]
    return found.to_tensor() if isinstance(found, tf.RaggedTensor) else found


def rejoined(element: tuple[Any, ...]) -> Any:
    """Return the element that `map` passed as arguments: a tuple, or a single dictionary."""
    return element if len(element) > 1 else element[0]


def varies(shape: Any) -> bool:
    return shape.rank > 0 and shape[0] is None


def pad_empty(batch: Any) -> Any:
    """Pad a batch of empty values to length 1: models expect at least one item."""
    if batch.shape.rank < 2 or batch.shape[1] is not None:
        return batch
    missing = tf.cast(tf.equal(tf.shape(batch)[1], 0), tf.int32)
    widths = tf.stack([[0, 0], tf.stack([0, missing]), *[[0, 0]] * (batch.shape.rank - 2)])
    empty = "" if batch.dtype == tf.string else tf.zeros((), batch.dtype)
    filled = tf.pad(batch, widths, constant_values=empty)
    return tf.ensure_shape(filled, batch.shape)


def pad_ragged(tensors: Tensors, *, pad_to: int | None, label: str | None) -> Tensors:
    """Pad the ragged tensors of a batch, except the label.

    pad_to: length; None is that of the longest value.

    Raises:
      ConfigError: there is a length, but no ragged tensor.
    """
    ragged = {
        name: value
        for name, value in tensors.items()
        if isinstance(value, tf.RaggedTensor) and name != label
    }
    if pad_to is not None:
        check_varying(value.shape[1:] for value in ragged.values())
    padded = {
        name: pad_empty(value.to_tensor(shape=[None, pad_to, *value.shape[2:]]))
        for name, value in ragged.items()
    }
    return {**tensors, **padded}


def check_varying(shapes: Iterable[Any]) -> None:
    """Check that `pad_to` has an effect on values of these shapes.

    Raises:
      ConfigError: no length varies.
    """
    if not any(varies(shape) for shape in shapes):
        raise ConfigError("pad_to: every value has a fixed length; leave the option out")


def longest_input(*element: Any) -> Any:
    """Return the length of the longest input of an element: int32[]."""
    x = element[0]
    lengths = [tf.shape(value)[0] for value in tf.nest.flatten(x) if varies(value.shape)]
    if not lengths:
        raise ConfigError("bucket_boundaries: every input has a fixed length; leave the option out")
    return tf.reduce_max(tf.stack(lengths))
