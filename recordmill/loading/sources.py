"""The datasets to load: one, or several that are mixed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from recordmill.errors import ConfigError
from recordmill.format.manifest import Manifest, Shard, class_weights, load
from recordmill.format.replaced_datasets import expect_unchanged
from recordmill.format.split_names import TRAIN
from recordmill.loading.options import LoadOptions
from recordmill.loading.selection import Selection, select
from recordmill.loading.shard_files import check_files, check_sizes, shards_of
from recordmill.option_names import option_name
from recordmill.reading.epoch_order import OrderLayout, OrderName, order_layout, order_name
from recordmill.reading.reader import Folder, Records
from recordmill.storage.block_cache import BlockCache, open_cache
from recordmill.storage.files import Location


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedDataset:
    """An opened dataset, the shards of the split, and the dataset's weight in the mix.

    records: those of a dataset in a store, which TensorFlow cannot read; None for local files.
    """

    location: Location
    manifest: Manifest
    selection: Selection
    split: str
    shards: tuple[Shard, ...]
    layout: OrderLayout
    order: OrderName
    weight: float
    records: Records | None

    @property
    def place(self) -> str:
        return str(self.location)


def open_datasets(
    weights: Mapping[Folder, float],
    options: LoadOptions,
    *,
    verify: bool,
    max_record_bytes: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> list[LoadedDataset]:
    """Open and check datasets, given as {folder: weight}, without reading their records.

    verify: check the sha256 of all files, not only their sizes, and inflate gzip files.
    max_record_bytes: size of the largest record of a gzip file; None for the default.
    cache, cache_size: of files in stores.

    Raises:
      ManifestError: a folder is not a dataset.
      ConfigError: the options do not match a dataset, or datasets have different features.
      DatasetDamagedError: a file is missing, or differs from what was written.
      DatasetReplacedError: a run replaced a dataset meanwhile.
    """
    kept = open_cache(cache, cache_size)
    found = []
    for folder, weight in weights.items():
        location = folder if isinstance(folder, Location) else Location.parse(os.fspath(folder))
        with expect_unchanged(location):
            found.append(
                _open(
                    location,
                    weight,
                    options,
                    verify=verify,
                    max_record_bytes=max_record_bytes,
                    cache=kept,
                )
            )
    for other in found[1:]:
        _check_compatible(found[0], other)
    return found


def _open(
    location: Location,
    weight: float,
    options: LoadOptions,
    *,
    verify: bool,
    max_record_bytes: int | None,
    cache: BlockCache | None,
) -> LoadedDataset:
    manifest = load(location)
    shards = shards_of(manifest, options.split)
    selection = select(manifest, options)
    check_files(location, shards, checksums=verify)
    records = None
    if not location.is_local:
        records = Records(location, options.split, max_record_bytes=max_record_bytes, cache=cache)
    # Records has a limit of its own.
    if manifest.compression == "gzip" and (records is None or verify):
        check_sizes(
            location, options.split, shards, inflate=verify, max_record_bytes=max_record_bytes
        )
    layout = order_layout(manifest, shards)
    order = order_name(shuffle=options.shuffle, order=options.order, seekable=layout.seekable)
    return LoadedDataset(
        location=location,
        manifest=manifest,
        selection=selection,
        split=options.split,
        shards=shards,
        layout=layout,
        order=order,
        weight=weight,
        records=records,
    )


def _check_compatible(one: LoadedDataset, other: LoadedDataset) -> None:
    """Check that two datasets can be mixed.

    Raises:
      ConfigError: their selected features, or their classes, differ.
    """
    here, there = one.selection.parsed, other.selection.parsed
    chosen = one.selection.inputs
    for name in sorted({*here, *there}, key=lambda name: (name not in chosen, name)):
        if here.get(name) != there.get(name):
            raise ConfigError(
                f"mixed datasets need equal features, but {name!r} differs between {one.place} and"
                f" {other.place}: choose inputs that are equal in both"
            )
    if one.selection.multi_label != other.selection.multi_label:
        raise ConfigError(
            f"mixed datasets need equal features, but only records of one of {one.place} and"
            f" {other.place} may have several labels"
        )
    if one.manifest.labels != other.manifest.labels or (
        one.manifest.label_offset != other.manifest.label_offset
    ):
        raise ConfigError(
            f"mixed datasets need equal classes, but those of {one.place} and {other.place} differ:"
            f" write them with the same {option_name('labels_file')}"
        )


def mixed_class_weights(sources: Sequence[LoadedDataset], split: str) -> list[float]:
    """Return weights, in the order of class numbers, that give all classes the same total.

    The totals are those of records sampled from train, or from `split` in datasets without train.
    """
    shares = dict.fromkeys(sources[0].manifest.labels, 0.0)
    for source in sources:
        splits = source.manifest.splits
        counted = splits.get(TRAIN, splits[split])
        for name, count in counted.classes.items():
            shares[name] += source.weight * count / counted.records
    return [*class_weights(shares).values()]
