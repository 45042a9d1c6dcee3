"""The job of `recordmill adopt`, which holds the lock of its output and can be resumed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from recordmill.adopt import adoption
from recordmill.adopt.adoption import AdoptedContents, AdoptedShard, IndexTask
from recordmill.adopt.class_numbers import LabelError
from recordmill.adopt.feature_inference import InconsistentFeatureError
from recordmill.adopt.file_scan import Scan, ScanTask, scan_file
from recordmill.checking.shard_check import NO_DAMAGED_IMAGES, Damage, DamagedImages, verify_shard
from recordmill.checking.verify import all_damaged_images, decodes_images, shard_tasks
from recordmill.errors import ConfigError, RunError
from recordmill.format.file_info import FileInfo, file_info
from recordmill.format.manifest import Manifest
from recordmill.job import lock, publishing
from recordmill.job.publishing import check_output_folder
from recordmill.job.staging import FOLDER, Staging
from recordmill.notes import count_of
from recordmill.options import declaration as option_machinery
from recordmill.pipelines.commands.in_processes import in_processes
from recordmill.pipelines.earlier.published import Published, finish_publishing
from recordmill.pipelines.jobs.identity import job_id
from recordmill.pipelines.options.common.card import read_card
from recordmill.pipelines.options.common.labels_file import read_labels
from recordmill.pipelines.options.inputs.adopt_config import AdoptConfig
from recordmill.pipelines.options.inputs.adopt_input import AdoptListing, check_output, list_input
from recordmill.storage.files import Location, shown
from recordmill.storage.redaction import redact_uris

_DAMAGES = 20  # damaged files named in a message
_CHANGED = 3  # changed files named in a message
_IN_THIS_PROCESS = 500_000  # records whose index is written faster than processes start

Status = Literal["published", "unchanged", "described", "planned"]
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptOutcome:
    """The result of a job.

    manifest: of the dataset, also of one that --dry-run did not write.
    copied: number of files that could not be hard-linked.
    resumed: whether this run completed the publishing of an interrupted one.
    damaged_images: JPEGs that were decoded although their data is damaged, if images were decoded.
    """

    status: Status
    manifest: Manifest
    adopted: tuple[AdoptedShard, ...]
    copied: int = 0
    resumed: bool = False
    damaged_images: DamagedImages = NO_DAMAGED_IMAGES


class AdoptJob:
    """One run of `recordmill adopt`."""

    def __init__(self, config: AdoptConfig) -> None:
        self.config = config
        self.output = Location.parse(config.output)
        self.card = read_card(config.card)
        self.labels = read_labels(config.labels_file)
        self.shaping = {**option_machinery.shaping(config), "kind": adoption.KIND}
        if self.labels is not None:
            self.shaping["labels_file"] = list(self.labels)
        self.id = job_id(self.shaping)
        self.staging = Staging.of(self.output, self.id)
        self._damaged_images = NO_DAMAGED_IMAGES

    def run(
        self, *, on_listed: Callable[[int], None], on_scanned: Callable[[Scan], None]
    ) -> AdoptOutcome:
        """Adopt the files, or continue an interrupted run.

        on_listed: called with the number of files. on_scanned: called with each file's scan.

        Raises:
          ConfigError: options, input or output cannot work.
          RunError: a file cannot be adopted.
        """
        check_output(self.output)
        listed = list_input(self.config.input, output=self.output, split=self.config.split)
        check_output_folder(self.output)
        adopted = adoption.assign_shards(listed.originals, listed.compression)
        on_listed(len(adopted))
        with lock.hold_lock(self.output / FOLDER), self.staging.dropped_if_refused():
            return self._run(listed, adopted, on_scanned)

    def _run(
        self,
        listed: AdoptListing,
        adopted: Sequence[AdoptedShard],
        on_scanned: Callable[[Scan], None],
    ) -> AdoptOutcome:
        resumed = finish_publishing(self.staging, overwrite=self.config.overwrite)
        job = self._job(adopted)
        there = Published.find(self.output)
        if there is not None and self._is_same(there, job, adopted):
            status = there.describe(self.staging, self.card, config=self.config)
            self.staging.sweep()
            return AdoptOutcome(
                status=status,
                manifest=there.manifest,
                adopted=tuple(adopted),
                resumed=resumed,
                damaged_images=self._damaged_images,
            )
        staging = None if self.config.dry_run else self.staging
        if staging is not None:
            for name in ("shards", "scans", "info", "index"):
                staging.place(name).make_dirs()
            staging.begin()
        scans = self._scan(adopted, staging, on_scanned)
        findings = self._conclude(scans)
        indexes: list[tuple[dict[str, int], FileInfo]] = [({}, file_info(b"")) for _ in adopted]
        if staging is not None:
            tasks = [
                IndexTask(
                    adopted=one,
                    staging=staging,
                    classes=findings.classes,
                    label_offset=self.config.label_offset,
                )
                for one in adopted
            ]
            indexes = (
                [*map(adoption.write_index, tasks)]
                if findings.records < _IN_THIS_PROCESS
                else self._in_order(adoption.write_index, tasks)
            )
        manifest, files = adoption.make_manifest(
            adopted,
            scans,
            indexes,
            findings,
            options=self.shaping,
            label_offset=self.config.label_offset,
            left_out=listed.left_out,
            notes=listed.notes,
            job=job,
            card=self.card,
        )
        if staging is not None:
            problems = manifest.open_items()
            if problems:
                raise RunError("the ledger does not close: " + "; ".join(problems))
            if self.config.verify == "deep":
                damages = self._undecodable(staging.root, manifest, adopted, folder="shards/")
                if damages:
                    raise RunError(_damaged(damages, len(adopted)))
            publishing.stage_files(staging, manifest, files)
            publishing.publish(staging)
            staging.sweep()
        return AdoptOutcome(
            status="planned" if staging is None else "published",
            manifest=manifest,
            adopted=tuple(adopted),
            copied=sum(not one.linked for one in scans),
            resumed=resumed,
            damaged_images=self._damaged_images,
        )

    def _job(self, adopted: Sequence[AdoptedShard]) -> dict[str, Any]:
        """Return the content of job.json; its files identify the input."""
        return {
            "fingerprint": f"{self.id}-{adoption.input_fingerprint(adopted)}",
            "input": redact_uris(list(self.config.input)),
            "options": option_machinery.shaping(self.config),
            "files": {
                one.source.key: {
                    "shard": one.shard,
                    "size": one.source.size,
                    "mtime": one.source.mtime,
                }
                for one in adopted
            },
        }

    def _is_same(
        self, there: Published, job: Mapping[str, Any], adopted: Sequence[AdoptedShard]
    ) -> bool:
        """Return whether the published dataset is the one that this run would make.

        Raises:
          ConfigError: it is another dataset, and --overwrite is not given.
          RunError: it is the same dataset but lacks a file, and --overwrite is not given; or it has
            an image that cannot be decoded.
        """
        if there.job.get("fingerprint") == job["fingerprint"]:
            missing = there.missing()
            if missing is None and self.config.verify:
                changed = there.changed(self.config.workers)
                missing = f"{changed[0]} has other contents" if changed else None
            if missing is None and self.config.verify == "deep":
                self._refuse_undecodable(there, adopted)
            if missing is None:
                return True
            if not self.config.overwrite:
                raise RunError(
                    f"the dataset in {shown(self.output)} is damaged: {missing}; --overwrite adopts"
                    " the files again"
                )
        if self.config.overwrite:
            return False
        # The compression is a property of the files here, not an option.
        options = {**self.shaping, "compression": there.manifest.options.get("compression")}
        there.refuse_others(options, seed=0, encoders={})
        raise ConfigError(
            f"the input has changed since {shown(self.output)} was written"
            f" ({_difference(there.job.get('files', {}), job['files'])}): --overwrite replaces the"
            " dataset, another --output keeps it"
        )

    def _refuse_undecodable(self, there: Published, adopted: Sequence[AdoptedShard]) -> None:
        """Raise RunError if an image of the published dataset cannot be decoded."""
        if damages := self._undecodable(self.output, there.manifest, adopted):
            raise RunError(
                f"the dataset in {shown(self.output)} holds images that cannot be decoded:"
                f" {'; '.join(map(shown, damages[:_DAMAGES]))}: leave these files out, and adopt"
                " the others with --overwrite"
            )

    def _undecodable(
        self,
        place: Location,
        manifest: Manifest,
        adopted: Sequence[AdoptedShard],
        *,
        folder: str = "",
    ) -> list[Damage]:
        """Return the first record of each file that `verify --deep` reports.

        It also collects the damaged images that could be decoded.

        place: folder that holds the indexes, and below it `folder` the shards.
        """
        if not decodes_images(manifest.features):
            return []
        tasks = [
            dataclasses.replace(
                task,
                shard=dataclasses.replace(task.shard, file=f"{folder}{task.shard.file}"),
                max_record_bytes=self.config.max_record_bytes,
            )
            for task in shard_tasks(place, manifest, deep=True)
        ]
        keys = {f"{folder}{one.shard}": one.source.key for one in adopted}

        def named(damage: Damage) -> Damage:
            return dataclasses.replace(damage, file=keys.get(damage.file, damage.file), key=None)

        reports = list(self._in_order(verify_shard, tasks))
        images = all_damaged_images(reports)
        first = images.first
        self._damaged_images = DamagedImages(images.count, None if first is None else named(first))
        return [named(damage) for report in reports for damage in report.damages]

    def _scan(
        self,
        adopted: Sequence[AdoptedShard],
        staging: Staging | None,
        on_scanned: Callable[[Scan], None],
    ) -> list[Scan]:
        tasks = [
            ScanTask(
                source=one.source,
                name=one.shard,
                compression=one.compression,
                staging=staging,
                label_feature=self.config.label_feature,
                raw=self.config.raw,
                max_record_bytes=self.config.max_record_bytes,
            )
            for one in adopted
        ]
        scans = self._in_order(scan_file, tasks, on_done=on_scanned)
        damages = [one.damage for one in scans if one.damage is not None]
        if damages:
            raise RunError(_damaged(damages, len(scans)))
        if not any(one.records for one in scans):
            raise RunError(
                f"nothing was adopted: there is no record in {count_of(len(scans), 'file')}"
            )
        return scans

    def _conclude(self, scans: Sequence[Scan]) -> AdoptedContents:
        try:
            return adoption.infer_contents(
                scans,
                label_feature=self.config.label_feature,
                labels=self.labels,
                label_offset=self.config.label_offset,
                raw=self.config.raw,
            )
        except (InconsistentFeatureError, LabelError) as error:
            raise RunError(f"nothing was adopted: {error}") from error

    def _in_order(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        on_done: Callable[[Result], None] = lambda result: None,
    ) -> list[Result]:
        """Run tasks in processes and return the results in the order of the tasks."""
        numbered = [(number, task) for number, task in enumerate(tasks)]
        results: dict[int, Result] = {}
        call = functools.partial(_numbered, function)
        for number, result in in_processes(call, numbered, workers=self.config.workers):
            results[number] = result
            on_done(result)
        return [results[number] for number in range(len(tasks))]


def _numbered(function: Callable[[Task], Result], task: tuple[int, Task]) -> tuple[int, Result]:
    number, one = task
    return number, function(one)


def _damaged(damages: Sequence[Damage], files: int) -> str:
    if len(damages) == 1:
        return f"nothing was adopted: {shown(damages[0])}"
    more = len(damages) - _DAMAGES
    lines = [
        f"nothing was adopted: {len(damages)} of {files} files are damaged",
        *map(shown, damages[:_DAMAGES]),
        *([f"... and {more} more"] if more > 0 else []),
    ]
    return "\n  ".join(lines)


def _difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Return how two inputs differ: `new files: 2 ('a', 'b'); missing files: 1 ('c')`."""

    def some_of(names: Iterator[str], what: str) -> list[str]:
        found = sorted(names)
        some = ", ".join(map(repr, found[:_CHANGED])) + (", ..." if len(found) > _CHANGED else "")
        return [f"{what}: {len(found)} ({some})"] if found else []

    both = theirs.keys() & ours.keys()
    parts = [
        *some_of((name for name in ours if name not in theirs), "new files"),
        *some_of((name for name in theirs if name not in ours), "missing files"),
        *some_of(
            (name for name in both if theirs[name] != ours[name]), "modified or renumbered files"
        ),
    ]
    return "; ".join(parts) or "other files"
