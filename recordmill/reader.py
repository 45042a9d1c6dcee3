"""Reads a dataset without TensorFlow: a split in order, or one record through the index."""

from __future__ import annotations

import dataclasses
import io
import itertools
from collections.abc import Iterator
from typing import NoReturn

from recordmill.decode import Decode, ExampleError, Value, decoder
from recordmill.errors import RunError
from recordmill.files import Location
from recordmill.framing import Frame, FrameError, read_frames
from recordmill.manifest import Manifest, SplitInfo, index_name, load
from recordmill.shard_index import read_index


class DatasetDamagedError(RunError):
    """A shard is not what was written."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """A record and where it comes from."""

    file: str
    number: int  # within the file
    key: str
    label: str | None
    copy: int
    example: dict[str, Value]


def read_examples(dataset: Location | str, split: str) -> Iterator[dict[str, Value]]:
    """Yields the Examples of a split, in the order of its shards, every checksum checked.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split.
      DatasetDamagedError: says which record of which file is damaged.
    """
    location = _location(dataset)
    manifest = load(location)
    decode = decoder(manifest.features)
    for shard in _split(manifest, split).shards:
        for number, frame in enumerate(_frames(location, shard.file, manifest)):
            yield _decoded(frame, shard.file, number, decode)


def read_record(dataset: Location | str, split: str, number: int) -> Record:
    """Reads record `number` of a split, counted from 0 in the order of `read_examples`.

    A plain shard is read at that place only; one in gzip from its start.

    Raises:
      ManifestError: there is no dataset.
      ValueError: there is no such split or record.
      DatasetDamagedError: the record is damaged.
      IndexDamagedError: the shard's index is.
    """
    location = _location(dataset)
    manifest = load(location)
    info = _split(manifest, split)
    if not info.records:
        raise ValueError(f"{split} has no records")
    if not 0 <= number < info.records:
        raise ValueError(f"expected a record of {split} from 0 to {info.records - 1}, got {number}")
    place = number
    shard_number = 0
    while place >= info.shards[shard_number].records:
        place -= info.shards[shard_number].records
        shard_number += 1
    file = info.shards[shard_number].file
    index = read_index(location / index_name(split, shard_number, len(info.shards)))
    row = index.slice(place, 1).to_pylist()
    if not row:
        raise DatasetDamagedError(f"the index of {file} has no row {place}: {_VERIFY}")
    if manifest.compression == "none":
        content = (location / file).read_range(row[0]["offset"], row[0]["length"])
        frames = _checked(read_frames(io.BytesIO(content), compression="none"), file, place)
    else:
        frames = itertools.islice(_frames(location, file, manifest), place, None)
    frame = next(frames, None)
    if frame is None:
        raise DatasetDamagedError(f"{file} has no record {place}: {_VERIFY}")
    return Record(
        file=file,
        number=place,
        key=row[0]["key"],
        label=row[0]["label"],
        copy=row[0]["copy"],
        example=_decoded(frame, file, place, decoder(manifest.features)),
    )


_VERIFY = "run `recordmill verify` for all that is damaged"


def _location(dataset: Location | str) -> Location:
    return Location.parse(dataset) if isinstance(dataset, str) else dataset


def _split(manifest: Manifest, name: str) -> SplitInfo:
    if name not in manifest.splits:
        raise ValueError(f"expected one of the splits {sorted(manifest.splits)}, got {name!r}")
    return manifest.splits[name]


def _frames(dataset: Location, file: str, manifest: Manifest) -> Iterator[Frame]:
    with (dataset / file).open_input() as stream:
        yield from _checked(read_frames(stream, compression=manifest.compression), file, 0)


def _checked(frames: Iterator[Frame], file: str, first: int) -> Iterator[Frame]:
    """Names the file of a damage; `first` is the number of the first frame in it."""
    try:
        yield from frames
    except FrameError as error:
        _damaged(file, first + error.record, error.what, error)


def _decoded(frame: Frame, file: str, number: int, decode: Decode) -> dict[str, Value]:
    try:
        return decode(frame.payload)
    except ExampleError as error:
        _damaged(file, number, str(error), error)


def _damaged(file: str, record: int, what: str, cause: Exception) -> NoReturn:
    raise DatasetDamagedError(f"{file}, record {record}: {what}; {_VERIFY}") from cause
