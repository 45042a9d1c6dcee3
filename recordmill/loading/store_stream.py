"""Datasets of serialized records of a dataset in a store, which TensorFlow cannot read.

Python functions read the windows of an epoch. They are pure functions of its number and that of the
window, so that iterators can be saved.
"""

from __future__ import annotations

import collections
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from recordmill.errors import RunError
from recordmill.loading.stream import HostTurns, SourceStream
from recordmill.reading.epoch_reader import SourceReader
from recordmill.reading.reader import Records
from recordmill.reading.sequence import EpochSequence

_SIDE_BY_SIDE = 2  # windows that are read, or are ready, while one is consumed
_STREAMS = 2  # readers of gzip shards that can continue

Payloads = npt.NDArray[np.object_]


class StoreStream(SourceStream):
    """The records of a dataset in a store, as those of `EpochStream`."""

    def __init__(
        self,
        records: Records,
        sequence: EpochSequence,
        *,
        turns: HostTurns,
        start: tuple[int, int],
    ) -> None:
        super().__init__(sequence, turns=turns, start=start)
        self._records = records
        # Readers of gzip shards, by the epoch and the window with which they can continue.
        self._readers: collections.OrderedDict[tuple[int, int], SourceReader]
        self._readers = collections.OrderedDict()
        self._lock = threading.Lock()

    def epoch(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of payloads, as `SourceStream.epoch`."""
        first, _ = self._first_window(epoch, consumed)
        stop = -(-self._layout.records // self._layout.window)
        windows = tf.data.Dataset.range(first, stop)

        def payloads(window: Any) -> Any:
            return _in_python(self._window, epoch, window, consumed)

        if not self._layout.seekable:  # a stream is read window by window
            return windows.map(payloads).prefetch(1).unbatch()
        return windows.map(payloads, num_parallel_calls=_SIDE_BY_SIDE, deterministic=True).unbatch()

    def padding(self) -> Any:
        """Return a dataset of the payload of the first record; empty if there is none."""
        first = tf.data.Dataset.range(min(1, self._layout.records))
        return first.map(lambda _: _in_python(self._first)).unbatch()

    def _first(self) -> Payloads:
        return _array([self._records.payload(0)])

    def _window(self, epoch: int, window: int, consumed: int) -> Payloads:
        """Read this host's records of a window that are not consumed."""
        ranks = np.arange(*self._sequence.epoch_order(epoch).window_ranks(window))
        positions = ranks
        if self._turns.tables is not None:
            earlier = epoch % self._turns.source_epochs * self._sequence.records
            positions = self._turns.tables.positions(earlier + ranks)
        mine = ranks[self._turns.are_mine(positions, consumed)]
        if self._layout.seekable:
            numbers = self._sequence.epoch_order(epoch).record_numbers(mine)
            return _array(self._records.payloads_at(numbers))
        reader = self._take_reader(epoch, window)
        found = reader.read([self._sequence.locate(epoch, mine)])
        payloads = [payload for _, payload in found]
        with self._lock:
            self._readers[epoch, window + 1] = reader
            while len(self._readers) > _STREAMS:
                self._readers.popitem(last=False)
        return _array(payloads)

    def _take_reader(self, epoch: int, window: int) -> SourceReader:
        with self._lock:
            reader = self._readers.pop((epoch, window), None)
        return SourceReader(self._records, self._sequence) if reader is None else reader


def _array(payloads: list[bytes]) -> Payloads:
    found = np.empty(len(payloads), np.object_)
    found[:] = payloads
    return found


def _in_python(read: Any, *arguments: Any) -> Any:
    """Return the payloads that a Python function reads: string[n].

    An error of the function is that of an assertion, whose message is one line: TensorFlow would
    add the traceback of the function.
    """

    def attempt(*numbers: Any) -> tuple[Payloads, bytes]:
        try:
            return read(*map(int, numbers)), b""
        except RunError as error:
            return _array([]), f"{type(error).__name__}: {error}".encode()

    payloads, error = tf.numpy_function(attempt, arguments, (tf.string, tf.string), stateful=False)
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(error, ""), [error])]):
        return tf.ensure_shape(tf.identity(payloads), [None])
