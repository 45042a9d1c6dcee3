"""Turns existing TFRecord files into a dataset: names of shards, indexes, and the manifest.

The bytes of the files do not change.
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
from recordmill.adopt.class_numbers import AdoptedClasses
from recordmill.adopt.file_scan import Scan, SourceFile, read_columns
from recordmill.format.dataset_card import DatasetCard
from recordmill.format.file_info import FileInfo, file_info
from recordmill.format.file_names import index_name, shard_name
from recordmill.format.ledger import CopyCounts, InputCounts, Ledger, RecordCounts
from recordmill.format.manifest import (
    JOB,
    LABELS,
    REJECTS,
    SCHEMA,
    Manifest,
    Shard,
    SplitInfo,
    class_weights,
    digest_of,
)
from recordmill.format.metadata_files import add_metadata
from recordmill.format.schema import schema_text
from recordmill.format.shard_index import index_bytes, schema
from recordmill.format.split_names import TRAIN
from recordmill.format.tfds import tfds_files
from recordmill.job.staging import Staging, to_json
from recordmill.notes import notes_of
from recordmill.reading.raw_arrays import RawArray
from recordmill.tfrecord.features import Features
from recordmill.tfrecord.framing import Compression

KIND = "adopt"

_ROWS = 1 << 20  # rows of an index that are made at once
_MAX_DUPLICATES = 3  # pairs of equal files named in a note


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptedShard:
    """A file, and the shard that it becomes: `number` (from 0) of the `count` of its split."""

    source: SourceFile
    number: int
    count: int
    compression: Compression

    @property
    def shard(self) -> str:
        """File name of the shard."""
        return shard_name(self.source.split, self.number, self.count, self.compression)

    @property
    def index(self) -> str:
        """Name of its index within the dataset."""
        return index_name(self.source.split, self.number, self.count)


def assign_shards(sources: Sequence[SourceFile], compression: Compression) -> list[AdoptedShard]:
    """Number the shards of each split in the order of the files."""
    counts = Counter(one.split for one in sources)
    taken: Counter[str] = Counter()
    found = []
    for one in sources:
        number = taken[one.split]
        taken[one.split] += 1
        found.append(
            AdoptedShard(
                source=one, number=number, count=counts[one.split], compression=compression
            )
        )
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptedContents:
    """Features, classes and number of records of all files."""

    features: Features
    classes: AdoptedClasses
    records: int


def infer_contents(
    scans: Sequence[Scan],
    *,
    label_feature: str | None,
    labels: Sequence[str] | None,
    label_offset: int,
    raw: Mapping[str, RawArray],
) -> AdoptedContents:
    """Infer the features and classes of the dataset from the scans of all files.

    scans: of files without damage.
    label_feature, labels, raw: given by the user, not inferred.

    Raises:
      InconsistentFeatureError: a feature, or the records, have different types; the message names
        file and record.
      LabelError: the given label feature, names or offset do not match the records.
    """
    records = sum(scan.records for scan in scans)
    summaries = feature_inference.merge_summaries((scan.key, scan.features) for scan in scans)
    feature_inference.check_record_types((scan.key, scan.first_records) for scan in scans)
    features = dict(feature_inference.declare_features(summaries, records=records))
    classes = class_numbers.find_classes(
        summaries,
        class_numbers.merge_candidates(scan.candidates for scan in scans),
        requested=label_feature,
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
    """Arguments for writing the index of one shard, which can be sent to another process."""

    adopted: AdoptedShard
    staging: Staging
    classes: AdoptedClasses
    label_offset: int


def write_index(task: IndexTask) -> tuple[dict[str, int], FileInfo]:
    """Write the index of a shard to staging.

    Returns:
      The number of records per class, and the size and hash of the index.
    """
    adopted, classes = task.adopted, task.classes
    place = task.staging.place(f"scans/{adopted.shard}.arrow")
    names = pa.array(classes.labels, pa.string())
    counts = np.zeros(len(names), np.int64)
    rows = []
    first = 0
    for batch in read_columns(place, classes.feature):
        for start in range(0, len(batch), _ROWS):
            part = batch.slice(start, _ROWS)
            numbers = pc.subtract(part["number"], task.label_offset)
            counts += _count(numbers, len(names))
            rows.append(_index_rows(part, f"{adopted.source.key}#", first, names.take(numbers)))
            first += len(part)
    content = index_bytes(pa.Table.from_batches(rows, schema()))
    task.staging.place(adopted.index).write_bytes(content)
    found = zip(classes.labels, counts, strict=True)
    return {label: int(count) for label, count in found if count}, file_info(content)


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
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def make_manifest(
    adopted: Sequence[AdoptedShard],
    scans: Sequence[Scan],
    indexes: Sequence[tuple[Mapping[str, int], FileInfo]],
    contents: AdoptedContents,
    *,
    options: Mapping[str, Any],
    label_offset: int,
    left_out: int,
    notes: Sequence[str],
    job: Mapping[str, Any],
    card: DatasetCard | None = None,
) -> tuple[Manifest, dict[str, bytes]]:
    """Return the manifest, and the files beside the shards by name.

    scans, indexes: the scan of each file, and the result of `write_index`.
    left_out: number of files of the input that are not TFRecord files.
    notes: sentences about the listing.
    job: the content of job.json. card: what the author says about the dataset.
    """
    shards: dict[str, list[Shard]] = defaultdict(list)
    for one, scan, (classes, index) in zip(adopted, scans, indexes, strict=True):
        shards[one.source.split].append(
            Shard(
                file=one.shard,
                records=scan.records,
                bytes=scan.bytes,
                sha256=scan.sha256,
                classes=classes,
                index=index,
            )
        )
    splits = {name: SplitInfo.of(some) for name, some in shards.items()}
    labels, compression = contents.classes.labels, adopted[0].compression
    tfds = tfds_files(
        features=contents.features,
        labels=labels,
        label_offset=label_offset,
        compression=compression,
        splits=splits,
    )
    text = schema_text(contents.features, labels=labels, label_offset=label_offset)
    files = {**tfds.files, REJECTS: b"", SCHEMA: text.encode()}
    if labels:
        files[LABELS] = "".join(f"{label}\n" for label in labels).encode()
    in_train = splits[TRAIN].classes if TRAIN in splits else {}
    weights = class_weights({label: in_train.get(label, 0) for label in labels})
    records = contents.records
    manifest = Manifest(
        digest=digest_of(splits),
        seed=0,
        options={**options, "compression": compression},
        features=contents.features,
        labels=labels,
        class_weights=weights,
        source_weights=weights,
        splits=splits,
        ledger=Ledger(
            inputs=InputCounts(read=records, filtered=left_out),
            records=RecordCounts(made=records, written=records),
            copies=CopyCounts(),
        ),
        encoders={},  # the libraries that wrote the files are unknown
        files={name: file_info(content) for name, content in files.items()},
        notes=(
            *notes_of("adopted", (*notes, *contents.classes.notes, *_duplicate_files(scans))),
            *tfds.notes,
        ),
    )
    # The indexes of an adopted dataset have no further columns.
    manifest, described = add_metadata(manifest, card, places_of=lambda _: ())
    return manifest, {**files, **described, JOB: to_json(job) + b"\n"}


def _duplicate_files(scans: Sequence[Scan]) -> Iterator[str]:
    """Yield a note on files with the same content, if there are any."""
    first: dict[str, str] = {}
    found = [
        f"{scan.key} is the same as {first[scan.sha256]}"
        for scan in scans
        if scan.records and first.setdefault(scan.sha256, scan.key) != scan.key
    ]
    if found:
        hidden = len(found) - _MAX_DUPLICATES
        more = f" and {hidden} more" if hidden > 0 else ""
        yield f"duplicate files: {', '.join(found[:_MAX_DUPLICATES])}{more}"


def input_fingerprint(adopted: Sequence[AdoptedShard]) -> str:
    """Return a hash of the input's files that does not depend on their order."""
    files = sorted(
        [one.source.key, one.source.split, one.source.size, one.source.mtime] for one in adopted
    )
    return hashlib.sha256(to_json(files)).hexdigest()[:32]
