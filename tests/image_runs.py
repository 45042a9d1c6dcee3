"""Runs `recordmill images` in this process, and looks at what it made."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from recordmill.format.file_names import index_name
from recordmill.format.manifest import Manifest, load
from recordmill.format.shard_index import read_index
from recordmill.pipelines.cli import main
from recordmill.pipelines.jobs import listing
from recordmill.processes import pool
from recordmill.processes.pool import close_shared_pool, shared_pool
from recordmill.reading.reader import read_payloads
from recordmill.storage.files import Location
from recordmill.tfrecord.decode import decoder


def images(*argv: object) -> int:
    """The exit code."""
    return run("images", *argv)


def run(command: str, *argv: object) -> int:
    """The exit code of a command that makes a dataset."""
    return main([command, "--quiet", "--workers", "1", *map(str, argv)])


@contextlib.contextmanager
def encoders_kept(environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """The runs inside share two encoder processes: starting some for each would take most of it.

    environment: what else they, and the runs, find there.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        close_shared_pool()  # its processes have the environment of when they started
        shared_pool(2)
        patch.setattr(pool, "close_shared_pool", lambda: None)
        # They list nothing, because they do not know what a test patches.
        patch.setattr(listing, "running_pool", lambda: None)
        yield
    close_shared_pool()


@dataclasses.dataclass(frozen=True)
class Made:
    """A dataset, read through its index and our own reader."""

    folder: pathlib.Path

    @property
    def manifest(self) -> Manifest:
        return load(Location.parse(str(self.folder)))

    @property
    def rejects(self) -> dict[str, str]:
        """{key: reason}"""
        lines = (self.folder / "rejects.jsonl").read_bytes().splitlines()
        return {reject["key"]: reject["reason"] for reject in map(json.loads, lines)}

    def index(self, split: str) -> list[dict[str, Any]]:
        """key, label, copy and place of every record, in the order of the shards."""
        place = Location.parse(str(self.folder))
        shards = self.manifest.splits[split].shards
        names = [index_name(split, number, len(shards)) for number in range(len(shards))]
        return [row for name in names for row in read_index(place / name).to_pylist()]

    def keys(self, split: str) -> set[str]:
        return {row["key"] for row in self.index(split)}

    def examples(self, split: str = "train") -> dict[tuple[str, int], dict[str, Any]]:
        """{(key, copy): {feature: its values as a list}}"""
        rows = self.index(split)
        examples = map(decoder(self.manifest.features), read_payloads(self.folder, split))
        return {
            (row["key"], row["copy"]): {
                name: [] if value is None else list(value) for name, value in example.items()
            }
            for row, example in zip(rows, examples, strict=True)
        }


def make(folder: pathlib.Path, *argv: object, command: str = "images") -> Made:
    """The dataset that a run must succeed to write into `folder`."""
    assert run(command, "--output", folder, *argv) == 0
    return Made(folder)
