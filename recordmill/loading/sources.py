"""The datasets to load: one, or several that are mixed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from recordmill.errors import ConfigError
from recordmill.format.manifest import Manifest, Shard, class_weights, load
from recordmill.format.replaced_datasets import expect_unchanged
from recordmill.format.split_names import TRAIN
from recordmill.loading.options import LoadOptions
from recordmill.loading.selection import Selection, select
from recordmill.loading.shard_files import check_files, check_sizes, shards_of
from recordmill.option_names import option_name
from recordmill.reading.epoch_order import order_name
from recordmill.reading.kept_records import kept_records
from recordmill.reading.reader import Records
from recordmill.reading.sequence import (
    AnySequence,
    EpochSequence,
    MixtureSequence,
    is_mixture,
    mixture,
    parse_datasets,
)
from recordmill.storage.block_cache import BlockCache, open_cache
from recordmill.storage.files import Location


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedDataset:
    """An opened dataset, the shards of the split, and the sequence of their records.

    records: those of a dataset in a store, which TensorFlow cannot read; None for local files.
    """

    location: Location
    manifest: Manifest
    selection: Selection
    split: str
    shards: tuple[Shard, ...]
    sequence: EpochSequence
    records: Records | None

    @property
    def place(self) -> str:
        return str(self.location)


def open_datasets(
    dataset: Any,
    options: LoadOptions,
    *,
    verify: bool,
    max_record_bytes: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> tuple[list[LoadedDataset], AnySequence]:
    """Open and check one dataset, or several as a mixture, without reading their records.

    verify: check the sha256 of all files, not only their sizes, and inflate gzip files.
    max_record_bytes: size of the largest record of a gzip file; None for the default.
    cache, cache_size: of files in stores.

    Returns the datasets, and the sequence in which their records are read.

    Raises:
      ManifestError: a folder is not a dataset.
      ConfigError: the options do not match a dataset, or datasets have different features.
      DatasetDamagedError: a file is missing, or differs from what was written.
      DatasetReplacedError: a run replaced a dataset meanwhile.
    """
    temperature, until = options.temperature, options.until
    weights = parse_datasets(dataset, temperature=temperature, until=until)
    kept = open_cache(cache, cache_size)
    found = []
    for folder in weights:
        location = folder if isinstance(folder, Location) else Location.parse(os.fspath(folder))
        with expect_unchanged(location):
            found.append(
                _open(
                    location, options, verify=verify, max_record_bytes=max_record_bytes, cache=kept
                )
            )
    for other in found[1:]:
        _check_compatible(found[0], other)
    sequences = [one.sequence for one in found]
    if not is_mixture(dataset):
        return found, sequences[0]
    return found, mixture(sequences, weights, temperature=temperature, until=until)


def _open(
    location: Location,
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
    records = Records(location, options.split, max_record_bytes=max_record_bytes, cache=cache)
    # Records, which reads from stores, has a limit of its own.
    if manifest.compression == "gzip" and (location.is_local or verify):
        check_sizes(
            location, options.split, shards, inflate=verify, max_record_bytes=max_record_bytes
        )
    sequence = EpochSequence.of(
        records,
        order=order_name(
            shuffle=options.shuffle, order=options.order, seekable=records.layout.seekable
        ),
        seed=options.seed,
        kept=None if options.filter is None else kept_records(records, options.filter),
    )
    return LoadedDataset(
        location=location,
        manifest=manifest,
        selection=selection,
        split=options.split,
        shards=shards,
        sequence=sequence,
        records=None if location.is_local else records,
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


def mixed_class_weights(
    sources: Sequence[LoadedDataset], sequence: AnySequence, split: str
) -> list[float]:
    """Return weights, in the order of class numbers, that give all classes the same total.

    The totals are those of records of train, or of `split` in datasets without train.
    """
    parts = sequence.schedule.parts if isinstance(sequence, MixtureSequence) else (1,)
    shares = dict.fromkeys(sources[0].manifest.labels, 0.0)
    for source, part in zip(sources, parts, strict=True):
        splits = source.manifest.splits
        counted = splits.get(TRAIN, splits[split])
        for name, count in counted.classes.items():
            shares[name] += part * count / counted.records
    return [*class_weights(shares).values()]
