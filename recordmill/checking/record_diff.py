"""Differences between the records of two datasets, found by their keys in the indexes.

Rows of both datasets are written to temporary files by the hash of their keys, so that a record of
both is in the same file, and only one file of each is in memory. Keys are compared by hashes of 16
bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import pathlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from recordmill.checking.compared_features import ComparedFeatures, hash_of
from recordmill.checking.record_differences import (
    KINDS,
    Kind,
    KindDiff,
    RecordDiff,
    RecordExample,
    RecordState,
)
from recordmill.format.content_hashes import digest_halves, hash_halves
from recordmill.format.file_names import index_name
from recordmill.format.label_texts import label_texts
from recordmill.format.manifest import Manifest
from recordmill.format.shard_index import read_index
from recordmill.format.split_indexes import split_indexes
from recordmill.format.split_names import in_order
from recordmill.reading.reader import Records
from recordmill.storage.files import Location

_PAIRED = {"moved": "split", "relabelled": "label"}  # column whose values are counted
_EXAMPLES = 5  # records of each kind
_PAIRS = 20  # pairs of splits or classes
_FILE_ROWS = 1 << 19  # rows of a temporary file
_BATCH = 1 << 16  # rows that are hashed at once
_FILES = 256  # temporary files of each dataset, which are open at once

_ABSENT = np.iinfo(np.uint16).max  # as a split
Rows = npt.NDArray[np.void]  # of a dtype of `_row_type`
Dataset = tuple[Location, Manifest]
_How = Literal["hashes", "values", "frames"]  # how contents are compared
_Equals = Callable[[Rows], npt.NDArray[np.bool_]]


def diff_records(before: Dataset, after: Dataset) -> RecordDiff:
    """Compare the records of two datasets by their keys.

    Contents are compared by the hashes in the indexes, and by the stored values of features that
    the hashes do not cover. Records with different hashes are the same if all their stored values
    are. If one of the datasets has no hashes, or if their digests are equal, the stored values are
    compared; or the bytes of the records, if these have different features.

    Raises:
      IndexDamagedError, DatasetDamagedError, StorageError: a dataset cannot be read.
    """
    contents = before[1].content is not None and after[1].content is not None
    # Equal records may be made of different sources, such as photos and a dataset of them.
    hashed = contents and before[1].digest != after[1].digest
    by: Literal["content", "frames"] = "content" if hashed else "frames"
    if before[1].splits == after[1].splits:  # the hashes of all shards and indexes are equal
        ledger = before[1].ledger
        same = ledger.records.written if ledger.packs is None else ledger.packs
        nothing = {kind: KindDiff(count=0) for kind in KINDS}
        return RecordDiff(kinds=nothing, same=same, uncompared=0, by=by)
    features = ComparedFeatures.of(before[1], after[1], hashed=hashed)
    row_type = _row_type(features)
    names = _Names()
    totals = [sum(split.records for split in one.splits.values()) for _, one in (before, after)]
    files = min(max(1, -(-max(totals) // _FILE_ROWS)), _FILES)
    sums = {kind: _Sum(row_type) for kind in KINDS}
    by_feature: Counter[str] = Counter()
    same = uncompared = 0
    equals = None
    if hashed and features.whole is not None:
        equals = functools.partial(_stored_equal, (before, after), names, features.whole)
    how: _How = "hashes" if hashed else "values" if features.whole is not None else "frames"
    with tempfile.TemporaryDirectory(prefix="recordmill-diff-") as folder:
        places = [pathlib.Path(folder) / name for name in ("before", "after")]
        for place, dataset in zip(places, (before, after), strict=True):
            place.mkdir()
            with contextlib.ExitStack() as stack:
                opened = [stack.enter_context((place / f"{n}").open("wb")) for n in range(files)]
                for rows in _read_rows(dataset, names, features, how):
                    homes = rows["key_high"] % files
                    for number in np.unique(homes).tolist():
                        rows[homes == number].tofile(opened[number])
        for number in range(files):
            one, two = (_records(np.fromfile(place / f"{number}", row_type)) for place in places)
            found = _compare(one, two, equals)
            by_feature.update(_count_features(found.kinds["changed"], features.titles))
            for kind in KINDS:
                sums[kind].add(kind, found.kinds[kind])
            same += found.same
            uncompared += found.uncompared
    readers = (_ExampleReader(before, names), _ExampleReader(after, names))
    kinds = {kind: one.result(kind, names, readers) for kind, one in sums.items()}
    kinds["changed"] = dataclasses.replace(kinds["changed"], features=dict(+by_feature))
    return RecordDiff(
        kinds=kinds, same=same, uncompared=uncompared, by=by, uncompared_because=features.unlike
    )


class _Names:
    """Numbers of splits and classes, the same for both datasets."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}
        self.names: list[str | None] = []

    def numbers(self, column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
        """Return the number of each value: int64[n]."""
        encoded = column.dictionary_encode("encode")
        known = [self.number(name) for name in encoded.dictionary.to_pylist()]
        numbers: npt.NDArray[np.int64] = np.array(known, np.int64)[np.asarray(encoded.indices)]
        return numbers

    def number(self, name: str | None) -> int:
        """Return the number of a name."""
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]


