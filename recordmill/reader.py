"""Reads a dataset without TensorFlow: in order, or one record through the index."""

from __future__ import annotations

import bisect
import dataclasses
import io
import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NoReturn, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.decode import ExampleError
from recordmill.errors import RunError
from recordmill.files import Location
from recordmill.framing import FrameError, read_frames
from recordmill.manifest import Manifest, Shard, index_name, load
from recordmill.shard_index import IndexDamagedError, read_index
from recordmill.split_names import in_order
from recordmill.typed import RecordDecoder, TypedRecord

Folder = str | os.PathLike[str] | Location

T = TypeVar("T")

_VERIFY = "run `recordmill verify` for all that is damaged"


class DatasetDamagedError(RunError):
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


def read(dataset: Folder, split: str | None = None) -> Iterator[TypedRecord]:
    """Yields the records of a split, or of all, in the order of the shards, every checksum checked.

    A record is {feature: value}, as the dataset declares them: a NumPy scalar or bytes where the
    shape is (), else an array (of objects, where it holds bytes); pictures are as they are encoded.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split.
      DatasetDamagedError: says which record of which file is damaged.
    """
    location = _location(dataset)
    manifest = load(location)
    # A generator of its own, so that what is wrong with the call is said by the call.
    decode = RecordDecoder(manifest.features)
    return _read(location, manifest, _shards(manifest, split), decode)


def read_payloads(dataset: Folder, split: str | None = None) -> Iterator[bytes]:
    """Yields the records as they are stored, serialised Examples or SequenceExamples, as `read`."""
    location = _location(dataset)
    manifest = load(location)
    return _read(location, manifest, _shards(manifest, split), bytes)


def _read(
    dataset: Location,
    manifest: Manifest,
    shards: Iterable[_Shard],
    decode: Callable[[bytes], T],
) -> Iterator[T]:
    for shard in (one.info for one in shards):
        number = 0
        try:
            with (dataset / shard.file).open_input() as stream:
                for frame in read_frames(stream, compression=manifest.compression):
                    yield decode(frame.payload)
                    number += 1
        except FrameError as error:
            _damaged(shard.file, error.record, error.what, error)
        except ExampleError as error:
            _damaged(shard.file, number, str(error), error)
        if number != shard.records:
            _damaged(shard.file, number, f"it is not there, of {shard.records} of the file")


class Records(Sequence[TypedRecord]):
    """The records of a split, or of all, by their number in the order of `read`.

    Each is read where it stands, through the index, its checksums checked; a shard in gzip from its
    start. What is held is where records begin, 8 bytes each, of shards that were asked for. What
    PyTorch's DataLoader and Grain take as a source: it holds nothing open, so it can be pickled,
    forked, and read by many threads.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split.
      IndexError: there is no such record.
      DatasetDamagedError: a record is damaged.
      IndexDamagedError: the index of a shard is.
    """

    def __init__(self, dataset: Folder, split: str | None = None) -> None:
        self._location = _location(dataset)
        self._split = split
        self.manifest = load(self._location)
        self._shards = _shards(self.manifest, split)
        self._ends = [*itertools.accumulate(one.info.records for one in self._shards)]
        self._decode = RecordDecoder(self.manifest.features)
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
            return [self[place] for place in range(*number.indices(len(self)))]
        shard, row = self._find(number)
        try:
            return self._decode(self._payload(shard, row))
        except ExampleError as error:
            _damaged(self._shards[shard].info.file, row, str(error), error)

    def payload(self, number: SupportsIndex) -> bytes:
        """A record as it is stored: a serialised Example, or SequenceExample."""
        return self._payload(*self._find(number))

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

    def _payload(self, shard: int, row: int) -> bytes:
        file = self._shards[shard].info.file
        if self.manifest.compression == "none":
            edges = self._edges_of(shard)
            start, end = int(edges[row]), int(edges[row + 1])
            content: BinaryIO = io.BytesIO((self._location / file).read_range(start, end - start))
            first, skipped = row, 0
        else:
            content = (self._location / file).open_input()
            first, skipped = 0, row
        try:
            with content:
                frames = read_frames(content, compression=self.manifest.compression)
                frame = next(itertools.islice(frames, skipped, None), None)
        except FrameError as error:
            _damaged(file, first + error.record, error.what, error)
        if frame is None:
            _damaged(file, row, "it is not there")
        return frame.payload

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


def open(dataset: Folder, split: str | None = None) -> Records:  # noqa: A001, as gzip and wave do
    """The records of a split, or of all, by their number: `recordmill.open("out/")[123456]`.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split.
    """
    return Records(dataset, split)


def _location(dataset: Folder) -> Location:
    return dataset if isinstance(dataset, Location) else Location.parse(os.fspath(dataset))


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
