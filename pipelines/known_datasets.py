"""The datasets of --exclude-like, whose contents are gathered before the pipeline runs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format import manifest as manifests
from recordmill.format.manifest import Manifest, ManifestError, index_of
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.model.known_content import KnownContents, pairs_of

_FLAG = "--exclude-like"

# What the hash of a record covers, by data type.
_CONTENTS = {
    "images": "file",
    "arrays": "numbers",
    "video": "frames",
    "table": "columns",
    "text": "columns",
}


@dataclasses.dataclass(frozen=True)
class KnownDatasets:
    """Datasets whose records are to be left out, by their content."""

    datasets: tuple[tuple[Location, Manifest], ...]

    @classmethod
    def open(cls, paths: Sequence[str], *, kind: str) -> KnownDatasets:
        """Read the manifests of datasets, to be compared with records of a data type.

        Raises:
          ConfigError: a path is not a dataset, its indexes have no hashes of contents, or its data
            type cannot have equal contents.
        """
        found = []
        for path in paths:
            place = Location.parse(path)
            try:
                manifest = manifests.load(place)
            except ManifestError as error:
                raise ConfigError(f"{_FLAG} {path}: {error}") from error
            if manifest.content is None:
                raise ConfigError(
                    f"{_FLAG} {path}: its indexes have no hashes of contents: expected a dataset"
                    " that recordmill wrote, not one that it adopted or that has packed texts"
                )
            other = str(manifest.options.get("kind"))
            compared = {_CONTENTS.get(name) for name in (kind, other)}
            if len(compared) > 1 and None not in compared:
                raise ConfigError(
                    f"{_FLAG} {path}: expected a dataset that recordmill {kind} wrote, got one of"
                    f" {other}: their contents are never equal"
                )
            found.append((place, manifest))
        return cls(tuple(found))

    @property
    def shaping(self) -> dict[str, Any]:
        """Option values that identify the contents; empty without datasets."""
        if not self.datasets:
            return {}
        indexes = [
            shard.index.sha256
            for _, manifest in self.datasets
            for split in manifest.splits.values()
            for shard in split.shards
        ]
        return {"exclude_like": hashlib.sha256("".join(sorted(indexes)).encode()).hexdigest()}

    def stage(self, staging: Staging) -> KnownContents | None:
        """Write the contents of all datasets into staging; None without datasets.

        Raises:
          ConfigError: an index is damaged.
        """
        if not self.datasets:
            return None
        name = f"known/{self.shaping['exclude_like']}"
        place = staging.place(name)
        if not place.exists():
            hashes = np.unique(np.concatenate([*self._hashes()]))
            place.parent.make_dirs()
            place.write_bytes(hashes.tobytes())
        return KnownContents(path=place.spelling)

    def _hashes(self) -> Iterator[np.ndarray]:
        yield pairs_of(pa.array([], pa.binary(16)))
        for place, manifest in self.datasets:
            for split in manifest.splits.values():
                for shard in split.shards:
                    index = place / index_of(shard.file)
                    try:
                        table = read_index(index, columns=["content"], records=shard.records)
                    except IndexDamagedError as error:
                        raise ConfigError(f"{_FLAG}: {index.spelling}: {error}") from error
                    if "content" in table.column_names:
                        found = table["content"].drop_null().combine_chunks()
                        if len(found):
                            yield np.unique(pairs_of(found))