class _Found(NamedTuple):
    """Pairs of rows that differ, (before, after): Rows[n, 2] per kind; numbers of other pairs."""

    kinds: Mapping[Kind, Rows]
    same: int
    uncompared: int


class _Sum:
    """Number and examples of the records of one kind."""

    def __init__(self, row_type: np.dtype[np.void]) -> None:
        self._count = 0
        self._examples: Rows = np.zeros((0, 2), row_type)
        self._pairs: Counter[tuple[int, int]] = Counter()

    def add(self, kind: Kind, rows: Rows) -> None:
        """Add pairs of rows: Rows[n, 2]."""
        self._count += len(rows)
        some = np.concatenate([self._examples, rows])
        self._examples = some[np.argsort(some["key_high"][:, 0], kind="stable")[:_EXAMPLES]]
        if kind in _PAIRED:
            pairs, counts = np.unique(rows[_PAIRED[kind]], axis=0, return_counts=True)
            for (one, two), count in zip(pairs.tolist(), counts.tolist(), strict=True):
                self._pairs[one, two] += count

    def result(
        self, kind: Kind, names: _Names, readers: tuple[_ExampleReader, _ExampleReader]
    ) -> KindDiff:
        """Return the sum, with the keys of the examples."""
        named = {
            (names.names[one], names.names[two]): count for (one, two), count in self._pairs.items()
        }
        ordered = sorted(named.items(), key=lambda pair: (-pair[1], str(pair[0])))
        return KindDiff(
            count=self._count,
            examples=tuple(_example(pair, readers) for pair in self._examples),
            pairs=dict(ordered[:_PAIRS]),
        )


def _row_type(features: ComparedFeatures) -> np.dtype[np.void]:
    return np.dtype(
        [
            *(("key_high", "u8"), ("key_low", "u8")),
            *(("content_high", "u8"), ("content_low", "u8"), ("is_hashed", "?")),
            *(("split", "u2"), ("label", "u4"), ("copy", "u4"), ("number", "u8")),
            ("features", "u8", (len(features.titles),)),
        ]
    )


def _read_rows(
    dataset: Dataset, names: _Names, features: ComparedFeatures, how: _How
) -> Iterator[Rows]:
    """Yield a row per record and copy, in batches."""
    place, manifest = dataset
    by_frames = how == "frames"
    columns = ["key", "label", "labels", "copy", *(["content"] if how == "hashes" else [])]
    for split in in_order(manifest.splits):
        records = Records(place, split, features=features.names)
        payloads = records.payloads() if by_frames or features.names else None
        indexes = split_indexes(place, split, manifest.splits[split], columns=columns, checked=True)
        for first, index in indexes:
            for batch in index.to_batches(max_chunksize=_BATCH):
                rows = _rows(batch, names, _row_type(features))
                rows["split"] = names.number(split)
                rows["number"] = first + np.arange(len(rows))
                if how != "hashes":
                    rows["is_hashed"] = True  # values are compared, or payloads
                if payloads is not None:
                    stored = itertools.islice(payloads, len(rows))
                    _set_hashes(rows, stored, records, features, by_frames=by_frames)
                first += len(rows)
                yield rows


def _rows(batch: pa.RecordBatch, names: _Names, row_type: np.dtype[np.void]) -> Rows:
    rows = np.zeros(len(batch), row_type)
    keys = b"".join(xxhash.xxh3_128_digest(key.encode()) for key in batch["key"].to_pylist())
    rows["key_high"], rows["key_low"] = digest_halves(keys).T
    rows["label"] = names.numbers(label_texts(pa.Table.from_batches([batch])).combine_chunks())
    rows["copy"] = batch["copy"]
    if "content" in batch.schema.names:
        content = batch["content"]
        halves = hash_halves(content.fill_null(bytes(16)))
        rows["content_high"], rows["content_low"] = halves.T
        rows["is_hashed"] = content.is_valid()
    return rows


def _set_hashes(
    rows: Rows,
    payloads: Iterator[bytes],
    records: Records,
    features: ComparedFeatures,
    *,
    by_frames: bool,
) -> None:
    """Set the hashes of stored values and, with `by_frames`, of payloads."""
    digests = []
    for row, payload in enumerate(payloads):
        if by_frames:
            digests.append(xxhash.xxh3_128_digest(payload))
        if features.names and not rows["copy"][row]:
            record = records.decode(payload, int(rows["number"][row]))
            rows["features"][row] = features.hashes(record)
    if by_frames:
        rows["content_high"], rows["content_low"] = digest_halves(b"".join(digests)).T


def _stored_equal(
    datasets: tuple[Dataset, Dataset], names: _Names, features: Sequence[str], pairs: Rows
) -> npt.NDArray[np.bool_]:
    """Return whether the stored values of the records of pairs are equal: bool[n].

    pairs: Rows[n, 2]. features: to compare.
    """
    hashes = np.zeros(pairs.shape, np.uint64)
    for side, (place, _) in enumerate(datasets):
        splits, numbers = pairs["split"][:, side], pairs["number"][:, side]
        for split in np.unique(splits).tolist():
            at = np.flatnonzero(splits == split)
            at = at[np.argsort(numbers[at], kind="stable")]
            records = Records(place, names.names[split], features=features)
            found = records.records_at(numbers[at].tolist())
            for row, record in zip(at.tolist(), found, strict=True):
                hashes[row, side] = hash_of(record, features)
    equal: npt.NDArray[np.bool_] = hashes[:, 0] == hashes[:, 1]
    return equal


