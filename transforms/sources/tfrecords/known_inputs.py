"""Detection of TFRecord inputs, and the columns of datasets of recordmill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.format.file_names import index_of
from recordmill.format.manifest import Manifest
from recordmill.format.shard_index import IndexDamagedError, column_names
from recordmill.format.split_names import in_order
from recordmill.option_names import option_name
from recordmill.storage.files import Location, PathError, shown
from recordmill.tfrecord.features import Feature, shape_text
from recordmill.transforms.model import batch
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots
from recordmill.transforms.sources.files.other_kinds import is_tfrecord_name
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.folders import list_files
from recordmill.transforms.sources.folders.path_layout import OF_DATASET
from recordmill.transforms.sources.row_formats.tfrecords.known_folders import (
    DAMAGED,
    INDEXED,
    TFDS,
    is_dataset,
    manifest_of,
)
from recordmill.transforms.sources.tfrecords.media_features import ENCODING

Kind = Literal["media", "rows", "text", "series"]

_MEDIA = ("image/encoded", "array/encoded", "array/values", "audio/encoded")
_WAVEFORM, _SAMPLE_RATE = "audio/waveform", "audio/sample_rate"
_SAMPLED_FILES = 10_000
# Features that recordmill makes from a record's content, and would make anew. A name that ends with
# a slash stands for all names that begin with it.
_MADE: Mapping[str, tuple[str, ...]] = {
    "images": (*ENCODING, "image/class/", "image/source_id"),
    "arrays": (
        *("array/dtype", "array/shape", "array/start", "array/filename"),
        "array/class/",
    ),
    "audio": (
        *("audio/format", "audio/filename", "audio/sample_rate", "audio/samples", "audio/shape"),
        *("audio/start/timestamp", "audio/class/"),
    ),
    "text": ("tokens", "tokens/", "bow/", "tfidf", "tfidf/", "embeddings"),
}


def _refuse_shards(root: InputRoot) -> None:
    """Raise ConfigError if the first file of an input that is no dataset is a shard of one."""
    try:
        first = next((one for one in list_files(root, depth=1) if isinstance(one, File)), None)
    except PathError:
        return  # the listing reports a better error
    if first is None or not is_tfrecord_name(first.key.rpartition("/")[2]):
        return
    folder = Location.parse(first.path).parent
    if is_dataset(folder):
        raise ConfigError(
            f"{option_name('input', root.given)} holds shards of the dataset {shown(folder)}, and"
            f" maybe of others: give each dataset as its own {option_name('input')}, such as"
            f" {option_name('input', shown(folder))}"
        )


def dataset_columns(
    inputs: Inputs, given: Mapping[str, str | None], dropped: Sequence[str], *, kind: Kind
) -> dict[str, str | tuple[str, ...] | None]:
    """Return the columns with a role in datasets of recordmill; the given ones for other inputs.

    Key, group and class come from the index, because they are names there.

    given: {option: column}, among them label_column, group_column and key_column. dropped: columns
      to ignore.

    Raises:
      ConfigError: some inputs are datasets and others are not, one matches files of several
        datasets, or a dataset has no text.
    """
    roots = find_roots(inputs)
    datasets = [_dataset_of(root) for root in roots]
    known = [one for one in datasets if one is not None]
    if not known:
        for root in roots:
            _refuse_shards(root)
        return {**given, "drop_columns": tuple(dropped)}
    if len(known) < len(datasets):
        raise ConfigError(
            f"{option_name('input', inputs)}: expected only datasets of recordmill or only other"
            " files, because they have different columns; got both: make two datasets"
        )
    manifests = [manifest_of(folder) for folder in known]
    for folder, manifest in zip(known, manifests, strict=True):
        _refuse_sequences(folder, manifest)
    roles = dict(given)
    # Windows get keys and groups by their series and times.
    if kind != "series":
        roles["key_column"] = given["key_column"] or batch.KEY
        if given["group_column"] is None and any(map(_has_groups, known, manifests)):
            roles["group_column"] = batch.GROUP
    if given["label_column"] is None and any(one.labels for one in manifests):
        roles["label_column"] = batch.LABEL
    if kind == "text":
        for folder, manifest in zip(known, manifests, strict=True):
            _check_text(folder, manifest)
    used = {name for name in roles.values() if name is not None}
    made = {name for one in manifests for name in _made_features(one)}
    left_out = [name for name in sorted({*made, *INDEXED.values()}) if name not in used]
    return {**roles, "drop_columns": tuple(dict.fromkeys([*dropped, *left_out]))}


def media_feature(inputs: Inputs, given: str | None) -> tuple[str, Feature] | None:
    """Return the feature with the images or arrays of datasets of recordmill; None for others.

    given: its name, if an option names it.

    Raises:
      ConfigError: datasets hold them in features of other names or forms.
    """
    folders = [_dataset_of(root) for root in find_roots(inputs)]
    found = [
        (folder, one)
        for folder in folders
        if folder is not None and (one := _media_feature(manifest_of(folder), given)) is not None
    ]
    if not found:
        return None
    first, media = found[0]
    for folder, other in found[1:]:
        if _form(*other) != _form(*media):
            raise ConfigError(
                f"{option_name('input', shown(first))} holds {_form(*media)}, and"
                f" {option_name('input', shown(folder))} {_form(*other)}: datasets that are read"
                " together need the same feature in the same form; make one dataset from the"
                " original files, or read each in its own run"
            )
    return media


def _media_feature(manifest: Manifest, given: str | None) -> tuple[str, Feature] | None:
    """Return the feature with the images or arrays of a dataset, None without one."""
    rename = manifest.options.get("rename", {})
    usual = [rename.get(name, name) for name in _MEDIA]
    kinds = [name for name, one in manifest.features.items() if one.kind in ("image", "raw")]
    for name in (given,) if given is not None else (*usual, *kinds):
        if name in manifest.features:
            return name, manifest.features[name]
    return None


def _form(name: str, feature: Feature) -> str:
    """Return how records hold a feature, for comparison and for messages."""
    if feature.kind == "image":
        return f"encoded images in {name!r}"
    if feature.dtype == "string" and feature.kind != "raw":
        return f"files in {name!r}"
    is_raw = feature.kind == "raw"
    dtype = feature.raw_dtype if is_raw else feature.dtype
    shape = (feature.raw_shape or ()) if is_raw else feature.shape
    return f"{dtype} arrays ({shape_text(shape)}) in {name!r}"


def rate_feature(inputs: Inputs, waveforms: str) -> str | None:
    """Return the feature with the sample rates of waveforms in a dataset of recordmill.

    waveforms: a feature; None is returned if it holds none.
    """
    for root in find_roots(inputs):
        if (folder := _dataset_of(root)) is not None:
            manifest = manifest_of(folder)
            rename = manifest.options.get("rename", {})
            old = {rename.get(name, name): name for name in (_WAVEFORM, _SAMPLE_RATE)}
            rate = rename.get(_SAMPLE_RATE, _SAMPLE_RATE)
            return rate if old.get(waveforms) == _WAVEFORM and rate in manifest.features else None
    return None


def _dataset_of(root: InputRoot) -> Location | None:
    """Return the dataset that an input is, or that holds its files; None for other inputs."""
    return root.root if is_dataset(root.root) else None


def dataset_splits(inputs: Inputs, split_source: str | None) -> tuple[str, ...]:
    """Return the splits of datasets of recordmill, also those without records.

    split_source: the part of the input that assigns the splits; none are returned for others.
    """
    if split_source != OF_DATASET:
        return ()
    folders = [_dataset_of(root) for root in find_roots(inputs)]
    splits = {name for one in folders if one is not None for name in manifest_of(one).splits}
    return tuple(in_order(splits))


def _has_groups(folder: Location, manifest: Manifest) -> bool:
    shards = (shard for split in manifest.splits.values() for shard in split.shards)
    try:
        return any("group" in column_names(folder / index_of(shard.file)) for shard in shards)
    except IndexDamagedError as error:
        raise ConfigError(f"{error}: {DAMAGED}") from error


def _made_features(manifest: Manifest) -> Iterator[str]:
    """Yield the features that are computed again, under their names in the records."""
    rename = dict(manifest.options.get("rename", {}))
    old_names = {new: old for old, new in rename.items()}
    rules = _MADE.get(manifest.command, ())
    for name, feature in manifest.features.items():
        old = old_names.get(name, name)
        made = any(old == rule or (rule[-1] == "/" and old.startswith(rule)) for rule in rules)
        if feature.kind == "label" or made:
            yield name


def _refuse_sequences(folder: Location, manifest: Manifest) -> None:
    """Raise ConfigError for a dataset of SequenceExamples."""
    names = [name for name, feature in manifest.features.items() if feature.sequence]
    if names:
        raise ConfigError(
            f"{option_name('input', shown(folder))} holds SequenceExamples, with the feature list"
            f" {names[0]!r}, which are not read: make the dataset from the original files"
        )


def _check_text(folder: Location, manifest: Manifest) -> None:
    """Raise ConfigError for a dataset of texts of which only tokens or numbers are left."""
    texts = [name for name, feature in manifest.features.items() if feature.kind == "text"]
    if manifest.command == "text" and not texts:
        names = ", ".join(manifest.features)
        raise ConfigError(
            f"{option_name('input', shown(folder))} holds no text: its features are {names}, from"
            " which the texts cannot be restored; read the original texts, or make that dataset"
            f" with {option_name('features', 'text')},tokens"
        )


def is_tfds(folder: Location) -> bool:
    """Return whether a folder was written by TFDS."""
    return (folder / TFDS).is_file()
