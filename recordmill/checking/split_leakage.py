"""Finds records and groups that are in two splits, and records that are in a split twice.

Splits are compared by 8-byte hashes of keys and groups; the texts are compared only where hashes
are equal. A billion keys then take 8 GB of memory instead of 100.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.checking.repeated_content import content_halves
from recordmill.format.xxh3 import hash_strings

UInt64Array = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardHashes:
    """Hashes (xxh3_64) of the keys and groups in a shard or a split, and of contents: uint64[n].

    keys: keys of records without copies, with repetitions.
    copied: distinct keys of oversampled copies.
    groups: distinct groups.
    contents: first halves of the hashes of contents, of records without copies.
    """

    keys: UInt64Array
    copied: UInt64Array
    groups: UInt64Array
    contents: UInt64Array

    @classmethod
    def of(cls, index: pa.Table) -> ShardHashes:
        """Hash an index with the columns key and copy, and optionally group."""
        is_copy = pc.greater(index["copy"], 0)
        groups = index["group"] if "group" in index.column_names else pa.array([], pa.string())
        return cls(
            keys=hash_strings(index["key"].filter(pc.invert(is_copy))),
            copied=hash_strings(pc.unique(index["key"].filter(is_copy))),
            groups=hash_strings(pc.unique(pc.drop_null(groups))),
            contents=content_halves(index),
        )

    @classmethod
    def merge(cls, parts: Sequence[ShardHashes]) -> ShardHashes:
        """Return the hashes of a split, given those of its shards."""
        return cls(
            keys=_concatenate([part.keys for part in parts]),
            copied=np.unique(_concatenate([part.copied for part in parts])),
            groups=np.unique(_concatenate([part.groups for part in parts])),
            contents=_concatenate([part.contents for part in parts]),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexedRecord:
    """A record as the index of its shard describes it. number: within its file, from 0."""

    split: str
    file: str
    number: int
    key: str
    copy: int
    group: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leak:
    """A record that repeats `other`, or that is in another split than `other` of its group."""

    record: IndexedRecord
    other: IndexedRecord
    what: str


def suspect_hashes(splits: Mapping[str, ShardHashes]) -> UInt64Array:
    """Return hashes of keys and groups that may leak: uint64[n], sorted.

    For a valid dataset the result is empty, except for hash collisions: among n different texts
    about n**2 / 2**65 pairs have equal hashes.
    """
    members = [np.unique(_concatenate([split.keys, split.copied])) for split in splits.values()]
    found = [
        _repeated(members),
        _repeated([split.groups for split in splits.values()]),
        *(_repeated([split.keys]) for split in splits.values()),
    ]
    return np.unique(np.concatenate(found))


def find_leaks(records: Iterable[IndexedRecord]) -> Iterator[Leak]:
    """Compare the keys and groups of suspect records; the first of equal ones counts as correct."""
    by_key: dict[str, list[IndexedRecord]] = defaultdict(list)
    by_group: dict[str, IndexedRecord] = {}
    for record in records:
        same_key = by_key[record.key]
        in_other_split = [other for other in same_key if other.split != record.split]
        duplicates = [other for other in same_key if record.copy == other.copy == 0]
        of_group = record if record.group is None else by_group.setdefault(record.group, record)
        if in_other_split:
            what = "the same record is in another split"
            yield Leak(record=record, other=in_other_split[0], what=what)
        elif duplicates:
            what = "the same record is in the split twice"
            yield Leak(record=record, other=duplicates[0], what=what)
        elif of_group.split != record.split:
            what = f"its group {record.group!r} is in another split"
            yield Leak(record=record, other=of_group, what=what)
        same_key.append(record)


def suspect_records(
    index: pa.Table, hashes: UInt64Array, *, split: str, file: str
) -> Iterator[IndexedRecord]:
    """Yield the records of an index whose key or group has one of these hashes."""
    suspect = np.isin(hash_strings(index["key"]), hashes)
    if "group" in index.column_names:
        groups = index["group"]
        suspect |= (
            np.isin(hash_strings(groups.fill_null("")), hashes) & groups.is_valid().to_numpy()
        )
    for number in np.flatnonzero(suspect).tolist():
        row = index.slice(number, 1).to_pylist()[0]
        yield IndexedRecord(
            split=split,
            file=file,
            number=number,
            key=row["key"],
            copy=row["copy"],
            group=row.get("group"),
        )


def _concatenate(arrays: Sequence[UInt64Array]) -> UInt64Array:
    return np.concatenate([np.zeros(0, np.uint64), *arrays])


def _repeated(arrays: Sequence[UInt64Array]) -> UInt64Array:
    """Return the values that occur at least twice in all arrays together."""
    values = np.sort(_concatenate(arrays))
    return np.compress(values[1:] == values[:-1], values[1:])
