"""Detection of the features that belong to the pixels of images in TFRecord files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from recordmill.errors import ConfigError
from recordmill.format.manifest import MASK_LABELS
from recordmill.format.typed_json import parse_json, read_as
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.transforms.model.annotations import SEGMENTATION
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import find_roots
from recordmill.transforms.sources.row_formats.tfrecords.known_folders import (
    TFDS,
    is_dataset,
    manifest_of,
    read_class_names,
)
from recordmill.transforms.sources.tfrecords.media_features import CLASS_MASK
from recordmill.transforms.sources.tfrecords.pixel_features import (
    PixelFeatures,
    find_pixel_features,
)

_TFDS_MASK = "segmentation_mask"
_TFDS_ORDERS = (None, "REL_YXYX")  # of the corners of a box; older versions state none


def pixels_of(
    inputs: Inputs, names: Callable[[], Sequence[str]], dropped: Sequence[str]
) -> PixelFeatures | None:
    """Return the features that belong to the pixels of the images of an input; None without any.

    names: returns the names of features, in files of other programs. dropped: features to ignore.

    Raises:
      ConfigError: the features cannot be read, or datasets differ in the ids of masks.
    """
    roots = [root.root for root in find_roots(inputs)]
    datasets = [root for root in roots if is_dataset(root)]
    if datasets:
        return _of_datasets(datasets, dropped)
    left = [name for name in names() if name not in dropped]
    for root in roots:
        if (root / TFDS).is_file() and (found := _of_tfds(root, left)) is not None:
            return found
    return find_pixel_features(left)


def _of_datasets(folders: Sequence[Location], dropped: Sequence[str]) -> PixelFeatures | None:
    manifests = [manifest_of(folder) for folder in folders]
    standard: dict[str, str] = {}
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    depths = [8]
    for manifest in manifests:
        rename: Mapping[str, str] = manifest.options.get("rename", {})
        standard |= {new: old for old, new in rename.items()}
        names |= dict.fromkeys(name for name in manifest.features if name not in dropped)
        for number, label in enumerate(manifest.labels, start=manifest.label_offset):
            numbers.setdefault(label, number)  # datasets of other numbers are refused later
        depths += [
            16
            for name, one in manifest.features.items()
            if standard.get(name, name) == CLASS_MASK and one.raw_dtype == "uint16"
        ]
    mask_names = [_mask_names(folder) for folder in folders]
    if len({*mask_names}) > 1:
        raise ConfigError(
            f"the ids of masks mean other classes in {shown(folders[0])} than in another"
            f" {option_name('input')}: make a dataset of each"
        )
    found = find_pixel_features([*names], standard)
    if found is None:
        return None
    if found.frame is None and SEGMENTATION.name in found.more:
        raise ConfigError(
            f"{option_name('drop_columns')}: leaves out the transform of the segmentations, without"
            f" which they are in wrong places: leave out {found.more[SEGMENTATION.name]}, too"
        )
    if found.has_objects:
        found = dataclasses.replace(
            found,
            names=tuple(sorted(numbers, key=numbers.__getitem__)),
            first_number=min(numbers.values(), default=0),
        )
    return dataclasses.replace(found, mask_depth=max(depths), mask_names=mask_names[0])


def _mask_names(folder: Location) -> tuple[str, ...]:
    """Return the names of the ids of the masks of a dataset, empty if they have none."""
    if MASK_LABELS not in manifest_of(folder).files:
        return ()
    try:
        return tuple((folder / MASK_LABELS).read_bytes().decode().splitlines())
    except UnicodeDecodeError as error:
        place = shown(folder / MASK_LABELS)
        raise ConfigError(f"{place}: expected class names in UTF-8, one per line") from error


def _of_tfds(folder: Location, names: Sequence[str]) -> PixelFeatures | None:
    """Return the features of a folder of TFDS: a sequence with boxes, and a mask.

    Source: https://www.tensorflow.org/datasets/api_docs/python/tfds/features (features.json).
    """
    features = tfds_features(folder)
    is_mask = _TFDS_MASK in names and features.get(_TFDS_MASK, TfdsFeature()).image is not None
    mask = _TFDS_MASK if is_mask else None
    for name, boxes, members in _sequences(features):
        if f"{name}/{boxes}" not in names:
            continue
        box = members[boxes].boundingBox
        order = None if box is None else box.bboxFormat
        if order not in _TFDS_ORDERS:
            raise ConfigError(
                f"{shown(folder / TFDS)}: boxes of {name!r} have the format {order}, and only"
                f" {_TFDS_ORDERS[1]} is read: leave them out with"
                f" {option_name('drop_columns', name)}/{boxes}"
            )
        label = next((one for one, spec in members.items() if spec.classLabel is not None), None)
        others = [one for one in members if one not in (boxes, label)]
        return PixelFeatures(
            corners=(f"{name}/{boxes}",),
            number=None if label is None else f"{name}/{label}",
            names=None if label is None else read_class_names(folder, f"{name}-{label}"),
            more={one: f"{name}/{one}" for one in others if f"{name}/{one}" in names},
            class_mask=mask,
        )
    return None if mask is None else PixelFeatures(class_mask=mask)


def tfds_features(folder: Location) -> Mapping[str, TfdsFeature]:
    """Return {feature: its description} of a folder of TFDS. Raises ConfigError."""
    return _parsed(folder / TFDS).members


def _sequences(
    features: Mapping[str, TfdsFeature],
) -> Iterator[tuple[str, str, Mapping[str, TfdsFeature]]]:
    """Yield sequences of features with a box: name, name of the box, features."""
    for name, spec in features.items():
        if spec.sequence is None or spec.sequence.feature is None:
            continue
        members = spec.sequence.feature.members
        for box, one in members.items():
            if one.boundingBox is not None:
                yield name, box, members


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Box:
    bboxFormat: str | None = None  # noqa: N815  (a name in the file)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ClassLabel:
    numClasses: str | int = 0  # noqa: N815


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Sequence:
    feature: TfdsFeature | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FeaturesDict:
    features: Mapping[str, TfdsFeature] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfdsFeature:
    """A feature in features.json, as far as it is read."""

    featuresDict: _FeaturesDict | None = None  # noqa: N815
    sequence: _Sequence | None = None
    boundingBox: _Box | None = None  # noqa: N815
    classLabel: _ClassLabel | None = None  # noqa: N815
    image: Mapping[str, Any] | None = None

    @property
    def members(self) -> Mapping[str, TfdsFeature]:
        return {} if self.featuresDict is None else self.featuresDict.features


def _parsed(place: Location) -> TfdsFeature:
    try:
        return read_as(TfdsFeature, parse_json(place.read_bytes()), open_ended=True)
    except ValueError as error:
        raise ConfigError(f"{shown(place)}: expected the features of a TFDS folder: {error}") from (
            error
        )
