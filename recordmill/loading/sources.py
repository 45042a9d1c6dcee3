"""The datasets that are loaded: one, or several that are mixed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from recordmill.errors import ConfigError
from recordmill.format.manifest import Manifest, class_weights, load
from recordmill.format.split_names import TRAIN
from recordmill.loading.options import LoadOptions
from recordmill.loading.parts import HostPart, check_files, part_of, shards_of
from recordmill.loading.selection import Selection, select
from recordmill.reading.reader import Folder
from recordmill.storage.files import Location


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedDataset:
    """A dataset, what this host reads of it, and its share in what is mixed."""

    place: str
    manifest: Manifest
    selection: Selection
    part: HostPart
    weight: float


def sources_of(
    weights: Mapping[Folder, float], options: LoadOptions, *, verify: bool
) -> list[LoadedDataset]:
    """Looks at datasets, by their folders, before a record is read.

    Raises:
      ManifestError: there is no dataset.
      ConfigError: what is asked for is not in them, or not in all of them alike.
      DatasetDamagedError: a file is not there, or not what was written.
    """
    sources = [_source(place, weight, options, verify) for place, weight in weights.items()]
    for other in sources[1:]:
        _check_alike(sources[0], other)
    return sources


def _source(folder: Folder, weight: float, options: LoadOptions, verify: bool) -> LoadedDataset:
    location = folder if isinstance(folder, Location) else Location.parse(os.fspath(folder))
    manifest = load(location)
    shards = shards_of(manifest, options.split)
    selection = select(manifest, options)
    check_files(location, shards, checksums=verify)
    part = part_of(location, shards, shard=options.shard, drop_remainder=options.drop_remainder)
    return LoadedDataset(
        place=str(location), manifest=manifest, selection=selection, part=part, weight=weight
    )


def _check_alike(one: LoadedDataset, other: LoadedDataset) -> None:
    """Raises ConfigError."""
    here, there = one.selection.parsed, other.selection.parsed
    chosen = one.selection.inputs
    for name in sorted({*here, *there}, key=lambda name: (name not in chosen, name)):
        if here.get(name) != there.get(name):
            raise ConfigError(
                f"datasets that are mixed have equal features; {name!r} is not the same in"
                f" {one.place} and {other.place}: say inputs that are in both"
            )
    if one.manifest.labels != other.manifest.labels or (
        one.manifest.label_offset != other.manifest.label_offset
    ):
        raise ConfigError(
            f"datasets that are mixed have equal classes, those of {one.place} and {other.place}"
            " differ: write them with one --labels-file"
        )


def weights_of_classes(sources: Sequence[LoadedDataset], split: str) -> list[float]:
    """By the number of the class: with them all have the same total in what is drawn of train.

    Of datasets without train they are those of the split.
    """
    shares = dict.fromkeys(sources[0].manifest.labels, 0.0)
    for source in sources:
        splits = source.manifest.splits
        counted = splits.get(TRAIN, splits[split])
        for name, count in counted.classes.items():
            shares[name] += source.weight * count / counted.records
    return [*class_weights(shares).values()]
