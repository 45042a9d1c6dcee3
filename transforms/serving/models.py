"""Common parts of the exported models: vocabulary lookup, names of arguments, saving."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf


class LookupLines(tf.Module):
    """Lookup table from the lines of a vocabulary file to their numbers."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        initializer = tf.lookup.TextFileInitializer(
            str(path),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        self._table = tf.lookup.StaticHashTable(initializer, -1)
        self.size = int(self._table.size())

    def find(self, values: tf.Tensor) -> tf.Tensor:
        """Return the line number of each value from 0, int64[n]; -1 if there is no such line."""
        return self._table.lookup(values)

    def ids(self, values: tf.Tensor, *, oov_buckets: int) -> tf.Tensor:
        """Return the id of each value, int64[n].

        Ids 1 .. oov_buckets are for unknown values, by hash; the ids of the lines follow.
        """
        found = self.find(values)
        unknown = tf.ones_like(found)
        if oov_buckets > 1:
            unknown += tf.strings.to_hash_bucket_fast(values, oov_buckets)
        return tf.where(found < 0, unknown, found + 1 + oov_buckets)


def argument_names(columns: Iterable[str]) -> dict[str, str]:
    """Return {column: argument name} for a model's signature.

    TensorFlow allows ASCII letters, digits and `_`, with a letter first. Other characters become
    `_`; a repeated name gets a suffix `_2`, `_3` and so on.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in columns:
        first = re.sub(r"[^A-Za-z0-9_]", "_", column)
        if not first[:1].isalpha():
            first = f"column_{first}"
        name = next(
            one
            for one in itertools.chain([first], (f"{first}_{n}" for n in itertools.count(2)))
            if one.lower() not in taken
        )
        taken.add(name.lower())
        names[column] = name
    return names


def save(transform: Any, output: pathlib.Path) -> None:
    """Write a model as a SavedModel; its default signature is `serve`."""
    tf.saved_model.save(transform, str(output), signatures={"serving_default": transform.serve})
