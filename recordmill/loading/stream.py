"""Datasets of serialized records in the order of an epoch, and datasets of epochs.

An epoch is a function of its number. No state is kept between epochs, so that iterators can be
saved, and an epoch can be continued anywhere.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recordmill.loading import graph_order
from recordmill.loading.shard_files import block_pieces, record_offsets
from recordmill.loading.sources import LoadedDataset
from recordmill.reading.epoch_order import BLOCKS, RECORDS, SHORT_BLOCK, OrderLayout
from recordmill.reading.mixture_schedule import MixtureSchedule, SourceTables
from recordmill.reading.sequence import EpochSequence

_READ_BYTES = 1 << 20
_OPEN_FILES = 8  # records that a full order reads at the same time
_POSITIONS = 1 << 10  # of a full order, or a mixture, that are computed together
_BUFFER_RECORDS = 10_000  # of a shuffled cache
_BUFFER_BYTES = 64 << 20
_ENDLESS = 1 << 32  # more epochs than a run has


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostTurns:
    """The positions of a sequence that belong to this host.

    hosts, host: as in the option `shard`.
    tables: those of a source in a mixture, whose records have other positions than in the source.
    source_epochs: epochs of the source in one of the mixture.
    """

    hosts: int
    host: int
    tables: SourceTables | None = None
    source_epochs: int = 1

    def first(self, consumed: Any) -> Any:
        """Return the first position of this host after those that are consumed: int64[]."""
        return consumed + (self.host - consumed) % self.hosts

    def are_mine(self, positions: Any, consumed: Any) -> Any:
        """Return whether positions are those of this host, and not consumed: bool[n]."""
        return (positions % self.hosts == self.host) & (positions >= consumed)


class SourceStream(abc.ABC):
    """The records of a dataset for one host, epoch by epoch.

    start: the first epoch of the dataset, and the number of its (kept) records that are consumed.
    """

    def __init__(
        self, sequence: EpochSequence, *, turns: HostTurns, start: tuple[int, int]
    ) -> None:
        self._sequence = sequence
        self._layout = sequence.layout
        self._turns = turns
        self._is_strided = turns.tables is None and sequence.kept is None
        self._start_epoch = start[0]
        self._start_window = sequence.epoch_order(start[0]).window_start(start[1])

    @abc.abstractmethod
    def epoch(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of payloads, string[]: the records of this host in an epoch.

        epoch: int64[], its number. consumed: int64[], positions that all hosts have consumed: of
          the epoch, or of the mixture.
        """

    @abc.abstractmethod
    def padding(self) -> Any:
        """Return a dataset of the payload of the first record; empty if there is none."""

    def of_mixture(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of payloads, string[]: those of this host in an epoch of a mixture."""
        first = epoch * self._turns.source_epochs
        stop = first + self._turns.source_epochs
        is_continued = (first <= self._start_epoch) & (self._start_epoch < stop)
        begin = tf.where(is_continued, tf.constant(self._start_epoch, tf.int64), first)
        return tf.data.Dataset.range(begin, stop).flat_map(lambda one: self.epoch(one, consumed))

    def _first_window(self, epoch: Any, consumed: Any) -> tuple[Any, Any]:
        """Return the first window to read of an epoch, and its first rank: int64[] each."""
        size = self._layout.window
        if self._is_strided:
            return consumed // size, consumed // size * size
        window, rank = (tf.constant(number, tf.int64) for number in self._start_window)
        is_continued = epoch == self._start_epoch
        return tf.where(is_continued, window, 0), tf.where(is_continued, rank, 0)


class EpochStream(SourceStream):
    """The records of a local dataset, read by TensorFlow.

    Raises:
      IndexDamagedError: an index is damaged.
    """

    def __init__(
        self,
        source: LoadedDataset,
        sequence: EpochSequence,
        *,
        turns: HostTurns,
        start: tuple[int, int],
    ) -> None:
        super().__init__(sequence, turns=turns, start=start)
        layout = sequence.layout
        self._order = sequence.order
        self._seed_key = layout.seed_key(sequence.seed)
        self._hosts, self._host = turns.hosts, turns.host
        self._bits = None if sequence.kept is None else tf.constant(sequence.kept.bits)
        self._compression = "" if layout.seekable else "GZIP"
        paths = [os.fsencode(str(source.location / one.file)) for one in source.shards]
        self._paths = tf.constant(paths, tf.string)
        files = (source.location, source.split, source.shards)
        if self._order == "full" and layout.records:
            offsets = [record_offsets(*files, file) for file in range(len(paths))]
            self._offsets = tf.constant(np.concatenate(offsets))
            self._ends = tf.constant(layout.starts[1:])
        elif self._order == "windowed" and layout.seekable and layout.records:
            pieces = block_pieces(*files, layout)
            self._block_pieces = tf.RaggedTensor.from_row_splits(
                tf.constant(np.stack([pieces.files, pieces.offsets, pieces.counts], axis=1)),
                tf.constant(pieces.splits),
                validate=False,
            )

    def epoch(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of payloads, as `SourceStream.epoch`."""
        if not self._layout.records:
            return tf.data.Dataset.from_tensor_slices(tf.zeros([0], tf.string))
        if self._order == "full":
            return self._full(epoch, consumed)
        if self._order == "stored" and self._is_strided:
            records = self._read(self._paths).skip(self._turns.first(consumed))
            return records.shard(self._hosts, 0) if self._hosts > 1 else records
        is_in_blocks = self._order == "windowed" and self._layout.seekable
        windows = self._windows if is_in_blocks else self._file_windows
        return windows(epoch, consumed).prefetch(1).unbatch()

    def _choose(self, epoch: Any, consumed: Any, rank: Any, numbers: Any) -> tuple[Any, Any]:
        """Choose the records of this host among consecutive ones.

        rank: int64[], number of kept records before. numbers: int64[n], of records in their order.

        Returns the number of kept records before the next ones, and bool[n].
        """
        if self._bits is None:
            kept = tf.ones_like(numbers, tf.bool)
        else:
            kept = graph_order.are_kept(self._bits, numbers)
        ranks = rank + tf.cumsum(tf.cast(kept, tf.int64)) - 1
        after = rank + tf.reduce_sum(tf.cast(kept, tf.int64))
        positions = ranks
        if self._turns.tables is not None:
            earlier = (epoch % self._turns.source_epochs) * self._sequence.records
            positions = graph_order.mixture_positions(self._turns.tables, earlier + ranks)
        return after, kept & self._turns.are_mine(positions, consumed)

    def padding(self) -> Any:
        """Return a dataset of the payload of the first record; empty if there is none."""
        return self._read(self._paths).take(1)

    def _read(self, paths: Any) -> Any:
        return tf.data.TFRecordDataset(
            paths, compression_type=self._compression, buffer_size=_READ_BYTES
        )

    def _windows(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of string[n]: this host's records of each window of blocks."""
        layout = self._layout
        lanes, block, windows = layout.lanes, layout.block, layout.windows
        # Hosts that share lanes read the same blocks.
        step = math.gcd(self._hosts, lanes) if self._is_strided else 1
        keys = graph_order.epoch_keys(self._seed_key, epoch)
        before, order = self._block_order(keys)

        def planned(rank: Any, number: Any) -> tuple[Any, Any]:
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
            rows = is_last + (1 - is_last) * (lanes // step)
            numbers = tf.reshape(numbers, [rows, -1])
            width = tf.shape(numbers, tf.int64)[1]
            places = tf.cast(graph_order.hash_order(keys[RECORDS], numbers), tf.int64)
            places = tf.transpose(places + tf.range(rows)[:, None] * width)
            places = tf.reshape(places, [-1])
            if self._is_strided:
                positions = tf.range(rows * width) * every + number * layout.window + lane
                mine = self._turns.are_mine(positions, consumed)
            else:
                numbers = tf.gather(tf.reshape(numbers, [-1]), places)
                rank, mine = self._choose(epoch, consumed, rank, numbers)
            pieces = tf.concat([pieces, short_pieces], 0)
            return rank, (pieces, rows * width, tf.boolean_mask(places, mine))

        def read(pieces: Any, size: Any, chosen: Any) -> Any:
            records = tf.data.Dataset.from_tensor_slices(pieces)
            # If a file ends early, reshape fails.
            return (
                records.flat_map(self._read_piece)
                .batch(layout.window)
                .map(lambda read: tf.gather(tf.reshape(read, [size]), chosen))
            )

        count = windows + (windows * layout.window < layout.records)
        first, rank = self._first_window(epoch, consumed)
        plans = tf.data.Dataset.range(first, count).scan(rank, planned)
        return plans.filter(lambda pieces, size, chosen: tf.size(chosen) > 0).flat_map(read)

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

    def _file_windows(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of string[n]: this host's records of windows of whole shards."""
        layout, window = self._layout, self._layout.window
        keys = graph_order.epoch_keys(self._seed_key, epoch)
        shards = tf.range(len(layout.shards), dtype=tf.int64)
        if self._order == "windowed":
            shards = graph_order.hash_order(keys[BLOCKS], shards)
        first_records = tf.gather(tf.constant(layout.starts), shards)
        counts = tf.gather(tf.constant(layout.shards, tf.int64), shards)
        ends = tf.cumsum(counts)
        first, rank = self._first_window(epoch, consumed)

        def chosen(rank: Any, read: tuple[Any, Any]) -> tuple[Any, Any]:
            number, payloads = read
            positions = tf.range(tf.size(payloads, tf.int64)) + number * window
            of = tf.searchsorted(ends, positions, side="right")
            numbers = positions - tf.gather(ends - counts, of) + tf.gather(first_records, of)
            if self._order == "windowed":
                order = graph_order.hash_order(keys[RECORDS], numbers)
                numbers, payloads = tf.gather(numbers, order), tf.gather(payloads, order)
            rank, mine = self._choose(epoch, consumed, rank, numbers)
            return rank, tf.boolean_mask(payloads, mine)

        records = self._read(tf.gather(self._paths, shards))
        return records.skip(first * window).batch(window).enumerate(first).scan(rank, chosen)

    def _full(self, epoch: Any, consumed: Any) -> Any:
        keys = graph_order.epoch_keys(self._seed_key, epoch)

        def places(numbers: Any) -> Any:
            files = tf.searchsorted(self._ends, numbers, side="right", out_type=tf.int64)
            return tf.stack(
                [files, tf.gather(self._offsets, numbers), tf.ones_like(numbers)], axis=1
            )

        def chosen(rank: Any, positions: Any) -> tuple[Any, Any]:
            numbers = graph_order.full_order(self._layout.records, keys, positions)
            rank, mine = self._choose(epoch, consumed, rank, numbers)
            return rank, places(tf.boolean_mask(numbers, mine))

        if self._is_strided:
            first, every = self._turns.first(consumed), self._hosts
        else:
            window, rank = self._first_window(epoch, consumed)
            first, every = window * self._layout.window, 1
        positions = tf.data.Dataset.range(first, self._layout.records, every).batch(_POSITIONS)
        if self._is_strided:
            pieces = positions.map(
                lambda some: places(graph_order.full_order(self._layout.records, keys, some))
            )
        else:
            pieces = positions.scan(rank, chosen)
        return pieces.unbatch().interleave(
            self._read_piece, cycle_length=_OPEN_FILES, num_parallel_calls=_OPEN_FILES
        )


def cache_buffer(layout: OrderLayout) -> int:
    """Return the size of the buffer that shuffles cached records: 64 MiB, at most 10,000."""
    most = min(_BUFFER_RECORDS, int(_BUFFER_BYTES / max(layout.record_bytes, 1)))
    return max(1, min(most, layout.records))


def mix(
    schedule: MixtureSchedule,
    streams: Sequence[Any],
    *,
    turns: HostTurns,
    first: Any,
    stop: int | None,
) -> Any:
    """Return a dataset that takes elements from datasets in the order of a mixture.

    streams: datasets of this host's records of each source.
    first: int64[], the first position of this host. stop: position after the last; None for none.
    """
    positions = tf.data.Dataset.range(first, tf.int64.max if stop is None else stop, turns.hosts)
    sources = positions.batch(_POSITIONS).map(
        lambda some: graph_order.mixture_sources(schedule, some)
    )
    return tf.data.Dataset.choose_from_datasets([*streams], sources.unbatch())


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
