"""Records for PyTorch: an IterableDataset whose order does not depend on hosts or workers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from recordmill.errors import ConfigError
from recordmill.option_checks import expect_shard, expect_whole
from recordmill.reading.epoch_order import expect_full_batch, host_positions, worker_batches
from recordmill.reading.epoch_reader import SequenceReader
from recordmill.reading.samples import BoundTransform, SampleMaker, Transform, bind
from recordmill.reading.sequence import (
    MOST_EPOCHS,
    Datasets,
    OpenedSequence,
    State,
    open_sequence,
)

try:
    import torch
    from torch.utils.data import IterableDataset, default_collate, get_worker_info
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "recordmill.torch_dataset needs PyTorch: install torch; recordmill.read works without it"
    ) from error

Collate = Callable[[list[Any]], Any]

# Items of the shared tensor: the next epoch; epoch and consumed records of the start state;
# iterations over the next epoch; workers of the last iteration.
_EPOCH, _START_EPOCH, _START_RECORDS, _ITERATIONS, _WORKERS = range(5)
_ENDLESS = 1 << 62  # more positions than a run has


class TorchRecords(IterableDataset):
    """This host's records of a sequence, or batches of them; workers of a DataLoader take turns.

    A record is {feature: value} as `recordmill.read` returns it, except that arrays of bytes are
    lists, which `default_collate` accepts.
    """

    def __init__(
        self,
        opened: OpenedSequence,
        *,
        shard: tuple[int, int],
        batch_size: int | None,
        drop_remainder: bool,
        transform: BoundTransform | None,
        seed: int,
        collate: Collate,
    ) -> None:
        self._records = opened.records
        self._sequence = opened.sequence
        self._hosts, self._host = shard
        self._batch_size = batch_size
        self._drop_remainder = drop_remainder
        self._sample = SampleMaker(opened.records, transform, seed=seed, has_lists=True)
        self._collate = collate
        # In shared memory, so that persistent workers see changes.
        self._shared = torch.zeros(5, dtype=torch.int64).share_memory_()
        # (epoch, consumed records) after the last yield in this process, and to resume this worker.
        self._next: tuple[int, int] | None = None
        self._resumed: tuple[int, int] | None = None

    def __len__(self) -> int:
        """Return the number of this host's records, or batches, in a whole epoch.

        Raises:
          TypeError: the epoch is endless.
        """
        if self._sequence.records is None:
            raise TypeError("an endless mixture has no length: set until, or count steps")
        return -(-len(self._positions(0)) // (self._batch_size or 1))

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch; with `shuffle` every epoch has another order.

        Raises:
          ConfigError: the number is below 0.
        """
        self._shared[_EPOCH] = expect_whole("epoch", epoch, least=0, below=MOST_EPOCHS)
        self._shared[_ITERATIONS] = 0
        self._next = None

    @property
    def epoch(self) -> int:
        """Number of the next epoch."""
        return int(self._shared[_EPOCH])

    def state_dict(self) -> State:
        """Return the state after the yielded records, if each host has yielded as many.

        In a worker of a DataLoader it is the position of this worker's next batch, for torchdata's
        StatefulDataLoader.

        Raises:
          ConfigError: a DataLoader's workers read the records, so this process cannot count them.
        """
        if get_worker_info() is None and self._shared[_WORKERS]:
            raise ConfigError(
                "state_dict: the workers of a DataLoader read ahead, so only the training loop"
                " knows how many batches it has had: use recordmill.position(..., step=...,"
                " global_batch=...), or torchdata's StatefulDataLoader"
            )
        place = self._next or self._resumed or (self.epoch, self._start_of(self.epoch))
        return self._sequence.state(*place)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a run on any number of hosts and workers.

        The next epoch is that of the state, without the records that were consumed.

        Raises:
          ConfigError: it is not a state, or that of another dataset or order.
        """
        epoch, consumed = self._sequence.parse(state)
        self._next = None
        if get_worker_info() is not None:
            self._resumed = epoch, consumed
            return
        self._shared[_EPOCH] = self._shared[_START_EPOCH] = epoch
        self._shared[_START_RECORDS] = consumed
        self._shared[_ITERATIONS] = 0

    def __iter__(self) -> Iterator[Any]:
        # Not in the generator, which would read them only at the first record.
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        epoch = self.epoch
        consumed = self._start_of(epoch)
        if self._resumed is not None and info is not None:
            # The state of a worker is the position of its own next batch.
            (epoch, consumed), self._resumed, worker = self._resumed, None, 0
        elif worker == 0:
            self._count_iteration(consumed, workers=0 if info is None else workers)
        size = self._batch_size or 1
        self._next = epoch, consumed + worker * size * self._hosts
        return self._iterate(epoch, consumed, workers=workers, worker=worker)

    def _count_iteration(self, consumed: int, *, workers: int) -> None:
        """Count an iteration, and refuse a second one of a continued epoch."""
        self._shared[_WORKERS] = workers
        self._shared[_ITERATIONS] += 1
        if consumed and self._shared[_ITERATIONS] > 1:
            raise ConfigError(
                f"epoch {self.epoch} was already continued after {consumed} records: call set_epoch"
                " with the next epoch, or load_state_dict to continue it again"
            )

    def _start_of(self, epoch: int) -> int:
        """Return the number of records of an epoch that were consumed before this run."""
        return int(self._shared[_START_RECORDS]) if epoch == self._shared[_START_EPOCH] else 0

    def _positions(self, consumed: int) -> range:
        """Return the positions of this host."""
        records = self._sequence.records
        if records is None:
            return host_positions(_ENDLESS, consumed=consumed, hosts=self._hosts, host=self._host)
        if self._drop_remainder:  # all hosts have equally many batches
            assert self._batch_size is not None
            records -= (records - consumed) % (self._batch_size * self._hosts)
        return host_positions(records, consumed=consumed, hosts=self._hosts, host=self._host)

    def _iterate(self, epoch: int, consumed: int, *, workers: int, worker: int) -> Iterator[Any]:
        size = self._batch_size or 1

        def batches() -> Iterator[range]:
            positions = self._positions(consumed)
            if self._batch_size is None:
                return iter([positions[worker::workers]])
            return worker_batches(positions, batch=size, workers=workers, worker=worker)

        reader = SequenceReader(self._records, self._sequence)
        places = itertools.chain.from_iterable(batches())
        samples = (
            self._sample(*read, epoch, position)
            for read, position in zip(reader.read(epoch, batches), places, strict=True)
        )
        items = (
            samples
            if self._batch_size is None
            else (self._collate([*itertools.islice(samples, len(batch))]) for batch in batches())
        )
        for number, item in enumerate(items, start=1):
            self._next = epoch, consumed + (worker + number * workers) * size * self._hosts
            yield item


def torch_dataset(
    dataset: Datasets,
    split: str | None = None,
    *,
    shuffle: bool = False,
    order: str | None = None,
    seed: int = 0,
    filter: Any = None,  # noqa: A002, as in pyarrow
    temperature: float | None = None,
    until: str | None = None,
    shard: Sequence[int] = (1, 0),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    transform: Transform | None = None,
    collate_fn: Collate | None = None,
    features: Collection[str] | None = None,
    start: Mapping[str, Any] | None = None,
    max_record_bytes: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> TorchRecords:
    """Return a split as a `torch.utils.data.IterableDataset` of each record once per epoch.

    The order is that of `recordmill.load`: a function of the dataset, the seed and the epoch, which
    `set_epoch` sets. Hosts, workers and batch size do not change it.

    dataset: the folder of a dataset. A mixture of several is {folder: weight}, or a list of
      folders, whose weights are their numbers of (kept) records. Any 1,000 consecutive records of a
      mixture have the shares of the weights, to within one record; each source is read in its own
      order, epoch after epoch.
    split: the split to read; None for all splits.
    shuffle: another order in every epoch; without it that of `recordmill.read`.
    order: `windowed`, the default of `shuffle`, reads blocks of files in another order and shuffles
      the records of 96 of them at a time (32 MiB). `full` is a permutation of all records, each of
      which is read by its offset; not for gzip.
    filter: an expression of `pyarrow.compute` over the columns of the index, such as
      `pc.field("label") == "cat"`. Only records for which it is true are
      returned.
    temperature: of a list of datasets: their weights are their numbers of records to the power
      1 / temperature, so a higher temperature makes the shares more equal.
    until: the end of an epoch of a mixture: `first_exhausted`, when all records of one source were
      read, or `all_exhausted`, when those of every source were. None: it has no end.
    shard: (hosts, index of this host). A host reads every n-th record of the order; hosts differ by
      one record at most.
    batch_size: records of the batches to yield, with batch_size=None for the DataLoader. Workers
      take turns with whole batches, so batches do not depend on their number. None yields single
      records, with which workers take turns.
    drop_remainder: leave out the last records of an epoch that do not fill a batch of every host.
    transform: a function from record to sample, or `recordmill.Decode`, called in the worker. If
      workers are spawned, it must be a module-level function.
    collate_fn: a function from a list of samples to a batch; by default one that returns what
      `default_collate` returns, and copies arrays once.
    features: names of the features to return; None for all. `Decode` selects them by `inputs`.
    start: a state of `recordmill.position` or `state_dict`, from which any number of hosts and
      workers can continue.
    max_record_bytes, cache, cache_size: as for `recordmill.read`.

    Raises:
      ModuleNotFoundError: PyTorch is not installed.
      ManifestError: the folder is not a dataset.
      ValueError: the split or a feature does not exist.
      ConfigError: an option is invalid, or `start` is the state of another dataset or order.
    """
    hosts, index = expect_shard(shard)
    if batch_size is not None:
        batch_size = expect_whole("batch_size", batch_size, least=1)
    elif drop_remainder or collate_fn is not None:
        name = "drop_remainder" if drop_remainder else "collate_fn"
        raise ConfigError(f"{name} applies to batches: set batch_size")
    bound, features = bind(transform, dataset, split, features=features)
    opened = open_sequence(
        dataset,
        split,
        shuffle=shuffle,
        order=order,
        seed=seed,
        filter=filter,
        temperature=temperature,
        until=until,
        features=features,
        max_record_bytes=max_record_bytes,
        cache=cache,
        cache_size=cache_size,
    )
    records = opened.sequence.records
    if drop_remainder and batch_size is not None and records is not None:
        expect_full_batch(records, batch=batch_size, hosts=hosts)
    found = TorchRecords(
        opened,
        shard=(hosts, index),
        batch_size=batch_size,
        drop_remainder=drop_remainder,
        transform=bound,
        seed=seed,
        collate=collate_fn or collate,
    )
    if start is not None:
        found.load_state_dict(start)
    return found


def collate(batch: list[Any]) -> Any:
    """Return the batch of `default_collate`; arrays are stacked by NumPy, which is faster."""
    first = batch[0]
    if isinstance(first, dict):
        return {name: collate([one[name] for one in batch]) for name in first}
    if type(first) is tuple:
        return [collate([*values]) for values in zip(*batch, strict=True)]
    if isinstance(first, np.ndarray) and len({one.shape for one in batch}) == 1:
        return torch.from_numpy(np.stack(batch))
    return default_collate(batch)
