"""What models of texts and of tables have in common: lines of a vocabulary, and being saved."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf


class LookupLines(tf.Module):
    """The lines of a file, by which tokens and values are found."""

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
        """int64[n]: the line of each, from 0 on; -1 for none."""
        return self._table.lookup(values)

    def ids(self, values: tf.Tensor, *, oov_buckets: int) -> tf.Tensor:
        """int64[n]: those of no line come first, from 1 on, by their hash; then the lines."""
        found = self.find(values)
        unknown = tf.ones_like(found)
        if oov_buckets > 1:
            unknown += tf.strings.to_hash_bucket_fast(values, oov_buckets)
        return tf.where(found < 0, unknown, found + 1 + oov_buckets)


def argument_names(columns: Iterable[str]) -> dict[str, str]:
    """What a signature calls columns, {column: name}: TensorFlow takes ASCII letters, digits and
    `_`, with a letter first. `_` stands for all else; `_2` and so on follow where that comes twice.
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
    """Writes it as a SavedModel into a folder; `serve` is what is called by default."""
    tf.saved_model.save(transform, str(output), signatures={"serving_default": transform.serve})
