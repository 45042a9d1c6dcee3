"""Records for PyTorch: an IterableDataset that shards them over hosts and DataLoader workers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from recordmill.errors import ConfigError
from recordmill.reading.reader import Folder, Records
from recordmill.reading.worker_sharding import even_part, shuffled, shuffled_blocks, slice_ranges
from recordmill.tfrecord.typed_records import TypedRecord

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "recordmill.torch_dataset needs PyTorch: install torch; recordmill.read works without it"
    ) from error

_BLOCK_BYTES = 4 << 20  # bytes of files that a worker reads at once when shuffling
_BUFFER_BYTES = 32 << 20  # bytes of files in the shuffle buffer of a worker
_BUFFER_RECORDS = 1 << 14  # at most so many records in that buffer

Transform = Callable[[TypedRecord], Any]


class TorchRecords(IterableDataset):
    """This host's records of a split, of which each worker of a DataLoader reads a part.

    A record is {feature: value} as `recordmill.read` returns it, except that arrays of bytes are
    lists, which `default_collate` accepts.
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
        self._part = even_part(range(len(records)), *shard)
        self._shuffle = shuffle
        self._seed = seed
        self._transform = transform
        # In shared memory, so that persistent workers see the epoch that is set here.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        """Return the number of this host's records, over all workers."""
        return len(self._part)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch: with `shuffle` every epoch has another order.

        Raises:
          ConfigError: the number is below 0.
        """
        self._epoch.fill_(_nonnegative_int("epoch", epoch))

    def __iter__(self) -> Iterator[Any]:
        # Read here, because a generator would read it only at the first record.
        return self._iterate(int(self._epoch))

    def _iterate(self, epoch: int) -> Iterator[Any]:
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        part = even_part(range(len(self)), workers, worker)
        if self._shuffle:
            blocks = self.records.blocks(self._part, size=self._count(_BLOCK_BYTES))
            order = shuffled_blocks(blocks, seed=self._seed, epoch=epoch)
        else:
            order = [self._part]
        payloads = self._payloads(slice_ranges(order, part))
        if self._shuffle:
            size = min(self._count(_BUFFER_BYTES), _BUFFER_RECORDS)
            payloads = shuffled(payloads, size, seed=self._seed, epoch=epoch, worker=worker)
        for number, payload in payloads:
            record = self.records.decode(payload, number)
            record = {name: _collatable(value) for name, value in record.items()}
            yield record if self._transform is None else self._transform(record)

    def _payloads(self, ranges: Sequence[range]) -> Iterator[tuple[int, bytes]]:
        for one in ranges:
            yield from zip(one, self.records.payloads(one.start, one.stop), strict=True)

    def _count(self, size: int) -> int:
        """Return about how many records take `size` bytes."""
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
    max_record_bytes: int | None = None,
) -> TorchRecords:
    """Return a split as a `torch.utils.data.IterableDataset` with every record once per epoch.

    split: the split to read; None for all splits.
    shuffle: read in an order that is a function of the seed and of the epoch, which `set_epoch`
      sets: blocks of records in random order, and their records through a shuffle buffer of up to
      32 MB per worker. Records are already shuffled on disk, so the first epoch does not need it.
    shard: (hosts, index of this host). Every host, and every worker of its DataLoader, reads a
      contiguous part of the records; the sizes of these parts differ by at most one.
    transform: a function from record to sample, called in the worker. If workers are spawned, it
      must be a module-level function.
    features: names of the features to return; None for all.
    max_record_bytes: as for `recordmill.read`.

    Raises:
      ModuleNotFoundError: PyTorch is not installed.
      ManifestError: the folder is not a dataset.
      ValueError: the split or a feature does not exist.
      ConfigError: the shard or the seed is invalid.
    """
    if len(shard) != 2:
        raise ConfigError(f"shard: expected (hosts, index), such as (4, 0), got {shard!r}")
    hosts, index = (_nonnegative_int("shard", number) for number in shard)
    if index >= hosts:
        raise ConfigError(
            f"shard: expected (hosts, index) with an index below {hosts}, got {shard!r}"
        )
    return TorchRecords(
        Records(dataset, split, features=features, max_record_bytes=max_record_bytes),
        shuffle=shuffle,
        seed=_nonnegative_int("seed", seed),
        shard=(hosts, index),
        transform=transform,
    )


def _nonnegative_int(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{name}: expected a whole number, got {value!r}") from None
    if number < 0:
        raise ConfigError(f"{name}: expected 0 or more, got {value!r}")
    return number


def _collatable(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    return value
