"""Checks one shard against the manifest and its index: every byte and every record."""

from __future__ import annotations

import dataclasses
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.checking.conformance import Conformance, NonconformingError
from recordmill.checking.split_leakage import ShardHashes
from recordmill.format.content_hashes import array_name, content_hash
from recordmill.format.file_info import FileInfo, HashingReader, why_changed
from recordmill.format.label_texts import held_classes
from recordmill.format.manifest import Shard
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.notes import Note, count_of
from recordmill.storage.files import Location, MissingError
from recordmill.tfrecord.decode import ExampleError
from recordmill.tfrecord.features import Features
from recordmill.tfrecord.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_RECORD_BYTES,
    Compression,
    Frame,
    FrameError,
    read_frames,
)

_BLOCK = 1 << 20  # bytes read and hashed at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Damage:
    """A defect of a file, or of its first bad record.

    what: description of the defect.
    record: number of the record in the file, from 0.
    offset: first byte of its frame, in the uncompressed stream.
    key: key of the record according to the index.
    """

    file: str
    what: str
    record: int | None = None
    offset: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        place = [self.file]
        if self.record is not None:
            place.append(f"record {self.record}")
        if self.offset is not None:
            place.append(f"byte {self.offset}")
        if self.key is not None:
            place.append(f"key {self.key!r}")
        return f"{', '.join(place)}: {self.what}"


@dataclasses.dataclass(frozen=True)
class DamagedImages:
    """JPEGs that libjpeg decodes although their data is damaged; no defect of the dataset.

    count: number of images. first: the first record with one; None if there is none.
    """

    count: int = 0
    first: Damage | None = None

    def plus(self, other: DamagedImages) -> DamagedImages:
        """Return the sum; its first record is that of this one."""
        return DamagedImages(self.count + other.count, self.first or other.first)

    def notes(self) -> tuple[Note, ...]:
        """Return a note, if there are any."""
        if self.first is None:
            return ()
        number = count_of(self.count, "JPEG is", "JPEGs are")
        return (Note("damaged-image", f"{number} damaged, such as in {self.first}"),)


NO_DAMAGED_IMAGES = DamagedImages()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask:
    """Arguments for checking one shard, which can be sent to another process."""

    dataset: Location
    split: str
    shard: Shard
    index: str
    compression: Compression
    features: Features
    labels: tuple[str, ...]
    label_offset: int
    deep: bool
    max_record_bytes: int = MAX_RECORD_BYTES


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardReport:
    """Result of checking a shard.

    records, bytes: as read from the file.
    hashes: hashes of keys and groups in the index.
    originals: records by class without copies, from the index.
    damaged_images: of all records before the first damaged one.
    """

    split: str
    file: str
    records: int
    bytes: int
    damages: tuple[Damage, ...]
    hashes: ShardHashes
    originals: Mapping[str, int]
    damaged_images: DamagedImages = NO_DAMAGED_IMAGES


def verify_shard(task: ShardTask) -> ShardReport:
    """Read a shard and its index completely, and return all defects."""
    index, damages = check_index(task)
    content = None
    try:
        with (task.dataset / task.shard.file).open_input() as file:
            content = _read_shard(file, task, index)
    except MissingError:
        damages.append(Damage(file=task.shard.file, what="the file is missing"))
    else:
        damages += content.damages
    return ShardReport(
        split=task.split,
        file=task.shard.file,
        records=content.records if content else 0,
        bytes=content.bytes if content else 0,
        damages=tuple(damages),
        hashes=ShardHashes.merge([]) if index is None else ShardHashes.of(index),
        originals={} if index is None else _originals(index),
        damaged_images=content.damaged_images if content else NO_DAMAGED_IMAGES,
    )


def check_index(task: ShardTask) -> tuple[pa.Table | None, list[Damage]]:
    """Read the index and compare it with the manifest.

    Returns the index, or None if it cannot be used to check records, and its defects.
    """
    shard = task.shard
    try:
        index = read_index(task.dataset / task.index, records=shard.records, stated=shard.index)
    except MissingError:
        return None, [Damage(file=task.index, what="the file is missing")]
    except IndexDamagedError as error:
        return None, [Damage(file=task.index, what=error.what)]
    counted = _count(held_classes(index))
    stated = Counter(shard.classes)
    differing = sorted(label for label in counted | stated if counted[label] != stated[label])
    damages = [
        Damage(
            file=shard.file,
            what=f"holds {counted[label]} records of class {label!r},"
            f" the manifest says {stated[label]}",
        )
        for label in differing
    ]
    return index, damages


def _originals(index: pa.Table) -> Counter[str]:
    return _count(held_classes(index.filter(pc.equal(index["copy"], 0))))


