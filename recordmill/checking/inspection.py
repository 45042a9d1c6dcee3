"""Summaries of a dataset, as plain data for the command line to print."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from recordmill.format.label_texts import held_classes
from recordmill.format.manifest import REJECTS, Manifest, SplitInfo, load
from recordmill.format.split_indexes import split_indexes
from recordmill.format.typed_json import damage_of, parse_json, read_as
from recordmill.notes import most_frequent
from recordmill.profile import drift, statistics_file
from recordmill.profile.drift import Comparison
from recordmill.profile.statistics_file import SliceView
from recordmill.storage.files import Location

_EXAMPLES = 3  # rejects shown per reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassCount:
    """Number of records of a class, and of oversampled copies among them."""

    records: int
    copies: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitSummary:
    """Counts of one split.

    shard_bytes: bytes of a shard: (smallest, median, largest); zeros without shards.
    unlabelled: records without a class.
    """

    records: int
    copies: int
    bytes: int
    shards: int
    shard_bytes: tuple[int, int, int]
    classes: Mapping[str, ClassCount]
    unlabelled: ClassCount


@dataclasses.dataclass(frozen=True, kw_only=True)
class RejectSummary:
    """Number of rejects with one reason, and the first of their lines in rejects.jsonl."""

    count: int
    examples: tuple[Mapping[str, str], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary of a dataset.

    skew: comparison of its splits; drift: comparison with another dataset; None if the statistics
      for it are missing.
    """

    manifest: Manifest
    splits: Mapping[str, SplitSummary]
    rejects: Mapping[str, RejectSummary]
    skew: Comparison | None = None
    drift: Comparison | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        manifest = self.manifest
        return {
            "digest": manifest.digest,
            "seed": manifest.seed,
            "options": dict(manifest.options),
            "features": {name: feature.to_json() for name, feature in manifest.features.items()},
            "labels": list(manifest.labels),
            "class_weights": dict(manifest.class_weights),
            "source_weights": dict(manifest.source_weights),
            "splits": {name: dataclasses.asdict(split) for name, split in self.splits.items()},
            "ledger": manifest.ledger.to_json(),
            "rejects": {name: dataclasses.asdict(some) for name, some in self.rejects.items()},
            "encoders": dict(manifest.encoders),
            "card": None if manifest.card is None else manifest.card.to_json(),
            "fill_rates": dict(manifest.fill_rates),
            "notes": list(manifest.notes),
            "skew": None if self.skew is None else self.skew.to_json(),
            "drift": None if self.drift is None else self.drift.to_json(),
        }


def inspect(
    dataset: Location,
    *,
    manifest: Manifest | None = None,
    compared: Mapping[str, SliceView] | None = None,
) -> Summary:
    """Summarize a dataset from its manifest, rejects, statistics and indexes, without its shards.

    manifest: that of the dataset, if it has been read already.
    compared: the statistics of another dataset, for drift.

    Raises:
      ManifestError: the folder is not a dataset, or its statistics are invalid.
      IndexDamagedError, StorageError: an index or the rejects cannot be read.
    """
    manifest = load(dataset) if manifest is None else manifest
    splits = {
        name: _split(dataset, name, split, manifest) for name, split in manifest.splits.items()
    }
    slices = statistics_file.read(dataset, manifest)
    return Summary(
        manifest=manifest,
        splits=splits,
        rejects=_rejects(dataset, manifest),
        skew=None if slices is None else drift.skew(slices),
        drift=None if slices is None or compared is None else drift.drift(compared, slices),
    )


def _split(dataset: Location, name: str, split: SplitInfo, manifest: Manifest) -> SplitSummary:
    copies: Counter[str | None] = Counter()
    total = 0
    unlabelled = split.records - sum(split.classes.values())
    if manifest.multi_label:
        unlabelled = 0
    if manifest.ledger.copies.written or manifest.multi_label:
        columns, dictionaries = ["label", "labels", "copy"], ["label"]
        for _, index in split_indexes(
            dataset, name, split, columns=columns, dictionaries=dictionaries
        ):
            if manifest.multi_label:
                unlabelled += index["label"].null_count
            of_copies = index.filter(pc.greater(index["copy"], 0))
            total += len(of_copies)
            copies.update(held_classes(of_copies).to_pylist())
    sizes = [shard.bytes for shard in split.shards] or [0]
    return SplitSummary(
        records=split.records,
        copies=total,
        bytes=split.bytes,
        shards=len(split.shards),
        shard_bytes=(min(sizes), int(statistics.median(sizes)), max(sizes)),
        classes={
            label: ClassCount(records=split.classes.get(label, 0), copies=copies[label])
            for label in manifest.labels
        },
        unlabelled=ClassCount(records=unlabelled, copies=copies[None]),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredReject:
    """A line of rejects.jsonl; another version may know other reasons."""

    key: str
    stage: str
    reason: str
    detail: str


def _rejects(dataset: Location, manifest: Manifest) -> dict[str, RejectSummary]:
    if REJECTS not in manifest.files:
        return {}
    counts: Counter[str] = Counter()
    examples: dict[str, list[Mapping[str, str]]] = {}
    with (dataset / REJECTS).open_input() as file:
        for number, line in enumerate(file, 1):
            with damage_of(REJECTS, line=number):
                data = parse_json(line)
                reason = read_as(_StoredReject, data, open_ended=True).reason
                reject = read_as(dict[str, str], data)
            counts[reason] += 1
            if counts[reason] <= _EXAMPLES:
                examples.setdefault(reason, []).append(reject)
    return {
        reason: RejectSummary(count=count, examples=tuple(examples[reason]))
        for reason, count in most_frequent(counts)
    }
