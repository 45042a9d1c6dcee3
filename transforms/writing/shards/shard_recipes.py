"""Recipes of shards: a file per shard in staging, and one for the dataset when it is published."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from recordmill.format.manifest import RECIPES, Manifest
from recordmill.format.recipes import SCHEMA, write_recipes
from recordmill.job.staging import ShardInfo, Staging
from recordmill.storage.files import Location, results_of_each
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.reuse.row_recipes import header_of
from recordmill.transforms.staged.arrow_files import read_checked
from recordmill.transforms.staged.mapped_files import open_arrow
from recordmill.transforms.writing.shards.staged_file import StagedFile


class StagedRecipes(StagedFile):
    """Writes the recipes of a shard into staging."""

    def __init__(self, place: Location, draft: Location) -> None:
        super().__init__(place, draft)
        self._writer: Any = None

    def add(self, recipes: pa.RecordBatch) -> None:
        """Add the recipes of the next rows."""
        if self._writer is None:
            self._writer = self._keep(pa.ipc.new_file(self._open(), SCHEMA))
        self._writer.write_batch(recipes)

    def finish(self) -> None:
        """Move the complete file to its place."""
        self._complete()
        self._place.parent.sync_folder()


def all_have_recipes(infos: Sequence[ShardInfo]) -> bool:
    """Return whether all shards with records have recipes; False if there is none."""
    found = [info.has_recipes for info in infos if info.shard.records]
    return bool(found) and all(found)


def assemble_recipes(manifest: Manifest, infos: Iterable[ShardInfo], run: RunSpec) -> None:
    """Write the recipes of a dataset, if it has any, beside its other files in staging."""
    header = header_of(run.encoder, run.fingerprint)
    if not manifest.has_recipes or header is None:
        return
    place = run.staging.place(f"side/{RECIPES}")
    place.parent.make_dirs()
    header = dataclasses.replace(header, digest=manifest.digest)
    write_recipes(place, header, _shards(infos, run.staging))


def _shards(infos: Iterable[ShardInfo], staging: Staging) -> Iterator[pa.Table]:
    ordered = sorted(infos, key=lambda info: (info.split, info.number))
    places = [staging.place(info.staged_recipes) for info in ordered if info.shard.records]
    return results_of_each(_read, places, at=staging.intermediate)


def _read(place: Location) -> pa.Table:
    def read() -> pa.Table:
        found = pa.ipc.open_file(open_arrow(place)).read_all()
        found.validate()
        return found

    return read_checked(place, read)
