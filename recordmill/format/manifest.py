"""dataset.json: what a dataset is, in canonical JSON, so that equal datasets have equal manifests.

A directory without dataset.json is not a dataset: it is written last and taken away first.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeVar

from recordmill.errors import ConfigError
from recordmill.format.features import Feature, Features
from recordmill.format.framing import Compression
from recordmill.format.typed_json import as_object, take, take_mapping, take_texts
from recordmill.storage.files import Location, shown

FORMAT = "recordmill/1"
MANIFEST = "dataset.json"
JOB = "job.json"
INDEX = "index"
LABELS = "labels.txt"
REJECTS = "rejects.jsonl"
SCHEMA = "schema.pbtxt"


class ManifestError(ValueError):
    """There is no manifest, or it cannot be understood."""


def shard_name(split: str, index: int, count: int, compression: str) -> str:
    """The name Beam's own WriteToTFRecord gives; `compression` is none or gzip."""
    suffix = ".gz" if compression == "gzip" else ""
    return f"{split}.tfrecord-{index:05d}-of-{count:05d}{suffix}"


def index_name(split: str, index: int, count: int) -> str:
    """The name of a shard's index, the same whatever the compression."""
    return f"{INDEX}/{split}-{index:05d}-of-{count:05d}.parquet"


def class_weights(counts: Mapping[str, float]) -> dict[str, float]:
    """n / (k * n_c) per class, k being the classes that have records; 0 for those that have none.

    With these weights every class has the same total, n / k, and the mean over records is 1.
    """
    total = sum(counts.values())
    present = sum(count > 0 for count in counts.values())
    return {label: total / (present * n) if n else 0.0 for label, n in counts.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One TFRecord file. `classes` counts records by label, those without one not at all."""

    file: str
    records: int
    bytes: int
    sha256: str
    classes: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            file=_relative(take(data, "file", str)),
            records=take(data, "records", int),
            bytes=take(data, "bytes", int),
            sha256=take(data, "sha256", str),
            classes=take_mapping(data, "classes", int),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitInfo:
    """A split and its shards, in the order of their numbers; an empty split has none."""

    records: int
    bytes: int
    classes: Mapping[str, int]
    shards: tuple[Shard, ...]

    @classmethod
    def of(cls, shards: Iterable[Shard]) -> Self:
        """Sums up the shards of one split, which are put in the order of their numbers."""
        # Five digits are a minimum: shard 100000 comes after 99999.
        ordered = tuple(sorted(shards, key=lambda shard: (len(shard.file), shard.file)))
        classes: Counter[str] = Counter()
        for shard in ordered:
            classes.update(shard.classes)
        return cls(
            records=sum(shard.records for shard in ordered),
            bytes=sum(shard.bytes for shard in ordered),
            classes=dict(classes),
            shards=ordered,
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            records=take(data, "records", int),
            bytes=take(data, "bytes", int),
            classes=take_mapping(data, "classes", int),
            shards=tuple(Shard.from_json(as_object(shard)) for shard in take(data, "shards", list)),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputCounts:
    """What was listed, files or rows: read + rejected + filtered.

    read: those that the listing took; each of them makes one record. rejected: those that it
    could not use. filtered: those that are no input by their name alone.
    """

    read: int = 0
    rejected: int = 0
    filtered: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordCounts:
    """Records without their copies: made = written + rejected + filtered + dropped.

    dropped: left out by undersampling.
    """

    made: int = 0
    written: int = 0
    rejected: int = 0
    filtered: int = 0
    dropped: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class CopyCounts:
    """Oversampled copies: planned = written + rejected.

    rejected: copies of records that were rejected or filtered at writing.
    """

    planned: int = 0
    written: int = 0
    rejected: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectCounts:
    """Objects, such as boxes, of the records and copies that were written: made = written +
    dropped.

    dropped: those that an option left out, or of which nothing was left.
    """

    made: int = 0
    written: int = 0
    dropped: int = 0


Counts = TypeVar("Counts", InputCounts, RecordCounts, CopyCounts, ObjectCounts)


INPUT = "input"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ledger:
    """Where every input, record and copy went.

    unit: what a record is: an input, or a chunk of one; then their numbers differ. packs: records
    of the dataset, where each holds several of those that are counted here. objects: of records
    that have such.
    """

    inputs: InputCounts
    records: RecordCounts
    copies: CopyCounts
    unit: str = INPUT
    packs: int | None = None
    objects: ObjectCounts | None = None

    def open_items(self) -> list[str]:
        """A sentence for every sum that does not close; nothing was lost if there is none."""
        records, copies = self.records, self.copies
        items = []
        if self.unit == INPUT and self.inputs.read != records.made:
            items.append(
                f"{self.inputs.read} inputs were read, but {records.made} records were made of them"
            )
        accounted = records.written + records.rejected + records.filtered + records.dropped
        if records.made != accounted:
            items.append(
                f"{records.made} records were made, but {accounted} are accounted for"
                f" ({records.written} written, {records.rejected} rejected,"
                f" {records.filtered} filtered, {records.dropped} dropped)"
            )
        accounted = copies.written + copies.rejected
        if copies.planned != accounted:
            items.append(
                f"{copies.planned} copies were planned, but {accounted} are accounted for"
                f" ({copies.written} written, {copies.rejected} rejected)"
            )
        return items

    def to_json(self) -> dict[str, Any]:
        found = dataclasses.asdict(self)
        if self.objects is None:
            del found["objects"]
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            inputs=_counts(data, "inputs", InputCounts),
            records=_counts(data, "records", RecordCounts),
            copies=_counts(data, "copies", CopyCounts),
            unit=take(data, "unit", str) if "unit" in data else INPUT,
            packs=None if data.get("packs") is None else take(data, "packs", int),
            objects=_counts(data, "objects", ObjectCounts) if "objects" in data else None,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileInfo:
    """A file beside the shards: its size and the sha256 (hex) of its content."""

    bytes: int
    sha256: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(bytes=take(data, "bytes", int), sha256=take(data, "sha256", str))


def file_info(content: bytes) -> FileInfo:
    """What the manifest says of a file of this content."""
    return FileInfo(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def digest_of(splits: Mapping[str, SplitInfo]) -> str:
    """The content of a dataset in one number.

    sha256 (hex) over the shards' sha256, each as its 64 lower-case hex characters, with nothing
    between them: splits sorted by name, within a split the shards by number.
    """
    digest = hashlib.sha256()
    for _, split in sorted(splits.items()):
        for shard in split.shards:
            digest.update(shard.sha256.encode("ascii"))
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of dataset.json.

    digest: as `digest_of` gives it.
    options: those that shape bytes, among them `compression` and `label_offset`.
    labels: class names; the number of a class is its place in here + `label_offset`.
    class_weights: per label, from the records of train without copies.
    encoders: {library: version} of what shaped bytes.
    files: what stands beside the shards, without dataset.json, job.json and the index.
    fill_rates: per split whose records are packed, the part of their values that is no padding.
    notes: sentences for the reader, such as why there are no TFDS files.
    """

    digest: str
    seed: int
    options: Mapping[str, Any]
    features: Features
    labels: tuple[str, ...]
    class_weights: Mapping[str, float]
    splits: Mapping[str, SplitInfo]
    ledger: Ledger
    encoders: Mapping[str, str]
    files: Mapping[str, FileInfo]
    fill_rates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def compression(self) -> Compression:
        """Of the shards."""
        return "gzip" if self.options.get("compression") == "gzip" else "none"

    @property
    def label_offset(self) -> int:
        """The number of the first class."""
        return int(self.options.get("label_offset", 0))

    def open_items(self) -> list[str]:
        """The ledger's open items, and whether the splits hold what it says was written."""
        items = self.ledger.open_items()
        written = self.ledger.records.written + self.ledger.copies.written
        if self.ledger.packs is not None:
            written = self.ledger.packs
        held = sum(split.records for split in self.splits.values())
        if written != held:
            items.append(f"{written} records and copies were written, but the splits hold {held}")
        return items

    def paths(self) -> list[str]:
        """Every file of the dataset, relative to it; dataset.json comes last."""
        shards = [shard.file for _, split in sorted(self.splits.items()) for shard in split.shards]
        index = [
            index_name(name, number, len(split.shards))
            for name, split in sorted(self.splits.items())
            for number in range(len(split.shards))
        ]
        return [*shards, *index, *sorted(self.files), JOB, MANIFEST]

    def to_bytes(self) -> bytes:
        """Canonical JSON: sorted keys, UTF-8, two spaces, a newline at the end.

        Raises:
          ValueError: where an option or a weight is NaN or infinite, which JSON does not have.
        """
        data = {
            "format": FORMAT,
            "digest": self.digest,
            "seed": self.seed,
            "options": dict(self.options),
            "features": {name: feature.to_json() for name, feature in self.features.items()},
            "labels": list(self.labels),
            "class_weights": dict(self.class_weights),
            "splits": {name: split.to_json() for name, split in self.splits.items()},
            "ledger": self.ledger.to_json(),
            "encoders": dict(self.encoders),
            "files": {name: dataclasses.asdict(info) for name, info in self.files.items()},
            "fill_rates": dict(self.fill_rates),
            "notes": list(self.notes),
        }
        text = json.dumps(data, sort_keys=True, ensure_ascii=False, indent=2, allow_nan=False)
        return f"{text}\n".encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of `to_bytes`.

        Raises:
          ManifestError: says what is wrong with the content, and where.
        """
        try:
            data = as_object(json.loads(content))
        except ValueError as error:  # broken JSON, broken UTF-8
            raise ManifestError(f"{MANIFEST} is not a JSON object: {error}") from error
        if data.get("format") != FORMAT:
            raise ManifestError(
                f"expected a {MANIFEST} of format {FORMAT!r}, got {data.get('format')!r}:"
                " read it with the version of recordmill that wrote it"
            )
        try:
            return cls(
                digest=take(data, "digest", str),
                seed=take(data, "seed", int),
                options=take(data, "options", dict),
                features={
                    name: _feature(name, as_object(feature))
                    for name, feature in take(data, "features", dict).items()
                },
                labels=take_texts(data, "labels"),
                class_weights=take_mapping(data, "class_weights", float),
                splits={
                    name: SplitInfo.from_json(as_object(split))
                    for name, split in take(data, "splits", dict).items()
                },
                ledger=Ledger.from_json(take(data, "ledger", dict)),
                encoders=take_mapping(data, "encoders", str),
                files={
                    _relative(name): FileInfo.from_json(as_object(info))
                    for name, info in take(data, "files", dict).items()
                },
                fill_rates=take_mapping(data, "fill_rates", float),
                notes=take_texts(data, "notes"),
            )
        except KeyError as error:
            raise ManifestError(f"{MANIFEST} lacks {error}") from error
        except ValueError as error:
            raise ManifestError(f"{MANIFEST} cannot be understood: {error}") from error


def load(dataset: Location) -> Manifest:
    """Reads the manifest of the dataset in a directory.

    Raises:
      ManifestError: if there is none, or it cannot be understood.
    """
    location = dataset / MANIFEST
    if not location.exists():
        if dataset.exists() and not dataset.is_dir():
            raise ManifestError(
                f"no dataset: {shown(dataset)} is a file. recordmill.read reads a TFRecord file,"
                " and `recordmill adopt` makes a dataset of some"
            )
        raise ManifestError(
            f"no dataset: there is no {shown(location)}. A directory without {MANIFEST} is not a"
            " dataset; perhaps a run is unfinished: run the same command again"
        )
    return Manifest.from_bytes(location.read_bytes())


def _feature(name: str, data: Mapping[str, Any]) -> Feature:
    try:
        return Feature.from_json(data)
    except ConfigError as error:
        raise ValueError(f"feature {name!r}: {error}") from error


def _counts(data: Mapping[str, Any], name: str, kind: type[Counts]) -> Counts:
    values = take_mapping(data, name, int)
    fields = [field.name for field in dataclasses.fields(kind)]
    return kind(**{field: values[field] for field in fields})


def _relative(name: str) -> str:
    """Publishing removes what the old manifest lists: no name may lead out of the dataset."""
    path = pathlib.PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or name in ("", "."):
        raise ValueError(f"expected a path inside the dataset, got {name!r}")
    return name
