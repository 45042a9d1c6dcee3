"""The datasets of --exclude-like, whose contents are gathered before the pipeline runs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from recordmill.errors import ConfigError
from recordmill.format import manifest as manifests
from recordmill.format.content_hashes import hash_halves
from recordmill.format.file_names import index_of
from recordmill.format.manifest import Manifest, ManifestError
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.job.staging import Staging
from recordmill.pipelines.options.data_types import content_of
from recordmill.processes.pool import shared_pool
from recordmill.reading.tfrecord_files import FileDamagedError
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import NearDuplicates
from recordmill.transforms.model.known_content import KnownContents
from recordmill.transforms.near_duplicates.bands import bands_of
from recordmill.transforms.near_duplicates.known_hashes import KnownHashes, write_hashes

_FLAG = "--exclude-like"


@dataclasses.dataclass(frozen=True)
class KnownDatasets:
    """Datasets whose records are to be left out, by their content.

    features: the feature of each dataset that near duplicates are found by; empty if they are not
      compared.
    near: the rule by which records are near duplicates.
    """

    datasets: tuple[tuple[Location, Manifest], ...]
    features: tuple[str, ...] = ()
    near: NearDuplicates | None = None

    @classmethod
    def open(cls, paths: Sequence[str], *, kind: str, near: NearDuplicates | None) -> KnownDatasets:
        """Read the manifests of datasets, to be compared with records of a data type.

        near: the rule of near duplicates; None leaves out equal records only.

        Raises:
          ConfigError: a path is not a dataset, its indexes have no hashes of contents, its data
            type cannot have equal contents, or its records no near duplicates.
        """
        found = []
        features = []
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
            other = manifest.command
            compared = {content_of(kind), content_of(other)}
            if len(compared) > 1 and None not in compared:
                raise ConfigError(
                    f"{_FLAG} {path}: expected a dataset that recordmill {kind} wrote, got one of"
                    f" {other}: their contents are never equal"
                )
            if near is not None:
                # Only this needs the libraries of images, which take time to import.
                from recordmill.transforms.encoders.stored_hashes import stored_feature

                try:
                    features.append(stored_feature(manifest, kind))
                except ConfigError as error:
                    raise ConfigError(f"{_FLAG} {path}: {error}") from error
            found.append((place, manifest))
        return cls(tuple(found), tuple(features), near)

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
        if self.near is not None:  # the records count as well, and not only their sources
            indexes += [manifest.digest for _, manifest in self.datasets]
        return {"exclude_like": hashlib.sha256("".join(sorted(indexes)).encode()).hexdigest()}

    def stage(self, staging: Staging, *, workers: int) -> KnownContents | None:
        """Write the contents of all datasets into staging; None without datasets.

        workers: encoder processes that hash records; 0 is one per core.

        Raises:
          ConfigError: a file of a dataset is damaged.
        """
        if not self.datasets:
            return None
        name = f"known/{self.shaping['exclude_like']}"
        place = staging.place(name)
        if not place.exists():
            hashes = np.unique(np.concatenate([*self._hashes()]), axis=0)
            place.parent.make_dirs()
            place.write_bytes(hashes.tobytes())
        if self.near is None:
            return KnownContents(place=place)
        similar = KnownHashes(place=staging.place(f"{name}.arrow"), bands=bands_of(self.near))
        if not similar.place.exists():
            self._write_hashes(similar, workers)
        return KnownContents(place=place, similar=similar)

    def _write_hashes(self, hashes: KnownHashes, workers: int) -> None:
        """Hash the records of all datasets, and write the hashes."""
        from recordmill.transforms.encoders.stored_hashes import hash_stored, records_of

        pool = shared_pool(workers)
        futures = [
            pool.submit(hash_stored, records)
            for (place, manifest), feature in zip(self.datasets, self.features, strict=True)
            for records in records_of(place, manifest, feature)
        ]
        try:
            found = [batch.from_bytes(future.result()) for future in futures]
        except (FileDamagedError, IndexDamagedError) as error:
            raise ConfigError(f"{_FLAG}: {error}") from error
        finally:
            for future in futures:
                future.cancel()
        write_hashes(batch.concat(found), hashes)

    def _hashes(self) -> Iterator[np.ndarray]:
        yield np.zeros((0, 2), np.uint64)
        for place, manifest in self.datasets:
            for split in manifest.splits.values():
                for shard in split.shards:
                    index = place / index_of(shard.file)
                    try:
                        table = read_index(
                            index, columns=["content"], records=shard.records, stated=shard.index
                        )
                    except IndexDamagedError as error:
                        raise ConfigError(f"{_FLAG}: {place.spelling}: {error}") from error
                    if "content" in table.column_names:
                        found = table["content"].drop_null().combine_chunks()
                        if len(found):
                            yield np.unique(hash_halves(found), axis=0)
