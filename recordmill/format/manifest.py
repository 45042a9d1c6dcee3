"""The manifest, dataset.json: canonical JSON, so that equal datasets have equal manifests.

A folder without dataset.json is not a dataset. It is the last file that publishing writes, and the
first that it removes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from recordmill import strict_json
from recordmill.errors import DamageError
from recordmill.format.content_report import ContentReport
from recordmill.format.dataset_card import DatasetCard
from recordmill.format.file_info import FileInfo, Sha256
from recordmill.format.file_names import checked_name, index_name
from recordmill.format.ledger import Ledger
from recordmill.format.split_names import is_split_name
from recordmill.format.typed_json import (
    Checked,
    Count,
    FieldError,
    Presence,
    parse_json,
    read_as,
)
from recordmill.notes import Note
from recordmill.storage.files import Location, shown
from recordmill.tfrecord.features import Feature, stored_feature
from recordmill.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, Compression

FORMAT = "recordmill/1"
MANIFEST = "dataset.json"
JOB = "job.json"
RECIPES = "recipes.parquet"
LABELS = "labels.txt"
LABEL_MAP = "label_map.pbtxt"
MASK_LABELS = "segmentation_labels.txt"  # class names of masks, in the order of their ids
REJECTS = "rejects.jsonl"
SCHEMA = "schema.pbtxt"

_LEAST_RECORD_BYTES = HEADER_BYTES + FOOTER_BYTES
_MAX_DEFLATE_RATIO = 1032  # of zlib, according to its documentation
_SHARD = re.compile(r"[^/]+\.tfrecord-\d{5,}-of-\d{5,}(\.gz)?", re.ASCII)


class ManifestError(DamageError):
    """A missing or invalid manifest."""


def class_weights(counts: Mapping[str, float]) -> dict[str, float]:
    """Return the weight n / (k * n_c) of every class c, and 0 for classes without records.

    n is the number of records, n_c that of class c, k the number of classes that have records. The
    weights of every class then sum to n / k, and the mean weight of a record is 1.
    """
    total = sum(counts.values())
    present = sum(count > 0 for count in counts.values())
    return {label: total / (present * n) if n else 0.0 for label, n in counts.items()}


def _shard_file(name: str) -> str:
    if not _SHARD.fullmatch(name) or not is_split_name(name.split(".tfrecord-")[0]):
        raise ValueError(f"expected the name of a shard, got {name[:200]!r}")
    return name


def _split_name(name: str) -> str:
    if not is_split_name(name):
        raise ValueError(f"expected the name of a split, got {name[:200]!r}")
    return name


def _side_file(name: str) -> str:
    checked_name(name)
    if name in (MANIFEST, JOB, RECIPES) or _SHARD.fullmatch(name):
        raise ValueError(f"expected a file beside the shards, got {name!r}")
    return name


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ReadOptions:
    """The options that readers of a dataset use."""

    label_offset: int = 0
    compression: Compression = "none"
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    read_as(_ReadOptions, options, open_ended=True)
    return options


def _fits(shard: Shard) -> Shard:
    """Return a shard whose number of records fits into its bytes: memory is taken by it."""
    packed = _MAX_DEFLATE_RATIO if shard.file.endswith(".gz") else 1
    if shard.records * _LEAST_RECORD_BYTES > shard.bytes * packed:
        raise FieldError(
            f"{shard.records} records do not fit into its {shard.bytes} bytes", ".records"
        )
    return shard


StoredFeature = Annotated[Feature, Checked(stored_feature)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One TFRecord file.

    classes: its number of records per label; unlabelled ones are left out.
    index: size and hash of its index.
    """

    file: Annotated[str, Checked(_shard_file)]
    records: Count
    bytes: Count
    sha256: Sha256
    classes: Mapping[str, Count]
    index: FileInfo

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitInfo:
    """A split and its shards, in the order of their numbers; an empty split has no shards."""

    records: Count
    bytes: Count
    classes: Mapping[str, Count]
    shards: tuple[Annotated[Shard, Checked(_fits)], ...]

    @classmethod
    def of(cls, shards: Iterable[Shard]) -> Self:
        """Sort the shards of one split by number, and sum up their counts."""
        # Numbers have at least five digits: shard 100000 comes after 99999.
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


