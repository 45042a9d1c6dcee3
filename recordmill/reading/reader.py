"""Reads a dataset without TensorFlow: in order, or single records through the index."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import operator
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple, NoReturn, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.file_names import index_name
from recordmill.format.manifest import MANIFEST, Manifest, Shard, load
from recordmill.format.replaced_datasets import DatasetVersion
from recordmill.format.shard_index import REQUIRED, IndexDamagedError, column_names, read_index
from recordmill.format.split_names import in_order
from recordmill.reading.epoch_order import Numbers, OrderLayout, order_layout
from recordmill.reading.tfrecord_files import FileDamagedError, find_files, read_files
from recordmill.storage.block_cache import BlockCache, StoredFile, open_cache
from recordmill.storage.files import Location, results_of_each, shown
from recordmill.storage.range_reads import FileRange, StoredRanges
from recordmill.storage.s3_objects import without_threads
from recordmill.tfrecord.decode import ExampleError
from recordmill.tfrecord.framing import FrameError, inflated_limit, payload_of, read_frames
from recordmill.tfrecord.typed_records import RecordDecoder, TypedRecord

Folder = str | os.PathLike[str] | Location
Source = Folder | Sequence[Folder]

_NEAR_BYTES = 64 << 10  # between two records that one read by the index covers, at most
_READ_BYTES = 8 << 20  # of such a read, at most, unless a record is larger
_NEAR = 32  # records between two that are read in one pass
NO_RANDOM_ACCESS = (
    "a gzip shard is read from its start for every record: write the dataset without compression"
    " for random access"
)
_VERIFY = "run `recordmill verify` to find all damage"


class DatasetDamagedError(FileDamagedError):
    """A shard that differs from what was written."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordPlace:
    """The place of a record in a dataset, and its row of the index.

    number: of the record within its file, from 0.
    label: the class as text; None for an unlabelled record.
    copy: 0 for the record itself, 1 and up for its oversampled copies.
    """

    split: str
    file: str
    number: int
    key: str
    label: str | None
    copy: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shard:
    split: str
    info: Shard
    index: str


class _RowsOfRead(NamedTuple):
    """Rows of an uncompressed shard that one read covers.

    numbers: int64[n], the batch of record numbers that the rows belong to. is_last: whether it is
      the last read of the batch.
    places: places of the rows in the batch. starts, ends: of their frames in the file.
    """

    numbers: Numbers
    is_last: bool
    shard: int
    rows: list[int]
    places: list[int]
    starts: list[int]
    ends: list[int]


