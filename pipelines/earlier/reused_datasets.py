"""The datasets of --reuse, whose frames are made accessible before the pipeline runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, DamageError
from recordmill.format import manifest as manifests
from recordmill.format.content_hashes import hash_halves
from recordmill.format.file_names import index_of
from recordmill.format.manifest import MANIFEST, Manifest, Shard
from recordmill.format.recipes import Recipes, RecipesHeader
from recordmill.format.shard_index import read_index
from recordmill.job.staging import REUSE, Staging
from recordmill.pipelines.options.common.reuse import ReuseConfig
from recordmill.pipelines.options.option_text import option_name, option_text
from recordmill.storage.files import Location, StorageError, shown
from recordmill.transforms.model.data_type import DataType, ReusableEncoder
from recordmill.transforms.reuse.frame_places import PLACE, FramePlaces, PlacesWriter
from recordmill.transforms.reuse.row_recipes import RowRecipes, header_of, unlike

# Options of which a difference never explains that no record can be reused.
_OF_ORDER = {
    *("seed", "splits", "split_from", "split_column", "split_map", "stratify", "balance"),
    *("balance_target", "num_shards", "shard_size", "compression", "limit", "limit_per_class"),
    *("label_offset", "probe"),
}
_SHOWN = 4  # options in a message


class _UnusableError(Exception):
    """A dataset of which nothing can be reused; the message is the end of a sentence."""


def fingerprint_shaping(config: ReuseConfig, data_type: DataType) -> dict[str, Any]:
    """Return the option values by which --fingerprint identifies a run.

    With `content` files are read before the dataset is planned, so that some are rejected earlier.

    Raises:
      ConfigError: records of this data type are never reused.
    """
    if config.fingerprint == "stat":
        return {}
    if not isinstance(data_type.encoder, ReusableEncoder):
        raise ConfigError(
            f"--fingerprint content: recordmill {data_type.name} reuses no records; leave it out"
        )
    return {"fingerprint": config.fingerprint}


class Reused(NamedTuple):
    """The records to reuse.

    places: of their frames; None without any. facts: {"reuse": what is reused, and why not more};
    empty without datasets to reuse.
    """

    places: FramePlaces | None = None
    facts: Mapping[str, str] = MappingProxyType({})


def stage_reused(
    config: ReuseConfig,
    data_type: DataType,
    staging: Staging,
    *,
    options: Mapping[str, Any],
    replaced: Location | None,
) -> Reused:
    """Write the places of the frames to reuse into staging, unless an earlier run did.

    options: those that shape bytes, as in the manifest. replaced: the dataset that --overwrite
      replaces, if any.

    Raises:
      ConfigError: --reuse-required is given, and no dataset is usable.
    """
    if config.no_reuse:
        return Reused()
    header = header_of(data_type.encoder, config.fingerprint)
    found: dict[Location, Recipes] = {}
    unusable: list[str] = []
    for path in config.reuse:
        datasets, unreadable = _candidates(path)
        unusable += unreadable
        if not datasets and not unreadable:
            unusable.append(f"{shown(path)}: there is no dataset")
        for place in datasets:  # only the first usable one that matches a pattern
            if _add_usable(found, unusable, place, header, data_type, options):
                break
    if replaced is not None and header is not None:
        _add_usable(found, unusable, replaced, header, data_type, options)
    places = None
    usable = [*found.values()]
    while usable:
        places = FramePlaces(staging, _name(usable))
        failed = None
        if places.recipes is None:
            staging.place(REUSE).delete_tree()
            failed = _write(places, usable)
        if failed is None:
            break
        at, why = failed
        unusable.append(f"{shown(usable.pop(at).dataset)}: {why}")
        places = None
    if config.reuse_required and places is None:
        why = "; ".join(unusable) or "--reuse names no dataset, and --overwrite replaces none"
        raise ConfigError(f"--reuse-required: no record can be reused: {why}")
    names = " and ".join(shown(recipes.dataset) for recipes in usable)
    lines = [f"records of {names}"] if usable else []
    lines += [f"nothing of {one}" for one in unusable]
    return Reused(places, {"reuse": "; ".join(lines)} if lines else {})


def _candidates(path: str) -> tuple[list[Location], list[str]]:
    """Return the datasets that --reuse names, newest first, and messages on unreadable ones.

    In a pattern only the last part may have a *.
    """
    place = Location.parse(path)
    if "*" not in place.path:
        return [place], []
    folder = place.parent
    if "*" in folder.path:
        raise ConfigError(
            f"--reuse {path}: expected * in the last part of the path only, such as 'sets/*'"
        )
    matches = re.compile(".*".join(map(re.escape, place.name.split("*"))), re.DOTALL).fullmatch
    dated: list[tuple[int, str, Location]] = []
    unreadable: list[str] = []
    try:
        entries = folder.list_if_exists()
    except StorageError as error:
        return [], [f"{shown(path)}: {error}"]
    for dataset in (folder / entry.name for entry in entries if matches(entry.name)):
        try:
            if (dataset / MANIFEST).exists():
                dated.append(((dataset / MANIFEST).stat().mtime_ns, str(dataset), dataset))
        except StorageError as error:
            unreadable.append(f"{shown(dataset)}: {error}")
    return [dataset for _, _, dataset in sorted(dated, reverse=True)], unreadable


def _add_usable(
    found: dict[Location, Recipes],
    unusable: list[str],
    place: Location,
    header: RecipesHeader | None,
    data_type: DataType,
    options: Mapping[str, Any],
) -> bool:
    """Add a dataset to `found`, or the reason against it to `unusable`. Return if it is usable."""
    try:
        found[place] = _usable(place, header, data_type, options)
    except _UnusableError as error:
        unusable.append(f"{shown(place)}: {error}")
        return False
    return True


def _usable(
    place: Location,
    header: RecipesHeader | None,
    data_type: DataType,
    options: Mapping[str, Any],
) -> Recipes:
    """Return the recipes of a dataset. Raises _UnusableError."""
    if header is None:
        raise _UnusableError(
            f"recordmill {data_type.name} encodes all records again, because its records are not"
            " read from files when they are encoded"
        )
    try:
        manifest = manifests.load(place)
    except (DamageError, StorageError) as error:
        raise _UnusableError(str(error)) from error
    if manifest.command != data_type.name:
        raise _UnusableError(f"it was made by recordmill {manifest.command}, not {data_type.name}")
    if not manifest.has_recipes:
        why = "" if manifest.compression == "none" else ", because it is compressed"
        raise _UnusableError(f"it has no {manifests.RECIPES}{why}")
    try:
        recipes = Recipes.open(place, manifest)
    except (DamageError, StorageError) as error:
        raise _UnusableError(str(error)) from error
    why_not = unlike(recipes.header, header)
    if why_not is not None:
        if recipes.header.settings != header.settings:
            why_not += _differences(manifest, options)
        raise _UnusableError(why_not)
    return recipes


def _differences(manifest: Manifest, options: Mapping[str, Any]) -> str:
    """Return the options that differ and may shape records, in parentheses."""
    names = {*manifest.options, *options} - _OF_ORDER
    texts = [
        (option_name(name), *(option_text(one.get(name)) for one in (manifest.options, options)))
        for name in sorted(names)
    ]
    differ = [f"{name} was {before}, is {now}" for name, before, now in texts if before != now]
    return f" ({'; '.join(differ[:_SHOWN])})" if differ else ""


def _name(usable: Sequence[Recipes]) -> str:
    """Return the name of the places of these datasets."""
    names = [f"{one.dataset.spelling} {one.manifest.digest}" for one in usable]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _write(places: FramePlaces, usable: Sequence[Recipes]) -> tuple[int, str] | None:
    """Write the places of all frames; return (index of a damaged dataset, why) if one is."""
    records = sum(split.records for recipes in usable for split in recipes.manifest.splits.values())
    with PlacesWriter(places.place, records=records) as writer:
        for at, recipes in enumerate(usable):
            try:
                for shard, table in recipes.shards():
                    _add(writer, recipes, shard, table)
            except (DamageError, StorageError) as error:
                return at, str(error)
        writer.finish()
    return None


def _add(writer: PlacesWriter, recipes: Recipes, shard: Shard, table: pa.Table) -> None:
    """Add the frames of a shard.

    Raises:
      DamageError: its index is damaged.
    """
    name = index_of(shard.file)
    place = recipes.dataset / name
    names = ["offset", "length", "width", "height", "content"]
    index = read_index(
        place, columns=names, records=len(table), stated=shard.index, frames=shard.bytes
    )
    found = np.zeros(len(table), PLACE)
    for column in ("offset", "length"):
        found[column] = index[column]
    for column in ("width", "height"):
        found[column] = index[column].fill_null(-1) if column in index.column_names else -1
    if "content" not in index.column_names or index["content"].null_count:
        raise DamageError(f"{name} lacks hashes of contents")
    found["content"] = np.frombuffer(b"".join(index["content"].to_pylist()), "V16")
    found["crc"] = table["crc"]
    hashes = RowRecipes(
        *(hash_halves(table[name].combine_chunks()) for name in ("recipe", "source"))
    )
    writer.add(recipes.dataset / shard.file, hashes, found, table["facts"].combine_chunks())
