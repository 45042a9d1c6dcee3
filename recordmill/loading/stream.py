"""Datasets of serialized records in the order of an epoch, and datasets of epochs.

An epoch is a function of its number. No state is kept between epochs, so that iterators can be
saved, and an epoch can be continued anywhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recordmill.loading import graph_order
from recordmill.loading.shard_files import block_pieces, record_offsets
from recordmill.loading.sources import LoadedDataset
from recordmill.reading.epoch_order import BLOCKS, RECORDS, SHORT_BLOCK, OrderLayout, OrderName

_READ_BYTES = 1 << 20
_OPEN_FILES = 8  # records that a full order reads at the same time
_POSITIONS = 1 << 10  # of a full order that are computed together
_BUFFER_RECORDS = 10_000  # of a shuffled cache
_BUFFER_BYTES = 64 << 20
_ENDLESS = 1 << 32  # more epochs than a run has


class EpochStream:
    """The records of a dataset for one host, epoch by epoch.

    order, seed: of the epochs. shard: (hosts, index of this host).

    Raises:
      IndexDamagedError: an index is damaged.
    """

    def __init__(
        self, source: LoadedDataset, *, order: OrderName, seed: int, shard: tuple[int, int]
    ) -> None:
        layout = source.layout
        self._layout = layout
        self._order = order
        self._seed_key = layout.seed_key(seed)
        self._hosts, self._host = shard
        self._compression = "" if layout.seekable else "GZIP"
        paths = [os.fsencode(str(source.location / one.file)) for one in source.shards]
        self._paths = tf.constant(paths, tf.string)
        files = (source.location, source.split, source.shards)
        if order == "full" and layout.records:
            offsets = [record_offsets(*files, file) for file in range(len(paths))]
            self._offsets = tf.constant(np.concatenate(offsets))
            self._ends = tf.constant(layout.starts[1:])
        elif order == "windowed" and layout.seekable and layout.records:
            pieces = block_pieces(*files, layout)
            self._block_pieces = tf.RaggedTensor.from_row_splits(
                tf.constant(np.stack([pieces.files, pieces.offsets, pieces.counts], axis=1)),
                tf.constant(pieces.splits),
                validate=False,
            )

    def first_position(self, consumed: Any) -> Any:
        """Return the first position of this host after those that are consumed: int64[]."""
        return consumed + (self._host - consumed) % self._hosts

    def epoch(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of payloads, string[]: the records of this host in an epoch.

        epoch: int64[], its number. consumed: int64[], records that all hosts have consumed.
        """
        if not self._layout.records:
            return tf.data.Dataset.from_tensor_slices(tf.zeros([0], tf.string))
        if self._order == "full":
            return self._full(epoch, consumed)
        if self._order == "stored":
            records = self._read(self._paths).skip(self.first_position(consumed))
            return records.shard(self._hosts, 0) if self._hosts > 1 else records
        windows = self._windows if self._layout.seekable else self._gzip_windows
        return windows(epoch, consumed).prefetch(1).unbatch()

    def padding(self) -> Any:
        """Return a dataset of the payload of the first record; empty if there is none."""
        return self._read(self._paths).take(1)

    def _read(self, paths: Any) -> Any:
        return tf.data.TFRecordDataset(
            paths, compression_type=self._compression, buffer_size=_READ_BYTES
        )

    def _windows(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of string[n]: this host's records of each window."""
        layout = self._layout
        lanes, block, windows = layout.lanes, layout.block, layout.windows
        # Hosts that share lanes read the same blocks.
        step = math.gcd(self._hosts, lanes)
        keys = graph_order.epoch_keys(self._seed_key, epoch)
        before, order = self._block_order(keys)

        def window(number: Any) -> Any:
            # The last one, which is not full, is one lane: its blocks, and the short block.
            is_last = tf.cast(number >= windows, tf.int64)
            every = is_last + (1 - is_last) * step
            lane = (1 - is_last) * (self._host % step)
            stop = tf.minimum((number + 1) * lanes, layout.blocks)
            ids = tf.gather(order, tf.range(number * lanes + lane, stop, every))
            start, pieces = self._blocks(ids, before)
            numbers = start[:, None] + tf.range(block, dtype=tf.int64)
            short = tf.range(is_last * layout.short) + before * block
            short_pieces = self._pieces(tf.range(is_last) + before + 2 * layout.blocks)
            numbers = tf.concat([tf.reshape(numbers, [-1]), short], 0)
            positions = tf.range(tf.size(numbers, tf.int64)) * every + number * layout.window + lane
            rows = is_last + (1 - is_last) * (lanes // step)
            numbers = tf.reshape(numbers, [rows, -1])
            width = tf.shape(numbers, tf.int64)[1]
            places = tf.cast(graph_order.hash_order(keys[RECORDS], numbers), tf.int64)
            places = tf.transpose(places + tf.range(rows)[:, None] * width)
            chosen = tf.boolean_mask(tf.reshape(places, [-1]), self._is_mine(positions, consumed))
            records = tf.data.Dataset.from_tensor_slices(tf.concat([pieces, short_pieces], 0))
            # If a file ends early, reshape fails.
            return (
                records.flat_map(self._read_piece)
                .batch(layout.window)
                .map(lambda read: tf.gather(tf.reshape(read, [rows * width]), chosen))
            )

        count = windows + (windows * layout.window < layout.records)
        return tf.data.Dataset.range(consumed // layout.window, count).flat_map(window)

    def _block_order(self, keys: Sequence[Any]) -> tuple[Any, Any]:
        """Return the number of blocks before the short one, and the order of the full ones."""
        blocks = self._layout.blocks
        before = keys[SHORT_BLOCK] % tf.constant(blocks + 1, tf.uint64)
        order = graph_order.hash_order(keys[BLOCKS], tf.range(blocks, dtype=tf.int64))
        return tf.bitcast(before, tf.int64), tf.cast(order, tf.int64)

    def _blocks(self, ids: Any, before: Any) -> tuple[Any, Any]:
        """Return the first records of full blocks, int64[n], and their pieces, int64[m, 3]."""
        is_later = tf.cast(ids >= before, tf.int64)
        start = ids * self._layout.block + is_later * self._layout.short
        return start, self._pieces(ids + is_later * self._layout.blocks)

    def _pieces(self, rows: Any) -> Any:
        return tf.gather(self._block_pieces, rows).flat_values

    def _is_mine(self, positions: Any, consumed: Any) -> Any:
        return (positions % self._hosts == self._host) & (positions >= consumed)

    def _read_piece(self, piece: Any) -> Any:
        """Return a dataset of the payloads of int64[3]: file, offset, number of records."""
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.gather(self._paths, piece[0]),
            compression_type="",
            buffer_size=tf.constant(0, tf.int64),
            byte_offsets=piece[1],
        )
        spec = tf.TensorSpec([], tf.string)
        return tf.data.experimental.from_variant(records, spec).take(piece[2])

    def _gzip_windows(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of string[n]: this host's records of each window of gzip shards."""
        layout, window = self._layout, self._layout.window
        keys = graph_order.epoch_keys(self._seed_key, epoch)
        shards = tf.range(len(layout.shards), dtype=tf.int64)
        shards = graph_order.hash_order(keys[BLOCKS], shards)
        first_records = tf.gather(tf.constant(layout.starts), shards)
        counts = tf.gather(tf.constant(layout.shards, tf.int64), shards)
        ends = tf.cumsum(counts)
        first = consumed // window

        def shuffled(number: Any, payloads: Any) -> Any:
            positions = tf.range(tf.size(payloads, tf.int64)) + number * window
            of = tf.searchsorted(ends, positions, side="right")
            numbers = positions - tf.gather(ends - counts, of) + tf.gather(first_records, of)
            mine = self._is_mine(positions, consumed)
            order = graph_order.hash_order(keys[RECORDS], numbers)
            return tf.gather(payloads, tf.boolean_mask(order, mine))

        records = self._read(tf.gather(self._paths, shards))
        return records.skip(first * window).batch(window).enumerate(first).map(shuffled)

    def _full(self, epoch: Any, consumed: Any) -> Any:
        first = self.first_position(consumed)
        keys = graph_order.epoch_keys(self._seed_key, epoch)

        def places(positions: Any) -> Any:
            numbers = graph_order.full_order(self._layout.records, keys, positions)
            files = tf.searchsorted(self._ends, numbers, side="right", out_type=tf.int64)
            return tf.stack(
                [files, tf.gather(self._offsets, numbers), tf.ones_like(numbers)], axis=1
            )

        positions = tf.data.Dataset.range(first, self._layout.records, self._hosts)
        pieces = positions.batch(_POSITIONS).map(places).unbatch()
        return pieces.interleave(
            self._read_piece, cycle_length=_OPEN_FILES, num_parallel_calls=_OPEN_FILES
        )


def cache_buffer(layout: OrderLayout) -> int:
    """Return the size of the buffer that shuffles cached records: 64 MiB, at most 10,000."""
    most = min(_BUFFER_RECORDS, int(_BUFFER_BYTES / max(layout.record_bytes, 1)))
    return max(1, min(most, layout.records))


def mix(
    streams: Sequence[Callable[[Any], Any]], weights: Sequence[float], *, run: Any, seed: Any
) -> Any:
    """Return an endless dataset that samples from several datasets, each epoch after epoch.

    streams: functions from the number of an epoch to the dataset of that epoch.
    run: int64[], number of the iteration; each has other epochs. seed: int64[], of the samples.
    """
    epochs = tf.data.Dataset.range(run * _ENDLESS, (run + 1) * _ENDLESS)
    endless = [epochs.flat_map(one) for one in streams]
    return tf.data.Dataset.sample_from_datasets(endless, [*weights], seed=seed)


def epochs(one: Callable[[Any, Any], Any], *, repeat: bool | int, epoch: int, consumed: int) -> Any:
    """Return a dataset of all epochs; without `repeat`, of one that differs in every iteration.

    one: a function from an epoch (int64[]) and the number of its records that are consumed
      (int64[]) to a dataset.
    epoch, consumed: the first epoch, and the number of its records that are consumed.
    """
    count = 1 if repeat is False else _ENDLESS if repeat is True else repeat - epoch
    iterations = _iterations()

    def seeded(number: Any) -> Any:
        tf.compat.v1.get_default_graph().seed = None  # tf.random.set_seed must have no influence
        return one(number, tf.where(number == epoch, tf.constant(consumed, tf.int64), 0))

    if repeat is False:
        return iterations.flat_map(lambda number: seeded(epoch + number))
    return iterations.flat_map(
        lambda number: tf.data.Dataset.range(epoch + number * count, epoch + (number + 1) * count)
    ).flat_map(seeded)


def _iterations() -> Any:
    """Return a dataset of one int64 that counts its iterations: 0, 1 and so on."""
    table = tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.int64, value_dtype=tf.int64)
    key = tf.constant(0, tf.int64)

    def counted(_: Any) -> Any:
        count = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=key, default_value=key)
        insert = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=key, values=count + 1)
        with tf.control_dependencies([insert]):
            return tf.reshape(count, [])

    return tf.data.Dataset.range(1).map(counted)
