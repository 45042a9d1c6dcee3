"""Datasets of serialized records in the order of an epoch.

An epoch is a function of its seed. No state is kept between epochs, so that iterators can be saved,
and that an epoch can be started in the middle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recordmill.loading.parts import FileRange, HostPart
from recordmill.tfrecord.framing import Compression

# Limits of the shuffle buffer. Records are already shuffled on disk; the buffer only gives every
# epoch another order.
_BUFFER_RECORDS = 10_000
_BUFFER_BYTES = 64 << 20
_OPEN_FILES = 8  # files that a shuffled epoch reads in turn
_BLOCK_RECORDS = 16  # records of a file before the next file is read
_READ_BYTES = 1 << 20
_SEED = 87654321  # TensorFlow's default of tf.random.set_seed


def epoch(
    part: HostPart, *, compression: Compression, seed: Any = None, buffer: int | None = None
) -> Any:
    """Return a dataset of payloads, string[]: all records of a part, without padding.

    seed: int64[], for a random order; None for the order of the files.
    buffer: size of the shuffle buffer in records; None for the default.
    """
    records = _read(part.ranges, compression, seed)
    if seed is None:
        return records
    size = buffer or default_buffer(part)
    return records.shuffle(size, seed=seed + 1, reshuffle_each_iteration=False)


def padding(part: HostPart, *, compression: Compression) -> Any:
    """Return a dataset of payloads: the padding of a part."""
    first = [] if part.first is None else [part.first]
    return _read(first, compression).take(1).repeat(part.padding)


def default_buffer(part: HostPart) -> int:
    """Return the size of the shuffle buffer: records of 64 MiB, at most 10,000."""
    most = min(_BUFFER_RECORDS, int(_BUFFER_BYTES / max(part.record_bytes, 1)))
    return max(1, min(most, part.read))


def _read(ranges: Sequence[FileRange], compression: Compression, seed: Any = None) -> Any:
    """Return a dataset of payloads: the records of the ranges."""
    if not ranges:
        return tf.data.Dataset.from_tensor_slices(tf.zeros([0], tf.string))
    files = tf.data.Dataset.from_tensor_slices(
        (
            [os.fsencode(one.path) for one in ranges],
            tf.constant([one.skip for one in ranges], tf.int64),
            tf.constant([one.count for one in ranges], tf.int64),
        )
    )
    if seed is not None:
        files = files.shuffle(len(ranges), seed=seed, reshuffle_each_iteration=False)
    kind = "GZIP" if compression == "gzip" else ""

    def records(path: Any, skip: Any, count: Any) -> Any:
        stream = tf.data.TFRecordDataset(path, compression_type=kind, buffer_size=_READ_BYTES)
        return stream.skip(skip).take(count)

    return files.interleave(
        records,
        cycle_length=1 if seed is None else min(len(ranges), _OPEN_FILES),
        block_length=1 if seed is None else _BLOCK_RECORDS,
    )


def mix(streams: Sequence[Callable[[Any], Any]], weights: Sequence[float], seed: Any) -> Any:
    """Return an endless dataset that samples from several datasets.

    streams: functions from the seed of an epoch to the dataset of that epoch.
    """
    endless = []
    for number, stream in enumerate(streams):
        seeds = tf.data.Dataset.random(seed=seed + 2 + number)
        endless.append(seeds.flat_map(stream))
    return tf.data.Dataset.sample_from_datasets(endless, [*weights], seed=seed)


def epochs(
    one: Callable[[Any, Any], Any], *, seed: int, repeat: bool | int, epoch: int, skip: int
) -> Any:
    """Return a dataset of all epochs; without `repeat`, of one that differs in every iteration.

    one: a function from the seed of an epoch (int64[]) and the number of batches to skip (int64[],
      or None) to the dataset of that epoch.
    epoch, skip: the first epoch, and the number of batches to skip in it.
    """

    def seeded(drawn: Any, skip: Any) -> Any:
        tf.compat.v1.get_default_graph().seed = None  # tf.random.set_seed must have no influence
        return one(drawn, skip)

    seeds = _random_numbers(seed).take(1)
    for _ in range(epoch):
        next(iter(seeds))
    if repeat is not False:
        seeds = seeds.repeat(None if repeat is True else repeat - epoch)
    if not skip:
        return seeds.flat_map(lambda drawn: seeded(drawn, None))
    return seeds.enumerate().flat_map(
        lambda number, drawn: seeded(drawn, tf.where(number == 0, tf.constant(skip, tf.int64), 0))
    )


def _random_numbers(seed: int) -> Any:
    """Return a dataset of random int64 that differ in every iteration.

    Unlike those of `tf.data.Dataset.random` they do not depend on `tf.random.set_seed`.
    """
    numbers = tf.raw_ops.RandomDatasetV2(
        seed=_SEED,
        seed2=seed,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        output_types=[tf.int64],
        output_shapes=[tf.TensorShape([])],
    )
    return tf.data.experimental.from_variant(numbers, tf.TensorSpec([], tf.int64))
