"""Reads a dataset without TensorFlow: in order, or one record through the index."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import operator
import os
from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.decode import ExampleError
from recordmill.format.framing import FrameError, payload_of, read_frames
from recordmill.format.manifest import MANIFEST, Manifest, Shard, index_name, load
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.format.split_names import in_order
from recordmill.format.typed_records import RecordDecoder, TypedRecord
from recordmill.reading.tfrecord_files import FileDamagedError, find_files, read_files
from recordmill.storage.files import Location, shown

Folder = str | os.PathLike[str] | Location
Source = Folder | Sequence[Folder]

_VERIFY = "run `recordmill verify` for all that is damaged"


class DatasetDamagedError(FileDamagedError):
    """A shard is not what was written."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a record is, and what the index says of it. number: within its file.

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


def read(
    source: Source, split: str | None = None, *, features: Collection[str] | None = None
) -> Iterator[TypedRecord]:
    """Yields the records of a split, or of all, in the order of the shards, every checksum checked.

    source: the folder of a dataset; else a TFRecord file that need not belong to one, a pattern of
      names (`logs/*.tfrecord`), or several of both.
    features: those that a record is to have; None for all.

    A record is {feature: value}, as the dataset declares them: a NumPy scalar or bytes where the
    shape is (), else an array (of objects, where it holds bytes); pictures are as they are encoded.
    Of a file, where nothing is declared, a value is always an array: `decode_held` in
    `recordmill.reading.tfrecord_files` says more.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split, or no such feature.
      FileDamagedError: says which record of which file is damaged; of a dataset, a
        DatasetDamagedError.
    """
    if isinstance(source, str | os.PathLike | Location):
        place = _location(source)
        # Looked for first: who may read a dataset need not be allowed to list what is around it.
        files = None if (place / MANIFEST).exists() else find_files(place)
        if files is None:
            return iter(Records(place, split, features=features))
    else:
        files = [file for one in source for file in _named(_location(one))]
        if not files:
            raise ValueError("expected the folder of a dataset, or TFRecord files; got none")
    if split is not None:
        raise ValueError(f"files by themselves have no splits; got the split {split!r}")
    return read_files(files, features=features)


def read_payloads(dataset: Folder, split: str | None = None) -> Iterator[bytes]:
    """Yields the records as they are stored, serialised Examples or SequenceExamples, as `read`."""
    return Records(dataset, split).payloads()


