"""Proves that a dataset is what its manifest says, by reading all of it again."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from recordmill.checking.shard_check import (
    Damage,
    ShardReport,
    ShardTask,
    check_index,
    compare,
    measure,
    verify_shard,
)
from recordmill.checking.split_leakage import (
    Hashes,
    Leak,
    Row,
    UInt64Array,
    find_leaks,
    suspect_rows,
    suspects,
)
from recordmill.format import manifest as manifests
from recordmill.format.manifest import (
    INDEX,
    MANIFEST,
    Manifest,
    SplitInfo,
    class_weights,
    digest_of,
    index_name,
    shard_name,
)
from recordmill.storage.files import Location, MissingError

_SHARD = re.compile(r".+\.tfrecord-\d{5,}-of-\d{5,}(\.gz)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What was found in a dataset, damages sorted by file and record."""

    shards: int
    records: int
    bytes: int
    deep: bool  # pictures were decoded
    damages: tuple[Damage, ...]

    @property
    def ok(self) -> bool:
        return not self.damages

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **dataclasses.asdict(self)}


Run = Callable[[Callable[[ShardTask], ShardReport], Iterable[ShardTask]], Iterable[ShardReport]]


def verify(
    dataset: Location,
    *,
    deep: bool = False,
    run: Run = map,
    on_progress: Callable[[ShardReport], None] = lambda report: None,
) -> Report:
    """Reads every byte of a dataset again and says what is not as it should be.

    deep: decode every picture, too.
    run: maps a function over tasks, in this process or in a pool, in any order.
    on_progress: called once for every shard.

    Raises:
      ManifestError: there is no dataset to verify.
      StorageError: a file is there, but cannot be read.
    """
    manifest = manifests.load(dataset)
    damages = [Damage(file=MANIFEST, what=what) for what in _check_manifest(manifest)]
    damages += _check_listing(dataset, manifest)
    damages += _check_sidecars(dataset, manifest)
    tasks = _tasks(dataset, manifest, deep=deep)
    reports = []
    for report in run(verify_shard, tasks):
        on_progress(report)
        reports.append(report)
        damages += report.damages
    damages += _check_leaks(tasks, reports)
    if not damages:
        damages += _check_weights(manifest, reports)
    return Report(
        shards=len(reports),
        records=sum(report.records for report in reports),
        bytes=sum(report.bytes for report in reports),
        deep=deep and any(feature.kind == "image" for feature in manifest.features.values()),
        damages=tuple(sorted(damages, key=_place)),
    )


def _place(damage: Damage) -> tuple[str, bool, int]:
    """Where a damage is listed: by file, bad records before what is wrong with all of it."""
    return damage.file, damage.record is None, damage.record or 0


def _check_manifest(manifest: Manifest) -> Iterator[str]:
    """Whether the manifest agrees with itself."""
    yield from manifest.open_items()
    for name, split in sorted(manifest.splits.items()):
        if split != SplitInfo.of(split.shards):
            yield f"the counts of {name} are not the sums over its shards"
        for number, shard in enumerate(split.shards):
            expected = shard_name(name, number, len(split.shards), manifest.compression)
            if shard.file != expected:
                yield f"expected shard {number} of {name} to be {expected}, got {shard.file}"
    if manifest.digest != digest_of(manifest.splits):
        yield "the digest is not that of the shards"


def _check_listing(dataset: Location, manifest: Manifest) -> Iterator[Damage]:
    """Shards and indexes that a reader would take for a part of the dataset."""
    known = set(manifest.paths())
    names = [entry.name for entry in dataset.list_dir() if _SHARD.fullmatch(entry.name)]
    try:
        indexes = [entry.name for entry in (dataset / INDEX).list_dir()]
    except MissingError:
        indexes = []
    names += [f"{INDEX}/{name}" for name in indexes if name.endswith(".parquet")]
    for name in names:
        if name not in known:
            yield Damage(file=name, what="is not in the manifest: remove it")


def _check_sidecars(dataset: Location, manifest: Manifest) -> Iterator[Damage]:
    for name, stated in manifest.files.items():
        try:
            with (dataset / name).open_input() as file:
                found = measure(file)
        except MissingError:
            yield Damage(file=name, what="the file is missing")
        else:
            yield from compare(name, found=found, stated=stated)


def _tasks(dataset: Location, manifest: Manifest, *, deep: bool) -> list[ShardTask]:
    return [
        ShardTask(
            dataset=dataset,
            split=name,
            shard=shard,
            index=index_name(name, number, len(split.shards)),
            compression=manifest.compression,
            features=manifest.features,
            labels=manifest.labels,
            label_offset=manifest.label_offset,
            deep=deep,
        )
        for name, split in sorted(manifest.splits.items())
        for number, shard in enumerate(split.shards)
    ]


def _check_weights(manifest: Manifest, reports: Sequence[ShardReport]) -> Iterator[Damage]:
    """Whether the class weights are those of the training split, whose indexes are sound."""
    originals = Counter(dict.fromkeys(manifest.labels, 0))
    for report in reports:
        if report.split == "train":
            originals.update(report.originals)
    if class_weights(originals) != manifest.class_weights:
        yield Damage(file=MANIFEST, what="the class weights are not those of the records of train")


def _check_leaks(tasks: Sequence[ShardTask], reports: Sequence[ShardReport]) -> Iterator[Damage]:
    """Keys and groups across splits: the first leak of every file."""
    parts: dict[str, list[Hashes]] = defaultdict(list)
    for report in reports:
        parts[report.split].append(report.hashes)
    hashes = suspects({split: Hashes.together(part) for split, part in parts.items()})
    if not hashes.size:
        return
    rows = (row for task in tasks for row in _suspect_rows(task, hashes))
    leaks: dict[str, list[Leak]] = defaultdict(list)
    for leak in find_leaks(rows):
        leaks[leak.row.file].append(leak)
    for file, (leak, *more) in leaks.items():
        what = f"{leak.what}: {leak.other.file}, record {leak.other.record}"
        what += f" ({len(more)} more like this)" if more else ""
        yield Damage(file=file, record=leak.row.record, key=leak.row.key, what=what)


def _suspect_rows(task: ShardTask, hashes: UInt64Array) -> Iterator[Row]:
    index, _ = check_index(task)
    if index is not None:
        yield from suspect_rows(index, hashes, split=task.split, file=task.shard.file)
