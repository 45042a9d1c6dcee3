"""Differences between a listing and the dataset that was made of an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import DamageError
from recordmill.format.content_hashes import hash_halves
from recordmill.format.file_names import index_of
from recordmill.format.manifest import Manifest
from recordmill.format.recipes import Recipes
from recordmill.format.shard_index import read_index
from recordmill.job.staging import Listing, Staging
from recordmill.storage.files import Location, StorageError
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Encoder, ReusableEncoder
from recordmill.transforms.reuse.row_recipes import source_hashes
from recordmill.transforms.staged.listing import listed_columns
from recordmill.transforms.staged.parts import read_part

_SHOWN = 3  # keys of each kind

_UInt64s = npt.NDArray[np.uint64]


class _Part(NamedTuple):
    """Keys of records, their hashes, and the upper halves of the hashes of their sources."""

    keys: pa.Array
    hashes: _UInt64s
    sources: _UInt64s


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
        before = np.concatenate([*(part.hashes for part in known), excluded])
        parts.append(_summary("added", _missing(listed, before)))
    now = _joined([part.hashes for part in listed])
    parts.append(_summary("removed", _missing(known, now)))
    if by_time:
        parts.append(_summary("changed", _changed(listed, known)))
    found = [part for part in parts if part]
    if all_known and not found:
        facts = "labels" if by_time else "sizes, times of change, labels"
        found.append(f"the same records by name; {facts} or other columns differ")
    return f" ({'; '.join(found)})" if found else ""


def _known(recipes: Recipes) -> Iterator[_Part]:
    """Yield the records of each shard, without copies."""
    for shard, table in recipes.shards():
        place = recipes.dataset / index_of(shard.file)
        index = read_index(place, columns=["key", "copy"], records=len(table))
        originals = np.flatnonzero(np.asarray(index["copy"]) == 0)
        keys = index["key"].combine_chunks().take(pa.array(originals))
        sources = hash_halves(table["source"].combine_chunks())[:, 0]
        yield _Part(keys, batch.hash_strings(keys), sources[originals])


def _listed(name: str, staging: Staging, encoder: ReusableEncoder) -> _Part:
    columns = [batch.KEY, *encoder.source_columns]
    rows = read_part(name, staging=staging, columns=columns)
    keys = rows[batch.KEY]
    sources = source_hashes(rows, encoder.source_columns)[:, 0]
    return _Part(keys, batch.hash_strings(keys), sources)


def _joined(arrays: Sequence[_UInt64s]) -> _UInt64s:
    return np.concatenate([np.zeros(0, np.uint64), *arrays])


def _missing(parts: Sequence[_Part], hashes: _UInt64s) -> list[str]:
    """Return the keys whose hashes are not among these."""
    keys = [part.keys.filter(pa.array(~np.isin(part.hashes, hashes))) for part in parts]
    return [key for some in keys for key in some.to_pylist()]


def _changed(listed: Sequence[_Part], known: Sequence[_Part]) -> list[str]:
    """Return the keys whose sources differ."""
    hashes = _joined([part.hashes for part in known])
    order = np.argsort(hashes)
    hashes, sources = hashes[order], _joined([part.sources for part in known])[order]
    found: list[str] = []
    for keys, own, now in listed:
        both = np.flatnonzero(np.isin(own, hashes))
        differ = both[sources[np.searchsorted(hashes, own[both])] != now[both]]
        found += keys.take(pa.array(differ)).to_pylist()
    return found


def _summary(what: str, keys: list[str]) -> str:
    """Return a number of keys with examples; empty for none."""
    if not keys:
        return ""
    some = ", ".join(sorted(keys)[:_SHOWN])
    return f"{len(keys):,} {what}{', such as' if len(keys) > _SHOWN else ':'} {some}"
