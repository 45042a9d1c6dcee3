"""From files that others wrote to a dataset: their names, their indexes, the manifest.

The files stay as they are, to the byte; all that is written stands beside them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.adopt import class_numbers, feature_inference
from recordmill.adopt.class_numbers import Classes
from recordmill.adopt.file_scan import Original, Scan, read_columns
from recordmill.format.features import Features
from recordmill.format.framing import Compression
from recordmill.format.manifest import (
    JOB,
    LABELS,
    REJECTS,
    SCHEMA,
    CopyCounts,
    InputCounts,
    Ledger,
    Manifest,
    RecordCounts,
    Shard,
    SplitInfo,
    class_weights,
    digest_of,
    file_info,
    index_name,
    shard_name,
)
from recordmill.format.schema import schema_text
from recordmill.format.shard_index import index_bytes, schema
from recordmill.format.split_names import TRAIN
from recordmill.format.tfds import tfds_files
from recordmill.job.staging import Staging, to_json
from recordmill.reading.raw_arrays import RawArray

KIND = "adopt"

_KEYS = 1 << 20  # of an index, made at once
_TOLD = 3  # pairs of equal files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adopted:
    """A file, and the shard it becomes: number `number` of the `of` shards of its split."""

    original: Original
    number: int
    of: int
    compression: Compression

    @property
    def shard(self) -> str:
        return shard_name(self.original.split, self.number, self.of, self.compression)

    @property
    def index(self) -> str:
        return index_name(self.original.split, self.number, self.of)


def assign(originals: Sequence[Original], compression: Compression) -> list[Adopted]:
    """The shards that files become: those of a split in the order in which they come."""
    counts = Counter(one.split for one in originals)
    taken: Counter[str] = Counter()
    found = []
    for one in originals:
        number = taken[one.split]
        taken[one.split] += 1
        found.append(
            Adopted(original=one, number=number, of=counts[one.split], compression=compression)
        )
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptedContents:
    """What all files together hold."""

    features: Features
    classes: Classes
    records: int


def conclude(
    scans: Sequence[Scan],
    *,
    label_feature: str | None,
    labels: Sequence[str] | None,
    label_offset: int,
    raw: Mapping[str, RawArray],
) -> AdoptedContents:
    """What the dataset's features and classes are, by all files, none of which is damaged.

    label_feature, labels, raw: what was given, not inferred.

    Raises:
      UnlikeError: names file, record and feature, where one is not what it is elsewhere.
      LabelError: what was given does not go with the records.
    """
    records = sum(scan.records for scan in scans)
    seen = feature_inference.merged((scan.key, scan.seen) for scan in scans)
    features = dict(feature_inference.features_of(seen, records=records))
    classes = class_numbers.decide(
        seen,
        class_numbers.total(scan.numbers for scan in scans),
        asked=label_feature,
        names=labels,
        offset=label_offset,
    )
    if classes.feature is not None:
        features[classes.feature] = dataclasses.replace(features[classes.feature], kind="label")
    for name, array in raw.items():
        features[name] = dataclasses.replace(
            features[name], kind="raw", raw_dtype=array.dtype, raw_shape=array.shape
        )
    return AdoptedContents(features=features, classes=classes, records=records)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexTask:
    """All that is needed to write the index of one shard in another process."""

    adopted: Adopted
    staging: Staging
    classes: Classes
    label_offset: int


def write_index(task: IndexTask) -> dict[str, int]:
    """Writes the index of a shard and returns its records by class."""
    adopted, classes = task.adopted, task.classes
    place = task.staging.place(f"scans/{adopted.shard}.arrow")
    names = pa.array(classes.labels, pa.string())
    counts = np.zeros(len(names), np.int64)
    rows = []
    first = 0
    for batch in read_columns(place, classes.feature):
        for start in range(0, len(batch), _KEYS):
            part = batch.slice(start, _KEYS)
            numbers = pc.subtract(part["number"], task.label_offset)
            counts += _count(numbers, len(names))
            rows.append(_index_rows(part, f"{adopted.original.key}#", first, names.take(numbers)))
            first += len(part)
    table = pa.Table.from_batches(rows, schema(groups=False))
    task.staging.place(adopted.index).write_bytes(index_bytes(table))
    return {label: int(count) for label, count in zip(classes.labels, counts, strict=True) if count}


def _count(numbers: pa.Array, classes: int) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = np.bincount(
        numbers.drop_null().to_numpy(zero_copy_only=False), minlength=classes
    )
    return found


def _index_rows(part: pa.RecordBatch, prefix: str, first: int, labels: pa.Array) -> pa.RecordBatch:
    numbers = pa.array(np.arange(first, first + len(part))).cast(pa.string())
    columns = [
        pc.binary_join_element_wise(prefix, numbers, ""),
        labels,
        pa.array(np.zeros(len(part), np.int32)),
        part["offset"],
        part["length"],
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema(groups=False))


def describe(
    adopted: Sequence[Adopted],
    scans: Sequence[Scan],
    counts: Sequence[Mapping[str, int]],
    findings: AdoptedContents,
    *,
    options: Mapping[str, Any],
    label_offset: int,
    left_out: int,
    notes: Sequence[str],
    job: Mapping[str, Any],
) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest, and the files beside the shards.

    scans, counts: of each file, and its records by class. left_out: files of the input that are no
    TFRecords. notes: sentences of the listing. job: the content of job.json.
    """
    shards: dict[str, list[Shard]] = defaultdict(list)
    for one, scan, classes in zip(adopted, scans, counts, strict=True):
        shards[one.original.split].append(
            Shard(
                file=one.shard,
                records=scan.records,
                bytes=scan.bytes,
                sha256=scan.sha256,
                classes=classes,
            )
        )
    splits = {name: SplitInfo.of(some) for name, some in shards.items()}
    labels, compression = findings.classes.labels, adopted[0].compression
    tfds = tfds_files(
        features=findings.features,
        labels=labels,
        label_offset=label_offset,
        compression=compression,
        splits=splits,
    )
    text = schema_text(findings.features, labels=labels, label_offset=label_offset)
    files = {**tfds.files, REJECTS: b"", SCHEMA: text.encode()}
    if labels:
        files[LABELS] = "".join(f"{label}\n" for label in labels).encode()
    in_train = splits[TRAIN].classes if TRAIN in splits else {}
    records = findings.records
    manifest = Manifest(
        digest=digest_of(splits),
        seed=0,
        options={**options, "compression": compression},
        features=findings.features,
        labels=labels,
        class_weights=class_weights({label: in_train.get(label, 0) for label in labels}),
        splits=splits,
        ledger=Ledger(
            inputs=InputCounts(read=records, filtered=left_out),
            records=RecordCounts(made=records, written=records),
            copies=CopyCounts(),
        ),
        encoders={},  # whatever shaped the bytes, it is not known
        files={name: file_info(content) for name, content in files.items()},
        notes=(*notes, *findings.classes.notes, *_same_files(scans), *tfds.notes),
    )
    return manifest, files | {JOB: to_json(job) + b"\n"}


def _same_files(scans: Sequence[Scan]) -> Iterator[str]:
    """A sentence for files of the same bytes, whose records are there twice."""
    first: dict[str, str] = {}
    found = [
        f"{scan.key} is the same as {first[scan.sha256]}"
        for scan in scans
        if scan.records and first.setdefault(scan.sha256, scan.key) != scan.key
    ]
    if found:
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        yield f"files that are there twice: {', '.join(found[:_TOLD])}{more}"


def fingerprint(adopted: Sequence[Adopted]) -> str:
    """Of the input, in whatever order it was listed."""
    files = sorted(
        [one.original.key, one.original.split, one.original.size, one.original.mtime]
        for one in adopted
    )
    return hashlib.sha256(to_json(files)).hexdigest()[:32]
