"""Reads records at ascending positions of an epoch, window by window."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from recordmill.reading.epoch_order import EpochOrder, Numbers
from recordmill.reading.reader import Records


class EpochReader:
    """Reads the payloads at positions of an epoch; those of a window are read together.

    Uncompressed shards are read by their index. The stream of a gzip shard stays open where the
    next window continues.
    """

    def __init__(self, records: Records, order: EpochOrder) -> None:
        self._records = records
        self._order = order
        self._streams: dict[int, Iterator[tuple[int, bytes]]] = {}  # by shard

    def read(self, positions: Iterable[range]) -> Iterator[tuple[int, bytes]]:
        """Return an iterator over (record number, payload) at each of the ascending positions."""
        layout = self._order.layout
        windows = map(self._order.record_numbers, by_window(positions, layout.window))
        read = self._records.payload_batches if layout.seekable else self._streamed_batches
        # No variable holds a window while the next one is read.
        return itertools.chain.from_iterable(itertools.starmap(_pairs, read(windows)))

    def _streamed_batches(
        self, batches: Iterable[Numbers]
    ) -> Iterator[tuple[Numbers, list[bytes]]]:
        return ((numbers, self._streamed(numbers)) for numbers in batches)

    def _streamed(self, numbers: Numbers) -> list[bytes]:
        """Return payloads from the open streams of their shards."""
        found: dict[int, bytes] = {}
        for number in np.sort(numbers).tolist():
            shard = self._records.shard_of(number)
            if shard not in self._streams:
                self._streams[shard] = self._records.rest_of_shard(number)
            stream = self._streams[shard]
            found[number] = next(payload for at, payload in stream if at == number)
            if number + 1 == self._order.layout.starts[shard + 1]:
                next(stream, None)  # checks that the file ends here
        return [found[number] for number in numbers.tolist()]


def _pairs(numbers: Numbers, payloads: list[bytes]) -> Iterator[tuple[int, bytes]]:
    return zip(numbers.tolist(), payloads, strict=True)


def by_window(positions: Iterable[range], window: int) -> Iterator[Numbers]:
    """Yield ascending positions as one array per window."""
    held: list[Numbers] = []
    number = -1
    for part in positions:
        rest = part
        while rest:
            if held and rest[0] // window != number:
                yield np.concatenate(held)
                held = []
            number = rest[0] // window
            count = -(-((number + 1) * window - rest[0]) // rest.step)
            held.append(np.arange(rest.start, rest[:count].stop, rest.step))
            rest = rest[count:]
    if held:
        yield np.concatenate(held)
