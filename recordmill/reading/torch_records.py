"""Records for PyTorch: an IterableDataset that deals them to hosts and to DataLoader's workers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from recordmill.errors import ConfigError
from recordmill.format.typed_records import TypedRecord
from recordmill.reading.reader import Folder, Records
from recordmill.reading.worker_sharding import cut, part_of, shuffled, shuffled_blocks

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "recordmill.torch_dataset is for PyTorch: install torch; recordmill.read does without"
    ) from error

# About what a worker reads at once, and what it draws from, in files.
_BLOCK_BYTES = 4 << 20
_BUFFER_BYTES = 32 << 20
_BUFFER_RECORDS = 1 << 14

Transform = Callable[[TypedRecord], Any]


class TorchRecords(IterableDataset):
    """The records of a split that fall to this host; each worker of a DataLoader has its part.

    A record is {feature: value} as `recordmill.read` has it, but for arrays of bytes, which are
    lists, as `default_collate` takes them.
    """

    def __init__(
        self,
        records: Records,
        *,
        shuffle: bool,
        seed: int,
        shard: tuple[int, int],
        transform: Transform | None,
    ) -> None:
        self.records = records
        self._part = part_of(range(len(records)), *shard)
        self._shuffle = shuffle
        self._seed = seed
        self._transform = transform
        # Workers that outlive an epoch see what is set here.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        """Records of this host, in all workers together."""
        return len(self._part)

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch begins next: with `shuffle` each has an order of its own.

        Raises:
          ConfigError: it is below 0.
        """
        self._epoch.fill_(_whole("epoch", epoch))

    def __iter__(self) -> Iterator[Any]:
        # Not in the generator: it would look at the epoch when the first record is asked for.
        return self._iterate(int(self._epoch))

    def _iterate(self, epoch: int) -> Iterator[Any]:
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        part = part_of(range(len(self)), workers, worker)
        if self._shuffle:
            blocks = self.records.blocks(self._part, size=self._count(_BLOCK_BYTES))
            order = shuffled_blocks(blocks, seed=self._seed, epoch=epoch)
        else:
            order = [self._part]
        payloads = self._payloads(cut(order, part))
        if self._shuffle:
            held = min(self._count(_BUFFER_BYTES), _BUFFER_RECORDS)
            payloads = shuffled(payloads, held, seed=self._seed, epoch=epoch, worker=worker)
        for number, payload in payloads:
            record = self.records.decode(payload, number)
            record = {name: _listed(value) for name, value in record.items()}
            yield record if self._transform is None else self._transform(record)

    def _payloads(self, ranges: Sequence[range]) -> Iterator[tuple[int, bytes]]:
        for one in ranges:
            yield from zip(one, self.records.payloads(one.start, one.stop), strict=True)

    def _count(self, size: int) -> int:
        """How many records take so many bytes, about."""
        return max(1, int(size / max(self.records.mean_bytes, 1)))


def torch_dataset(
    dataset: Folder,
    split: str | None = None,
    *,
    shuffle: bool = False,
    seed: int = 0,
    shard: Sequence[int] = (1, 0),
    transform: Transform | None = None,
    features: Collection[str] | None = None,
) -> TorchRecords:
    """A split as a `torch.utils.data.IterableDataset`: every record once in every epoch.

    shuffle: read in an order that `set_epoch` changes, a function of the seed and the epoch: blocks
      of records at random, and of these each record from a buffer of up to 32 MB in a worker. On
      disk records are shuffled already, so that none of this is needed for the first epoch.
    shard: hosts, and which of them this is, from 0. Each has records of its own, by their number on
      disk, and so has each worker of a DataLoader: how many they are differs by one at most.
    transform: what makes of a record what a batch is made of, in the worker. Where workers are
      spawned it has to be a function of a module.
    features: those that a record is to have; None for all.

    Raises:
      ModuleNotFoundError: there is no PyTorch.
      ManifestError: there is no dataset.
      ValueError: there is no such split, or no such feature.
      ConfigError: a shard or a seed that there is not.
    """
    if len(shard) != 2:
        raise ConfigError(f"shard: expected (hosts, index), such as (4, 0), got {shard!r}")
    hosts, index = (_whole("shard", number) for number in shard)
    if index >= hosts:
        raise ConfigError(
            f"shard: expected (hosts, index), with an index below {hosts}, got {shard!r}"
        )
    return TorchRecords(
        Records(dataset, split, features=features),
        shuffle=shuffle,
        seed=_whole("seed", seed),
        shard=(hosts, index),
        transform=transform,
    )


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{name}: expected a whole number, got {value!r}") from None
    if number < 0:
        raise ConfigError(f"{name}: expected 0 or more, got {value!r}")
    return number


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    return value
