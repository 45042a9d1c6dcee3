"""The order of the records of an epoch: a function of the dataset, a seed and the epoch's number.

It does not depend on hosts, workers, batch size or framework. The record number at a position is
computed without the positions before it. Names of orders:

- `stored`: the order of the files.
- `windowed`: files are read in blocks of consecutive records. Blocks have another order in each
  epoch; `lanes` blocks make a window, which is held in memory. The records of a block are shuffled,
  and position p of a window is the next record of block p % lanes. So hosts that take every n-th
  position read different blocks, if n divides the number of lanes. The records that fill no window
  come last, shuffled together.
- `full`: a permutation of all records, computed record by record.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError
from recordmill.format.manifest import Manifest, Shard

Shuffled = Literal["windowed", "full"]
OrderName = Literal["stored"] | Shuffled

SHUFFLED: tuple[Shuffled, ...] = get_args(Shuffled)
LANES = (96, 48, 24, 12, 6, 3, 1)  # blocks of a window: the first number that its records fill
WINDOW_BYTES = 32 << 20
WINDOW_RECORDS = 1 << 14

# Domains of keys, so that the parts of an order are independent.
SHORT_BLOCK, BLOCKS, RECORDS, AUGMENTATIONS, ROUNDS = range(5)

FEISTEL_ROUNDS = 8
DOMAINS = ROUNDS + FEISTEL_ROUNDS
_PAGE = 1 << 10  # positions of a full order that are computed together
_LEAST_BITS = 6  # of the domain of a Feistel network: a smaller one has few permutations
GOLDEN = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1

Numbers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderLayout:
    """The facts about a split that determine its orders.

    shards: records of each shard, in order.
    record_bytes: mean bytes of a record in the files.
    seekable: False if shards can only be read from their start (gzip). Then shards take the place
      of blocks, and a window is the next records in the order of the shards.
    salt: the digest of the dataset, so that datasets of one size have different orders.
    """

    shards: tuple[int, ...]
    record_bytes: float
    seekable: bool
    salt: str

    @functools.cached_property
    def records(self) -> int:
        """Number of records."""
        return sum(self.shards)

    @functools.cached_property
    def starts(self) -> Numbers:
        """Number of the first record of each shard, and of all records: int64[shards + 1]."""
        return np.array([0, *itertools.accumulate(self.shards)], np.int64)

    @functools.cached_property
    def _window_records(self) -> int:
        most = int(WINDOW_BYTES / max(self.record_bytes, 1))
        return max(1, min(most, WINDOW_RECORDS))

    @functools.cached_property
    def lanes(self) -> int:
        """Number of blocks in a window."""
        if not self.seekable:
            return 1
        return next(lanes for lanes in LANES if lanes <= self._window_records)

    @functools.cached_property
    def block(self) -> int:
        """Number of records in a block."""
        return self._window_records // self.lanes

    @property
    def window(self) -> int:
        """Number of positions whose records are read together."""
        return self.lanes * self.block

    @property
    def blocks(self) -> int:
        """Number of blocks that are full."""
        return self.records // self.block

    @property
    def windows(self) -> int:
        """Number of windows that are full."""
        return self.records // self.window

    @property
    def short(self) -> int:
        """Number of records in the short block; 0 if all blocks are full."""
        return self.records - self.blocks * self.block

    def seed_key(self, seed: int) -> int:
        """Return the key of a seed, from which `epoch_key` makes those of its epochs."""
        digest = hashlib.sha256(f"{self.salt} {self.records} {seed}".encode()).digest()
        return int.from_bytes(digest[:8], "little")


def order_layout(manifest: Manifest, shards: Sequence[Shard]) -> OrderLayout:
    """Return the layout of some shards of a dataset: those of a split, or all."""
    counts = tuple(one.records for one in shards)
    return OrderLayout(
        shards=counts,
        record_bytes=sum(one.bytes for one in shards) / max(sum(counts), 1),
        seekable=manifest.compression == "none",
        salt=manifest.digest,
    )


def order_name(*, shuffle: bool, order: str | None, seekable: bool) -> OrderName:
    """Return the order that the options `shuffle` and `order` select.

    Raises:
      ConfigError: they contradict each other, or the files.
    """
    if order is None:
        return "windowed" if shuffle else "stored"
    if order not in SHUFFLED:
        raise ConfigError(f"order: expected one of {', '.join(SHUFFLED)}, got {order!r}")
    if not shuffle:
        raise ConfigError(f"order: {order!r} needs shuffle=True")
    if order == "full" and not seekable:
        raise ConfigError(
            "order: 'full' reads single records, and a gzip shard is read from its start for each"
            " of them: use order='windowed', or write the dataset without compression"
        )
    return "full" if order == "full" else "windowed"


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each value, without collisions: the finalizer of SplitMix64.

    Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(MIX_1)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(MIX_2)
    return values ^ (values >> np.uint64(31))


def epoch_key(seed_key: int, epoch: int, domain: int) -> npt.NDArray[np.uint64]:
    """Return the key of one domain of an epoch: uint64[1]."""
    key = np.array([(seed_key + (epoch + 1) * GOLDEN) & _MASK], np.uint64)
    return mix(mix(key) + np.uint64(domain))


def _hashes(key: npt.NDArray[np.uint64], numbers: Numbers) -> npt.NDArray[np.uint64]:
    return mix(key + numbers.astype(np.uint64) * np.uint64(GOLDEN))


def shuffle(key: npt.NDArray[np.uint64], numbers: Numbers) -> Numbers:
    """Return the numbers of each row, sorted by their hashes: int64[..., n]."""
    order = np.argsort(_hashes(key, numbers), axis=-1, kind="stable")
    return np.take_along_axis(numbers, order, axis=-1)


class EpochOrder(abc.ABC):
    """The order of the records in an epoch."""

    def __init__(self, layout: OrderLayout) -> None:
        self.layout = layout

    @property
    def records(self) -> int:
        """Number of records in the epoch."""
        return self.layout.records

    def windows(self, positions: Numbers) -> Numbers:
        """Return the windows of these positions, whose records are read together."""
        return positions // self.layout.window

    def window_start(self, position: int) -> tuple[int, int]:
        """Return the window of a position, and the first position of that."""
        window = position // self.layout.window
        return window, window * self.layout.window

    def window_ranks(self, window: int) -> tuple[int, int]:
        """Return the first position of a window, and that after its last."""
        size = self.layout.window
        return window * size, min((window + 1) * size, self.layout.records)

    @abc.abstractmethod
    def record_numbers(self, positions: Numbers) -> Numbers:
        """Return the record numbers at these positions."""

    @abc.abstractmethod
    def record_number(self, position: int) -> int:
        """Return the record number at one position; those near it are cached."""


class StoredOrder(EpochOrder):
    """The order of the files, in every epoch."""

    def record_numbers(self, positions: Numbers) -> Numbers:
        """Return the record numbers at these positions."""
        return positions

    def record_number(self, position: int) -> int:
        """Return the record number at one position."""
        return position


class WindowedOrder(EpochOrder):
    """Blocks of files in another order, shuffled in windows."""

    def __init__(self, layout: OrderLayout, *, seed: int, epoch: int) -> None:
        super().__init__(layout)
        self._key = functools.partial(epoch_key, layout.seed_key(seed), epoch)
        # Readers proceed from one window to the next.
        self.window = functools.lru_cache(maxsize=4)(self._window)

    def record_numbers(self, positions: Numbers) -> Numbers:
        """Return the record numbers at these positions."""
        found = np.empty(len(positions), np.int64)
        windows, places = np.divmod(positions, self.layout.window)
        for window in np.unique(windows).tolist():
            chosen = windows == window
            found[chosen] = self.window(window)[places[chosen]]
        return found

    def record_number(self, position: int) -> int:
        """Return the record number at one position."""
        window, place = divmod(position, self.layout.window)
        return int(self.window(window)[place])

    def _window(self, number: int) -> Numbers:
        """Return the record numbers of a window in their order; the last may be shorter."""
        layout, key = self.layout, self._key(RECORDS)
        first, stop = number * layout.window, min((number + 1) * layout.window, layout.records)
        if not layout.seekable:
            return shuffle(key, self._in_shard_order(np.arange(first, stop)))
        starts = self._block_starts[number * layout.lanes : (number + 1) * layout.lanes]
        rows = starts[:, None] + np.arange(layout.block)
        if number < layout.windows:
            return shuffle(key, rows).T.reshape(-1)
        short = self._short_start + np.arange(layout.short)
        return shuffle(key, np.concatenate([rows.reshape(-1), short]))

    @functools.cached_property
    def _short_start(self) -> int:
        """First record of the short block, whose place differs between epochs."""
        blocks_before = self._key(SHORT_BLOCK)[0] % np.uint64(self.layout.blocks + 1)
        return int(blocks_before) * self.layout.block

    @functools.cached_property
    def _block_starts(self) -> Numbers:
        """First records of the full blocks, in the order of the epoch."""
        starts = shuffle(self._key(BLOCKS), np.arange(self.layout.blocks)) * self.layout.block
        return np.where(starts < self._short_start, starts, starts + self.layout.short)

    @functools.cached_property
    def _shard_order(self) -> Numbers:
        return shuffle(self._key(BLOCKS), np.arange(len(self.layout.shards)))

    def _in_shard_order(self, places: Numbers) -> Numbers:
        """Return the records at these places of the shards in the order of the epoch."""
        starts = self.layout.starts
        counts = np.diff(starts)[self._shard_order]
        ends = np.cumsum(counts)
        of = np.searchsorted(ends, places, side="right")
        numbers: Numbers = places - (ends - counts)[of] + starts[self._shard_order[of]]
        return numbers


def half_bits(records: int) -> int:
    """Return half the bits of a Feistel network whose domain has at least so many numbers."""
    return -(-max(_LEAST_BITS, (records - 1).bit_length()) // 2)


class FullOrder(EpochOrder):
    """A permutation of all records, computed by a Feistel network with cycle walking."""

    def __init__(self, layout: OrderLayout, *, seed: int, epoch: int) -> None:
        super().__init__(layout)
        self._half = np.uint64(half_bits(layout.records))
        key = layout.seed_key(seed)
        self._keys = [epoch_key(key, epoch, ROUNDS + number) for number in range(FEISTEL_ROUNDS)]
        self._page = functools.lru_cache(maxsize=4)(self._page_numbers)

    def record_numbers(self, positions: Numbers) -> Numbers:
        """Return the record numbers at these positions."""
        found = self._permuted(positions.astype(np.uint64))
        while (outside := found >= np.uint64(self.layout.records)).any():
            found[outside] = self._permuted(found[outside])
        return found.astype(np.int64)

    def record_number(self, position: int) -> int:
        """Return the record number at one position; those near it are kept, to be faster."""
        page, place = divmod(position, _PAGE)
        return int(self._page(page)[place])

    def _page_numbers(self, page: int) -> Numbers:
        first = page * _PAGE
        return self.record_numbers(np.arange(first, min(first + _PAGE, self.layout.records)))

    def _permuted(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Permute the numbers of the network's domain."""
        mask = (np.uint64(1) << self._half) - np.uint64(1)
        left, right = values >> self._half, values & mask
        for key in self._keys:
            left, right = right, left ^ (mix(key ^ right) & mask)
        return (left << self._half) | right


