"""Reads records at ascending positions of an epoch, window by window."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from recordmill.reading.epoch_order import Numbers
from recordmill.reading.reader import Records
from recordmill.reading.sequence import AnySequence, EpochSequence, SequencePlaces

_CHUNK = 1 << 12  # positions that are located together
_AHEAD = 1 << 8  # chunks after which the records of a window that were found are read


class SequenceReader:
    """Reads the payloads at positions of a sequence.

    Each source of a mixture is read at its own pace, window by window.
    """

    def __init__(self, records: Sequence[Records], sequence: AnySequence) -> None:
        self._records = records
        self._sequence = sequence

    def read(
        self, epoch: int, positions: Callable[[], Iterable[range]]
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield the source, the record number and the payload at each position.

        positions: a function that returns the ascending positions from their beginning. Each source
          iterates over them.
        """
        sources = self._sequence.sources
        streams = [
            SourceReader(records, source).read(self._places(number, epoch, positions()))
            for number, (records, source) in enumerate(zip(self._records, sources, strict=True))
        ]
        if len(streams) == 1:
            yield from ((0, number, payload) for number, payload in streams[0])
            return
        for part in chunks(positions()):
            for source in self._sequence.locate(epoch, part).sources.tolist():
                yield source, *next(streams[source])

    def _places(
        self, source: int, epoch: int, positions: Iterable[range]
    ) -> Iterator[SequencePlaces]:
        """Yield the places of one source, chunk by chunk."""
        for part in chunks(positions):
            places = self._sequence.locate(epoch, part)
            mine = places.sources == source
            yield SequencePlaces(
                sources=places.sources[mine],
                epochs=places.epochs[mine],
                positions=places.positions[mine],
            )


class SourceReader:
    """Reads the payloads of one dataset at places of its epochs; a window is read together.

    Uncompressed shards are read by their index. The stream of a gzip shard stays open where the
    next window continues.
    """

    def __init__(self, records: Records, sequence: EpochSequence) -> None:
        self._records = records
        self._sequence = sequence
        self._window: tuple[int, int] | None = None  # of gzip shards: epoch and number
        self._payloads: dict[int, bytes] = {}  # of that window, by record number
        self._streams: dict[int, Iterator[tuple[int, bytes]]] = {}  # by shard

    def read(self, places: Iterable[SequencePlaces]) -> Iterator[tuple[int, bytes]]:
        """Return an iterator over (record number, payload) at each of the ascending places."""
        windows = by_window(self._sequence, places)
        if self._sequence.layout.seekable:
            read = self._records.payload_batches(self._numbers(*one) for one in windows)
        else:
            read = self._streamed_batches(windows)
        # No variable holds a window while the next one is read.
        return itertools.chain.from_iterable(itertools.starmap(_pairs, read))

    def _numbers(self, window: tuple[int, int], positions: Numbers) -> Numbers:
        """Return the record numbers at positions of a window, given as (epoch, window)."""
        return self._sequence.epoch_order(window[0]).record_numbers(positions)

    def _streamed_batches(
        self, windows: Iterable[tuple[tuple[int, int], Numbers]]
    ) -> Iterator[tuple[Numbers, list[bytes]]]:
        for window, positions in windows:
            numbers = self._numbers(window, positions)
            yield numbers, self._streamed(*window, numbers)

    def _streamed(self, epoch: int, window: int, numbers: Numbers) -> list[bytes]:
        """Return payloads of a window, all of which is read from the streams of its shards."""
        if self._window != (epoch, window):
            if self._window is None or self._window[0] != epoch:
                self._streams = {}
            self._window = epoch, window
            self._payloads = {}
            layout = self._sequence.layout
            first = window * layout.window
            stop = min(first + layout.window, layout.records)
            order = self._sequence.unfiltered_order(epoch)
            everything = np.sort(order.record_numbers(np.arange(first, stop)))
            self._payloads = {number: self._next(number) for number in everything.tolist()}
        return [self._payloads[number] for number in numbers.tolist()]

    def _next(self, number: int) -> bytes:
        """Return a payload from the stream of its shard."""
        shard = self._records.shard_of(number)
        if shard not in self._streams:
            self._streams[shard] = self._records.rest_of_shard(number)
        stream = self._streams[shard]
        payload = next(payload for at, payload in stream if at == number)
        if number + 1 == self._sequence.layout.starts[shard + 1]:
            next(stream, None)  # checks that the file ends here
        return payload


def _pairs(numbers: Numbers, payloads: list[bytes]) -> Iterator[tuple[int, bytes]]:
    return zip(numbers.tolist(), payloads, strict=True)


def chunks(positions: Iterable[range]) -> Iterator[Numbers]:
    """Yield ascending positions in arrays of up to 4,096."""
    held: list[Numbers] = []
    count = 0
    for part in positions:
        rest = part
        while rest:
            taken, rest = rest[: _CHUNK - count], rest[_CHUNK - count :]
            held.append(np.arange(taken.start, taken.stop, taken.step))
            count += len(taken)
            if count == _CHUNK:
                yield np.concatenate(held)
                held, count = [], 0
    if held:
        yield np.concatenate(held)


def by_window(
    sequence: EpochSequence, places: Iterable[SequencePlaces]
) -> Iterator[tuple[tuple[int, int], Numbers]]:
    """Yield (epoch, window) and the positions in it, from ascending places of one source.

    The positions of a window are yielded in several parts if they lie far apart in a mixture.
    """
    held: list[Numbers] = []
    current, since = (-1, -1), 0
    for part in places:
        since += 1
        for key, positions in _windows_of(sequence, part):
            if held and (key != current or since > _AHEAD):
                yield current, np.concatenate(held)
                held = []
            if not held:
                since = 0
            current = key
            held.append(positions)
    if held:
        yield current, np.concatenate(held)


def _windows_of(
    sequence: EpochSequence, places: SequencePlaces
) -> Iterator[tuple[tuple[int, int], Numbers]]:
    """Yield the positions of each window of ascending places."""
    for epoch in np.unique(places.epochs).tolist():
        positions = places.positions[places.epochs == epoch]
        windows = sequence.epoch_order(epoch).windows(positions)
        cuts = np.flatnonzero(np.diff(windows)) + 1
        for part, first in zip(np.split(positions, cuts), [0, *cuts.tolist()], strict=True):
            yield (epoch, int(windows[first])), part