def digest_of(splits: Mapping[str, SplitInfo]) -> str:
    """Return the digest of a dataset's content.

    It is the sha256 (hex) over lines of text, each with a final newline: the name of a split, and
    after it the sha256 of each of its shards, as 64 lower-case hex characters. Splits are sorted by
    name, the shards of a split by number. Indexes and other files do not influence it.
    """
    digest = hashlib.sha256()
    for name, split in sorted(splits.items()):
        for line in (name, *(shard.sha256 for shard in split.shards)):
            digest.update(f"{line}\n".encode())
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of dataset.json.

    digest: the result of `digest_of`.
    options: the options that influence the records' bytes, including `compression` and
      `label_offset`.
    labels: class names; the number of a class is its index here + `label_offset`.
    class_weights: the weight per label, from the records of train as written, copies included; 1
      for balanced classes. source_weights: the same from the records before balancing.
    encoders: {library: version} of the libraries that influence the records' bytes.
    files: the files beside the shards, except dataset.json, job.json and the indexes.
    content: report on records of equal content; None if their contents were not hashed.
    fill_rates: per split with packed records, the fraction of values that are not padding.
    notes: remarks for the reader, such as why there are no TFDS files.
    card: what the author says about the dataset; None without --card.
    multi_label: whether a record may have several classes; the numbers of records by class then
      count it under each.
    has_recipes: whether recipes.parquet is beside the shards. Like job.json it may differ between
      equal datasets, so that only its name is here.
    """

    digest: Sha256
    seed: int
    options: Annotated[Mapping[str, Any], Checked(_options)]
    features: Mapping[str, StoredFeature]
    labels: tuple[str, ...]
    class_weights: Mapping[str, float]
    splits: Mapping[Annotated[str, Checked(_split_name)], SplitInfo]
    ledger: Ledger
    encoders: Mapping[str, str]
    files: Mapping[Annotated[str, Checked(_side_file)], FileInfo]
    source_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    content: Annotated[ContentReport | None, Presence.REQUIRED] = None
    fill_rates: Annotated[Mapping[str, float], Presence.REQUIRED] = dataclasses.field(
        default_factory=dict
    )
    notes: Annotated[tuple[Note, ...], Presence.REQUIRED] = ()
    card: DatasetCard | None = None
    has_recipes: bool = False
    multi_label: bool = False

    @property
    def command(self) -> str:
        """The command of recordmill that wrote the dataset, such as `images`, or `adopt`."""
        return str(self.options.get("kind", "adopt"))

    @property
    def compression(self) -> Compression:
        """Compression of the shards."""
        return "gzip" if self.options.get("compression") == "gzip" else "none"

    @property
    def label_offset(self) -> int:
        """The number of the first class."""
        return int(self.options.get("label_offset", 0))

    def open_items(self) -> list[str]:
        """Return the ledger's open items, plus one if the splits hold another number of records."""
        items = self.ledger.open_items()
        written = self.ledger.records.written + self.ledger.copies.written
        if self.ledger.packs is not None:
            written = self.ledger.packs
        held = sum(split.records for split in self.splits.values())
        if written != held:
            items.append(f"{written} records and copies were written, but the splits hold {held}")
        return items

    def paths(self) -> list[str]:
        """Return the path of every file, relative to the dataset; dataset.json comes last."""
        shards = [shard.file for _, split in sorted(self.splits.items()) for shard in split.shards]
        index = [
            index_name(name, number, len(split.shards))
            for name, split in sorted(self.splits.items())
            for number in range(len(split.shards))
        ]
        recipes = [RECIPES] if self.has_recipes else []
        return [*shards, *index, *sorted(self.files), *recipes, JOB, MANIFEST]

    def to_bytes(self) -> bytes:
        """Return canonical JSON: UTF-8, sorted keys, indented by two spaces, a final newline.

        Raises:
          ValueError: an option or a weight is NaN or infinite, which JSON cannot represent.
        """
        data = {
            "format": FORMAT,
            "digest": self.digest,
            "seed": self.seed,
            "options": dict(self.options),
            "features": {name: feature.to_json() for name, feature in self.features.items()},
            "labels": list(self.labels),
            "class_weights": dict(self.class_weights),
            "source_weights": dict(self.source_weights),
            "splits": {name: split.to_json() for name, split in self.splits.items()},
            "ledger": self.ledger.to_json(),
            "encoders": dict(self.encoders),
            "files": {name: dataclasses.asdict(info) for name, info in self.files.items()},
            "content": None if self.content is None else self.content.to_json(),
            "fill_rates": dict(self.fill_rates),
            "notes": [note.to_json() for note in self.notes],
            "card": None if self.card is None else self.card.to_json(),
            **({"recipes": RECIPES} if self.has_recipes else {}),
            **({"multi_label": True} if self.multi_label else {}),
        }
        text = strict_json.to_text(data, sort_keys=True, indent=2)
        return f"{text}\n".encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the inverse of `to_bytes`.

        Raises:
          ManifestError: the content is invalid; the message says where and why.
        """
        try:
            data = read_as(dict[str, Any], parse_json(content))
        except ValueError as error:  # invalid JSON or UTF-8
            raise ManifestError(f"{MANIFEST} is not a JSON object: {error}") from error
        if data.get("format") != FORMAT:
            raise ManifestError(
                f"expected a {MANIFEST} of format {FORMAT!r}, got {str(data.get('format'))[:80]!r}:"
                " read it with the version of recordmill that wrote it"
            )
        recipes = data.pop("recipes", None)
        try:
            if recipes not in (None, RECIPES):
                raise FieldError(f"expected {RECIPES}, got {recipes!r:.200}", ".recipes")
            return read_as(cls, {**data, "has_recipes": recipes is not None}, open_ended=True)
        except ValueError as error:
            raise ManifestError(f"{MANIFEST} is invalid: {error}") from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobFile:
    """The values of job.json that are used again; others are for people.

    input: paths or URIs. compared: the columns that are the content of rows. reused: number of
    records that were taken from earlier datasets. files: {adopted file: its facts}.
    """

    fingerprint: str | None = None
    input: tuple[str, ...] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    compared: tuple[str, ...] = ()
    reused: Count | None = None
    files: Mapping[str, Any] | None = None


def _job(data: dict[str, Any]) -> dict[str, Any]:
    read_as(JobFile, data, open_ended=True)
    return data


JobContent = Annotated[dict[str, Any], Checked(_job)]  # job.json with valid values of `JobFile`


def load(dataset: Location) -> Manifest:
    """Read the manifest of a dataset.

    Raises:
      ManifestError: the manifest is missing or invalid.
    """
    return Manifest.from_bytes(read_manifest(dataset))


def read_manifest(dataset: Location) -> bytes:
    """Return the content of the manifest of a dataset.

    Raises:
      ManifestError: the manifest is missing.
      StorageError: it cannot be read, or the store has no such bucket.
    """
    location = dataset / MANIFEST
    content = location.read_if_exists()
    if content is None:
        if not dataset.is_dir() and dataset.is_file():
            raise ManifestError(
                f"no dataset: {shown(dataset)} is a file. recordmill.read reads a TFRecord file,"
                " and `recordmill adopt` makes a dataset of TFRecord files"
            )
        raise ManifestError(
            f"no dataset: there is no {shown(location)}. A folder without {MANIFEST} is not a"
            " dataset; if a run is writing it, wait for its end; if one was interrupted, run the"
            " same command again"
        )
    return content
