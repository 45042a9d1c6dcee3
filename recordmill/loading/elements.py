"""Makes dataset elements from features: (x, y), (x, y, weight), or a dictionary."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recordmill.loading import images
from recordmill.loading.options import LoadOptions
from recordmill.loading.parse import Tensors
from recordmill.loading.selection import Selection

WEIGHT = "sample_weight"  # key of the weight in dictionaries
_UNLABELLED = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Elements:
    """Makes elements from the features of records or batches.

    records: number of records in an epoch; records after them are padding.
    classes: number of classes.
    label_offset: number of the first class.
    class_weights: per class; None for no weights.
    """

    selection: Selection
    options: LoadOptions
    records: int
    classes: int
    label_offset: int
    class_weights: Sequence[float] | None

    @property
    def has_padding(self) -> bool:
        """True if any host may have padding."""
        return self.options.shard is not None and not self.options.drop_remainder

    def make(self, tensors: Tensors, number: Any) -> Any:
        """Make the element of a record or of a batch.

        number: int64[] or int64[n], the number of the record in the epoch; None if not needed.
        """
        inputs = {name: self._normalized(name, tensors[name]) for name in self.selection.inputs}
        weights = []
        if self.has_padding:
            weights.append(tf.cast(number < self.records, tf.float32))
        if self.selection.label is None:
            return inputs | {WEIGHT: weights[0]} if weights else inputs
        x = inputs[self.selection.inputs[0]] if self.selection.is_single else inputs
        y = tensors[self.selection.label]
        if self.selection.weight is not None:
            weights.append(tensors[self.selection.weight])
        if self.selection.multi_label:
            if self.options.one_hot or self.options.padding == "pad":
                y = _multi_hot(y - self.label_offset, self.classes)
            return _weighted(x, y, weights)
        if self.selection.is_nullable:
            y = _first_or(y, _UNLABELLED)
            weights.append(tf.cast(y != _UNLABELLED, tf.float32))
            y = tf.maximum(y, self.label_offset)  # losses need a valid class
        numbers = y - self.label_offset if y.dtype == tf.int64 else y
        if self.class_weights is not None:
            table = tf.constant([*self.class_weights], tf.float32)
            weights.append(tf.gather(table, numbers))
        if self.options.one_hot:
            y = tf.one_hot(numbers, self.classes)
        return _weighted(x, y, weights)

    def _normalized(self, name: str, value: Any) -> Any:
        if self.options.normalize is None or name not in self.selection.pixels:
            return value
        return images.normalize(value, self.options.normalize)


def _weighted(x: Any, y: Any, weights: Sequence[Any]) -> Any:
    """Return (x, y), or (x, y, weight) with the product of weights if there are any."""
    return (x, y, functools.reduce(operator.mul, weights)) if weights else (x, y)


def _multi_hot(numbers: Any, classes: int) -> Any:
    """Return float32[n, classes] of a batch, ragged int64[n, (m)]; or float32[classes] of a record,
    int64[m].
    """
    hot = tf.one_hot(numbers, classes)
    axis = numbers.shape.rank - 1
    return tf.ensure_shape(tf.reduce_sum(hot, axis), [*numbers.shape[:-1], classes])


def _first_or(values: Any, default: int) -> Any:
    """Return the only value of each record, or the default for a record without one.

    values: ragged int64[n, (0 to 1)] or int64[n, m] of a batch, or int64[m] of one record.
    """
    if isinstance(values, tf.RaggedTensor):
        return values.to_tensor(default, shape=[None, 1])[:, 0]
    if values.shape.rank == 2:
        return values[:, 0]
    return tf.concat([values, tf.constant([default], values.dtype)], 0)[0]
