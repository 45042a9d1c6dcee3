"""The functions of `recordmill.reading.epoch_order` as operations of a TensorFlow graph.

They return the same numbers, so that `recordmill.load` has the order of the other loaders. Graphs
run without Python, so iterators can be saved, and threads do not wait for the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recordmill.reading import epoch_order
from recordmill.reading.mixture_schedule import WINDOW, MixtureSchedule, SourceTables


def _constant(value: int) -> Any:
    return tf.constant(value, tf.uint64)


def _shifted(values: Any, bits: int) -> Any:
    return tf.bitwise.right_shift(values, _constant(bits))


def mix(values: Any) -> Any:
    """Return a 64-bit hash of each value: uint64[...]."""
    values = tf.bitwise.bitwise_xor(values, _shifted(values, 30)) * _constant(epoch_order.MIX_1)
    values = tf.bitwise.bitwise_xor(values, _shifted(values, 27)) * _constant(epoch_order.MIX_2)
    return tf.bitwise.bitwise_xor(values, _shifted(values, 31))


def epoch_keys(seed_key: int, epoch: Any) -> list[Any]:
    """Return the keys of an epoch, int64[], by their domains: uint64[] each."""
    steps = tf.bitcast(epoch + 1, tf.uint64) * _constant(epoch_order.GOLDEN)
    domains = tf.constant([*range(epoch_order.DOMAINS)], tf.uint64)
    return [*tf.unstack(mix(mix(_constant(seed_key) + steps) + domains), epoch_order.DOMAINS)]


def hash_order(key: Any, numbers: Any) -> Any:
    """Return the indices that sort the numbers of each row by their hashes: int32[..., n]."""
    hashes = mix(key + tf.bitcast(numbers, tf.uint64) * _constant(epoch_order.GOLDEN))
    # Sorted as signed numbers, so the sign is flipped.
    signed = tf.bitcast(tf.bitwise.bitwise_xor(hashes, _constant(1 << 63)), tf.int64)
    return tf.argsort(signed, axis=-1)


def full_order(records: int, keys: Sequence[Any], positions: Any) -> Any:
    """Return the record numbers at positions of a full order: int64[n]. keys: of the epoch."""
    bits = epoch_order.half_bits(records)
    mask = _constant((1 << bits) - 1)

    def permuted(values: Any) -> Any:
        left, right = _shifted(values, bits), tf.bitwise.bitwise_and(values, mask)
        for key in keys[epoch_order.ROUNDS :]:
            hashed = tf.bitwise.bitwise_and(mix(tf.bitwise.bitwise_xor(key, right)), mask)
            left, right = right, tf.bitwise.bitwise_xor(left, hashed)
        return tf.bitwise.bitwise_or(tf.bitwise.left_shift(left, _constant(bits)), right)

    def is_outside(values: Any) -> Any:
        return tf.bitcast(values, tf.int64) >= records

    (found,) = tf.while_loop(
        lambda values: tf.reduce_any(is_outside(values)),
        lambda values: (tf.where(is_outside(values), permuted(values), values),),
        (permuted(tf.bitcast(positions, tf.uint64)),),
    )
    return tf.bitcast(found, tf.int64)


def are_kept(bits: Any, numbers: Any) -> Any:
    """Return whether a filter keeps records: bool[n]. bits: uint8[records / 8]."""
    found = tf.bitwise.right_shift(tf.gather(bits, numbers // 8), tf.cast(numbers % 8, tf.uint8))
    return tf.bitwise.bitwise_and(found, tf.constant(1, tf.uint8)) > 0


def mixture_sources(schedule: MixtureSchedule, positions: Any) -> Any:
    """Return the sources at positions of a mixture: int64[n]."""
    windows, places = positions // WINDOW, positions % WINDOW
    found = tf.gather(tf.constant(schedule.pattern), places)
    line = (found - schedule.sources) * WINDOW + windows % WINDOW
    in_slot = tf.searchsorted(tf.constant(schedule.ends), line, side="right", out_type=tf.int64)
    return tf.where(found < schedule.sources, found, in_slot)


def mixture_positions(tables: SourceTables, indices: Any) -> Any:
    """Return the positions of a source's records: int64[n]."""
    repeats, rest = indices // tables.part, indices % tables.part
    before = tf.constant(tables.before)
    windows = tf.searchsorted(before, rest, side="right", out_type=tf.int64) - 1
    rank = rest - tf.gather(before, windows)
    slot_rank = tf.gather(tf.constant(tables.slot_rank), windows)
    place = tf.where(
        rank == slot_rank,
        tf.gather(tf.constant(tables.slot), windows),
        tf.gather(tf.constant(tables.places), rank - tf.cast(rank > slot_rank, tf.int64)),
    )
    return (repeats * WINDOW + windows) * WINDOW + place
