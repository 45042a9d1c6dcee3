"""One pass over a file that others wrote: its place in staging, checksum, records and what they
hold.

The file is linked into staging first and read there, so that what is published is what was read.
Where it cannot be linked, what is read is written there on the way. Beside it stands what was
found, so that a run that goes on reads no file twice.

Memory: 16 bytes for each record, and 9 for each feature that may hold its class.
"""

from __future__ import annotations

import array
import dataclasses
import errno
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from recordmill.adopt import class_numbers
from recordmill.adopt.class_numbers import ClassNumberCandidate
from recordmill.adopt.feature_inference import FeatureSummary, Inference, UnlikeError
from recordmill.checking.shard_check import Damage
from recordmill.format import framing
from recordmill.format.decode import ExampleError
from recordmill.format.framing import HEAD, TAIL, Compression, FrameError, read_frames
from recordmill.format.hashing import HashingReader
from recordmill.job.staging import Staging, to_json
from recordmill.reading.raw_arrays import RawArray
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import ChangedInputError, explained

if TYPE_CHECKING:
    pass

_BLOCK = 1 << 20  # bytes read and hashed at once
# Another filesystem, one without hard links, a file that is not ours to link, too many links.
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Original:
    """A file as it was listed. key: its path within the input; mtime: ns since the epoch."""

    key: str
    place: Location
    size: int
    mtime: int
    split: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScanTask:
    """All that is needed to look at one file in another process.

    name: of the shard it becomes. staging: None where nothing is to be kept.
    """

    original: Original
    name: str
    compression: Compression
    staging: Staging | None
    label_feature: str | None
    raw: Mapping[str, RawArray]

    @property
    def plan(self) -> str:
        """Equal for tasks that find the same."""
        one = self.original
        of_file = [shown(one.place), one.key, one.size, one.mtime]
        what = [of_file, self.compression, self.label_feature, self.raw]
        return hashlib.sha256(to_json(what)).hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scan:
    """What was found in a file. bytes, sha256: of the file as it is; 0 and '' where it is damaged.

    numbers: of features that may hold the class.
    """

    key: str
    linked: bool = True
    records: int = 0
    bytes: int = 0
    sha256: str = ""
    seen: Mapping[str, FeatureSummary] = dataclasses.field(default_factory=dict)
    numbers: Mapping[str, ClassNumberCandidate] = dataclasses.field(default_factory=dict)
    damage: Damage | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Scan:
        """The inverse of what `to_json` makes of it; the damaged are not written."""
        seen = {name: FeatureSummary(**one) for name, one in data["seen"].items()}
        numbers = {}
        for name, one in data["numbers"].items():
            names = one["names"]
            if names is not None:  # JSON has made texts of the numbers
                names = {int(number): text for number, text in names.items()}
            numbers[name] = ClassNumberCandidate(low=one["low"], high=one["high"], names=names)
        return cls(**{**data, "seen": seen, "numbers": numbers})


def compression_of(place: Location) -> Compression | None:
    """How a file is compressed, by its first bytes; None for one without any."""
    head = place.read_range(0, HEAD)
    return framing.compression_of(head) if head else None


def scan(task: ScanTask) -> Scan:
    """Looks at a file, unless that was done before."""
    staging = task.staging
    if staging is None:
        return _scan(task, task.original.place, None)
    info = staging.place(f"info/{task.name}.json")
    done = staging.read_json(f"info/{task.name}.json")
    target = staging.place(f"shards/{task.name}")
    if done is not None and done["plan"] == task.plan and target.exists():
        return Scan.from_json(done["scan"])
    info.delete(missing_ok=True)
    target.delete(missing_ok=True)
    if _link(task.original.place, target):
        found = _scan(task, target, None)
    else:
        found = dataclasses.replace(_copy(task, target), linked=False)
    if found.damage is None:
        info.write_bytes(to_json({"plan": task.plan, "scan": found}))
    else:
        target.delete(missing_ok=True)
    return found


def _link(source: Location, target: Location) -> bool:
    """Gives a file another name; returns whether it could."""
    with explained("link", source):
        try:
            # What a symbolic link leads to, not the link.
            os.link(os.path.realpath(source.local_path), target.local_path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
    return True


def _copy(task: ScanTask, target: Location) -> Scan:
    """Writes what is read; the file has its name when it is complete, and on disk."""
    temporary = target.parent / f"{target.name}.tmp"
    with explained("write", temporary), open(temporary.local_path, "wb") as file:
        found = _scan(task, task.original.place, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename_to(target)
    return found


def _scan(task: ScanTask, place: Location, copy: BinaryIO | None) -> Scan:
    original = task.original
    inference = Inference()
    columns = _Columns(class_numbers.candidates(task.label_feature))
    damage = None
    with place.open_input() as file:
        hashing = HashingReader(file, copy)
        stream = io.BufferedReader(hashing, _BLOCK)
        try:
            for frame in read_frames(stream, compression=task.compression):
                damage = _look_at(frame.payload, frame.offset, task, inference, columns)
                if damage is not None:
                    break
        except FrameError as error:
            what = error.what
            if error.offset == 0:
                what += _perhaps(place)
            damage = Damage(file=original.key, record=error.record, offset=error.offset, what=what)
        while copy is not None and stream.read(_BLOCK):  # a copy is whole, damaged or not
            pass
    if damage is not None:
        return Scan(key=original.key, damage=damage)
    status = original.place.stat()
    if (status.size, status.mtime_ns) != (original.size, original.mtime) or (
        hashing.info.bytes != original.size
    ):
        raise ChangedInputError(
            f"{shown(original.place)} changed while it was read: run the same command again when"
            " it is complete"
        )
    if task.staging is not None:
        columns.write(task.staging.place(f"scans/{task.name}.arrow"))
    return Scan(
        key=original.key,
        records=inference.records,
        bytes=hashing.info.bytes,
        sha256=hashing.info.sha256,
        seen=inference.seen,
        numbers=columns.found,
    )


def _look_at(
    payload: bytes, offset: int, task: ScanTask, inference: Inference, columns: _Columns
) -> Damage | None:
    number = inference.records
    try:
        record = inference.add(payload)
        for name, raw in task.raw.items():
            raw.check(name, record.get(name))
    except ExampleError as error:
        what = f"no tf.train.Example: {error}"
    except UnlikeError as error:
        what = str(error)
    except ValueError as error:
        what = f"--raw: {error}"
    else:
        numbers = class_numbers.add_record(columns.found, record)
        columns.add(offset, HEAD + len(payload) + TAIL, numbers)
        return None
    return Damage(file=task.original.key, record=number, offset=offset, what=what)


def _perhaps(place: Location) -> str:
    """What a file may be whose first record cannot be read."""
    head = place.read_range(0, 2)
    if head[:1] == b"\x78" and int.from_bytes(head, "big") % 31 == 0:
        return "; it looks like zlib, which is not supported: only gzip is"
    return "; is it a TFRecord file?"


class _Columns:
    """What the index will have of each record: its place, and the numbers of its class."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.found = {name: ClassNumberCandidate() for name in names}
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
    """Yields offset, length and number (null without a class) of the records, in their order."""
    with place.open_input() as file:
        reader = pa.ipc.open_file(file)
        for batch in map(reader.get_batch, range(reader.num_record_batches)):
            number = pa.nulls(len(batch), pa.int64())
            if label_feature is not None:
                number = batch[f"number of {label_feature}"]
            yield pa.RecordBatch.from_arrays(
                [batch["offset"], batch["length"], number], names=["offset", "length", "number"]
            )
