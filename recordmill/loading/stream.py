"""Serialised records in the order of an epoch.

An epoch is a function of its seed: nothing here keeps a state between epochs, so that an iterator
can be checkpointed, and an epoch be entered in its middle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recordmill.format.framing import Compression
from recordmill.loading.parts import HostPart, Piece

# Of records that wait to be drawn from. They come in an order that is random already, as a dataset
# is written; this makes it another one in each epoch.
_BUFFER_RECORDS = 10_000
_BUFFER_BYTES = 64 << 20
_OPEN_FILES = 8  # read in turn in an epoch that is shuffled
_TURN = 16  # records of a file, before it is the turn of the next
_READ_BYTES = 1 << 20
_SEED = 87654321  # what TensorFlow takes where there is none of tf.random.set_seed


def epoch(
    part: HostPart, *, compression: Compression, seed: Any = None, buffer: int | None = None
) -> Any:
    """Dataset of payloads, string[]: all records of a part, without padding.

    seed: int64[], of a random order; without it that of the files. buffer: records that are drawn
    from, for such an order.
    """
    records = _read(part.pieces, compression, seed)
    if seed is None:
        return records
    size = buffer or buffer_of(part)
    return records.shuffle(size, seed=seed + 1, reshuffle_each_iteration=False)


def padding(part: HostPart, *, compression: Compression) -> Any:
    """Dataset of payloads: those that only fill up."""
    first = [] if part.first is None else [part.first]
    return _read(first, compression).take(1).repeat(part.padding)


def buffer_of(part: HostPart) -> int:
    """How many records to draw from: those that take 64 MiB, and 10,000 at most."""
    most = min(_BUFFER_RECORDS, int(_BUFFER_BYTES / max(part.record_bytes, 1)))
    return max(1, min(most, part.read))


def _read(pieces: Sequence[Piece], compression: Compression, seed: Any = None) -> Any:
    """Dataset of payloads."""
    if not pieces:
        return tf.data.Dataset.from_tensor_slices(tf.zeros([0], tf.string))
    files = tf.data.Dataset.from_tensor_slices(
        (
            [os.fsencode(piece.path) for piece in pieces],
            tf.constant([piece.skip for piece in pieces], tf.int64),
            tf.constant([piece.count for piece in pieces], tf.int64),
        )
    )
    if seed is not None:
        files = files.shuffle(len(pieces), seed=seed, reshuffle_each_iteration=False)
    kind = "GZIP" if compression == "gzip" else ""

    def records(path: Any, skip: Any, count: Any) -> Any:
        stream = tf.data.TFRecordDataset(path, compression_type=kind, buffer_size=_READ_BYTES)
        return stream.skip(skip).take(count)

    return files.interleave(
        records,
        cycle_length=1 if seed is None else min(len(pieces), _OPEN_FILES),
        block_length=1 if seed is None else _TURN,
    )


def mixed(streams: Sequence[Callable[[Any], Any]], weights: Sequence[float], seed: Any) -> Any:
    """Dataset without end that draws from several: each is a function from the seed of an epoch,
    and begins anew when it ends.
    """
    endless = []
    for number, stream in enumerate(streams):
        seeds = tf.data.Dataset.random(seed=seed + 2 + number)
        endless.append(seeds.flat_map(stream))
    return tf.data.Dataset.sample_from_datasets(endless, [*weights], seed=seed)


def epochs(
    one: Callable[[Any, Any], Any], *, seed: int, repeat: bool | int, epoch: int, skip: int
) -> Any:
    """Dataset of all epochs, or of one, which is another one each time that it is iterated.

    one: an epoch by its seed (int64[]) and how many of its batches to leave out (int64[]).
    epoch, skip: the epoch to begin with, and the batch in it.
    """

    def alone(drawn: Any, skip: Any) -> Any:
        tf.compat.v1.get_default_graph().seed = None  # that of tf.random.set_seed has no part in it
        return one(drawn, skip)

    seeds = _drawn(seed).take(1)
    for _ in range(epoch):
        next(iter(seeds))
    if repeat is not False:
        seeds = seeds.repeat(None if repeat is True else repeat - epoch)
    if not skip:
        return seeds.flat_map(lambda drawn: alone(drawn, None))
    return seeds.enumerate().flat_map(
        lambda number, drawn: alone(drawn, tf.where(number == 0, tf.constant(skip, tf.int64), 0))
    )


def _drawn(seed: int) -> Any:
    """`tf.data.Dataset.random`, another number in each iteration, whatever `tf.random.set_seed`."""
    numbers = tf.raw_ops.RandomDatasetV2(
        seed=_SEED,
        seed2=seed,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        output_types=[tf.int64],
        output_shapes=[tf.TensorShape([])],
    )
    return tf.data.experimental.from_variant(numbers, tf.TensorSpec([], tf.int64))
