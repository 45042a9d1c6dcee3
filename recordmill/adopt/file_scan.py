"""Scans one TFRecord file to adopt: its checksum, its records, and the features they hold.

The file is first hard-linked into staging and read there, so that the bytes that are published are
those that were read. If it cannot be linked, it is copied to staging while it is read. The result
is stored beside it, so that a continued run does not read a file twice.

Memory: 16 bytes per record, and 9 for each feature that may hold its class.
"""

from __future__ import annotations

import array
import dataclasses
import errno
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from recordmill.adopt import class_numbers
from recordmill.adopt.class_numbers import ClassNumberCandidate
from recordmill.adopt.feature_inference import (
    FeatureInference,
    FeatureSummary,
    InconsistentFeatureError,
    RecordType,
)
from recordmill.checking.shard_check import Damage
from recordmill.format.file_info import HashingReader
from recordmill.format.typed_json import Count, damage_of
from recordmill.job.staging import Staging, to_json
from recordmill.reading.raw_arrays import RawArray
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import ChangedInputError, raise_storage_errors
from recordmill.tfrecord import framing
from recordmill.tfrecord.decode import ExampleError
from recordmill.tfrecord.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    Compression,
    FrameError,
    read_frames,
)

_ADVICE = "delete the folder .recordmill of the output, then run the same command again"
_BLOCK = 1 << 20  # bytes read and hashed at once
# Another filesystem, no hard links, no permission to link the file, too many links.
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A listed file. key: its path within the input; size: bytes; mtime: ns since the epoch."""

    key: str
    place: Location
    size: int
    mtime: int
    split: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScanTask:
    """Arguments for scanning one file, which can be sent to another process.

    name: of the shard that it becomes.
    staging: None for a dry run, which stores nothing.
    label_feature: the feature that holds the class, if the user named one.
    raw: declarations of arrays stored as bytes, by feature.
    max_record_bytes: the largest record that is inflated from gzip.
    """

    source: SourceFile
    name: str
    compression: Compression
    staging: Staging | None
    label_feature: str | None
    raw: Mapping[str, RawArray]
    max_record_bytes: int = framing.MAX_RECORD_BYTES

    @property
    def plan(self) -> str:
        """Digest of the file and the options: tasks with equal digests have equal results."""
        one = self.source
        of_file = [shown(one.place), one.key, one.size, one.mtime]
        what = [of_file, self.compression, self.label_feature, self.raw]
        return hashlib.sha256(to_json(what)).hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scan:
    """Result of scanning a file.

    linked: whether it was hard-linked into staging, not copied.
    bytes, sha256: of the file; 0 and '' if it is damaged.
    features: {feature: summary of its values}.
    first_records: {type: number of the first record of this type}.
    candidates: {feature: class numbers} of the features that may hold the class.
    damage: the first defect, if any; all counts are then 0.
    """

    key: str
    linked: bool = True
    records: Count = 0
    bytes: Count = 0
    sha256: str = ""
    features: Mapping[str, FeatureSummary] = dataclasses.field(default_factory=dict)
    first_records: Mapping[RecordType, int] = dataclasses.field(default_factory=dict)
    candidates: Mapping[str, ClassNumberCandidate] = dataclasses.field(default_factory=dict)
    damage: Damage | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredScan:
    plan: str
    scan: Scan


def file_compression(place: Location) -> Compression | None:
    """Detect the compression of a file by its first bytes; None for an empty file."""
    head = place.read_range(0, HEADER_BYTES)
    return framing.compression_of(head) if head else None


def scan_file(task: ScanTask) -> Scan:
    """Scan a file, or return the stored result if it is up to date."""
    staging = task.staging
    if staging is None:
        return _scan(task, task.source.place, None)
    info = staging.place(f"info/{task.name}.json")
    done = staging.read_json(f"info/{task.name}.json", _StoredScan)
    target = staging.place(f"shards/{task.name}")
    columns = staging.place(_columns_file(task))
    if done is not None and done.plan == task.plan and target.exists() and columns.exists():
        scan: Scan = done.scan
        return scan
    info.delete(missing_ok=True)
    target.delete(missing_ok=True)
    if _link(task.source.place, target):
        found = _scan(task, target, None)
        target.sync_file()  # another program may just have written it
    else:
        found = dataclasses.replace(_copy(task, target), linked=False)
    if found.damage is None:
        info.write_bytes(to_json({"plan": task.plan, "scan": found}))
    else:
        target.delete(missing_ok=True)
    return found


def _columns_file(task: ScanTask) -> str:
    return f"scans/{task.name}.arrow"


def _link(source: Location, target: Location) -> bool:
    """Create a hard link to a file; return False if the filesystem does not allow it."""
    with raise_storage_errors("link", source):
        try:
            # Link the target of a symbolic link, not the link itself.
            os.link(os.path.realpath(source.local_path), target.local_path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
    return True


def _copy(task: ScanTask, target: Location) -> Scan:
    """Copy a file while scanning it; the copy gets its name once it is complete and on disk."""
    temporary = target.parent / f"{target.name}.tmp"
    with temporary.open_output() as file:
        found = _scan(task, task.source.place, file)
    temporary.rename_to(target)
    return found


def _scan(task: ScanTask, place: Location, copy: BinaryIO | None) -> Scan:
    source = task.source
    inference = FeatureInference()
    columns = _IndexColumns(class_numbers.candidate_features(task.label_feature))
    damage = None
    with place.open_input() as file:
        hashing = HashingReader(file, copy)
        stream = io.BufferedReader(hashing, _BLOCK)
        try:
            for frame in read_frames(
                stream, compression=task.compression, max_inflated=task.max_record_bytes
            ):
                damage = _add_record(frame.payload, frame.offset, task, inference, columns)
                if damage is not None:
                    break
        except FrameError as error:
            what = error.what
            if error.offset == 0:
                what += _format_hint(place)
            damage = Damage(file=source.key, record=error.record, offset=error.offset, what=what)
        while copy is not None and stream.read(_BLOCK):  # copy the rest after a damaged record
            pass
    if damage is not None:
        return Scan(key=source.key, damage=damage)
    status = source.place.stat()
    if (status.size, status.mtime_ns) != (source.size, source.mtime) or (
        hashing.info.bytes != source.size
    ):
        raise ChangedInputError(
            f"{shown(source.place)} changed while it was read: run the same command again when"
            " the file is complete"
        )
    if task.staging is not None:
        columns.write(task.staging.place(_columns_file(task)))
    return Scan(
        key=source.key,
        records=inference.records,
        bytes=hashing.info.bytes,
        sha256=hashing.info.sha256,
        features=inference.features,
        first_records=inference.first_records,
        candidates=columns.candidates,
    )


def _add_record(
    payload: bytes,
    offset: int,
    task: ScanTask,
    inference: FeatureInference,
    columns: _IndexColumns,
) -> Damage | None:
    """Add a record to the results; return its defect, if it has one."""
    number = inference.records
    try:
        record = inference.add(payload)
        for name, raw in task.raw.items():
            raw.check(name, record.get(name))
    except ExampleError as error:
        what = f"not a tf.train.Example: {error}"
    except InconsistentFeatureError as error:
        what = str(error)
    except ValueError as error:
        what = f"--raw: {error}"
    else:
        numbers = class_numbers.add_record(columns.candidates, record)
        columns.add(offset, HEADER_BYTES + len(payload) + FOOTER_BYTES, numbers)
        return None
    return Damage(file=task.source.key, record=number, offset=offset, what=what)


def _format_hint(place: Location) -> str:
    """Return a hint, for the end of a message, at the format of a file without valid records."""
    head = place.read_range(0, 2)
    if head[:1] == b"\x78" and int.from_bytes(head, "big") % 31 == 0:
        return "; the file looks like zlib: expected gzip, or no compression"
    return "; is it a TFRecord file?"


class _IndexColumns:
    """Columns for the index: offset and length of each record, and its possible class numbers.

    candidates: the class numbers of each feature that may hold the class.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.candidates = {name: ClassNumberCandidate() for name in names}
        self._offsets, self._lengths = array.array("q"), array.array("q")
        self._numbers = {name: (array.array("q"), array.array("b")) for name in names}

    def add(self, offset: int, length: int, numbers: Mapping[str, int | None]) -> None:
        self._offsets.append(offset)
        self._lengths.append(length)
        for name, (values, missing) in self._numbers.items():
            number = numbers[name]
            values.append(number or 0)
            missing.append(number is None)

    def write(self, place: Location) -> None:
        columns = {
            "offset": pa.array(np.frombuffer(self._offsets, np.int64)),
            "length": pa.array(np.frombuffer(self._lengths, np.int64)),
        }
        for name, (values, missing) in self._numbers.items():
            mask = np.frombuffer(missing, np.bool_)
            columns[f"number of {name}"] = pa.array(np.frombuffer(values, np.int64), mask=mask)
        table = pa.table(columns)
        with place.open_output() as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


def read_columns(place: Location, label_feature: str | None) -> Iterator[pa.RecordBatch]:
    """Yield batches of offset, length and class number (null if unlabelled) of all records."""
    with place.open_input() as file, damage_of(shown(place), advice=_ADVICE):
        reader = pa.ipc.open_file(file)
        for batch in map(reader.get_batch, range(reader.num_record_batches)):
            number = pa.nulls(len(batch), pa.int64())
            if label_feature is not None:
                number = batch[f"number of {label_feature}"]
            yield pa.RecordBatch.from_arrays(
                [batch["offset"], batch["length"], number], names=["offset", "length", "number"]
            )
