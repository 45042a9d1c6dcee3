"""The published dataset in an output folder, compared with the options of a new run.

The caller holds the lock of the output.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.format.manifest import JOB, MANIFEST, Manifest, load
from recordmill.format.typed_json import as_object
from recordmill.job import publishing
from recordmill.job.staging import Staging, to_json
from recordmill.storage.files import Location, shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """A published dataset. job: the content of its job.json."""

    output: Location
    manifest: Manifest
    job: Mapping[str, Any]

    @classmethod
    def find(cls, output: Location) -> Published | None:
        """Return the dataset in a folder, or None."""
        if not (output / MANIFEST).exists():
            return None
        manifest = load(output)
        return cls(
            output=output, manifest=manifest, job=Staging(output).read_json(JOB, as_object) or {}
        )

    def refuse_others(
        self, options: Mapping[str, Any], *, seed: int, encoders: Mapping[str, str]
    ) -> None:
        """Raise ConfigError with the differences, unless the dataset has the same options.

        options: those that shape bytes. encoders: {library: version}.
        """
        stated = self.manifest
        theirs = {**stated.options, "seed": stated.seed, **_versions(stated.encoders)}
        ours = {**options, "seed": seed, **_versions(encoders)}
        ours = json.loads(to_json(ours))  # as the manifest stores them: tuples become lists
        differ = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        if differ:
            shown_ = "; ".join(
                f"{_flag(name)} was {theirs.get(name)!r}, is {ours.get(name)!r}" for name in differ
            )
            raise ConfigError(
                f"{shown(self.output)} holds a dataset made with other options ({shown_}):"
                " --overwrite replaces it, another --output keeps it"
            )

    def missing(self) -> str | None:
        """Return a sentence about the first file that is missing or has another size, or None.

        `recordmill verify` checks the content as well.
        """
        for split in self.manifest.splits.values():
            for shard in split.shards:
                place = self.output / shard.file
                if not place.exists() or place.size() != shard.bytes:
                    return f"{shard.file} is missing or has another size"
        for name in self.manifest.paths():
            if not (self.output / name).exists():
                return f"{name} is missing"
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
    return name if " " in name else f"--{name.replace('_', '-')}"
