"""Records for PyTorch by their position in an epoch: a map-style dataset for samplers."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.option_checks import expect_whole
from recordmill.reading.ordered_records import OrderedRecords, open_for_random_access
from recordmill.reading.reader import Folder, Records
from recordmill.reading.samples import BoundTransform, Transform, bind
from recordmill.reading.sequence import MOST_EPOCHS, EpochSequence

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "recordmill.torch_source needs PyTorch: install torch; recordmill.open works without it"
    ) from error


class TorchSource(OrderedRecords):
    """The records of one epoch by their position, as a map-style dataset.

    A record is {feature: value} as `recordmill.read` returns it, except that arrays of bytes are
    lists, which `default_collate` accepts.
    """

    def __init__(
        self,
        records: Records,
        sequence: EpochSequence,
        *,
        start: tuple[int, int],
        transform: BoundTransform | None,
    ) -> None:
        super().__init__(
            records, sequence, epochs=1, start=start, transform=transform, has_lists=True
        )
        # In shared memory, so that persistent workers see it.
        self._epoch = torch.tensor([start[0]], dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return self._sequence.records * (self.epoch + 1) - self._first

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch.

        Raises:
          ConfigError: the number is below 0, or the source holds the rest of another epoch, whose
            length a sampler keeps.
        """
        epoch = expect_whole("epoch", epoch, least=0, below=MOST_EPOCHS)
        continued, consumed = self._start
        if consumed and epoch != continued:
            raise ConfigError(
                f"this source holds the rest of epoch {continued}, and samplers keep its length:"
                " for later epochs make a source without start, and its sampler, then call"
                f" set_epoch({epoch})"
            )
        self._epoch[0] = epoch

    @property
    def epoch(self) -> int:
        """Number of the epoch."""
        return int(self._epoch[0])

    @property
    def _first(self) -> int:
        epoch, consumed = self._start
        return self.epoch * self._sequence.records + (consumed if self.epoch == epoch else 0)


def torch_source(
    dataset: Folder,
    split: str | None = None,
    *,
    shuffle: bool = False,
    order: str | None = None,
    seed: int = 0,
    start: Mapping[str, Any] | None = None,
    transform: Transform | None = None,
    features: Collection[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> TorchSource:
    """Return a split as a map-style dataset for PyTorch's samplers.

    Item i is the record at position i of the epoch, in the order of `recordmill.torch_dataset` and
    `recordmill.load`. So `DistributedSampler(source, shuffle=False)`, which Lightning and
    Accelerate add, gives hosts the records of that order. `set_epoch` sets the epoch; workers see
    it. A DataLoader with batches reads the records of a batch together.

    split: the split to read; None for all splits.
    shuffle: another order in every epoch; without it that of `recordmill.read`, which suits
      samplers that shuffle.
    order: as for `recordmill.torch_dataset`.
    start: a state of `recordmill.position`, `state` or `state_dict`, from which item 0 continues.
      The source then holds the rest of that epoch; later epochs need another one without `start`.
    transform: a function from record to sample, or `recordmill.Decode`, called in the worker. If
      workers are spawned, it must be a module-level function.
    features: names of the features to return; None for all. `Decode` selects them by `inputs`.
    cache, cache_size: as for `recordmill.read`.

    Raises:
      ModuleNotFoundError: PyTorch is not installed.
      ManifestError: the folder is not a dataset.
      ValueError: the split or a feature does not exist.
      ConfigError: an option is invalid, the shards are compressed, or `start` is the state of
        another dataset or order.
    """
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
    place = (0, 0) if start is None else sequence.parse(start)
    return TorchSource(records, sequence, start=place, transform=bound)
