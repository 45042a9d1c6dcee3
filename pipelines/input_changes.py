"""Differences between a listing and the dataset that was made of an earlier one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import DamageError
from recordmill.format.manifest import Manifest, index_of
from recordmill.format.recipes import Recipes
from recordmill.format.shard_index import read_index
from recordmill.job.staging import Listing, Staging
from recordmill.storage.files import Location, StorageError
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Encoder, ReusableEncoder
from recordmill.transforms.reuse.row_recipes import as_numbers, source_hashes
from recordmill.transforms.staged.listing import listed_columns, read_part

_SHOWN = 3  # keys of each kind

_Known = tuple[pa.Array, npt.NDArray[np.uint64]]


def describe_changes(
    listing: Listing, staging: Staging, dataset: Location, manifest: Manifest, encoder: Encoder
) -> str:
    """Return what differs, as the end of a sentence; empty if that is not known.

    It is known for images, because their listing has a row per record; that of arrays has a row
    per file.
    """
    if not isinstance(encoder, ReusableEncoder) or not manifest.has_recipes:
        return ""
    if not {*encoder.source_columns} <= {*listed_columns(listing, staging).names}:
        return ""
    try:
        recipes = Recipes.open(dataset, manifest)
        known = [*_known(recipes)]
        rejected = [one.key for one in Staging(dataset).rejects()]
    except (DamageError, StorageError):
        return ""
    by_time = recipes.header.fingerprint == "stat"
    listed = [_listed(part.name, staging, encoder) for part in listing.parts]
    parts = []
    counts = manifest.ledger
    all_known = not (counts.records.dropped or counts.records.filtered or counts.inputs.filtered)
    if all_known:
        excluded = batch.hash_strings(pa.array(rejected, pa.string()))
        before = np.sort(np.concatenate([*(_hashes(keys) for keys, _ in known), excluded]))
        parts.append(_summary("added", _missing(listed, before)))
    now = np.sort(np.concatenate([np.zeros(0, np.uint64), *(_hashes(keys) for keys, _ in listed)]))
    parts.append(_summary("removed", _missing(known, now)))
    if by_time:
        parts.append(_summary("changed", _changed(listed, known)))
    found = [part for part in parts if part]
    if all_known and not found:
        facts = "labels" if by_time else "sizes, times of change, labels"
        found.append(f"the same records by name; {facts} or other columns differ")
    return f" ({'; '.join(found)})" if found else ""


def _known(recipes: Recipes) -> Iterator[_Known]:
    """Yield (keys, upper halves of the hashes of their sources) of the records of each shard."""
    for shard, table in recipes.shards():
        place = recipes.dataset / index_of(shard)
        index = read_index(place, columns=["key", "copy"], records=len(table))
        originals = np.flatnonzero(np.asarray(index["copy"]) == 0)
        sources = as_numbers(table["source"].combine_chunks())[:, 0]
        yield index["key"].combine_chunks().take(pa.array(originals)), sources[originals]


def _listed(name: str, staging: Staging, encoder: ReusableEncoder) -> _Known:
    columns = [batch.KEY, *encoder.source_columns]
    rows = read_part(name, staging=staging, columns=columns)
    return rows[batch.KEY], source_hashes(rows, encoder.source_columns)[:, 0]


def _hashes(keys: pa.Array) -> npt.NDArray[np.uint64]:
    return batch.hash_strings(keys)


def _is_in(
    hashes: npt.NDArray[np.uint64], ordered: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    at = np.minimum(np.searchsorted(ordered, hashes), max(len(ordered) - 1, 0))
    return ordered[at] == hashes if len(ordered) else np.zeros(len(hashes), np.bool_)


def _missing(records: list[_Known], ordered: npt.NDArray[np.uint64]) -> list[str]:
    """Return the keys that are not among those of these sorted hashes."""
    found: list[str] = []
    for keys, _ in records:
        others = np.flatnonzero(~_is_in(_hashes(keys), ordered))
        found += keys.take(pa.array(others)).to_pylist()
    return found


def _changed(listed: list[_Known], known: list[_Known]) -> list[str]:
    """Return the keys whose sources differ."""
    hashes = np.concatenate([np.zeros(0, np.uint64), *(_hashes(keys) for keys, _ in known)])
    sources = np.concatenate([np.zeros(0, np.uint64), *(sources for _, sources in known)])
    order = np.argsort(hashes)
    hashes, sources = hashes[order], sources[order]
    found: list[str] = []
    for keys, now in listed:
        own = _hashes(keys)
        both = np.flatnonzero(_is_in(own, hashes))
        differ = both[sources[np.searchsorted(hashes, own[both])] != now[both]]
        found += keys.take(pa.array(differ)).to_pylist()
    return found


def _summary(what: str, keys: list[str]) -> str:
    """Return a number of keys with examples; empty for none."""
    if not keys:
        return ""
    some = ", ".join(sorted(keys)[:_SHOWN])
    return f"{len(keys):,} {what}{', such as' if len(keys) > _SHOWN else ':'} {some}"
