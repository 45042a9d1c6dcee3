"""Chooses the records that a report shows: a uniform sample, the same each time.

Records are stored in the order of a hash of seed, key and copy, so the first ones are a sample. The
files of an adopted dataset may have any order: there, the records with the smallest hashes of their
keys are chosen. A larger sample contains all records of a smaller one.
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
from recordmill.format.split_indexes import split_indexes, split_rows
from recordmill.format.split_names import in_order
from recordmill.format.xxh3 import hash_strings
from recordmill.reading.reader import Records
from recordmill.report.counts import kind_of
from recordmill.storage.files import Location
from recordmill.tfrecord.typed_records import TypedRecord

_COLUMNS = ("key", "label", "copy")
_COPIES = 3  # copies of a shown record that are shown beside it
_READ_ALONE = 64  # in gzip shards, records further apart than this end a range
_BLOCK = 1 << 14  # rows of an index processed at once
_SKIPPED = 1 << 16  # bytes between two records that are read rather than skipped

Numbers = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledRecord:
    """A record of the sample.

    number: of the record within its split, from 0, as for `recordmill inspect --record`.
    """

    split: str
    number: int
    key: str
    label: str | None
    copy: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """The chosen records of a split, in the order of the sample.

    plotted: records for distributions, without copies.
    shown: per class (None: unlabelled) the records to draw, each followed by its copies.
    """

    plotted: Sequence[SampledRecord]
    shown: Mapping[str | None, Sequence[SampledRecord]]

    def numbers(self) -> list[int]:
        """Return the numbers of all chosen records, in order."""
        drawn = itertools.chain.from_iterable(self.shown.values())
        return sorted({place.number for place in itertools.chain(self.plotted, drawn)})


class _Chosen:
    """The first `count` of the records added so far, in the order of the sample."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._ranks = np.empty(0, np.uint64)
        self.numbers = np.empty(0, np.int64)

    @property
    def is_complete(self) -> bool:
        return len(self.numbers) == self._count

    def add(self, numbers: Numbers, ranks: Ranks | None) -> None:
        """Add records of a shard.

        ranks: their places in the order of the sample; None if they are added in that order.
        """
        if ranks is None:
            more = numbers[: self._count - len(self.numbers)]
            self.numbers = np.concatenate([self.numbers, more])
            return
        if self._count < len(ranks):
            is_low = ranks <= np.partition(ranks, self._count)[self._count]
            numbers, ranks = numbers[is_low], ranks[is_low]
        numbers = np.concatenate([self.numbers, numbers])
        ranks = np.concatenate([self._ranks, ranks])
        order = np.lexsort((numbers, ranks))[: self._count]
        self.numbers, self._ranks = numbers[order], ranks[order]


