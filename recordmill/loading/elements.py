"""What a record, or a batch, becomes for a model: (x, y), (x, y, weight), or a dictionary."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recordmill.loading import pictures
from recordmill.loading.options import LoadOptions
from recordmill.loading.parse import Tensors
from recordmill.loading.selection import Selection

WEIGHT = "sample_weight"  # in dictionaries, where records have weights
_UNLABELLED = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Elements:
    """Makes elements of features.

    classes: how many there are. label_offset: the number of the first. class_weights: by class.
    """

    selection: Selection
    options: LoadOptions
    classes: int
    label_offset: int
    class_weights: Sequence[float] | None

    @property
    def are_weighted(self) -> bool:
        """Whether records have weights: those of classes, or 0 for what only fills up."""
        options = self.options
        hosts = options.shard is not None and not options.drop_remainder
        return hosts or self.class_weights is not None or self.selection.is_nullable

    def of(self, tensors: Tensors, weight: Any) -> Any:
        """The element of a record, or of a batch.

        weight: float32[] or float32[n], 0 where a record only fills up.
        """
        inputs = {name: self._normalized(name, tensors[name]) for name in self.selection.inputs}
        if self.selection.label is None:
            return inputs | {WEIGHT: weight} if self.are_weighted else inputs
        x = inputs[self.selection.inputs[0]] if self.selection.bare else inputs
        y = tensors[self.selection.label]
        if self.selection.is_nullable:
            y = _first_or(y, _UNLABELLED)
            weight = weight * tf.cast(y != _UNLABELLED, tf.float32)
        numbers = y - self.label_offset if y.dtype == tf.int64 else y
        if self.class_weights is not None:
            table = tf.constant([*self.class_weights], tf.float32)
            weight = weight * tf.gather(table, tf.maximum(numbers, 0))
        if self.options.one_hot:
            y = tf.one_hot(numbers, self.classes)
        return (x, y, weight) if self.are_weighted else (x, y)

    def _normalized(self, name: str, value: Any) -> Any:
        if self.options.normalize is None or name not in self.selection.pixels:
            return value
        return pictures.normalize(value, self.options.normalize)


def _first_or(values: Any, default: int) -> Any:
    """The value of a record that has one: of records as int64[n, (0 to 1)], of one as int64[m]."""
    if isinstance(values, tf.RaggedTensor):
        return values.to_tensor(default, shape=[None, 1])[:, 0]
    if values.shape.rank == 2:
        return values[:, 0]
    return tf.concat([values, tf.constant([default], values.dtype)], 0)[0]
