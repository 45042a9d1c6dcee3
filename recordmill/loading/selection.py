"""Selects the features of a record that become the inputs and the label of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from recordmill.errors import ConfigError, did_you_mean
from recordmill.format.manifest import Manifest
from recordmill.loading.options import LoadOptions
from recordmill.option_names import option_name
from recordmill.tfrecord.features import Feature, Features, shape_text

_CHANNELS = (1, 3, 4)
_DTYPES = ("uint8", "uint16")
_RANKS = (3, 4)  # of images, and of clips
_OBJECT_LABELS = "image/object/class/label"
_POSITIONS = (  # features that hold positions in an image
    *(f"image/object/bbox/{name}" for name in ("xmin", "ymin", "xmax", "ymax")),
    "image/object/segmentation/transform",
    *(f"image/object/keypoint/{name}" for name in ("x", "y")),
)
_WARPS = ("crop", "flip", "rotate")  # augmentations after which such positions would be wrong
_WINDOW_ORIGIN = ("window/series", "window/start")  # features that identify a window


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """The selected features of records.

    inputs: names of the features that make up x.
    is_single: whether x is the value of the only input, not a dictionary.
    label: name of the feature that is y; None if elements are dictionaries.
    features: all features of the dataset.
    multi_label: whether records may have several labels.
    weight: name of the feature with the weight of a record, if there is one and a label.
    may_be_nan: whether y may be NaN, or have a NaN inside, because records may lack their number.
    shapes: for each input array whose shape is stored in other features, the names of these.
    """

    inputs: tuple[str, ...]
    is_single: bool
    label: str | None
    features: Features
    shapes: Mapping[str, tuple[str, ...]]
    multi_label: bool = False
    weight: str | None = None
    may_be_nan: bool = False

    @property
    def parsed(self) -> Features:
        """Features to parse: the inputs, the label, and the shapes of arrays."""
        needed = {*self.inputs, *(name for several in self.shapes.values() for name in several)}
        needed.update(name for name in (self.label, self.weight) if name is not None)
        return {name: one for name, one in self.features.items() if name in needed}

    @property
    def images(self) -> tuple[str, ...]:
        """Inputs that are encoded images."""
        return tuple(name for name in self.inputs if self.features[name].kind == "image")

    @property
    def masks(self) -> tuple[str, ...]:
        """Inputs, and the label, that are masks."""
        found = (*self.inputs, *(() if self.label is None else (self.label,)))
        return tuple(name for name in found if self.features[name].kind == "mask")

    @property
    def pixels(self) -> tuple[str, ...]:
        """Inputs that are decoded to [height, width, channels], or to clips of such frames.

        Their dtype is uint8 or uint16.
        """
        return tuple(name for name in self.inputs if _is_pixels(self.features[name]))

    @property
    def is_nullable(self) -> bool:
        """True if records may lack their one label."""
        is_one = self.label is not None and not self.multi_label
        return is_one and None in self.features[str(self.label)].shape


def select(manifest: Manifest, options: LoadOptions) -> Selection:
    """Select the features of a dataset according to the options.

    Raises:
      ConfigError: the options do not match the features.
    """
    features = manifest.features
    label = _label(manifest, options)
    if options.inputs is not None:
        _expect_known("inputs", options.inputs, features)
        inputs = options.inputs
    elif label is None:
        inputs = tuple(sorted(features))
    else:
        inputs = _content(manifest, label)
    arrays = [(name, features[name]) for name in inputs]
    selection = Selection(
        inputs=inputs,
        is_single=label is not None and len(inputs) == 1,
        label=label,
        features=features,
        shapes={name: _shape_features(name, one) for name, one in arrays if _is_open(one)},
        weight=None if label is None else weight_of(manifest),
        multi_label=manifest.multi_label and label is not None and features[label].kind == "label",
        may_be_nan=label is not None and _is_number_to_predict(manifest, label),
    )
    _check_label(manifest, options, selection)
    _check_images(options, selection)
    _check_positions(manifest, options, selection)
    return selection


def _label(manifest: Manifest, options: LoadOptions) -> str | None:
    features = manifest.features
    if options.as_supervised is False:
        return None
    if options.label is not None:
        _expect_known("label", [options.label], features)
        return options.label
    objects = _renamed(manifest, _OBJECT_LABELS)
    needs_label = bool(options.as_supervised or options.one_hot or options.class_weights)
    if objects in features and not needs_label:
        return None  # a model is to detect the objects, not to predict a class
    masks = [name for name, one in features.items() if one.kind == "mask" and one.shape == ()]
    if masks and not needs_label:
        return None  # a model is to predict the mask
    found = [name for name, one in features.items() if one.kind == "label" and name != objects]
    if not found and not options.one_hot and not options.class_weights:
        found = masks
    if len(found) == 1:
        return found[0]
    if needs_label:
        has = f"several: {', '.join(found)}" if found else "none"
        raise ConfigError(f"expected records with one label, these have {has}; set label='NAME'")
    return None


def _content(manifest: Manifest, label: str) -> tuple[str, ...]:
    """Return the default inputs: images, arrays, tokens, text, or all columns."""
    features = manifest.features
    for kind in ("image", "raw"):
        found = tuple(name for name, feature in features.items() if feature.kind == kind)
        if found:
            return found
    if manifest.command == "text":
        for names in (("tokens", "tokens/type_ids"), ("text",)):
            found = tuple(
                name for name in (_renamed(manifest, n) for n in names) if name in features
            )
            if found:
                return found
    excluded = {label, weight_of(manifest)} | {
        name for name, one in features.items() if one.kind == "label"
    }
    if manifest.command == "sensor":
        excluded |= {_renamed(manifest, name) for name in _WINDOW_ORIGIN}
    found = tuple(sorted(features.keys() - excluded))
    if not found:
        raise ConfigError("records have no feature besides a label; set as_supervised=False")
    return found


def weight_of(manifest: Manifest) -> str | None:
    """Return the name of the feature with the weights of --weight-column, None without them."""
    column = manifest.options.get("weight_column")
    if column is None:
        return None
    name = str(manifest.options.get("rename", {}).get(column, "weight"))
    return name if name in manifest.features else None


def _is_number_to_predict(manifest: Manifest, label: str) -> bool:
    """Return whether a feature is a number, or numbers, that records may lack."""
    options, feature = manifest.options, manifest.features[label]
    is_label = options.get("label_type") in ("int", "float") and label == _renamed(
        manifest, "label"
    )
    is_target = bool(options.get("horizon")) and label == _renamed(manifest, "target")
    may_lack = feature.dtype == "float32" or (is_label and feature.shape == (None,))
    return (is_label or is_target) and may_lack and options.get("unlabelled") == "keep"


def _renamed(manifest: Manifest, name: str) -> str:
    """Return the name of a feature after --rename."""
    return str(manifest.options.get("rename", {}).get(name, name))


def _is_open(feature: Feature) -> bool:
    """Return whether the shape of an array cannot be derived from its bytes."""
    return feature.kind == "raw" and feature.shape_is_open


def _shape_features(name: str, feature: Feature) -> tuple[str, ...]:
    if not feature.shape_features:
        raise ConfigError(
            f"inputs: {name} holds arrays of {shape_text(feature.raw_shape or ())}, but records"
            " do not hold their shapes: choose other inputs"
        )
    return feature.shape_features


def _check_label(manifest: Manifest, options: LoadOptions, selection: Selection) -> None:
    if selection.label is None:
        return
    feature = selection.features[selection.label]
    if selection.label in selection.inputs:
        raise ConfigError(f"{selection.label!r} is both an input and the label")
    if feature.kind != "label" and (options.one_hot or options.class_weights):
        raise ConfigError(
            f"one_hot and class_weights need classes, but {selection.label!r} is not a class"
        )
    if options.class_weights and selection.multi_label:
        raise ConfigError(
            "class_weights=True: expected one class per record, but these may have several: give"
            " the loss a weight per class instead, such as class_weights of the manifest"
        )
    if (options.one_hot or options.class_weights) and not manifest.labels:
        raise ConfigError("one_hot and class_weights need classes, but the dataset has none")
    if feature.kind == "mask" and feature.shape == ():
        return
    if selection.may_be_nan and feature.shape == (None,):
        return
    if feature.kind != "label" and (None in feature.shape or feature.dtype == "string"):
        raise ConfigError(
            f"label: expected numbers of a fixed shape, {selection.label!r} is {feature.dtype}"
            f" {shape_text(feature.shape)}"
        )


def _check_images(options: LoadOptions, selection: Selection) -> None:
    features = selection.features
    images = selection.images
    raw = [name for name in selection.inputs if features[name].kind == "raw"]
    if options.image_size is not None and not images and not selection.masks:
        has = f"the input {raw[0]} holds arrays" if raw else "the inputs have none"
        raise ConfigError(f"image_size is for encoded images, but {has}")
    for name in ("augment", "normalize"):
        if getattr(options, name) and not selection.pixels:
            has = f"the input {raw[0]} is {features[raw[0]].raw_dtype}" if raw else "there are none"
            raise ConfigError(
                f"{name} is for images (uint8 or uint16, height x width x channels) and clips of"
                f" them, but {has}{'' if raw else ' among the inputs'}"
            )
    if options.normalize == "imagenet":
        for name in selection.pixels:
            if channels_of(features[name]) != 3:
                raise ConfigError("normalize: imagenet needs images with three channels")
    if options.batch_size is None or options.padding == "ragged" or options.image_size:
        return
    for name in (*images, *selection.masks):
        if None in (features[name].raw_shape or (None,)):
            raise ConfigError(
                f"the {features[name].kind}s in {name} have different sizes, or their size is not"
                " declared: set image_size, such as image_size=224, or padding='ragged'"
            )


def _check_positions(manifest: Manifest, options: LoadOptions, selection: Selection) -> None:
    warps = [name for name in _WARPS if name in options.augment]
    positions = [
        name for name in (_renamed(manifest, one) for one in _POSITIONS) if name in selection.inputs
    ]
    if warps and positions:
        raise ConfigError(
            f"augment: {warps[0]} moves pixels, but would not change {positions[0]}: augment images"
            f" when they are written ({option_name('augment')}), use brightness and contrast only,"
            " or choose inputs without boxes"
        )


def channels_of(feature: Feature) -> int:
    """Return the number of channels of a decoded image; 3 if it is not declared."""
    return (feature.raw_shape or (None, None, 3))[-1] or 3


def _is_pixels(feature: Feature) -> bool:
    if feature.kind == "image":
        return True
    shape = feature.raw_shape or ()
    is_array = feature.kind == "raw" and feature.raw_dtype in _DTYPES and feature.shape == ()
    return is_array and len(shape) in _RANKS and shape[-1] in _CHANNELS


def _expect_known(what: str, names: Iterable[str], features: Features) -> None:
    for name in names:
        if name not in features:
            raise ConfigError(
                f"{what}: there is no feature {name!r}{did_you_mean(name, features)}; expected some"
                f" of {', '.join(sorted(features))}"
            )
