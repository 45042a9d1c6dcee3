"""Hashes for near duplicates, of the records that a finished dataset holds.

The images of a dataset are decoded as they are stored, after resizing and encoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, RecordError
from recordmill.format.file_names import index_of
from recordmill.format.manifest import Manifest
from recordmill.format.shard_index import read_index
from recordmill.option_names import option_name
from recordmill.reading.reader import Records
from recordmill.storage.files import Location, shown
from recordmill.tfrecord.features import Feature
from recordmill.transforms.encoders.clip_contents import hash_clip, sample_frames
from recordmill.transforms.encoders.image_contents import hash_column
from recordmill.transforms.imaging.image_options import PLAIN
from recordmill.transforms.imaging.pixels import decode
from recordmill.transforms.model import batch
from recordmill.transforms.model.ragged import fixed_lists, string_array
from recordmill.transforms.near_duplicates.image_hash import hash_pixels
from recordmill.transforms.near_duplicates.text_minhash import minhash

_IMAGE, _TEXT = "image/encoded", "text"
_FEATURES = {"images": _IMAGE, "video": _IMAGE, "text": _TEXT}  # by data type, before --rename
_ROWS = 1024  # records of a task


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredRecords:
    """Some records of a shard. feature: the one to hash. first: number of the shard's first record.

    rows: numbers of the records in the shard.
    """

    dataset: Location
    split: str
    shard: str
    feature: str
    first: int
    rows: range


def stored_feature(manifest: Manifest, kind: str) -> str:
    """Return the feature of a dataset that near duplicates of a data type are found by.

    Raises:
      ConfigError: the records have no such feature.
    """
    given = _FEATURES[kind]
    name = str(manifest.options.get("rename", {}).get(given, given))
    feature = manifest.features.get(name)
    if feature is None or not _is_hashable(feature, kind):
        what = "texts" if kind == "text" else "encoded images, or raw ones of uint8"
        raise ConfigError(
            f"its records cannot be compared by {option_name('near_duplicates')}: expected {what}"
            f" in the feature {name!r}"
        )
    return name


def _is_hashable(feature: Feature, kind: str) -> bool:
    if kind == "text":
        return feature.dtype == "string" and feature.shape == () and feature.kind != "raw"
    decodable = feature.kind == "image" or (feature.kind == "raw" and feature.raw_dtype == "uint8")
    return decodable and _holds_clips(feature) == (kind == "video")


def records_of(dataset: Location, manifest: Manifest, feature: str) -> Iterator[StoredRecords]:
    """Yield all records of a dataset, in parts for one task each."""
    for split, info in manifest.splits.items():
        first = 0
        for shard in info.shards:
            # In a gzip shard the records before a task's are inflated, too.
            step = _ROWS if manifest.compression == "none" else max(shard.records, 1)
            for start in range(0, shard.records, step):
                yield StoredRecords(
                    dataset=dataset,
                    split=split,
                    shard=shard.file,
                    feature=feature,
                    first=first,
                    rows=range(start, min(start + step, shard.records)),
                )
            first += shard.records


def hash_stored(records: StoredRecords) -> bytes:
    """Return the keys and hashes of records as an Arrow IPC stream; a task of encoder processes.

    Copies of oversampling are left out.

    Raises:
      ConfigError: an image cannot be decoded.
      FileDamagedError, IndexDamagedError: a file of the dataset is damaged.
    """
    rows, first = records.rows, records.first
    place = records.dataset / index_of(records.shard)
    index = read_index(place, columns=["key", "copy"]).slice(rows.start, len(rows))
    found = Records(records.dataset, records.split, features=[records.feature])
    values = [one[records.feature] for one in found.between(first + rows.start, first + rows.stop)]
    originals = pc.equal(index["copy"], 0).combine_chunks()
    keys = index["key"].combine_chunks().filter(originals)
    values = [value for value, kept in zip(values, originals.to_pylist(), strict=True) if kept]
    feature = found.manifest.features[records.feature]
    if feature.kind not in ("image", "raw"):
        hashes = fixed_lists(minhash(string_array([value.decode() for value in values])))
    else:
        hashes = hash_column(_each(values, keys, records, clips=_holds_clips(feature)))
    columns = {batch.KEY: keys, batch.NEAR: hashes}
    return batch.to_bytes(pa.RecordBatch.from_pydict(columns))


def _holds_clips(feature: Feature) -> bool:
    return feature.sequence or len(feature.raw_shape or ()) == 4


def _each(
    values: list[Any], keys: pa.Array, records: StoredRecords, *, clips: bool
) -> Iterator[int]:
    """Yield the hash of each stored image or clip."""
    for value, key in zip(values, keys.to_pylist(), strict=True):
        try:
            if clips:
                yield hash_clip([value[number] for number in sample_frames(len(value))])
            else:
                encoded = isinstance(value, bytes)
                yield int(hash_pixels(np.asarray(decode(value, PLAIN)) if encoded else value))
        except (RecordError, ValueError) as error:
            raise ConfigError(
                f"{shown(records.dataset)}: {records.shard}: the record {key!r} cannot be"
                f" compared: {error}"
            ) from error
