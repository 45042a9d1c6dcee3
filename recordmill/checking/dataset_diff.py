"""Differences between two datasets: their records, options, versions, features and statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recordmill.checking.record_diff import diff_records
from recordmill.checking.record_differences import RecordDiff
from recordmill.format.manifest import Manifest, load
from recordmill.format.replaced_datasets import expect_unchanged
from recordmill.format.split_names import in_order
from recordmill.profile import drift, statistics_file
from recordmill.profile.drift import Comparison
from recordmill.storage.files import Location

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
      IndexDamagedError, DatasetDamagedError, StorageError: a dataset cannot be read.
      DatasetReplacedError: a run replaced one of them meanwhile.
    """
    with expect_unchanged(before, after):
        return _diff(before, after)


def _diff(before: Location, after: Location) -> DatasetDiff:
    one, two = load(before), load(after)
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
