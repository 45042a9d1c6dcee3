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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from recordmill.format.content_hashes import digest_halves, hash_halves
from recordmill.format.file_names import index_name
from recordmill.format.label_texts import label_texts
from recordmill.format.manifest import Manifest
from recordmill.format.shard_index import read_index
from recordmill.format.split_indexes import split_indexes
from recordmill.format.split_names import in_order
from recordmill.reading.reader import Records
from recordmill.storage.files import Location

Kind = Literal["added", "removed", "moved", "relabelled", "changed", "copies"]
KINDS: tuple[Kind, ...] = ("added", "removed", "moved", "relabelled", "changed", "copies")

_PAIRED = {"moved": "split", "relabelled": "label"}  # column whose values are counted
_EXAMPLES = 5  # records of each kind
_PAIRS = 20  # pairs of splits or classes
_FILE_ROWS = 1 << 19  # rows of a temporary file
_BATCH = 1 << 16  # rows that are hashed at once
_FILES = 256  # temporary files of each dataset, which are open at once

_ROW = np.dtype(
    [
        *(("key_high", "u8"), ("key_low", "u8")),
        *(("content_high", "u8"), ("content_low", "u8"), ("is_hashed", "?")),
        *(("split", "u2"), ("label", "u4"), ("copy", "u4"), ("number", "u8")),
    ]
)
_ABSENT = np.iinfo(np.uint16).max  # as a split
Rows = npt.NDArray[np.void]  # of dtype _ROW
Dataset = tuple[Location, Manifest]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordState:
    """A record in one of the datasets.

    number: of the record in its split, as for `recordmill inspect --record`. copies: number of its
    copies. source: FILE#ROW, if the index has it.
    """

    split: str
    number: int
    label: str | None
    copies: int
    source: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordExample:
    """A record that differs; None where it does not exist."""

    key: str
    before: RecordState | None
    after: RecordState | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class KindDiff:
    """Records that differ in one way: their number, and those with the smallest hashes of keys.

    pairs: {(before, after): number} of the splits of moved records, or the classes of relabelled
    ones, the most frequent first.
    """

    count: int
    examples: Sequence[RecordExample] = ()
    pairs: Mapping[tuple[str | None, str | None], int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordDiff:
    """Differences between records without copies. A record can differ in several ways.

    same: number of records without a difference. uncompared: number of records in both datasets
    whose contents could not be compared. by: "content" if contents are compared by the hashes in
    the indexes, "frames" if by the bytes of the records.
    """

    kinds: Mapping[Kind, KindDiff]
    same: int
    uncompared: int
    by: Literal["content", "frames"]

    def to_json(self) -> dict[str, Any]:
        """Return the differences as plain data."""
        kinds: dict[str, dict[str, Any]] = {}
        for kind, one in self.kinds.items():
            kinds[kind] = {
                "count": one.count,
                "examples": [dataclasses.asdict(example) for example in one.examples],
            }
            if one.pairs:
                kinds[kind]["pairs"] = [
                    {"before": pair[0], "after": pair[1], "count": count}
                    for pair, count in one.pairs.items()
                ]
        return {
            **kinds,
            "same": self.same,
            "uncompared": self.uncompared,
            "compared_by": self.by,
        }


def diff_records(before: Dataset, after: Dataset) -> RecordDiff:
    """Compare the records of two datasets by their keys.

    Contents are compared by the hashes in the indexes, or if one of the datasets has none, by the
    bytes of the records, which hold the labels as well.

    Raises:
      IndexDamagedError, DatasetDamagedError, StorageError: a dataset cannot be read.
    """
    hashed = before[1].content is not None and after[1].content is not None
    by: Literal["content", "frames"] = "content" if hashed else "frames"
    if before[1].splits == after[1].splits:  # the hashes of all shards and indexes are equal
        ledger = before[1].ledger
        same = ledger.records.written if ledger.packs is None else ledger.packs
        nothing = {kind: KindDiff(count=0) for kind in KINDS}
        return RecordDiff(kinds=nothing, same=same, uncompared=0, by=by)
    names = _Names()
    totals = [sum(split.records for split in one.splits.values()) for _, one in (before, after)]
    files = min(max(1, -(-max(totals) // _FILE_ROWS)), _FILES)
    sums = {kind: _Sum() for kind in KINDS}
    same = uncompared = 0
    with tempfile.TemporaryDirectory(prefix="recordmill-diff-") as folder:
        places = [pathlib.Path(folder) / name for name in ("before", "after")]
        for place, dataset in zip(places, (before, after), strict=True):
            place.mkdir()
            _write_rows(dataset, place, names, files=files, by_frames=not hashed)
        for number in range(files):
            one, two = (_records(np.fromfile(place / f"{number}", _ROW)) for place in places)
            found = _compare(one, two)
            for kind in KINDS:
                sums[kind].add(kind, found.kinds[kind])
            same += found.same
            uncompared += found.uncompared
    readers = (_ExampleReader(before, names), _ExampleReader(after, names))
    return RecordDiff(
        kinds={kind: one.result(kind, names, readers) for kind, one in sums.items()},
        same=same,
        uncompared=uncompared,
        by=by,
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

    def __init__(self) -> None:
        self._count = 0
        self._examples: Rows = np.zeros((0, 2), _ROW)
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


def _write_rows(
    dataset: Dataset, folder: pathlib.Path, names: _Names, *, files: int, by_frames: bool
) -> None:
    """Write a row per record and copy into the file `key_high % files`."""
    place, manifest = dataset
    columns = ["key", "label", "labels", "copy", *([] if by_frames else ["content"])]
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context((folder / f"{n}").open("wb")) for n in range(files)]
        for split in in_order(manifest.splits):
            payloads = Records(place, split).payloads() if by_frames else None
            indexes = split_indexes(
                place, split, manifest.splits[split], columns=columns, checked=True
            )
            for first, index in indexes:
                for batch in index.to_batches(max_chunksize=_BATCH):
                    rows = _rows(batch, names)
                    rows["split"] = names.number(split)
                    rows["number"] = first + np.arange(len(rows))
                    if payloads is not None:
                        _set_hashes(rows, itertools.islice(payloads, len(rows)))
                    first += len(rows)
                    homes = rows["key_high"] % files
                    for number in np.unique(homes).tolist():
                        rows[homes == number].tofile(opened[number])


def _rows(batch: pa.RecordBatch, names: _Names) -> Rows:
    rows = np.zeros(len(batch), _ROW)
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


def _set_hashes(rows: Rows, payloads: Iterator[bytes]) -> None:
    digests = b"".join(map(xxhash.xxh3_128_digest, payloads))
    rows["content_high"], rows["content_low"] = digest_halves(digests).T
    rows["is_hashed"] = True


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


def _compare(before: Rows, after: Rows) -> _Found:
    """Compare records by their keys; each key occurs at most once in each."""
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
    differ: dict[Kind, npt.NDArray[np.bool_]] = {
        "moved": one["split"] != two["split"],
        "relabelled": one["label"] != two["label"],
        "changed": hashed & np.any([one[name] != two[name] for name in contents], axis=0),
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
