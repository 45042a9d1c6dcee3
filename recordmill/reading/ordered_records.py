"""Records by their position in the order of training: a source for Grain.

Item i is the record at position i of all epochs in a row. Every other program that reads items by
their number can use it, too.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from recordmill.errors import ConfigError
from recordmill.option_checks import expect_whole
from recordmill.reading.epoch_order import EpochOrder, epoch_order, order_name
from recordmill.reading.reader import NO_RANDOM_ACCESS, Folder, Records
from recordmill.reading.samples import BoundTransform, SampleMaker, Transform, bind
from recordmill.reading.sequence import MOST_EPOCHS, EpochSequence, State


class OrderedRecords(Sequence[Any]):
    """The records of a split in the order of its epochs, by their position.

    It keeps no file open, and so can be pickled, forked, and read by many threads.
    """

    def __init__(
        self,
        records: Records,
        sequence: EpochSequence,
        *,
        epochs: int,
        start: tuple[int, int],
        transform: BoundTransform | None,
        has_lists: bool = False,
    ) -> None:
        """Prepare to read.

        epochs: number of the epoch after the last.
        start: the first epoch, and the number of its records that are left out.
        """
        self.records = records
        self._sequence = sequence
        self._epochs = epochs
        self._start = start
        self._sample = SampleMaker([records], transform, seed=sequence.seed, has_lists=has_lists)
        self._order = self._cached_orders()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_order"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._order = self._cached_orders()

    def __repr__(self) -> str:
        """Return what determines the items: Grain compares it with that of a saved state."""
        return (
            f"{type(self).__name__}({self._sequence!r}, epochs={self._epochs}, start={self._start})"
        )

    def __len__(self) -> int:
        return self._epochs * self._sequence.records - self._first

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return self.__getitems__(range(len(self))[index])
        epoch, position = divmod(self._first + self._checked(index), self._sequence.records)
        number = self._order(epoch).record_number(position)
        return self._sample(0, number, self.records.payload(number), epoch, position)

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Any]:
        """Return several items, whose records are read together."""
        places = np.array([*map(self._checked, indices)], np.int64) + self._first
        epochs, positions = np.divmod(places, max(self._sequence.records, 1))
        numbers = np.empty_like(positions)
        for epoch in np.unique(epochs).tolist():
            chosen = epochs == epoch
            numbers[chosen] = self._order(epoch).record_numbers(positions[chosen])
        payloads = self.records.payloads_at(numbers)
        return [
            self._sample(0, *one)
            for one in zip(
                numbers.tolist(), payloads, epochs.tolist(), positions.tolist(), strict=True
            )
        ]

    _getitems = __getitems__  # the name that Grain uses

    def state(self, items: int) -> State:
        """Return the state after the first items, if all hosts together have consumed them.

        Raises:
          ConfigError: there are fewer items.
        """
        items = expect_whole("items", items, least=0, below=len(self) + 1)
        records = self._sequence.records
        place = divmod(self._first + items, records) if records else (self._epochs, 0)
        return self._sequence.state(*place)

    @property
    def _first(self) -> int:
        """Number of records of all epochs before the first item."""
        epoch, consumed = self._start
        return epoch * self._sequence.records + consumed

    def _checked(self, index: SupportsIndex) -> int:
        given, size = operator.index(index), len(self)
        place = given + size if given < 0 else given
        if not 0 <= place < size:
            known = f"expected an item from 0 to {size - 1}" if size else "there are no items"
            raise IndexError(f"{known}, got {given}")
        return place

    def _cached_orders(self) -> Callable[[int], EpochOrder]:
        sequence, layout = self._sequence, self.records.layout

        def order(epoch: int) -> EpochOrder:
            return epoch_order(sequence.order, layout, seed=sequence.seed, epoch=epoch)

        return functools.lru_cache(maxsize=2)(order)


def grain_source(
    dataset: Folder,
    split: str | None = None,
    *,
    shuffle: bool = False,
    order: str | None = None,
    seed: int = 0,
    epochs: int = 1,
    start: Mapping[str, Any] | None = None,
    transform: Transform | None = None,
    features: Collection[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> OrderedRecords:
    """Return a split as a random-access data source for Grain.

    Item i is the record at position i of all epochs in a row, in the order of `recordmill.load` and
    `recordmill.torch_dataset`: a function of the dataset, the seed and the epoch. So hosts that
    take every n-th item, `grain.MapDataset.source(source)[host::hosts]`, share each global batch.
    Records are read by the index, and every checksum is checked. `source.state(items)` returns the
    state after a number of items, from which any loader can continue.

    split: the split to read; None for all splits.
    shuffle: another order in every epoch; without it that of `recordmill.read`.
    order: as for `recordmill.torch_dataset`.
    epochs: number of epochs of the run, including those before `start`. A large number costs
      nothing; Grain's `repeat` would have every epoch in the same order.
    start: a state of `recordmill.position`, `state` or `state_dict`, from which item 0 continues.
    transform: a function from record to item, or `recordmill.Decode`. For worker processes it must
      be picklable.
    features: names of the features to return; None for all. `Decode` selects them by `inputs`.
    cache, cache_size: as for `recordmill.read`.

    A record is {feature: value}, as `recordmill.read` returns it.

    Raises:
      ManifestError: the folder is not a dataset.
      ValueError: the split or a feature does not exist.
      ConfigError: an option is invalid, the shards are compressed, or `start` is the state of
        another dataset or order, or after the last epoch.
    """
    epochs = expect_whole("epochs", epochs, least=1, below=MOST_EPOCHS + 1)
    bound, features = bind(transform, dataset, split, features=features)
    records, sequence = open_for_random_access(
        dataset,
        split,
        shuffle=shuffle,
        order=order,
        seed=seed,
        features=features,
        cache=cache,
        cache_size=cache_size,
    )
    epoch, consumed = (0, 0) if start is None else sequence.parse(start)
    if epoch >= epochs:
        raise ConfigError(f"start: epoch {epoch} is after the last of {epochs}: increase epochs")
    return OrderedRecords(
        records, sequence, epochs=epochs, start=(epoch, consumed), transform=bound
    )


def open_for_random_access(
    dataset: Folder,
    split: str | None,
    *,
    shuffle: bool,
    order: str | None,
    seed: int,
    features: Collection[str] | None,
    cache: str | os.PathLike[str] | None,
    cache_size: int | str | None,
) -> tuple[Records, EpochSequence]:
    """Open records, and return them with the sequence of their epochs.

    Raises as `grain_source`.
    """
    seed = expect_whole("seed", seed, least=0, below=2**63)
    records = Records(dataset, split, features=features, cache=cache, cache_size=cache_size)
    if not records.layout.seekable:
        raise ConfigError(NO_RANDOM_ACCESS)
    chosen = order_name(shuffle=shuffle, order=order, seekable=True)
    return records, EpochSequence.of(records, order=chosen, seed=seed)
