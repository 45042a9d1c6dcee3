"""No record and no group is in two splits, and no record twice: proved over 8-byte hashes.

Texts are compared only where hashes are equal, so that a billion keys take 8 GB, not 100.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

UInt64Array = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hashes:
    """What a shard (or a split) holds, as xxh3_64: uint64[n] each.

    keys: of the records themselves, as often as they are there.
    copied: of those that have oversampled copies, once each.
    groups: once each.
    """

    keys: UInt64Array
    copied: UInt64Array
    groups: UInt64Array

    @classmethod
    def of(cls, index: pa.Table) -> Hashes:
        """index: with the columns key and copy, perhaps group."""
        is_copy = pc.greater(index["copy"], 0)
        groups = index["group"] if "group" in index.column_names else pa.array([], pa.string())
        return cls(
            keys=_hashes(index["key"].filter(pc.invert(is_copy))),
            copied=_hashes(pc.unique(index["key"].filter(is_copy))),
            groups=_hashes(pc.unique(pc.drop_null(groups))),
        )

    @classmethod
    def together(cls, parts: Sequence[Hashes]) -> Hashes:
        """The hashes of a split from those of its shards."""
        return cls(
            keys=_joined([part.keys for part in parts]),
            copied=np.unique(_joined([part.copied for part in parts])),
            groups=np.unique(_joined([part.groups for part in parts])),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A record in a shard."""

    split: str
    file: str
    record: int
    key: str
    copy: int
    group: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leak:
    """A record that stands where it must not, given that `other` stands where it does."""

    row: Row
    other: Row
    what: str


def suspects(splits: Mapping[str, Hashes]) -> UInt64Array:
    """Hashes of keys and groups that may be where they must not: uint64[n], sorted.

    Empty for a sound dataset, but for chance: two of n different texts have equal hashes about
    n**2 / 2**65 times.
    """
    members = [np.unique(_joined([split.keys, split.copied])) for split in splits.values()]
    found = [
        _repeated(members),
        _repeated([split.groups for split in splits.values()]),
        *(_repeated([split.keys]) for split in splits.values()),
    ]
    return np.unique(np.concatenate(found))


def find_leaks(rows: Iterable[Row]) -> Iterator[Leak]:
    """Compares the rows whose key or group is suspect, in order: the first of them is in place."""
    by_key: dict[str, list[Row]] = defaultdict(list)
    by_group: dict[str, Row] = {}
    for row in rows:
        same_key = by_key[row.key]
        elsewhere = [seen for seen in same_key if seen.split != row.split]
        twins = [seen for seen in same_key if row.copy == seen.copy == 0]
        kin = row if row.group is None else by_group.setdefault(row.group, row)
        if elsewhere:
            yield Leak(row=row, other=elsewhere[0], what="the same record is in another split")
        elif twins:
            yield Leak(row=row, other=twins[0], what="the same record is in the split twice")
        elif kin.split != row.split:
            what = f"its group {row.group!r} is in another split"
            yield Leak(row=row, other=kin, what=what)
        same_key.append(row)


def suspect_rows(index: pa.Table, hashes: UInt64Array, *, split: str, file: str) -> Iterator[Row]:
    """The rows of an index whose key or group is among the suspects."""
    suspect = np.isin(_hashes(index["key"]), hashes)
    if "group" in index.column_names:
        groups = index["group"]
        suspect |= np.isin(_hashes(groups.fill_null("")), hashes) & groups.is_valid().to_numpy()
    for number in np.flatnonzero(suspect).tolist():
        row = index.slice(number, 1).to_pylist()[0]
        yield Row(
            split=split,
            file=file,
            record=number,
            key=row["key"],
            copy=row["copy"],
            group=row.get("group"),
        )


def _hashes(texts: pa.ChunkedArray) -> UInt64Array:
    values = texts.cast(pa.binary()).to_pylist()
    return np.fromiter(map(xxhash.xxh3_64_intdigest, values), np.uint64, len(values))


def _joined(arrays: Sequence[UInt64Array]) -> UInt64Array:
    return np.concatenate([np.zeros(0, np.uint64), *arrays])


def _repeated(arrays: Sequence[UInt64Array]) -> UInt64Array:
    """What occurs twice in all the arrays together."""
    together = np.sort(_joined(arrays))
    return np.compress(together[1:] == together[:-1], together[1:])
