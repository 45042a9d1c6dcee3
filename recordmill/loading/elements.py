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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Elements:
    """Makes elements from the features of records or batches.

    records: number of records in an epoch; those at later positions are padding.
    has_padding: True if any host may have padding.
    classes: number of classes.
    label_offset: number of the first class.
    class_weights: per class; None for no weights.
    """

    selection: Selection
    options: LoadOptions
    records: int
    has_padding: bool
    classes: int
    label_offset: int
    class_weights: Sequence[float] | None

    def make(self, tensors: Tensors, number: Any) -> Any:
        """Make the element of a record or of a batch.

        number: int64[] or int64[n], the position of the record in the epoch; None if not needed.
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
            y, is_given = _only_or(y, self._stand_in)
            weights.append(tf.cast(is_given, tf.float32))
        elif self.selection.may_be_nan:
            numbers = tf.logical_not(tf.math.is_nan(y))
            y = tf.where(numbers, y, tf.zeros_like(y))  # NaN with a weight of 0 is NaN
            rank = len(self.selection.features[self.selection.label].shape)
            is_given = tf.reduce_all(numbers, axis=list(range(-rank, 0)))
            weights.append(tf.cast(is_given, tf.float32))
        numbers = y - self.label_offset if y.dtype == tf.int64 else y
        if self.class_weights is not None:
            table = tf.constant([*self.class_weights], tf.float32)
            weights.append(tf.gather(table, numbers))
        if self.options.one_hot:
            y = tf.one_hot(numbers, self.classes)
        return _weighted(x, y, weights)

    @property
    def _stand_in(self) -> int:
        """Label of a record without one: the first class, because losses need a valid one, or 0."""
        feature = self.selection.features[str(self.selection.label)]
        return self.label_offset if feature.kind == "label" else 0

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


def _only_or(values: Any, default: int) -> tuple[Any, Any]:
    """Return the only value of each record, or the default, and whether the record has a value.

    values: ragged [n, (0 to 1)] of a batch, or [0 or 1] of one record.
    """
    other = tf.constant(default, values.dtype)
    if isinstance(values, tf.RaggedTensor):
        return values.to_tensor(other, shape=[None, 1])[:, 0], values.row_lengths() > 0
    return tf.concat([values, other[None]], 0)[0], tf.size(values) > 0