def choose(
    dataset: Location,
    split: str,
    manifest: Manifest,
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
    info = manifest.splits[split]
    every = _Chosen(plotted)
    per_class = {label: _Chosen(count) for label, count in shown.items()}
    for some in _originals(dataset, split, manifest):
        every.add(some.numbers, some.ranks)
        for label, chosen in per_class.items():
            of_class = some.codes == (-1 if label is None else some.places.get(label, -2))
            chosen.add(some.numbers[of_class], None if some.ranks is None else some.ranks[of_class])
        if some.ranks is None and all(one.is_complete for one in (every, *per_class.values())):
            break
    numbers = np.concatenate([every.numbers, *(some.numbers for some in per_class.values())])
    found = {place.number: place for place in find(dataset, split, info, numbers.tolist())}
    drawn = {
        label: [found[number] for number in some.numbers.tolist()]
        for label, some in per_class.items()
    }
    keys = {place.key for places in drawn.values() for place in places}
    has_copies = manifest.ledger.copies.written > 0
    of_keys = _copies_of(keys, dataset, split, info, most=copies) if has_copies else {}
    return Sample(
        plotted=[found[number] for number in every.numbers.tolist()],
        shown={
            label: [one for place in places for one in (place, *of_keys.get(place.key, ()))]
            for label, places in drawn.items()
            if places
        },
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Originals:
    """Consecutive records of a split, without copies.

    ranks: their places in the order of the sample; None if they are in that order.
    codes: numbers of their classes, -1 without one. places: {class: its number}.
    """

    numbers: Numbers
    ranks: Ranks | None
    codes: npt.NDArray[np.int32]
    places: Mapping[str, int]


def _originals(dataset: Location, split: str, manifest: Manifest) -> Iterator[_Originals]:
    has_copies = manifest.ledger.copies.written > 0
    is_in_order = is_shuffled(manifest)
    columns = ["label", *(["copy"] * has_copies), *(["key"] * (not is_in_order))]
    for first, index in split_indexes(
        dataset, split, manifest.splits[split], columns=columns, dictionaries=["label"]
    ):
        labels = index["label"].unify_dictionaries().combine_chunks()
        codes = np.asarray(labels.indices.fill_null(-1))
        places = {label: code for code, label in enumerate(labels.dictionary.to_pylist())}
        for start in range(0, len(index), _BLOCK):
            part = index.slice(start, _BLOCK)
            rows = np.arange(len(part))
            if has_copies:
                rows = np.flatnonzero(np.asarray(part["copy"]) == 0)
            yield _Originals(
                numbers=first + start + rows,
                ranks=None if is_in_order else hash_strings(part["key"])[rows],
                codes=codes[start + rows],
                places=places,
            )


def is_shuffled(manifest: Manifest) -> bool:
    """Return whether the records of a dataset are stored in random order."""
    return kind_of(manifest) != "adopted"


def order(manifest: Manifest) -> str:
    """Return a phrase for a report that says which records are in the sample."""
    if is_shuffled(manifest):
        return "the first ones, as records are stored in random order"
    return "those with the smallest hashes of their keys"


def find(
    dataset: Location, split: str, info: SplitInfo, numbers: Collection[int]
) -> list[SampledRecord]:
    """Return the records of a split with these numbers, in ascending order.

    Raises:
      IndexDamagedError, StorageError: an index cannot be read.
    """
    found = []
    for inside, index in split_rows(
        dataset, split, info, numbers, columns=_COLUMNS, dictionaries=["label"]
    ):
        found += _places(index, split, inside)
    return found


def first_record(manifest: Manifest, split: str) -> int:
    """Return the number of the first record of a split among the records of all splits."""
    names = in_order(manifest.splits)
    return sum(manifest.splits[name].records for name in names[: names.index(split)])


def read(records: Records, split: str, numbers: Sequence[int]) -> Iterator[tuple[int, TypedRecord]]:
    """Yield the records of a split with these ascending numbers within the split.

    Records that are close to each other are read together. A gzip shard, which can only be read
    from its start, is read once.

    records: records of all splits.

    Raises:
      DatasetDamagedError: a record is damaged.
    """
    first = first_record(records.manifest, split)
    wanted = np.asarray(numbers, np.int64) + first
    if records.manifest.compression == "none":
        distance = max(_SKIPPED / max(records.mean_bytes, 1), 1)
        parts = np.split(wanted, np.flatnonzero(np.diff(wanted) > distance) + 1)
    else:
        part = range(first, first + records.manifest.splits[split].records)
        blocks = records.blocks(part, size=_READ_ALONE)
        parts = np.split(wanted, np.searchsorted(wanted, [block.stop for block in blocks]))
    for some in parts:
        if not len(some):
            continue
        start, stop = int(some[0]), int(some[-1]) + 1
        if len(some) == 1:
            yield start - first, records[start]
            continue
        if len(some) == stop - start:
            yield from enumerate(records.between(start, stop), start=start - first)
            continue
        inside = {*some.tolist()}
        for place, payload in enumerate(records.payloads(start, stop), start=start):
            if place in inside:
                yield place - first, records.decode(payload, place)


def _places(index: pa.Table, split: str, numbers: Sequence[int]) -> list[SampledRecord]:
    """Return the records of the rows of a table. numbers: within the split."""
    columns = (index[name].to_pylist() for name in _COLUMNS)
    return [
        SampledRecord(split=split, number=number, key=key, label=label, copy=copy)
        for number, key, label, copy in zip(numbers, *columns, strict=True)
    ]


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
        for place in _places(index.take(rows), split, (first + rows).tolist()):
            copies[place.key].append(place)
    return {key: sorted(places, key=lambda place: place.copy) for key, places in copies.items()}
