"""Metadata of TFRecord files in the files beside them: a dataset of recordmill, or of TFDS."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from recordmill.errors import ConfigError, DamageError
from recordmill.format import manifest as manifests
from recordmill.format.file_names import INDEX, index_of
from recordmill.format.manifest import MANIFEST, Manifest, Shard
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.transforms.model import batch
from recordmill.transforms.sources.files.other_kinds import is_tfrecord_name

TFDS = "features.json"
CLASS_NAMES = ".labels.txt"  # after the name of a feature
DAMAGED = "the dataset is damaged; recordmill verify finds all damage"
INDEXED = {"key": batch.KEY, "label": batch.LABEL, "group": batch.GROUP}

_FORMAT = "recordmill/"
_OUR_FORMAT = re.compile(rb'"format"\s*:\s*"recordmill/')
_MOST_MANIFEST = 64 << 20  # bytes of a manifest; more are those of another program
_SHARD = re.compile(r".+\.tfrecord-\d{5,}-of-\d{5,}(\.gz)?", re.ASCII)
_INDEXES = f"{INDEX}/ holds the indexes of shards of recordmill"
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
    """Return whether a folder holds a dataset of recordmill.

    Other programs write files named dataset.json, too, which make no difference.

    Raises:
      ConfigError: the folder holds shards and their indexes, but no manifest, or one that cannot be
        read; without it, copies of records and the numbers of classes are unknown.
    """
    place = folder / MANIFEST
    if place.is_file():
        found = place.stat()
        return _is_manifest(place, found.size, found.mtime_ns)
    if _holds_indexes(folder):
        raise ConfigError(
            f"{shown(place)} is missing, although {_INDEXES}: a folder without it is not a dataset."
            " If a run that writes it was interrupted, run the same command again. To read the"
            " shards as files of other programs, copies of records included, give a pattern, such"
            f" as {shown(folder / '*.tfrecord*')}"
        )
    return False


@functools.lru_cache(maxsize=16)
def _is_manifest(place: Location, size: int, mtime: int) -> bool:
    """Return whether a file is a manifest. Raises ConfigError for a damaged one."""
    del mtime
    folder, why = place.parent, f"expected the format {_FORMAT}1"
    content = b"" if place.is_dir() else place.read_range(0, _MOST_MANIFEST)
    if size <= _MOST_MANIFEST or _OUR_FORMAT.search(content):
        try:
            data = _parsed(place.read_bytes() if size > len(content) else content)
        except ValueError as error:
            why = str(error)
            if _OUR_FORMAT.search(content) or _holds_shards(folder):
                raise _damaged(place, why) from error
        else:
            if isinstance(data, dict) and str(data.get("format", "")).startswith(_FORMAT):
                return True
    if _holds_indexes(folder):
        raise _damaged(place, f"{why}, because {_INDEXES}")
    return False


def _parsed(content: bytes) -> Any:
    """Return the value of JSON, or of the first of several lines. Raises ValueError."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        first, _, rest = content.partition(b"\n")
        if not rest.startswith(b"{"):
            raise
        json.loads(first)  # JSON lines, which are not a manifest
        return None


def _damaged(place: Location, why: str) -> ConfigError:
    return ConfigError(
        f"{shown(place)} is damaged: {why}; make the dataset again, or restore that file. If it is"
        " of another program, move it to another folder"
    )


def _holds_shards(folder: Location) -> bool:
    """Return whether a folder holds files named as TFRecords."""
    return any(is_tfrecord_name(entry.name) for entry in folder.list_dir())


def _holds_indexes(folder: Location) -> bool:
    """Return whether a folder holds a shard and its index, as only recordmill writes them."""
    if not (folder / INDEX).is_dir():
        return False
    indexes = {f"{INDEX}/{entry.name}" for entry in (folder / INDEX).list_dir()}
    names = (entry.name for entry in folder.list_dir() if _SHARD.fullmatch(entry.name))
    return any(index_of(name) in indexes for name in names)


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
        raise ConfigError(f"{option_name('input', shown(folder))}: {error}") from error


def shard_at(place: Location) -> KnownShard | None:
    """Return a file as the shard of a dataset; None for other files. Raises ConfigError."""
    folder = place.parent
    if not (folder / MANIFEST).is_file():
        return None
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
    if not (folder / TFDS).is_file():
        return None
    return read_class_names(folder, feature.replace("/", "."))


def read_class_names(folder: Location, stem: str) -> tuple[str, ...] | None:
    """Return the class names in a file of a folder of TFDS, None without it.

    stem: the name of the file before `CLASS_NAMES`. Raises ConfigError.
    """
    names = folder / f"{stem}{CLASS_NAMES}"
    if not names.is_file():
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
