"""The published dataset in an output folder, compared with the options of a new run.

The caller holds the lock of the output.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from recordmill.errors import ConfigError, RunError
from recordmill.format.dataset_card import DatasetCard
from recordmill.format.file_info import FileInfo, stream_info
from recordmill.format.file_names import index_name
from recordmill.format.manifest import JOB, MANIFEST, JobContent, Manifest
from recordmill.format.metadata_files import add_metadata
from recordmill.job import publishing
from recordmill.job.staging import Staging, to_json
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.options.option_text import option_name, option_text
from recordmill.printable import printable
from recordmill.processes.pool import process_count
from recordmill.storage.files import Location, MissingError, shown, sync_folders
from recordmill.storage.redaction import redact_uri
from recordmill.transforms.sources.row_formats.values.nested import is_pattern

if TYPE_CHECKING:
    from recordmill.pipelines.options.inputs.adopt_config import AdoptConfig


@dataclasses.dataclass(frozen=True)
class Damaged:
    """Damage of a dataset. shards: those to write again; None if other files are damaged."""

    shards: frozenset[str] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """A published dataset. job: the content of its job.json."""

    output: Location
    manifest: Manifest
    job: Mapping[str, Any]

    @classmethod
    def find(cls, output: Location) -> Published | None:
        """Return the dataset in a folder, or None."""
        content = (output / MANIFEST).read_if_exists()
        if content is None:
            return None
        manifest = Manifest.from_bytes(content)
        return cls(
            output=output, manifest=manifest, job=Staging(output).read_json(JOB, JobContent) or {}
        )

    def refuse_others(
        self, options: Mapping[str, Any], *, seed: int, encoders: Mapping[str, str]
    ) -> None:
        """Raise ConfigError with the differences, unless the dataset has the same options.

        options: those that shape bytes. encoders: {library: version}.
        """
        stated = self.manifest
        if (command := options.get("kind", "adopt")) != stated.command:
            raise ConfigError(
                f"{shown(self.output)} holds a dataset made by recordmill {stated.command}, not by"
                f" recordmill {command}: --overwrite replaces it, another --output keeps it"
            )
        theirs = {**stated.options, "seed": stated.seed, **_versions(stated.encoders)}
        ours = {**options, "seed": seed, **_versions(encoders)}
        # The manifest has the number of the first class, which may follow from the input.
        theirs["label_offset"] = self._given("label_offset", ours.get("label_offset"))
        ours = json.loads(to_json(ours))  # as the manifest stores them: tuples become lists
        for name, value in ours.items():  # and it has the columns that patterns match
            if isinstance(value, list | dict) and any(is_pattern(str(one)) for one in value):
                theirs[name] = self._given(name, theirs.get(name))
        differ = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        if differ:
            values = {
                name: [option_text(one.get(name)) for one in (theirs, ours)] for name in differ
            }
            shown_ = "; ".join(
                f"{_flag(name)} was {before}, is {now}" for name, (before, now) in values.items()
            )
            raise ConfigError(
                f"{shown(self.output)} holds a dataset made with other options ({shown_}):"
                " --overwrite replaces it, another --output keeps it"
            )

    def _given(self, name: str, default: Any) -> Any:
        """Return an option as it was given, or the default if job.json does not say."""
        options = self.job.get("options")
        return options.get(name, default) if isinstance(options, Mapping) else default

    def find_damage(self, config: CommonConfig) -> Damaged | None:
        """Return the damaged files, None if there are none.

        With --verify contents are compared, otherwise sizes.

        Raises:
          RunError: there is damage that only --verify or --overwrite may repair.
        """
        missing = None if "fingerprint" in self.job else f"{JOB} is missing or has no fingerprint"
        if missing is None and config.verify:
            return self._damaged_shards(self.changed(config.workers))
        missing = missing or self.missing()
        if missing is None:
            return None
        if not config.overwrite:
            repair = "" if config.verify else " with --verify to write damaged shards again, or"
            raise RunError(
                f"the dataset in {shown(self.output)} is damaged: {missing};"
                f" run the same command{repair} with --overwrite to write everything again"
            )
        return Damaged(shards=None)

    def changed(self, workers: int) -> list[str]:
        """Return the files that are missing or have other contents than the manifest says.

        workers: number of threads; 0 is one per core.
        """
        stated: dict[str, FileInfo] = dict(self.manifest.files)
        for name, split in self.manifest.splits.items():
            for number, shard in enumerate(split.shards):
                stated[shard.file] = FileInfo(bytes=shard.bytes, sha256=shard.sha256)
                stated[index_name(name, number, len(split.shards))] = shard.index
        with ThreadPoolExecutor(process_count(workers)) as threads:  # hashing needs no GIL
            found = threads.map(self._info, stated)
            return [name for name, info in zip(stated, found, strict=True) if info != stated[name]]

    def _damaged_shards(self, changed: Collection[str]) -> Damaged | None:
        if not changed:
            return None
        of_shard: dict[str, str] = {}
        for name, split in self.manifest.splits.items():
            for number, shard in enumerate(split.shards):
                index = index_name(name, number, len(split.shards))
                of_shard |= {shard.file: shard.file, index: shard.file}
        if all(name in of_shard for name in changed):
            return Damaged(shards=frozenset(of_shard[name] for name in changed))
        return Damaged(shards=None)

    def _info(self, name: str) -> FileInfo | None:
        try:
            with (self.output / name).open_input() as file:
                return stream_info(file)
        except MissingError:
            return None

    def repair(self, staging: Staging, shards: Collection[str]) -> tuple[str, ...]:
        """Replace damaged shards by those in staging, and return their names.

        Each file becomes what the manifest says, so that readers are not disturbed, and a rerun
        continues after a kill.

        Raises:
          RunError: a shard in staging is not the one that the manifest names.
        """
        moved = []
        for name, split in self.manifest.splits.items():
            for number, shard in enumerate(split.shards):
                if shard.file not in shards:
                    continue
                info = staging.shard_info(shard.file)
                if info is None or info.shard != shard:
                    raise RunError(
                        f"{shard.file} was written again with other content than its manifest"
                        f" says, so {shown(self.output)} was left as it is: --overwrite writes"
                        " the whole dataset again"
                    )
                index = index_name(name, number, len(split.shards))
                moved += [(info.staged_shard, shard.file), (info.staged_index, index)]
        for staged, target in moved:
            (self.output / target).parent.make_dirs()
            staging.place(staged).rename_to(self.output / target)
        sync_folders([self.output / target for _, target in moved], top=self.output)
        return tuple(sorted(shards))

    def describe(
        self, staging: Staging, card: DatasetCard | None, *, config: CommonConfig | AdoptConfig
    ) -> Literal["unchanged", "described"]:
        """Replace the card, and the files that follow from it, if it is another one.

        It neither reads nor writes shards. With --dry-run it does nothing.
        """
        if card == self.manifest.card or config.dry_run:
            return "unchanged"
        manifest, files = add_metadata(
            self.manifest, card, places_of=lambda name: (self.output / name,)
        )
        if "options" in self.job:
            path = None if config.card is None else redact_uri(config.card)
            job = {**self.job, "options": {**self.job["options"], "card": path}}
            files[JOB] = to_json(job) + b"\n"
        publishing.replace_files(staging, manifest, files)
        return "described"

    def missing(self) -> str | None:
        """Return a sentence about the first file that is missing or has another size, or None.

        Contents are not read: `recordmill verify` and --verify check them.
        """
        stated: dict[str, int | None] = dict.fromkeys(self.manifest.paths())
        stated |= {name: info.bytes for name, info in self.manifest.files.items()}
        for name, split in self.manifest.splits.items():
            for number, shard in enumerate(split.shards):
                stated[shard.file] = shard.bytes
                stated[index_name(name, number, len(split.shards))] = shard.index.bytes
        for name, size in stated.items():
            place = self.output / name
            if not place.exists():
                return f"{name} is missing"
            if size is not None and place.size() != size:
                return f"{name} has another size"
        return None


def finish_publishing(staging: Staging, *, overwrite: bool) -> bool:
    """Complete the publishing of an interrupted run and return whether there was one.

    overwrite: discard the unfinished publishing of a job with other options.
    """
    stale = publishing.interrupted(staging.output)
    if stale is None or (stale.root != staging.root and overwrite):
        return False
    publishing.finish(stale)
    stale.sweep()
    return True


def _versions(encoders: Mapping[str, str]) -> dict[str, str]:
    return {f"the version of {name}": version for name, version in encoders.items()}


def _flag(name: str) -> str:
    return name if " " in name else option_name(name)


def warn_complete(prog: str, what: str) -> None:
    """Print a warning about a failure after the dataset was published."""
    print(f"{prog}: warning: the dataset is complete, but {printable(what)}", file=sys.stderr)
