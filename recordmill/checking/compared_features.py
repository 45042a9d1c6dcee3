"""Features that `recordmill diff` compares by stored values, in addition to hashes of contents.

The hash of a record's content covers the file, array or row that it was made of. It covers neither
annotations, such as masks, boxes and captions, nor columns of a listing, numbers to predict and
weights. These values can be compared if both datasets were made with the same options, except for
options that choose, divide or order records.

Records of different sources, as in a dataset that was made from another one, have different hashes.
They are equal if all their stored values are, except for those that name the source or the class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xxhash

from recordmill.format.manifest import Manifest
from recordmill.notes import count_of
from recordmill.tfrecord.features import Feature
from recordmill.tfrecord.typed_records import TypedRecord

# Options that choose, divide or order records, and do not shape them.
_PLACING = frozenset([
    "splits", "split_column", "split_from", "split_map", "stratify", "group_column", "key_column",
    "conflicts", "dedup", "near_distance", "near_duplicates", "near_similarity", "balance",
    "balance_target", "num_shards", "shard_size", "compression", "limit", "limit_per_class",
    "include_labels", "exclude_labels", "fold_labels", "labels_file", "label_offset", "min_size",
    "where", "absent_images",
    "statistics", "schema", "on_violation", "unlabelled", "unannotated", "unmasked",
    "without_boxes", "comment"
])  # fmt: skip
# Features that follow from the content, the key or the class of a record, by their usual names.
_DERIVED = frozenset([
    "array/class/text", "array/dtype", "array/encoded", "array/filename", "array/shape",
    "array/start", "array/values", "audio/channels", "audio/class/text", "audio/encoded",
    "audio/filename", "audio/format", "audio/melspectrogram", "audio/sample_rate",
    "audio/samples", "audio/seconds", "audio/shape", "audio/start/timestamp",
    "audio/waveform", "clip/data_path", "clip/end/timestamp", "clip/frames",
    "clip/label/string", "clip/shape", "clip/start/timestamp", "image/channels",
    "image/class/one_hot", "image/class/text", "image/encoded", "image/filename",
    "image/format", "image/frame_rate", "image/height", "image/key/sha256", "image/source_id",
    "image/timestamp", "image/width"
])  # fmt: skip
# Features that name the source of a record or its class, which is compared by its name.
_NAMES = frozenset([
    "array/class/text", "array/filename", "audio/class/text", "audio/filename",
    "clip/data_path", "clip/label/string", "image/class/one_hot", "image/class/text",
    "image/filename", "image/key/sha256", "image/source_id"
])  # fmt: skip
_OF_ROWS = ("table", "text")  # the hash of a row covers all columns but these features:
_BESIDE_ROWS = ("label", "weight")
_SEPARATE = 32  # features whose differences are counted one by one


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedFeatures:
    """Features whose stored values are compared.

    names: the features.
    unlike: the options and libraries that differ, so that no values are compared.
    whole: features whose equal values make records of different hashes equal; None if the records
      of the two datasets do not have the same features.
    """

    names: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    whole: tuple[str, ...] | None = None

    @classmethod
    def of(cls, before: Manifest, after: Manifest, *, hashed: bool) -> ComparedFeatures:
        """Return the features to compare. hashed: whether the indexes have hashes of contents."""
        forms, others = _forms(before), _forms(after)
        whole = tuple(forms) if forms == others else None
        if not hashed:
            names = [name for name, form in forms.items() if others.get(name) == form]
            return cls(names=tuple(names), whole=whole)
        names = [
            name
            for name, feature in before.features.items()
            if feature == after.features.get(name)
            and feature.kind != "label"  # numbers of classes, which are compared by their names
            and not _is_derived(name, feature, before)
        ]
        unlike = tuple(_unlike(before, after)) if names else ()
        return cls(names=() if unlike else tuple(names), unlike=unlike, whole=whole)

    @property
    def titles(self) -> tuple[str, ...]:
        """Names of the columns of `hashes`: a feature each, and one for all others."""
        others = len(self.names) - _SEPARATE
        if others <= 0:
            return self.names
        return (*self.names[:_SEPARATE], count_of(others, "other feature"))

    def hashes(self, record: TypedRecord) -> list[int]:
        """Return the hash of each of the columns of a record."""
        groups = [*((name,) for name in self.names[:_SEPARATE]), self.names[_SEPARATE:]]
        return [_hash(record[name] for name in group) for group in groups if group]


def hash_of(record: TypedRecord, names: Sequence[str]) -> int:
    """Return the hash of the values of features of a record."""
    return _hash(record[name] for name in names)


def _forms(manifest: Manifest) -> dict[str, tuple[object, ...]]:
    """Return {feature: form of its values}, without names of the source and the class."""
    renamed = {new: old for old, new in manifest.options.get("rename", {}).items()}
    return {
        name: _form(feature)
        for name, feature in sorted(manifest.features.items())
        if feature.kind != "label" and renamed.get(name, name) not in _NAMES
    }


def _form(feature: Feature) -> tuple[object, ...]:
    # A value that is never null, and a list of any length, may hold the same.
    shape = (None,) if feature.shape in ((), (1,)) else feature.shape
    raw = feature.raw_dtype if feature.kind == "raw" else None
    return feature.dtype, shape, feature.sequence, raw


def _is_derived(name: str, feature: Feature, manifest: Manifest) -> bool:
    if manifest.command in _OF_ROWS:
        return name not in _BESIDE_ROWS
    renamed = {new: old for old, new in manifest.options.get("rename", {}).items()}
    return renamed.get(name, name) in _DERIVED


def _unlike(before: Manifest, after: Manifest) -> Sequence[str]:
    one, two = before.options, after.options
    options = {name for name in {*one, *two} - _PLACING if one.get(name) != two.get(name)}
    if (one.get("augment") or two.get("augment")) and before.seed != after.seed:
        options.add("seed")
    libraries = {
        name
        for name in {*before.encoders, *after.encoders}
        if before.encoders.get(name) != after.encoders.get(name)
    }
    return [*sorted(options), *sorted(libraries)]


def _hash(values: Iterable[Any]) -> int:
    hasher = xxhash.xxh3_64()
    for value in values:
        hasher.update(_bytes_of(value))
    return hasher.intdigest()


def _bytes_of(value: Any) -> bytes:
    """Return the bytes of a decoded value: bytes, a number, an array, or arrays by step."""
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        parts = [one if isinstance(one, bytes) else _bytes_of(one) for one in value]
        return b"".join([np.array([len(parts), *map(len, parts)], np.int64).tobytes(), *parts])
    if isinstance(value, bytes):
        return _bytes_of([value])
    array = np.atleast_1d(np.asarray(value))
    return b"".join([np.array(array.shape, np.int64).tobytes(), array.tobytes()])
