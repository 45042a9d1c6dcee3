"""Adopting files as a job: under the lock of its output, and gone on with after a stop."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from recordmill.adopt import adoption
from recordmill.adopt.adoption import Adopted, AdoptedContents, IndexTask
from recordmill.adopt.class_numbers import LabelError
from recordmill.adopt.feature_inference import UnlikeError
from recordmill.adopt.file_scan import Scan, ScanTask, scan
from recordmill.checking.shard_check import Damage
from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import Manifest
from recordmill.job import lock, publishing
from recordmill.job.outputs import refuse_foreign
from recordmill.job.staging import FOLDER, Staging, to_json
from recordmill.pipelines.commands.adopt_config import AdoptConfig
from recordmill.pipelines.commands.adopt_input import AdoptListing, check_output, list_input
from recordmill.pipelines.commands.in_processes import in_processes
from recordmill.pipelines.options import declaration as option_machinery
from recordmill.pipelines.options.labels_file import read_labels
from recordmill.pipelines.published import Published, finish_publishing
from recordmill.storage.files import Location, shown

_TOLD = 20  # damaged files in a message
_CHANGED = 3  # files of another input
_LITTLE = 500_000  # records

Status = Literal["published", "unchanged", "planned"]
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptOutcome:
    """How a job ended. manifest: of the dataset; with --dry-run the one that there would be.

    copied: files that could not be linked. resumed: it finished the publishing of another run.
    """

    status: Status
    manifest: Manifest
    adopted: tuple[Adopted, ...]
    copied: int = 0
    resumed: bool = False


class AdoptJob:
    """One run of one command."""

    def __init__(self, config: AdoptConfig) -> None:
        self.config = config
        self.output = Location.parse(config.output)
        self.labels = read_labels(config.labels_file)
        self.shaping = {**option_machinery.shaping(config), "kind": adoption.KIND}
        if self.labels is not None:
            self.shaping["labels_file"] = list(self.labels)
        self.id = hashlib.sha256(to_json(self.shaping)).hexdigest()[:16]
        self.staging = Staging.of(self.output, self.id)

    def run(
        self, *, on_listed: Callable[[int], None], on_scanned: Callable[[Scan], None]
    ) -> AdoptOutcome:
        """Does what is left to do. on_listed: told how many files there are.

        Raises:
          ConfigError, RunError
        """
        check_output(self.output)
        listed = list_input(self.config.input, output=self.output, split=self.config.split)
        refuse_foreign(self.output)
        adopted = adoption.assign(listed.originals, listed.compression)
        on_listed(len(adopted))
        with lock.held(self.output / FOLDER):
            fresh = not self.staging.root.exists()
            try:
                return self._run(listed, adopted, on_scanned)
            except ConfigError:
                if fresh:
                    self.staging.root.delete_tree()
                raise

    def _run(
        self, listed: AdoptListing, adopted: Sequence[Adopted], on_scanned: Callable[[Scan], None]
    ) -> AdoptOutcome:
        resumed = finish_publishing(self.staging, overwrite=self.config.overwrite)
        job = self._job(adopted)
        there = Published.find(self.output)
        if there is not None and self._is_same(there, job):
            self.staging.sweep()
            return AdoptOutcome(
                status="unchanged",
                manifest=there.manifest,
                adopted=tuple(adopted),
                resumed=resumed,
            )
        staging = None if self.config.dry_run else self.staging
        if staging is not None:
            for name in ("shards", "scans", "info", "index"):
                staging.place(name).make_dirs()
            staging.begin()
        scans = self._scan(adopted, staging, on_scanned)
        findings = self._conclude(scans)
        counts: list[dict[str, int]] = [{} for _ in adopted]
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
            # A little is done sooner than processes have started.
            little = findings.records < _LITTLE
            counts = (
                [*map(adoption.write_index, tasks)]
                if little
                else self._in_order(adoption.write_index, tasks)
            )
        manifest, files = adoption.describe(
            adopted,
            scans,
            counts,
            findings,
            options=self.shaping,
            label_offset=self.config.label_offset,
            left_out=listed.left_out,
            notes=listed.notes,
            job=job,
        )
        if staging is not None:
            problems = manifest.open_items()
            if problems:
                raise RunError("the ledger does not close: " + "; ".join(problems))
            publishing.stage_files(staging, manifest, files)
            publishing.publish(staging)
            staging.sweep()
        return AdoptOutcome(
            status="planned" if staging is None else "published",
            manifest=manifest,
            adopted=tuple(adopted),
            copied=sum(not one.linked for one in scans),
            resumed=resumed,
        )

    def _job(self, adopted: Sequence[Adopted]) -> dict[str, Any]:
        """What job.json holds: by its files another input can be told from this one."""
        return {
            "fingerprint": f"{self.id}-{adoption.fingerprint(adopted)}",
            "input": list(self.config.input),
            "options": option_machinery.shaping(self.config),
            "files": {
                one.original.key: {
                    "shard": one.shard,
                    "size": one.original.size,
                    "mtime": one.original.mtime,
                }
                for one in adopted
            },
        }

    def _is_same(self, there: Published, job: Mapping[str, Any]) -> bool:
        """Whether the dataset that is there is the one that is asked for.

        Raises:
          ConfigError: it is another one, and is not to be replaced.
          RunError: it is, and lacks a file.
        """
        if there.job.get("fingerprint") == job["fingerprint"]:
            missing = there.missing()
            if missing is None:
                return True
            if not self.config.overwrite:
                raise RunError(
                    f"the dataset in {shown(self.output)} is damaged: {missing}; --overwrite adopts"
                    " the files anew"
                )
        if self.config.overwrite:
            return False
        # How its files are compressed is no option here.
        options = {**self.shaping, "compression": there.manifest.options.get("compression")}
        there.refuse_others(options, seed=0, encoders={})
        raise ConfigError(
            f"the input has changed since {shown(self.output)} was made"
            f" ({_difference(there.job.get('files', {}), job['files'])}): --overwrite replaces the"
            " dataset, another --output keeps it"
        )

    def _scan(
        self,
        adopted: Sequence[Adopted],
        staging: Staging | None,
        on_scanned: Callable[[Scan], None],
    ) -> list[Scan]:
        tasks = [
            ScanTask(
                original=one.original,
                name=one.shard,
                compression=one.compression,
                staging=staging,
                label_feature=self.config.label_feature,
                raw=self.config.raw,
            )
            for one in adopted
        ]
        scans = self._in_order(scan, tasks, on_done=on_scanned)
        damages = [one.damage for one in scans if one.damage is not None]
        if damages:
            raise RunError(_damaged(damages, len(scans)))
        if not any(one.records for one in scans):
            raise RunError(f"nothing was adopted: no record is in {len(scans)} files")
        return scans

    def _conclude(self, scans: Sequence[Scan]) -> AdoptedContents:
        try:
            return adoption.conclude(
                scans,
                label_feature=self.config.label_feature,
                labels=self.labels,
                label_offset=self.config.label_offset,
                raw=self.config.raw,
            )
        except (UnlikeError, LabelError) as error:
            raise RunError(f"nothing was adopted: {error}") from error

    def _in_order(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        on_done: Callable[[Result], None] = lambda result: None,
    ) -> list[Result]:
        """The results in the order of the tasks, however they come."""
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
    more = len(damages) - _TOLD
    lines = [
        f"nothing was adopted: {len(damages)} of {files} files are not as they should be",
        *map(shown, damages[:_TOLD]),
        *([f"... and {more} more"] if more > 0 else []),
    ]
    return "\n  ".join(lines)


def _difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """How two inputs differ: `2 files are new ('a', 'b'), 1 is gone ('c')`."""

    def told(names: Iterator[str], what: str) -> list[str]:
        found = sorted(names)
        some = ", ".join(map(repr, found[:_CHANGED])) + (", ..." if len(found) > _CHANGED else "")
        return [f"{what}: {len(found)} ({some})"] if found else []

    both = theirs.keys() & ours.keys()
    parts = [
        *told((name for name in ours if name not in theirs), "new files"),
        *told((name for name in theirs if name not in ours), "gone"),
        *told((name for name in both if theirs[name] != ours[name]), "written to, or renumbered"),
    ]
    return "; ".join(parts) or "other files"
