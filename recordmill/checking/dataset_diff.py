"""Differences between two datasets: their records, options, versions, features and statistics."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

from recordmill.checking.record_diff import diff_records
from recordmill.checking.record_differences import RecordDiff
from recordmill.checking.shard_check import compare_file
from recordmill.format.file_info import FileInfo
from recordmill.format.file_names import INDEX, index_of
from recordmill.format.manifest import Manifest, load
from recordmill.format.replaced_datasets import expect_unchanged
from recordmill.format.split_names import in_order
from recordmill.profile import drift, statistics_file
from recordmill.profile.drift import Comparison
from recordmill.reading.reader import DatasetDamagedError
from recordmill.storage.files import Location, MissingError, shown

# Differences that can be named with --fail-on, beside the kinds of RecordDiff.
FACTS = ("options", "versions", "features", "labels")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changed:
    """A value in both datasets; None where it does not exist."""

    before: Any
    after: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetDiff:
    """Differences of a dataset from an earlier one.

    digests: of the two. splits: {split: (records before, records after)}, copies included. options:
    the seed among them. versions: of the libraries that shaped bytes. labels: {class: number}.
    statistics: drift, None if one of the two has no statistics.
    """

    digests: tuple[str, str]
    splits: Mapping[str, tuple[int, int]]
    records: RecordDiff
    options: Mapping[str, Changed]
    versions: Mapping[str, Changed]
    features: Mapping[str, Changed]
    labels: Mapping[str, Changed]
    statistics: Comparison | None

    def counts(self) -> dict[str, int]:
        """Return {kind of difference: number}."""
        facts = {name: len(getattr(self, name)) for name in FACTS}
        return {**{kind: one.count for kind, one in self.records.kinds.items()}, **facts}

    def to_json(self) -> dict[str, Any]:
        """Return the differences as plain data."""
        facts = {
            name: {key: dataclasses.asdict(one) for key, one in getattr(self, name).items()}
            for name in FACTS
        }
        return {
            "digests": dict(zip(("before", "after"), self.digests, strict=True)),
            "splits": {
                name: dict(zip(("before", "after"), counts, strict=True))
                for name, counts in self.splits.items()
            },
            "records": self.records.to_json(),
            **facts,
            "statistics": None if self.statistics is None else self.statistics.to_json(),
        }


def diff(before: Location, after: Location) -> DatasetDiff:
    """Compare two datasets.

    Memory does not grow with their records; temporary files take 50 bytes per record, and 8 for
    each compared feature.

    Raises:
      ManifestError: a folder is not a dataset, or its statistics are invalid.
      IndexDamagedError, DatasetDamagedError, StorageError: a dataset cannot be read, or lacks a
        shard or index of its size.
      DatasetReplacedError: a run replaced one of them meanwhile.
    """
    with expect_unchanged(before, after):
        return _diff(before, after)


def _diff(before: Location, after: Location) -> DatasetDiff:
    one, two = load(before), load(after)
    for place, manifest in ((before, one), (after, two)):
        _check_files(place, manifest)
    slices = [
        statistics_file.read(place, manifest) for place, manifest in ((before, one), (after, two))
    ]
    compared = None
    if slices[0] is not None and slices[1] is not None:
        compared = drift.drift(slices[0], slices[1])
    return DatasetDiff(
        digests=(one.digest, two.digest),
        splits={
            name: (_records(one, name), _records(two, name))
            for name in in_order({**one.splits, **two.splits})
        },
        records=diff_records((before, one), (after, two)),
        options=_changed({"seed": one.seed, **one.options}, {"seed": two.seed, **two.options}),
        versions=_changed(one.encoders, two.encoders),
        features=_changed(
            {name: feature.to_json() for name, feature in one.features.items()},
            {name: feature.to_json() for name, feature in two.features.items()},
        ),
        labels=_changed(_numbers(one), _numbers(two)),
        statistics=compared,
    )


def _check_files(dataset: Location, manifest: Manifest) -> None:
    """Check that the shards and indexes exist and have their sizes; contents are not read here.

    Raises:
      DatasetDamagedError: names the first file that is missing or differs.
    """
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    stated = {one.file: FileInfo(bytes=one.bytes, sha256=one.sha256) for one in shards}
    stated |= {index_of(one.file): one.index for one in shards}
    sizes: dict[str, int] = {}
    for folder, prefix in ((dataset, ""), (dataset / INDEX, f"{INDEX}/")):
        with contextlib.suppress(MissingError):
            sizes |= {f"{prefix}{entry.name}": entry.size for entry in folder.list_dir()}
    for name, info in stated.items():
        if name not in sizes:
            raise DatasetDamagedError(f"{name}: the file is missing in {shown(dataset)}")
        found = dataclasses.replace(info, bytes=sizes[name])
        for damage in compare_file(name, found=found, stated=info):
            raise DatasetDamagedError(f"{damage} (in {shown(dataset)})")


def _records(manifest: Manifest, split: str) -> int:
    return manifest.splits[split].records if split in manifest.splits else 0


def _numbers(manifest: Manifest) -> dict[str, int]:
    return {label: n for n, label in enumerate(manifest.labels, start=manifest.label_offset)}


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Changed]:
    return {
        name: Changed(before=before.get(name), after=after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }
