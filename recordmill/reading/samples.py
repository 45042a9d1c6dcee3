"""Samples for PyTorch and Grain: decoded records, changed by a transform."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from recordmill.errors import ConfigError
from recordmill.loading.decode import BoundDecode, Decode
from recordmill.reading.epoch_order import AUGMENTATIONS, epoch_key
from recordmill.reading.reader import Records
from recordmill.reading.sequence import Datasets, parse_datasets
from recordmill.tfrecord.decode import ExampleError
from recordmill.tfrecord.typed_records import TypedRecord

Transform = Callable[[TypedRecord], Any] | Decode
BoundTransform = Callable[[TypedRecord], Any] | BoundDecode


class SampleMaker:
    """Makes samples from payloads.

    records: of each source. seed: of the run. has_lists: whether arrays of bytes become lists, as
      `default_collate` needs.
    """

    def __init__(
        self,
        records: Sequence[Records],
        transform: BoundTransform | None,
        *,
        seed: int,
        has_lists: bool,
    ) -> None:
        self._records = records
        self._transform = transform
        self._has_lists = has_lists
        self._seed_key = records[0].layout.seed_key(seed)
        self._last = (-1, 0)  # epoch, and the seed of its augmentations

    def __call__(self, source: int, number: int, payload: bytes, epoch: int, position: int) -> Any:
        """Return the sample of a record.

        source, number: of the record. epoch, position: of the sample.

        Raises:
          DatasetDamagedError: the record, or an image in it, cannot be decoded.
        """
        record = self._records[source].decode(payload, number)
        if self._has_lists:
            record = {name: _collatable(value) for name, value in record.items()}
        if not isinstance(self._transform, BoundDecode):
            return record if self._transform is None else self._transform(record)
        try:
            return self._transform(record, self._seed_of(epoch), position)
        except ExampleError as error:
            self._records[source].raise_damaged(number, error)

    def _seed_of(self, epoch: int) -> int:
        last, seed = self._last
        if last != epoch:
            seed = int(epoch_key(self._seed_key, epoch, AUGMENTATIONS)[0])
            self._last = epoch, seed
        return seed


def bind(
    transform: Transform | None,
    dataset: Datasets,
    split: str | None,
    *,
    features: Collection[str] | None,
) -> tuple[BoundTransform | None, Collection[str] | None]:
    """Return a transform for the records of datasets, and the features that it needs.

    features: names that the user gave.

    Raises:
      ManifestError: a folder is not a dataset.
      ConfigError: `Decode` does not match the features, these differ between datasets, or the
        user gave features in addition to `Decode`.
    """
    if not isinstance(transform, Decode):
        return transform, features
    if features is not None:
        raise ConfigError("features contradicts Decode, which selects them by `inputs`")
    folders = [*parse_datasets(dataset, temperature=None, until=None)]
    bound = [transform.bind(Records(one, split).manifest, split) for one in folders]
    for folder, other in zip(folders, bound, strict=True):
        if other.elements != bound[0].elements:
            raise ConfigError(
                f"mixed datasets need equal features and classes for Decode, but those of"
                f" {folders[0]} and {folder} differ: choose inputs that are equal in both"
            )
    return bound[0], bound[0].features


def _collatable(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    return value
