"""Chooses the records that a report shows: those with the smallest hashes of their keys.

The same dataset always gives the same sample, whatever its order, and a larger sample has all
records of a smaller one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.manifest import Manifest, SplitInfo
from recordmill.format.split_indexes import split_indexes
from recordmill.format.split_names import in_order
from recordmill.format.xxh3 import hash_strings
from recordmill.reading.reader import Records
from recordmill.storage.files import Location
from recordmill.tfrecord.typed_records import TypedRecord

_COLUMNS = ("key", "label", "copy")
_COPIES = 3  # copies of a shown record that are shown beside it
_SPARSE = 16  # times as many rows as are wanted
_READ_ALONE = 64  # in gzip shards, records further apart than this end a range


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledRecord:
    """A record of the sample.

    number: of the record within its split, from 0, as for `recordmill inspect --record`.
    rank: the hash of its key: uint64.
    """

    split: str
    number: int
    key: str
    label: str | None
    copy: int
    rank: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """The chosen records of a split.

    plotted: records for distributions, without copies, sorted by rank.
    shown: per class (None: unlabelled) the records to draw, each followed by its copies.
    """

    plotted: Sequence[SampledRecord]
    shown: Mapping[str | None, Sequence[SampledRecord]]

    def numbers(self) -> list[int]:
        """Return the numbers of all chosen records, in order."""
        drawn = itertools.chain.from_iterable(self.shown.values())
        return sorted({place.number for place in itertools.chain(self.plotted, drawn)})


def choose(
    dataset: Location,
    split: str,
    info: SplitInfo,
    *,
    plotted: int,
    shown: Mapping[str | None, int],
    copies: int = _COPIES,
) -> Sample:
    """Choose records of a split from its indexes.

    plotted: number of records for distributions. shown: number of records to draw, per class.
    copies: number of copies of each record to draw.

    Raises:
      IndexDamagedError, StorageError: an index cannot be read.
    """
    all_records: list[SampledRecord] = []
    per_class: dict[str | None, list[SampledRecord]] = defaultdict(list)
    has_copies = False
    for first, index in split_indexes(dataset, split, info, columns=_COLUMNS):
        originals = np.flatnonzero(np.asarray(index["copy"]) == 0)
        has_copies |= len(originals) < len(index)
        ranks = hash_strings(index["key"])
        rows = _smallest(originals, ranks, plotted)
        if plotted and len(all_records) == plotted:
            rows = rows[ranks[rows] <= np.uint64(all_records[-1].rank)]
        all_records = _least([*all_records, *_places(index, rows, ranks, split, first)], plotted)
        labels = index["label"].combine_chunks().dictionary_encode()
        codes = np.asarray(labels.indices.fill_null(-1))[originals]
        numbers = {name: number for number, name in enumerate(labels.dictionary.to_pylist())}
        for label, count in shown.items():
            number = -1 if label is None else numbers.get(label, len(numbers))
            rows = _smallest(originals[codes == number], ranks, count)
            places = _places(index, rows, ranks, split, first)
            per_class[label] = _least([*per_class[label], *places], count)
    chosen = {place.key for places in per_class.values() for place in places}
    found = _copies_of(chosen, dataset, split, info, most=copies) if has_copies else {}
    return Sample(
        plotted=all_records,
        shown={
            label: [one for place in places for one in (place, *found.get(place.key, ()))]
            for label, places in per_class.items()
            if places
        },
    )


def find(
    dataset: Location, split: str, info: SplitInfo, numbers: Collection[int]
) -> list[SampledRecord]:
    """Return the records of a split with these numbers, with rank 0, by reading their indexes.

    Raises:
      IndexDamagedError, StorageError: an index cannot be read.
    """
    found = []
    for first, index in split_indexes(dataset, split, info, columns=_COLUMNS, holding=numbers):
        rows = np.array([one - first for one in sorted(numbers) if 0 <= one - first < len(index)])
        found += _places(index, rows, np.zeros(len(index), np.uint64), split, first)
    return found


def first_record(manifest: Manifest, split: str) -> int:
    """Return the number of the first record of a split among the records of all splits."""
    names = in_order(manifest.splits)
    return sum(manifest.splits[name].records for name in names[: names.index(split)])


def read(records: Records, split: str, numbers: Sequence[int]) -> Iterator[tuple[int, TypedRecord]]:
    """Yield the records of a split with these ascending numbers within the split.

    In gzip shards, which can only be read from their start, a shard is read once.

    records: those of all splits.

    Raises:
      DatasetDamagedError: a record is damaged.
    """
    first = first_record(records.manifest, split)
    places = [first + number for number in numbers]
    if records.manifest.compression == "none":
        for place in places:
            yield place - first, records[place]
        return
    wanted = np.asarray(places, np.int64)
    part = range(first, first + records.manifest.splits[split].records)
    for block in records.blocks(part, size=_READ_ALONE):
        inside = wanted[(wanted >= block.start) & (wanted < block.stop)].tolist()
        if inside:
            remaining = iter(inside)
            place = next(remaining)
            for at, payload in enumerate(
                records.payloads(block.start, inside[-1] + 1), start=block.start
            ):
                if at == place:
                    yield place - first, records.decode(payload, place)
                    place = next(remaining, -1)


def _places(
    index: pa.Table,
    rows: npt.NDArray[np.int64],
    ranks: npt.NDArray[np.uint64],
    split: str,
    first: int,
) -> list[SampledRecord]:
    taken = index.take(rows)
    columns = (taken[name].to_pylist() for name in _COLUMNS)
    return [
        SampledRecord(
            split=split,
            number=first + int(row),
            key=key,
            label=label,
            copy=copy,
            rank=int(ranks[row]),
        )
        for row, key, label, copy in zip(rows, *columns, strict=True)
    ]


def _smallest(
    rows: npt.NDArray[np.int64], ranks: npt.NDArray[np.uint64], count: int
) -> npt.NDArray[np.int64]:
    """Return the rows with the `count` smallest ranks, more if the last rank is repeated."""
    if not 0 < count < len(rows):
        return rows[: count and len(rows)]
    of_rows = ranks[rows]
    if len(rows) > _SPARSE * count:  # hashes are spread evenly: most rows need no sorting
        is_near = of_rows < np.uint64(_SPARSE * count * 2**64 // len(rows))
        if is_near.sum() >= count:
            rows, of_rows = rows[is_near], of_rows[is_near]
    last: np.uint64 = np.partition(of_rows, count - 1)[count - 1]
    return rows[np.flatnonzero(of_rows <= last)]


def _least(places: Sequence[SampledRecord], count: int) -> list[SampledRecord]:
    return sorted(places, key=lambda place: (place.rank, place.key))[:count]


def _copies_of(
    keys: set[str], dataset: Location, split: str, info: SplitInfo, *, most: int
) -> dict[str, list[SampledRecord]]:
    """Return the first copies of these records."""
    copies: dict[str, list[SampledRecord]] = defaultdict(list)
    if not keys:
        return copies
    wanted = pa.array(sorted(keys), pa.string())
    for first, index in split_indexes(dataset, split, info, columns=_COLUMNS):
        is_copy = pc.and_(
            pc.greater(index["copy"], 0),
            pc.and_(pc.less_equal(index["copy"], most), pc.is_in(index["key"], wanted)),
        )
        rows = np.flatnonzero(is_copy.to_numpy(zero_copy_only=False))
        ranks = np.zeros(len(index), np.uint64)
        for place in _places(index, rows, ranks, split, first):
            copies[place.key].append(place)
    return {key: sorted(places, key=lambda place: place.copy) for key, places in copies.items()}
