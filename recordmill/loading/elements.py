"""What a record, or a batch, becomes for a model: (x, y), (x, y, weight), or a dictionary."""

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

WEIGHT = "sample_weight"  # in dictionaries, where records have weights
_UNLABELLED = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Elements:
    """Makes elements of features.

    records: how many there are in an epoch; those after them only fill up. classes: how many there
    are. label_offset: the number of the first. class_weights: by class.
    """

    selection: Selection
    options: LoadOptions
    records: int
    classes: int
    label_offset: int
    class_weights: Sequence[float] | None

    @property
    def has_padding(self) -> bool:
        """Whether a host, this one or another, has a record that only fills up."""
        return self.options.shard is not None and not self.options.drop_remainder

    def of(self, tensors: Tensors, number: Any) -> Any:
        """The element of a record, or of a batch.

        number: int64[] or int64[n], of the record in the epoch; None where nobody needs it.
        """
        inputs = {name: self._normalized(name, tensors[name]) for name in self.selection.inputs}
        weights = []
        if self.has_padding:
            weights.append(tf.cast(number < self.records, tf.float32))
        if self.selection.label is None:
            return inputs | {WEIGHT: weights[0]} if weights else inputs
        x = inputs[self.selection.inputs[0]] if self.selection.bare else inputs
        y = tensors[self.selection.label]
        if self.selection.is_nullable:
            y = _first_or(y, _UNLABELLED)
            weights.append(tf.cast(y != _UNLABELLED, tf.float32))
            y = tf.maximum(y, self.label_offset)  # a class that there is, as losses want one
        numbers = y - self.label_offset if y.dtype == tf.int64 else y
        if self.class_weights is not None:
            table = tf.constant([*self.class_weights], tf.float32)
            weights.append(tf.gather(table, numbers))
        if self.options.one_hot:
            y = tf.one_hot(numbers, self.classes)
        return (x, y, functools.reduce(operator.mul, weights)) if weights else (x, y)

    def _normalized(self, name: str, value: Any) -> Any:
        if self.options.normalize is None or name not in self.selection.pixels:
            return value
        return images.normalize(value, self.options.normalize)


def _first_or(values: Any, default: int) -> Any:
    """The value of a record that has one: of records as int64[n, (0 to 1)], of one as int64[m]."""
    if isinstance(values, tf.RaggedTensor):
        return values.to_tensor(default, shape=[None, 1])[:, 0]
    if values.shape.rank == 2:
        return values[:, 0]
    return tf.concat([values, tf.constant([default], values.dtype)], 0)[0]
