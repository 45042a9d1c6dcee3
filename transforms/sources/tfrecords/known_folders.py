"""Metadata of TFRecord files in the files beside them: a dataset of recordmill, or of TFDS."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import pyarrow as pa

from recordmill.errors import ConfigError, DamageError
from recordmill.format import manifest as manifests
from recordmill.format.file_names import index_of
from recordmill.format.manifest import MANIFEST, Manifest, Shard
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.format.typed_json import parse_json
from recordmill.storage.files import Location, shown
from recordmill.transforms.model import batch

TFDS = "features.json"
CLASS_NAMES = ".labels.txt"  # after the name of a feature
DAMAGED = "the dataset is damaged; recordmill verify finds all damage"
INDEXED = {"key": batch.KEY, "label": batch.LABEL, "group": batch.GROUP}

_FORMAT = "recordmill/"
_MOST_NAMES = 16 << 20  # bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownShard:
    """A shard of a dataset of recordmill."""

    dataset: Location
    manifest: Manifest
    shard: Shard

    def index(self) -> pa.Table:
        """Return the columns key, label, copy, group (null without one), offset and length.

        If records may have several labels, the column label has lists of them.

        Raises:
          ConfigError: the index is not that of the manifest.
        """
        return _read_index(self.dataset, self.shard.file, self.shard.index.sha256)


def is_dataset(folder: Location) -> bool:
    """Return whether a folder holds a dataset of recordmill."""
    place = folder / MANIFEST
    if not place.exists():
        return False
    found = place.stat()
    return _is_manifest(place, found.size, found.mtime_ns)


@functools.lru_cache(maxsize=16)
def _is_manifest(place: Location, size: int, mtime: int) -> bool:
    """Return whether a file is a manifest: other programs write files of that name, too."""
    del size, mtime
    try:
        data = parse_json(place.read_bytes())
    except ValueError:
        return False
    return isinstance(data, dict) and str(data.get("format", "")).startswith(_FORMAT)


def manifest_of(folder: Location) -> Manifest:
    """Return the manifest of a dataset. Raises ConfigError for an invalid one."""
    found = (folder / MANIFEST).stat()
    return _load(folder, found.size, found.mtime_ns)


@functools.lru_cache(maxsize=4)
def _load(folder: Location, size: int, mtime: int) -> Manifest:
    del size, mtime
    try:
        return manifests.load(folder)
    except DamageError as error:
        raise ConfigError(f"--input {shown(folder)}: {error}") from error


def shard_at(place: Location) -> KnownShard | None:
    """Return a file as the shard of a dataset; None for other files. Raises ConfigError."""
    folder = place.parent
    return shards_of(folder).get(place.name) if is_dataset(folder) else None


def shards_of(folder: Location) -> Mapping[str, KnownShard]:
    """Return the shards of a dataset by the names of their files. Raises ConfigError."""
    found = (folder / MANIFEST).stat()
    return _shards(folder, found.size, found.mtime_ns)


@functools.lru_cache(maxsize=4)
def _shards(folder: Location, size: int, mtime: int) -> Mapping[str, KnownShard]:
    manifest = _load(folder, size, mtime)
    return {
        shard.file: KnownShard(dataset=folder, manifest=manifest, shard=shard)
        for split in manifest.splits.values()
        for shard in split.shards
    }


def class_names(place: Location, feature: str) -> tuple[str, ...] | None:
    """Return the class names of a feature in a folder of TFDS, None without names."""
    folder = place.parent
    if not (folder / TFDS).exists():
        return None
    return read_class_names(folder, feature.replace("/", "."))


def read_class_names(folder: Location, stem: str) -> tuple[str, ...] | None:
    """Return the class names in a file of a folder of TFDS, None without it.

    stem: the name of the file before `CLASS_NAMES`. Raises ConfigError.
    """
    names = folder / f"{stem}{CLASS_NAMES}"
    if not names.exists():
        return None
    try:
        text = names.read_range(0, _MOST_NAMES).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown(names)}: expected class names in UTF-8, one per line") from error
    return tuple(text.splitlines())


@functools.lru_cache(maxsize=2)
def _read_index(folder: Location, shard: str, sha256: str) -> pa.Table:
    known = shards_of(folder)[shard]
    stated = known.shard
    try:
        table = read_index(
            folder / index_of(shard),
            columns=None,
            records=stated.records,
            stated=stated.index,
            frames=stated.bytes if known.manifest.compression == "none" else None,
        )
    except IndexDamagedError as error:
        raise ConfigError(f"{shown(folder)}: {error}: {DAMAGED}") from error
    del sha256
    if "labels" in table.column_names:
        at = table.column_names.index("label")
        table = table.set_column(at, "label", table["labels"])
    wanted = ["key", "label", "copy", "group", "offset", "length"]
    for name in wanted:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), pa.string()))
    return table.select(wanted).combine_chunks()
