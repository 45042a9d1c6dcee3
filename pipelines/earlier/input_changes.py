"""Differences between a listing and the dataset that was made of an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import DamageError, Reason, Reject
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
        rejects = Staging(dataset).rejects()
    except (DamageError, StorageError):
        return ""
    by_time = recipes.header.fingerprint == "stat"
    listed = [_listed(part.name, staging, encoder) for part in listing.parts]
    rejected = _rejected(listing.rejects)
    early = _rejected([one for one in rejects if _is_of_listing(one)])
    late = _rejected([one for one in rejects if not _is_of_listing(one)])
    before = _joined([early.hashes, late.hashes])
    were = _joined([before, *(part.hashes for part in known)])
    are = _joined([part.hashes for part in (*listed, rejected)])
    # The keys of records that were dropped or filtered are not known.
    unknown = manifest.ledger.records.dropped + manifest.ledger.records.filtered
    added = _missing(listed, were)
    if unknown:
        found = [f"at least {len(added) - unknown:,} added"] if len(added) > unknown else []
    else:
        found = [_summary("added", added)]
    found.append(_summary("removed", _missing(known, are)))
    if by_time:
        found.append(_summary("changed", _changed(listed, known)))
    found.append(_summary("newly rejected", _missing([rejected], before)))
    gone = [*_missing([early], rejected.hashes), *_missing([late], are)]
    found.append(_summary("no longer rejected", gone))
    found = [part for part in found if part]
    if not unknown and not found:
        facts = "labels" if by_time else "sizes, times of change, labels"
        facts += ", rejected inputs" if len(late.keys) else ""
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


def _is_of_listing(reject: Reject) -> bool:
    """Return whether an input was rejected by the listing; contradictory rows are found later."""
    return reject.stage == "read" and reject.reason != Reason.BAD_VALUE


def _rejected(rejects: Iterable[Reject]) -> _Part:
    keys = pa.array([one.key for one in rejects], pa.string())
    return _Part(keys, batch.hash_strings(keys), np.zeros(0, np.uint64))


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