def epoch_order(name: OrderName, layout: OrderLayout, *, seed: int, epoch: int) -> EpochOrder:
    """Return the order of an epoch."""
    if name == "windowed":
        return WindowedOrder(layout, seed=seed, epoch=epoch)
    if name == "full":
        return FullOrder(layout, seed=seed, epoch=epoch)
    return StoredOrder(layout)


def host_positions(records: int, *, consumed: int, hosts: int, host: int) -> range:
    """Return the positions of one host: every n-th of those after the consumed ones.

    Each host has n of any `hosts * n` consecutive positions, wherever an epoch is continued.
    """
    return range(consumed + (host - consumed) % hosts, records, hosts)


def expect_full_batch(records: int, *, batch: int, hosts: int) -> None:
    """Check that an epoch has a full batch for every host, because others are dropped.

    Raises:
      ConfigError: it has none.
    """
    if records < batch * hosts:
        of_hosts = f" for each of {hosts} hosts" if hosts > 1 else ""
        raise ConfigError(
            f"drop_remainder: an epoch of {records} records has no batch of {batch}{of_hosts}"
        )


def worker_batches(positions: range, *, batch: int, workers: int, worker: int) -> Iterator[range]:
    """Yield the batches of one worker, as ranges of positions; workers of a host take turns."""
    for first in range(worker * batch, len(positions), workers * batch):
        yield positions[first : first + batch]
