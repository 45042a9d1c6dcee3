"""Verifies a dataset: reads all of it, and compares it with its manifest and indexes."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from recordmill.checking.repeated_content import records_with, repeated_halves, report_on
from recordmill.checking.shard_check import (
    NO_DAMAGED_IMAGES,
    Damage,
    DamagedImages,
    ShardReport,
    ShardTask,
    check_index,
    compare_file,
    verify_shard,
)
from recordmill.checking.split_leakage import (
    IndexedRecord,
    Leak,
    ShardHashes,
    UInt64Array,
    find_leaks,
    suspect_hashes,
    suspect_records,
)
from recordmill.format import manifest as manifests
from recordmill.format.content_report import EXAMPLES, ContentReport
from recordmill.format.file_info import file_info, stream_info
from recordmill.format.file_names import INDEX, index_name, shard_name
from recordmill.format.manifest import (
    JOB,
    MANIFEST,
    RECIPES,
    REJECTS,
    JobContent,
    Manifest,
    ManifestError,
    SplitInfo,
    class_weights,
    digest_of,
)
from recordmill.format.recipes import Recipes, RecipesDamagedError
from recordmill.format.split_names import TRAIN
from recordmill.format.typed_json import parse_json, read_as
from recordmill.notes import count_of
from recordmill.storage.files import Location, MissingError
from recordmill.tfrecord.features import Features
from recordmill.tfrecord.framing import MAX_RECORD_BYTES

_SHARD = re.compile(r".+\.tfrecord-\d{5,}-of-\d{5,}(\.gz)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerificationReport:
    """Result of verifying a dataset.

    records, bytes: as read from the shards.
    deep: whether images were decoded.
    damages: all defects, sorted by file and record.
    replaced: whether a run replaced the dataset meanwhile, so that there is no result.
    damaged_images: JPEGs that were decoded although their data is damaged, which is no damage of
      the dataset.
    content: the report on equal contents that the manifest holds; None if there is none.
    """

    shards: int
    records: int
    bytes: int
    deep: bool
    damages: tuple[Damage, ...]
    damaged_images: DamagedImages = NO_DAMAGED_IMAGES
    content: ContentReport | None = None
    replaced: bool = False

    @property
    def ok(self) -> bool:
        """True if the dataset was read and has no defect."""
        return not self.damages and not self.replaced

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {"ok": self.ok, **dataclasses.asdict(self)}


Run = Callable[[Callable[[ShardTask], ShardReport], Iterable[ShardTask]], Iterable[ShardReport]]


def verify(
    dataset: Location,
    *,
    deep: bool = False,
    max_record_bytes: int = MAX_RECORD_BYTES,
    run: Run = map,
    on_progress: Callable[[ShardReport], None] = lambda report: None,
) -> VerificationReport:
    """Read every byte of a dataset and report its defects.

    deep: also decode every image and mask, and compare its size with the declared shape.
    max_record_bytes: the largest record that is inflated from gzip.
    run: maps a function over tasks, in this process or in a pool; results can be in any order.
    on_progress: called with the report of every shard.

    Raises:
      ManifestError: the folder is not a dataset.
      StorageError: an existing file cannot be read.
    """
    manifest = manifests.load(dataset)
    damages = [Damage(file=MANIFEST, what=what) for what in _check_manifest(manifest)]
    damages += _check_listing(dataset, manifest)
    damages += _check_sidecars(dataset, manifest)
    tasks = [
        dataclasses.replace(task, max_record_bytes=max_record_bytes)
        for task in shard_tasks(dataset, manifest, deep=deep)
    ]
    reports = []
    for report in run(verify_shard, tasks):
        on_progress(report)
        reports.append(report)
        damages += report.damages
    damages += _check_leaks(tasks, reports)
    if not damages:
        damages += _check_weights(manifest, reports)
        damages += _check_rejects(dataset, manifest)
        damages += _check_content(manifest, tasks, reports)
    return VerificationReport(
        shards=len(reports),
        records=sum(report.records for report in reports),
        bytes=sum(report.bytes for report in reports),
        deep=deep and decodes_images(manifest.features),
        damages=tuple(sorted(damages, key=_sort_key)),
        damaged_images=all_damaged_images(reports),
        content=manifest.content,
    )


def all_damaged_images(reports: Iterable[ShardReport]) -> DamagedImages:
    """Return the damaged images of all shards; the first one is that of the first file."""
    found = NO_DAMAGED_IMAGES
    for report in sorted(reports, key=lambda report: report.file):
        found = found.plus(report.damaged_images)
    return found


def check_manifest_sha256(dataset: Location, expected: str) -> None:
    """Compare dataset.json with a hash from elsewhere; it holds those of all other files.

    expected: in hex; some programs print it in upper case.

    Raises:
      ManifestError: there is no dataset.json, or it has another hash.
    """
    place = dataset / MANIFEST
    if not place.exists():
        manifests.load(dataset)  # raises
    found = file_info(place.read_bytes()).sha256
    if found != expected.lower():
        raise ManifestError(f"{MANIFEST} has the sha256 {found}, but expected {expected}")


def _sort_key(damage: Damage) -> tuple[str, bool, int]:
    """Return the sort key of a defect: by file, bad records before defects of the whole file."""
    return damage.file, damage.record is None, damage.record or 0


def _check_manifest(manifest: Manifest) -> Iterator[str]:
    """Yield contradictions within the manifest."""
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
    """Yield a defect for every shard and index in the folder that the manifest does not list."""
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
    """Yield a defect for every file beside the shards that is missing or has other content.

    Equal datasets can have different job.json files and recipes, so these must only be whole.
    """
    if not (dataset / JOB).exists():
        yield Damage(file=JOB, what="the file is missing")
    else:
        try:
            read_as(JobContent, parse_json((dataset / JOB).read_bytes()))
        except ValueError as error:
            yield Damage(file=JOB, what=f"it is invalid: {error}")
    yield from _check_recipes(dataset, manifest)
    for name, stated in manifest.files.items():
        try:
            with (dataset / name).open_input() as file:
                found = stream_info(file)
        except MissingError:
            yield Damage(file=name, what="the file is missing")
        else:
            yield from compare_file(name, found=found, stated=stated)


def _check_recipes(dataset: Location, manifest: Manifest) -> Iterator[Damage]:
    """Yield a defect if the dataset should have recipes, and they are missing or damaged."""
    if not manifest.has_recipes:
        return
    try:
        for _ in Recipes.open(dataset, manifest).shards():
            pass
    except MissingError:
        yield Damage(file=RECIPES, what="the file is missing")
    except RecipesDamagedError as error:
        yield Damage(file=RECIPES, what=str(error))


def decodes_images(features: Features) -> bool:
    """Return whether deep verification decodes anything."""
    return any(feature.kind in ("image", "mask") for feature in features.values())


def shard_tasks(dataset: Location, manifest: Manifest, *, deep: bool) -> list[ShardTask]:
    """Return the tasks that check the shards of a dataset."""
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
    """Yield a defect if class weights are not those of train, or of its records without copies.

    The latter cannot be checked if undersampling dropped records.
    """
    written = manifest.splits[TRAIN].classes if TRAIN in manifest.splits else {}
    counts = {label: written.get(label, 0) for label in manifest.labels}
    if class_weights(counts) != manifest.class_weights:
        yield Damage(file=MANIFEST, what="the class weights are not those of the records of train")
    originals = Counter(dict.fromkeys(manifest.labels, 0))
    for report in reports:
        if report.split == TRAIN and manifest.labels:  # the bins of --label-bins have no weights
            originals.update(report.originals)
    dropped = manifest.ledger.records.dropped
    if not dropped and class_weights(originals) != manifest.source_weights:
        what = "the source weights are not those of the records of train without copies"
        yield Damage(file=MANIFEST, what=what)


def _check_rejects(dataset: Location, manifest: Manifest) -> Iterator[Damage]:
    """Yield a defect if the ledger counts another number of rejects than rejects.jsonl lists."""
    if REJECTS not in manifest.files:
        return
    ledger = manifest.ledger
    stated = ledger.inputs.rejected + ledger.records.rejected
    with (dataset / REJECTS).open_input() as file:
        listed = sum(1 for _ in file)
    if listed != stated:
        what = (
            f"the ledger counts {stated} rejected inputs and records, but {REJECTS} has"
            f" {count_of(listed, 'line')}"
        )
        yield Damage(file=MANIFEST, what=what)


def _check_leaks(tasks: Sequence[ShardTask], reports: Sequence[ShardReport]) -> Iterator[Damage]:
    """Yield keys and groups that leak across splits: the first leak of every file."""
    parts: dict[str, list[ShardHashes]] = defaultdict(list)
    for report in reports:
        parts[report.split].append(report.hashes)
    hashes = suspect_hashes({split: ShardHashes.merge(part) for split, part in parts.items()})
    if not hashes.size:
        return
    records = (record for task in tasks for record in _suspect_records(task, hashes))
    leaks: dict[str, list[Leak]] = defaultdict(list)
    for leak in find_leaks(records):
        leaks[leak.record.file].append(leak)
    for file, (leak, *more) in leaks.items():
        what = f"{leak.what}: {leak.other.file}, record {leak.other.number}"
        what += f" ({len(more)} more like this)" if more else ""
        yield Damage(file=file, record=leak.record.number, key=leak.record.key, what=what)


def _check_content(
    manifest: Manifest, tasks: Sequence[ShardTask], reports: Sequence[ShardReport]
) -> Iterator[Damage]:
    """Yield a defect if the report on contents in the manifest is not that of the indexes."""
    halves = np.concatenate([np.zeros(0, np.uint64), *(one.hashes.contents for one in reports)])
    repeated = repeated_halves(halves)
    suspects = []
    for task in tasks if repeated.size else ():
        index, _ = check_index(task)
        if index is not None:
            suspects.append(records_with(index, repeated, split=task.split))
    found, _ = report_on(len(halves), repeated, suspects, listed=EXAMPLES)
    stated = manifest.content or ContentReport()
    if found != stated:
        yield Damage(
            file=MANIFEST,
            what=f"states {_shares(stated)}, the indexes hold {_shares(found)}",
        )


def _shares(report: ContentReport) -> str:
    return (
        f"{report.records} records with a hash of their content,"
        f" {report.leaks.contents} contents in several splits and"
        f" {report.conflicts.contents} with several labels"
    )


def _suspect_records(task: ShardTask, hashes: UInt64Array) -> Iterator[IndexedRecord]:
    index, _ = check_index(task)
    if index is not None:
        yield from suspect_records(index, hashes, split=task.split, file=task.shard.file)