def read(
    source: Source,
    split: str | None = None,
    *,
    features: Collection[str] | None = None,
    max_record_bytes: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> Iterator[TypedRecord]:
    """Return an iterator over records in the order of the shards. Every checksum is checked.

    source: the folder of a dataset; or a TFRecord file outside of any dataset, a pattern of names
      (`logs/*.tfrecord`), or a list of files and patterns.
    split: the split to read; None for all splits.
    features: names of the features to return; None for all.
    max_record_bytes: size of the largest record that is decompressed from gzip, because a small
      file can expand to gigabytes; by default 64 times the size of its shard, but at
      least 257 MiB and at most 2 GiB.
    cache: a local folder that keeps blocks of the shards of a dataset in a store, also for other
      runs at the same time. It has no effect on local files.
    cache_size: bytes of all these blocks, such as 10**12 or "1TB"; "100GB" by default. Those that
      were not used for the longest time are deleted.

    A record is {feature: value}. Values of a dataset have the declared dtypes and shapes: a NumPy
    scalar or bytes for the shape (), otherwise an array (of dtype object for bytes); images stay
    encoded. In files without a dataset nothing is declared, and a value is always an array; see
    `recordmill.reading.tfrecord_files.decode_undeclared`.

    Raises:
      ManifestError: the source is not a dataset.
      ValueError: the split or a feature does not exist.
      FileDamagedError: names the damaged record and its file; for a dataset it is a
        DatasetDamagedError.
    """
    if isinstance(source, str | os.PathLike | Location):
        place = _location(source)
        # The manifest is looked up first: listing the folder around it may not be permitted.
        files = None if (place / MANIFEST).exists() else find_files(place)
        if files is None:
            records = Records(
                place,
                split,
                features=features,
                max_record_bytes=max_record_bytes,
                cache=cache,
                cache_size=cache_size,
            )
            return iter(records)
    else:
        files = [file for one in source for file in _existing_files(_location(one))]
        if not files:
            raise ValueError("expected the folder of a dataset, or TFRecord files; got none")
    if split is not None:
        raise ValueError(f"TFRecord files without a dataset have no splits; got split {split!r}")
    if cache is not None or cache_size is not None:
        raise ConfigError("cache: only files of a dataset can be cached, whose hashes are known")
    return read_files(files, features=features, max_record_bytes=max_record_bytes)


def read_payloads(dataset: Folder, split: str | None = None) -> Iterator[bytes]:
    """Return an iterator over the serialized Examples or SequenceExamples, in the order of `read`.

    split: the split to read; None for all splits. Raises as `read`.
    """
    return Records(dataset, split).payloads()


class Records(Sequence[TypedRecord]):
    """The records of a split, or of all splits, by their number in the order of `read`.

    A record is read from its offset, which the index holds; in a gzip shard the records before it
    are inflated, too. Checksums are always checked. Iteration, slices and `between` read
    consecutive records in one pass. The offsets of every accessed shard are kept in memory: 8 bytes
    per record.

    It serves as a source for PyTorch's DataLoader and for Grain: it keeps no file open, and so can
    be pickled, forked, and read by many threads.

    max_record_bytes, cache, cache_size: as for `read`.

    Raises:
      ManifestError: the folder is not a dataset.
      ValueError: the split or a feature does not exist.
      ConfigError: the cache is invalid, or its folder not writable.
      IndexError: a record number is out of range.
      DatasetDamagedError: a record is damaged.
      IndexDamagedError: the index of a shard is damaged.
      DatasetReplacedError: a run has replaced the dataset since it was opened.
    """

    def __init__(
        self,
        dataset: Folder,
        split: str | None = None,
        *,
        features: Collection[str] | None = None,
        max_record_bytes: int | None = None,
        cache: str | os.PathLike[str] | BlockCache | None = None,
        cache_size: int | str | None = None,
    ) -> None:
        self._location = _location(dataset)
        with without_threads():  # a DataLoader forks its workers after this
            self._version = DatasetVersion.of(self._location)
            self.manifest = load(self._location)
        self._max_record_bytes = max_record_bytes
        self.split = split
        self._features = features
        self._shards = _shards(self.manifest, split)
        self._ends = [*itertools.accumulate(one.info.records for one in self._shards)]
        self._files = [
            StoredFile(self._location / one.info.file, one.info.bytes, one.info.sha256)
            for one in self._shards
        ]
        self._ranges = StoredRanges(open_cache(cache, cache_size))
        self._decode = RecordDecoder(self.manifest.features, only=features)
        self._offsets: dict[int, npt.NDArray[np.int64]] = {}

    def __repr__(self) -> str:
        split = "" if self.split is None else f", {self.split!r}"
        return f"<{len(self)} records of recordmill.open({str(self._location)!r}{split})>"

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, number: SupportsIndex) -> TypedRecord: ...
    @overload
    def __getitem__(self, number: slice) -> list[TypedRecord]: ...
    def __getitem__(self, number: SupportsIndex | slice) -> TypedRecord | list[TypedRecord]:
        if isinstance(number, slice):
            first, stop, step = number.indices(len(self))
            if step == 1:
                return [*self.between(first, stop)]
            return [self[place] for place in range(first, stop, step)]
        shard, row = self._find(number)
        return self._decoded(self._payload(shard, row), shard, row)

    def __iter__(self) -> Iterator[TypedRecord]:
        return self.between(0, len(self))

    def between(self, first: int, stop: int) -> Iterator[TypedRecord]:
        """Yield the records first..stop-1 in order; numbers out of range are left out."""
        for shard, rows, payloads in self._read_ranges(first, stop):
            for row, payload in zip(rows, payloads, strict=True):
                yield self._decoded(payload, shard, row)

    def blocks(self, part: range, *, size: int) -> list[range]:
        """Split the record numbers `part` into ranges that can be read independently at full speed.

        Ranges have up to `size` records; in gzip shards, which can only be read from their start,
        a range is a whole shard.
        """
        if self.manifest.compression == "none":
            return [part[at : at + size] for at in range(0, len(part), size)]
        ranges = itertools.starmap(range, itertools.pairwise([0, *self._ends]))
        cut = (range(max(one.start, part.start), min(one.stop, part.stop)) for one in ranges)
        return [one for one in cut if one]

    @property
    def mean_bytes(self) -> float:
        """Mean bytes of a record in the files."""
        return sum(one.info.bytes for one in self._shards) / max(len(self), 1)

    @property
    def layout(self) -> OrderLayout:
        """The facts that determine the orders in which training reads the records."""
        return order_layout(self.manifest, [one.info for one in self._shards])

    def payload(self, number: SupportsIndex) -> bytes:
        """Return a record as it is stored: a serialized Example or SequenceExample."""
        return self._payload(*self._find(number))

    def payloads(self, first: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the records first..stop-1 as they are stored, in order; by default to the last."""
        for _, _, payloads in self._read_ranges(first, len(self) if stop is None else stop):
            yield from payloads

    def records_at(self, numbers: Sequence[int]) -> Iterator[TypedRecord]:
        """Yield records by their numbers, ascending; records near each other are read in one pass.

        Offsets are kept in memory for one shard at a time.
        """
        ranges: list[list[int]] = []
        for number in numbers:
            if ranges and number - ranges[-1][-1] <= _NEAR:
                ranges[-1].append(number)
            else:
                ranges.append([number])
        last = -1
        for wanted in ranges:
            for shard, rows, payloads in self._read_ranges(wanted[0], wanted[-1] + 1):
                if shard != last:
                    self._offsets.pop(last, None)
                    last = shard
                begin = self._start(shard)
                chosen = {number - begin for number in wanted}
                for row, payload in zip(rows, payloads, strict=True):
                    if row in chosen:
                        yield self._decoded(payload, shard, row)

    def payloads_at(self, numbers: Numbers) -> list[bytes]:
        """Return records as they are stored, by their numbers, in any order.

        They are read by the index; one read covers those near each other. In a store, reads take
        place side by side.

        Raises:
          ConfigError: the shards are compressed.
          IndexError: a number is out of range.
        """
        return next((found for _, found in self.payload_batches([numbers])), [])

    def payload_batches(self, batches: Iterable[Numbers]) -> Iterator[tuple[Numbers, list[bytes]]]:
        """Yield each array of record numbers that is not empty, with the records as `payloads_at`.

        In a store, those of later arrays are read before they are needed.
        """
        if self.manifest.compression != "none":
            raise ConfigError(NO_RANDOM_ACCESS)
        found: list[bytes] = []
        for read, content in self._ranges.read_all(self._planned(batches)):
            found = found or [b""] * len(read.numbers)
            first = read.starts[0]
            for row, place, start, end in zip(*read[3:], strict=True):
                frame = content[start - first : end - first]
                found[place] = self._payload_of(frame, (start, end), read.shard, row)
            if read.is_last:
                self._version.check()
                yield read.numbers, found
                found = []

    def _planned(self, batches: Iterable[Numbers]) -> Iterator[tuple[_RowsOfRead, FileRange]]:
        """Yield the reads of each batch of record numbers, with their ranges."""
        for numbers in batches:
            if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self):
                wrong = numbers[(numbers < 0) | (numbers >= len(self))][0]
                raise IndexError(f"expected records from 0 to {len(self) - 1}, got {wrong}")
            order = np.argsort(numbers, kind="stable")
            shards = np.searchsorted(self._ends, numbers[order], side="right")
            wanted = np.unique(shards).tolist()
            self._load_offsets(wanted)
            reads = [
                read
                for shard in wanted
                for read in self._reads_of(shard, numbers, order[shards == shard])
            ]
            for number, read in enumerate(reads, start=1):
                wanted_range = FileRange(self._files[read.shard], read.starts[0], read.ends[-1])
                yield read._replace(is_last=number == len(reads)), wanted_range

    def _reads_of(self, shard: int, numbers: Numbers, places: Numbers) -> Iterator[_RowsOfRead]:
        """Yield the reads of the records at ascending places of a batch, all of one shard."""
        rows = numbers[places] - self._start(shard)
        offsets = self._offsets_of(shard)
        columns = (rows, places, offsets[rows], offsets[rows + 1])
        several = [column.tolist() for column in columns]
        starts, ends = several[2:]
        at = 0
        while at < len(starts):
            stop = at + 1
            while (
                stop < len(starts)
                and starts[stop] - ends[stop - 1] <= _NEAR_BYTES
                and ends[stop] - starts[at] <= _READ_BYTES
            ):
                stop += 1
            yield _RowsOfRead(numbers, False, shard, *(column[at:stop] for column in several))
            at = stop

    def shard_of(self, number: int) -> int:
        """Return the number of a record's shard among all shards that are read."""
        return self._find(number)[0]

    def rest_of_shard(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield (number, payload) of a record and of all after it in its shard."""
        shard, row = self._find(number)
        rows = range(row, self._shards[shard].info.records)
        for stream in self._open_rows([(shard, rows)]):
            yield from enumerate(self._read_rows(shard, rows, stream), start=number)

    def decode(self, payload: bytes, number: SupportsIndex) -> TypedRecord:
        """Decode the payload of record `number`; errors name that record."""
        return self._decoded(payload, *self._find(number))

    def raise_damaged(self, number: SupportsIndex, error: ExampleError) -> NoReturn:
        """Raise DatasetDamagedError for an error in the content of record `number`."""
        shard, row = self._find(number)
        self._raise_damaged(self._shards[shard].info.file, row, str(error), error)

    def place(self, number: SupportsIndex) -> RecordPlace:
        """Return the place of a record: split, file, number in it, key, label, copy."""
        shard, row = self._find(number)
        return next(self._places(shard, row, 1))

    def index_columns(self) -> tuple[str, ...]:
        """Return the names of the columns of the index."""
        if not self._shards:
            return REQUIRED
        return column_names(self._location / self._shards[0].index)

    def index_tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of the index of each shard, in order."""
        for shard in range(len(self._shards)):
            yield self._index(shard, columns)
        self._version.check()

    def places(self) -> Iterator[RecordPlace]:
        """Yield the places of all records in order."""
        for shard, one in enumerate(self._shards):
            yield from self._places(shard, 0, one.info.records)

    def _places(self, shard: int, first: int, count: int) -> Iterator[RecordPlace]:
        one = self._shards[shard]
        rows = self._index(shard, ["key", "label", "copy"]).slice(first, count)
        columns = (rows[name].to_pylist() for name in ("key", "label", "copy"))
        for number, (key, label, copy) in enumerate(zip(*columns, strict=True), start=first):
            yield RecordPlace(
                split=one.split, file=one.info.file, number=number, key=key, label=label, copy=copy
            )

    def _find(self, number: SupportsIndex) -> tuple[int, int]:
        """Return the shard of a record, and its row in the shard."""
        given = operator.index(number)
        place = given + len(self) if given < 0 else given
        if not 0 <= place < len(self):
            of = "" if self.split is None else f" of {self.split}"
            known = f"expected a record{of} from 0 to {len(self) - 1}"
            raise IndexError(f"{known if len(self) else f'there are no records{of}'}, got {given}")
        shard = bisect.bisect_right(self._ends, place)
        return shard, place - self._start(shard)

    def _start(self, shard: int) -> int:
        """Return the number of the first record of a shard."""
        return self._ends[shard] - self._shards[shard].info.records

    def _decoded(self, payload: bytes, shard: int, row: int) -> TypedRecord:
        try:
            return self._decode(payload)
        except ExampleError as error:
            self._raise_damaged(self._shards[shard].info.file, row, str(error), error)

    def _payload(self, shard: int, row: int) -> bytes:
        if self.manifest.compression != "none":
            rows = range(row, row + 1)
            return next(self._read_rows(shard, rows, next(self._open_rows([(shard, rows)]))))
        offsets = self._offsets_of(shard)
        start, end = int(offsets[row]), int(offsets[row + 1])
        frame = self._ranges.read(FileRange(self._files[shard], start, end))
        return self._payload_of(frame, (start, end), shard, row)

    def _payload_of(self, frame: bytes, place: tuple[int, int], shard: int, row: int) -> bytes:
        """Return the payload of a frame. place: its start and end in the file."""
        try:
            return payload_of(frame)
        except FrameError as error:
            damage = error
        if not self._location.is_local:  # stores have no checksums of ranges
            wanted = FileRange(self._files[shard], *place)
            self._ranges.discard(wanted)
            frame = self._ranges.read(wanted)
        file = self._shards[shard].info.file
        if not frame:
            self._raise_damaged(file, row, "it is missing")
        try:
            return payload_of(frame)
        except FrameError:
            self._raise_damaged(file, row, damage.what, damage)

    def _read_ranges(self, first: int, stop: int) -> Iterator[tuple[int, range, Iterator[bytes]]]:
        """Yield (shard, rows, payloads) for the records first..stop-1, shard by shard."""
        found = [*self._row_ranges(first, stop)]
        for (shard, rows), stream in zip(found, self._open_rows(found), strict=True):
            yield shard, rows, self._read_rows(shard, rows, stream)
            self._version.check()  # the file may have been another of the same name

    def _row_ranges(self, first: int, stop: int) -> Iterator[tuple[int, range]]:
        """Yield the shards of the records first..stop-1, and the rows of these in the shard."""
        for shard, (start, end) in enumerate(itertools.pairwise([0, *self._ends])):
            rows = range(max(first, start) - start, min(stop, end) - start)
            if rows or first <= start == end <= stop:  # an empty shard is read, to check it
                yield shard, rows

    def _open_rows(self, ranges: Iterable[tuple[int, range]]) -> Iterator[BinaryIO]:
        """Yield a stream for each (shard, rows), which `_read_rows` reads and closes."""
        if not self._location.is_local:
            yield from self._ranges.open_all(itertools.starmap(self._part_of, ranges))
            return
        for shard, rows in ranges:
            stream = self._files[shard].place.open_input()
            if start := self._first_byte(shard, rows):
                stream.seek(start)
            yield stream

    def _first_byte(self, shard: int, rows: range) -> int:
        """Return the byte at which rows are read: in gzip that of the first row of the shard."""
        if self.manifest.compression != "none" or not rows.start:
            return 0
        return int(self._offsets_of(shard)[rows.start])

    def _part_of(self, shard: int, rows: range) -> FileRange:
        """Return the part of a shard with some rows, and a byte after the last one."""
        info = self._shards[shard].info
        start, end = self._first_byte(shard, rows), info.bytes
        if self.manifest.compression == "none" and rows.stop < info.records:
            end = int(self._offsets_of(shard)[rows.stop])
        return FileRange(self._files[shard], start, end + 1)

    def _read_rows(
        self, shard: int, rows: range, stream: BinaryIO, *, is_again: bool = False
    ) -> Iterator[bytes]:
        """Yield rows of a shard from a stream of it, which is closed.

        If the rows include the shard's last one, nothing may follow it in the file. Damaged ones
        are read again from a store, which has no checksums of ranges. is_again: whether this is
        the second time.
        """
        info = self._shards[shard].info
        start = rows.start if self.manifest.compression == "none" else 0
        with stream:
            frames = read_frames(
                stream,
                compression=self.manifest.compression,
                max_inflated=inflated_limit(info.bytes, self._max_record_bytes),
                limited_by="max_record_bytes",
                expected=info.bytes * (rows.stop - start) // max(info.records, 1),
            )
            number, damage, has_more = start, None, False
            try:
                for frame in itertools.islice(frames, rows.stop - start):
                    if number >= rows.start:
                        yield frame.payload
                    number += 1
                has_more = rows.stop == info.records == number and next(frames, None) is not None
            except FrameError as error:
                damage = error
        if damage is not None:
            if self._location.is_local or is_again:
                self._raise_damaged(info.file, start + damage.record, damage.what, damage)
            rest = range(max(number, rows.start), rows.stop)
            self._ranges.discard(self._part_of(shard, rest))
            for again in self._open_rows([(shard, rest)]):
                yield from self._read_rows(shard, rest, again, is_again=True)
            return
        if number < rows.stop:
            missing = max(number, rows.start)
            what = f"it is missing; the manifest says {info.records} records"
            self._raise_damaged(info.file, missing, what)
        if has_more:
            what = f"the file has more than the {info.records} records of the manifest"
            self._raise_damaged(info.file, number, what)

    def _load_offsets(self, shards: Sequence[int]) -> None:
        """Load the offsets of several shards, in a store side by side."""
        missing = [shard for shard in shards if shard not in self._offsets]
        for _ in results_of_each(self._offsets_of, missing, at=self._location):
            pass

    def _offsets_of(self, shard: int) -> npt.NDArray[np.int64]:
        """Return the offsets of a shard's frames, and the end of the last: int64[records + 1]."""
        if shard not in self._offsets:
            frames = self._shards[shard].info.bytes
            index = self._index(shard, ["offset", "length"], frames=frames)
            self._offsets[shard] = np.append(0, np.cumsum(index["length"]))
        return self._offsets[shard]

    def _index(self, shard: int, columns: Sequence[str], *, frames: int | None = None) -> pa.Table:
        one = self._shards[shard]
        try:
            return read_index(
                self._location / one.index, columns=columns, records=one.info.records, frames=frames
            )
        except IndexDamagedError:
            self._version.check()
            raise

    def _raise_damaged(
        self, file: str, record: int, what: str, cause: Exception | None = None
    ) -> NoReturn:
        self._version.check()
        raise DatasetDamagedError(f"{file}, record {record}: {what}; {_VERIFY}") from cause


def _location(dataset: Folder) -> Location:
    return dataset if isinstance(dataset, Location) else Location.parse(os.fspath(dataset))


def _existing_files(place: Location) -> list[Location]:
    found = find_files(place)
    if found is None:
        what = "a folder or does not exist"
        raise ValueError(f"expected TFRecord files, got {shown(place)}, which is {what}")
    return found


def _shards(manifest: Manifest, split: str | None) -> list[_Shard]:
    """Return the shards of a split, or of all splits, in order."""
    if split is not None and split not in manifest.splits:
        known = ", ".join(in_order(manifest.splits))
        raise ValueError(f"expected one of the splits {known}, got {split!r}")
    names = in_order(manifest.splits) if split is None else [split]
    several = [(name, manifest.splits[name].shards) for name in names]
    return [
        _Shard(split=name, info=shard, index=index_name(name, number, len(shards)))
        for name, shards in several
        for number, shard in enumerate(shards)
    ]