class Records(Sequence[TypedRecord]):
    """The records of a split, or of all, by their number in the order of `read`.

    Each is read where it stands, through the index, its checksums checked; a shard in gzip from its
    start. Those that follow each other are read in one go: by iterating, as a slice, or `between`
    two numbers. What is held is where records begin, 8 bytes each, of shards that were asked for.
    What PyTorch's DataLoader and Grain take as a source: it holds nothing open, so it can be
    pickled, forked, and read by many threads.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split, or no such feature.
      IndexError: there is no such record.
      DatasetDamagedError: a record is damaged.
      IndexDamagedError: the index of a shard is.
    """

    def __init__(
        self,
        dataset: Folder,
        split: str | None = None,
        *,
        features: Collection[str] | None = None,
    ) -> None:
        self._location = _location(dataset)
        self._split = split
        self.manifest = load(self._location)
        self._shards = _shards(self.manifest, split)
        self._ends = [*itertools.accumulate(one.info.records for one in self._shards)]
        self._files = [self._location / one.info.file for one in self._shards]
        self._decode = RecordDecoder(self.manifest.features, only=features)
        self._edges: dict[int, npt.NDArray[np.int64]] = {}

    def __repr__(self) -> str:
        split = "" if self._split is None else f", {self._split!r}"
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
        """Yields the records from `first` to before `stop`, of those that there are, in order."""
        for shard, rows in self._stretches(first, stop):
            for row, payload in zip(rows, self._stretch(shard, rows), strict=True):
                yield self._decoded(payload, shard, row)

    def blocks(self, part: range, *, size: int) -> list[range]:
        """Cuts records into ranges that can be read by themselves as fast as all in one go: of up
        to `size` records, in gzip those of a shard.
        """
        if self.manifest.compression == "none":
            return [part[at : at + size] for at in range(0, len(part), size)]
        ranges = itertools.starmap(range, itertools.pairwise([0, *self._ends]))
        cut = (range(max(one.start, part.start), min(one.stop, part.stop)) for one in ranges)
        return [one for one in cut if one]

    @property
    def mean_bytes(self) -> float:
        """What a record takes in the files, on average."""
        return sum(one.info.bytes for one in self._shards) / max(len(self), 1)

    def payload(self, number: SupportsIndex) -> bytes:
        """A record as it is stored: a serialised Example, or SequenceExample."""
        return self._payload(*self._find(number))

    def payloads(self, first: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields those of the records from `first` to before `stop`, or to the last, in order."""
        for shard, rows in self._stretches(first, len(self) if stop is None else stop):
            yield from self._stretch(shard, rows)

    def decode(self, payload: bytes, number: SupportsIndex) -> TypedRecord:
        """The record of that number, given as it is stored."""
        return self._decoded(payload, *self._find(number))

    def place(self, number: SupportsIndex) -> Place:
        """Where a record is, and what the index says of it."""
        shard, row = self._find(number)
        return next(self._places(shard, row, 1))

    def places(self) -> Iterator[Place]:
        """Those of all records, in their order."""
        for shard, one in enumerate(self._shards):
            yield from self._places(shard, 0, one.info.records)

    def _places(self, shard: int, first: int, count: int) -> Iterator[Place]:
        one = self._shards[shard]
        rows = self._index(shard, ["key", "label", "copy"]).slice(first, count)
        columns = (rows[name].to_pylist() for name in ("key", "label", "copy"))
        for number, (key, label, copy) in enumerate(zip(*columns, strict=True), start=first):
            yield Place(
                split=one.split, file=one.info.file, number=number, key=key, label=label, copy=copy
            )

    def _find(self, number: SupportsIndex) -> tuple[int, int]:
        """The shard of a record, and its row there."""
        asked = operator.index(number)
        place = asked + len(self) if asked < 0 else asked
        if not 0 <= place < len(self):
            of = "" if self._split is None else f" of {self._split}"
            known = f"expected a record{of} from 0 to {len(self) - 1}"
            raise IndexError(f"{known if len(self) else f'there are no records{of}'}, got {asked}")
        shard = bisect.bisect_right(self._ends, place)
        return shard, place - (self._ends[shard - 1] if shard else 0)

    def _decoded(self, payload: bytes, shard: int, row: int) -> TypedRecord:
        try:
            return self._decode(payload)
        except ExampleError as error:
            _damaged(self._shards[shard].info.file, row, str(error), error)

    def _payload(self, shard: int, row: int) -> bytes:
        if self.manifest.compression != "none":
            return next(self._stretch(shard, range(row, row + 1)))
        edges = self._edges_of(shard)
        start, end = int(edges[row]), int(edges[row + 1])
        data = self._files[shard].read_range(start, end - start)
        file = self._shards[shard].info.file
        if not data:
            _damaged(file, row, "it is not there")
        try:
            return payload_of(data)
        except FrameError as error:
            _damaged(file, row, error.what, error)

    def _stretches(self, first: int, stop: int) -> Iterator[tuple[int, range]]:
        """The shards that have the records from `first` to before `stop`, and their rows there."""
        for shard, (start, end) in enumerate(itertools.pairwise([0, *self._ends])):
            rows = range(max(first, start) - start, min(stop, end) - start)
            if rows or first <= start == end <= stop:  # one without records has to be so
                yield shard, rows

    def _stretch(self, shard: int, rows: range) -> Iterator[bytes]:
        """Reads rows of a shard from where the first of them begins, or in gzip from the start."""
        info = self._shards[shard].info
        begun = rows.start if self.manifest.compression == "none" else 0
        with self._files[shard].open_input() as stream:
            if begun:
                stream.seek(int(self._edges_of(shard)[begun]))
            frames = read_frames(stream, compression=self.manifest.compression)
            number = begun
            try:
                for frame in itertools.islice(frames, rows.stop - begun):
                    if number >= rows.start:
                        yield frame.payload
                    number += 1
                goes_on = rows.stop == info.records == number and next(frames, None) is not None
            except FrameError as error:
                _damaged(info.file, begun + error.record, error.what, error)
        if number < rows.stop:
            missing = max(number, rows.start)
            _damaged(info.file, missing, f"it is not there, of {info.records} of the file")
        if goes_on:
            _damaged(info.file, number, f"expected no more than {info.records} in the file")

    def _edges_of(self, shard: int) -> npt.NDArray[np.int64]:
        """Where the frames of a shard begin, and where the last one ends."""
        if shard not in self._edges:
            index = self._index(shard, ["offset", "length"])
            offsets, lengths = (np.asarray(index[name]) for name in index.column_names)
            edges = np.append(0, np.cumsum(lengths))
            if (edges[:-1] != offsets).any():
                raise IndexDamagedError("its frames do not stand one after another")
            self._edges[shard] = edges
        return self._edges[shard]

    def _index(self, shard: int, columns: Sequence[str]) -> pa.Table:
        one = self._shards[shard]
        index = read_index(self._location / one.index, columns=columns)
        if len(index) != one.info.records:
            what = f"it has {len(index)} rows, {one.info.records} are expected"
            raise IndexDamagedError(f"{one.index}: {what}")
        return index


def open(  # noqa: A001, as gzip and wave do
    dataset: Folder, split: str | None = None, *, features: Collection[str] | None = None
) -> Records:
    """The records of a split, or of all, by their number: `recordmill.open("out/")[123456]`.

    features: those that a record is to have; None for all.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split, or no such feature.
    """
    return Records(dataset, split, features=features)


def _location(dataset: Folder) -> Location:
    return dataset if isinstance(dataset, Location) else Location.parse(os.fspath(dataset))


def _named(place: Location) -> list[Location]:
    found = find_files(place)
    if found is None:
        what = "a folder, or not there"
        raise ValueError(f"expected TFRecord files, got {shown(place)}, which is {what}")
    return found


def _shards(manifest: Manifest, split: str | None) -> list[_Shard]:
    """Those of a split, or of all, in their order."""
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


def _damaged(file: str, record: int, what: str, cause: Exception | None = None) -> NoReturn:
    raise DatasetDamagedError(f"{file}, record {record}: {what}; {_VERIFY}") from cause
