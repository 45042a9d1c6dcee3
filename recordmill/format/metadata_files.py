"""The files that describe a dataset to other software, and depend on its card."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

from recordmill.format.croissant import CROISSANT, croissant_json
from recordmill.format.dataset_card import DatasetCard
from recordmill.format.dataset_readme import README, readme
from recordmill.format.file_info import file_info
from recordmill.format.file_names import index_name
from recordmill.format.manifest import Manifest
from recordmill.format.shard_index import REQUIRED, column_names
from recordmill.format.tfds import DATASET_INFO, dataset_info
from recordmill.storage.files import Location, MissingError


def add_metadata(
    manifest: Manifest,
    card: DatasetCard | None,
    *,
    places_of: Callable[[str], tuple[Location, ...]],
) -> tuple[Manifest, dict[str, bytes]]:
    """Return the manifest with a card, and the content of the files made from both.

    manifest: with all other files; those made from another card are replaced.
    places_of: returns the possible places of an index; the first that exists is read.

    Raises:
      IndexDamagedError, StorageError: an index cannot be read.
    """
    made: dict[str, bytes] = {}
    if DATASET_INFO in manifest.files:
        made[DATASET_INFO] = dataset_info(manifest.features, manifest.splits, card)
    if card is not None:
        made[README] = readme(manifest, card)
    kept = {name: info for name, info in manifest.files.items() if name not in (README, CROISSANT)}
    infos = {name: file_info(content) for name, content in made.items()}
    manifest = dataclasses.replace(manifest, files={**kept, **infos}, card=card)
    made[CROISSANT] = croissant_json(manifest, _index_columns(manifest, places_of))
    infos[CROISSANT] = file_info(made[CROISSANT])
    return dataclasses.replace(manifest, files={**kept, **infos}), made


def _index_columns(
    manifest: Manifest, places_of: Callable[[str], tuple[Location, ...]]
) -> tuple[str, ...]:
    """Return the columns of the index of the largest shard; those of empty shards may lack some."""
    places = [
        (-shard.records, index_name(name, number, len(split.shards)))
        for name, split in manifest.splits.items()
        for number, shard in enumerate(split.shards)
    ]
    _, name = min(places)
    for place in places_of(name):
        with contextlib.suppress(MissingError):
            return column_names(place)
    return REQUIRED