def _count(labels: pa.ChunkedArray) -> Counter[str]:
    return Counter(label for label in labels.to_pylist() if label is not None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Content:
    records: int
    bytes: int
    damages: tuple[Damage, ...]
    damaged_images: DamagedImages


def _read_shard(file: BinaryIO, task: ShardTask, index: pa.Table | None) -> _Content:
    """Read the file once, for its sha256 and for its records."""
    shard = task.shard
    hashing = HashingReader(file)
    stream = io.BufferedReader(hashing, _BLOCK)
    records, is_complete, damage, damaged_images = _check_records(stream, task, index)
    while stream.read(_BLOCK):  # bytes after a damaged record are hashed, too
        pass
    damages = [] if damage is None else [damage]
    if is_complete and records != shard.records:
        what = f"holds {records} records, the manifest says {shard.records}"
        damages.append(Damage(file=shard.file, what=what))
    stated = FileInfo(bytes=shard.bytes, sha256=shard.sha256)
    damages += compare_file(shard.file, found=hashing.info, stated=stated)
    return _Content(
        records=records,
        bytes=hashing.info.bytes,
        damages=tuple(damages),
        damaged_images=damaged_images,
    )


def _check_records(
    stream: BinaryIO, task: ShardTask, index: pa.Table | None
) -> tuple[int, bool, Damage | None, DamagedImages]:
    """Return the number of readable records, whether they are all, and the first defect.

    And the images that were decoded although they are damaged.
    """
    warnings: list[str] = []
    conformance = Conformance(
        task.features,
        labels=task.labels,
        label_offset=task.label_offset,
        deep=task.deep,
        on_damage=warnings.append,
    )
    rows = _rows(index)
    records, damage = 0, None
    images = NO_DAMAGED_IMAGES
    try:
        for frame in read_frames(
            stream, compression=task.compression, max_inflated=task.max_record_bytes
        ):
            row = next(rows, None)
            if damage is None:
                what = _check_record(frame, row, task, conformance)
                if what is not None:
                    damage = _damage(task, records, frame.offset, row, what)
                if warnings:
                    first = _damage(task, records, frame.offset, row, warnings[0])
                    images = images.plus(DamagedImages(len(warnings), first))
                    warnings.clear()
            records += 1
    except FrameError as error:
        row = next(rows, None)
        damage = damage or _damage(task, error.record, error.offset, row, error.what)
        return records, False, damage, images
    return records, True, damage, images


class _Row(NamedTuple):
    """A row of the index."""

    key: str
    label: str | None
    copy: int
    offset: int
    length: int
    content: bytes | None = None
    labels: list[str] | None = None


def _array_content(example: Mapping[str, Any]) -> bytes | None:
    """Return the hash of the content of a record that holds the bytes of its source; else None."""
    if not {"array/encoded", "array/dtype", "array/filename"} <= example.keys():
        return None
    [data], [dtype] = example["array/encoded"], example["array/dtype"]
    shape = example.get("array/shape")
    return content_hash(data, name=array_name(dtype.decode(), [] if shape is None else shape))


def _rows(index: pa.Table | None) -> Iterator[_Row]:
    if index is None:
        return iter(())
    none: Iterator[None] = itertools.repeat(None)
    columns = (
        index[name].to_pylist() if name in index.column_names else none for name in _Row._fields
    )
    return map(_Row, *columns)


def _damage(task: ShardTask, record: int, offset: int, row: _Row | None, what: str) -> Damage:
    key = row.key if row else None
    return Damage(file=task.shard.file, record=record, offset=offset, key=key, what=what)


def _check_record(
    frame: Frame, row: _Row | None, task: ShardTask, conformance: Conformance
) -> str | None:
    """Return the first defect of a record, or None if it has none."""
    if row is not None:
        length = HEADER_BYTES + len(frame.payload) + FOOTER_BYTES
        if (row.offset, row.length) != (frame.offset, length):
            return (
                f"is {length} bytes at byte {frame.offset},"
                f" the index says {row.length} at {row.offset}"
            )
        if row.copy and task.split != "train":
            return f"copy {row.copy} of a record, but only train may hold copies"
    try:
        example = conformance.decode(frame.payload)
        conformance.check(example)
        if row is not None:
            if row.labels is None:
                conformance.check_label(example, row.label)
            else:
                conformance.check_labels(example, row.labels)
            if task.deep and row.content is not None:
                found = _array_content(example)
                if found not in (None, row.content):
                    return "its array is not the content that the index names"
    except (ExampleError, NonconformingError) as error:
        return str(error)
    return None


def compare_file(file: str, *, found: FileInfo, stated: FileInfo) -> list[Damage]:
    """Return a defect if a file does not have the size and sha256 that the manifest states."""
    changed = why_changed(found, stated)
    return [] if changed is None else [Damage(file=file, what=changed)]