def _records(rows: Rows) -> Rows:
    """Return a row per key, sorted by key, whose `copy` is the number of copies."""
    rows = rows[np.lexsort((rows["copy"], rows["key_low"], rows["key_high"]))]
    starts = np.flatnonzero(np.append(True, ~_same_key(rows[1:], rows[:-1]))[: len(rows)])
    records = rows[starts]
    counts = np.diff(np.append(starts, len(rows)))
    records["copy"] = counts - (records["copy"] == 0)
    return records


def _same_key(some: Rows, others: Rows) -> npt.NDArray[np.bool_]:
    high = some["key_high"] == others["key_high"]
    same: npt.NDArray[np.bool_] = high & (some["key_low"] == others["key_low"])
    return same


def _compare(before: Rows, after: Rows, equals: _Equals | None) -> _Found:
    """Compare records by their keys; each key occurs at most once in each.

    equals: returns whether the records of pairs with different hashes have equal values.
    """
    rows = np.concatenate([before, after])
    is_after = np.arange(len(rows)) >= len(before)
    order = np.lexsort((is_after, rows["key_low"], rows["key_high"]))
    rows, is_after = rows[order], is_after[order]
    first = np.flatnonzero(_same_key(rows[1:], rows[:-1]))
    alone = np.ones(len(rows), np.bool_)
    alone[first] = alone[first + 1] = False
    one, two = rows[first], rows[first + 1]
    pairs = np.stack([one, two], axis=1)
    hashed = one["is_hashed"] & two["is_hashed"]
    contents = ("content_high", "content_low")
    has_other_content = hashed & np.any([one[name] != two[name] for name in contents], axis=0)
    if equals is not None and (at := np.flatnonzero(has_other_content)).size:
        has_other_content[at] = ~equals(pairs[at])
    has_other_features = (one["features"] != two["features"]).any(axis=1)
    differ: dict[Kind, npt.NDArray[np.bool_]] = {
        "moved": one["split"] != two["split"],
        "relabelled": one["label"] != two["label"],
        "changed": has_other_content | has_other_features,
        "copies": one["copy"] != two["copy"],
    }
    return _Found(
        kinds={
            "added": _with_absent(rows[alone & is_after], place=0),
            "removed": _with_absent(rows[alone & ~is_after], place=1),
            **{kind: pairs[mask] for kind, mask in differ.items()},
        },
        same=int((~np.any([*differ.values()], axis=0)).sum()),
        uncompared=int((~hashed).sum()),
    )


def _count_features(pairs: Rows, titles: Sequence[str]) -> dict[str, int]:
    """Return the number of records that differ in each feature."""
    stored = pairs["features"]
    counts = (stored[:, 0] != stored[:, 1]).sum(axis=0).tolist()
    return dict(zip(titles, counts, strict=True))


def _with_absent(rows: Rows, *, place: int) -> Rows:
    """Return pairs of rows, of which that at `place` does not exist."""
    pairs = np.stack([rows, rows], axis=1)
    pairs["split"][:, place] = _ABSENT
    return pairs


def _example(pair: Rows, readers: tuple[_ExampleReader, _ExampleReader]) -> RecordExample:
    found = [
        None if row["split"] == _ABSENT else reader.read(row)
        for row, reader in zip(pair, readers, strict=True)
    ]
    key = next(one[0] for one in found if one is not None)
    states = [None if one is None else one[1] for one in found]
    return RecordExample(key=key, before=states[0], after=states[1])


class _ExampleReader:
    """Reads the keys of single records of a dataset from its indexes."""

    def __init__(self, dataset: Dataset, names: _Names) -> None:
        self._place, self._manifest = dataset
        self._names = names
        self._index = functools.lru_cache(maxsize=2)(self._read_index)

    def read(self, row: Any) -> tuple[str, RecordState]:
        """Return the key and the state of a record."""
        split = str(self._names.names[row["split"]])
        shards = self._manifest.splits[split].shards
        ends = np.cumsum([shard.records for shard in shards])
        number = int(row["number"])
        shard = int(np.searchsorted(ends, number, side="right"))
        index = self._index(split, shard)
        at = number - int(ends[shard]) + shards[shard].records
        source = index["source"][at].as_py() if "source" in index.column_names else None
        state = RecordState(
            split=split,
            number=number,
            label=self._names.names[row["label"]],
            copies=int(row["copy"]),
            source=source,
        )
        return index["key"][at].as_py(), state

    def _read_index(self, split: str, shard: int) -> pa.Table:
        shards = self._manifest.splits[split].shards
        name = index_name(split, shard, len(shards))
        return read_index(
            self._place / name, columns=["key", "source"], records=shards[shard].records
        )
