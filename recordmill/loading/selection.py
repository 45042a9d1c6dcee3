"""Which features of a record become what a model sees, and whether that can be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from recordmill.errors import ConfigError, did_you_mean
from recordmill.format.features import Feature, Features
from recordmill.format.manifest import Manifest
from recordmill.loading.options import LoadOptions

_CHANNELS = (1, 3, 4)
_RANKS = (3, 4)  # of pictures, and of clips
_OBJECT_LABELS = "image/object/class/label"
_PLACES = (
    *(f"image/object/bbox/{name}" for name in ("xmin", "ymin", "xmax", "ymax")),
    "image/object/segmentation/transform",
)
_MOVES = ("crop", "flip", "rotate")  # pixels, and not what says where something is
_ABOUT_WINDOWS = ("window/series", "window/start")  # where a window is from


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """What a record becomes.

    inputs: features that a model gets, in a dictionary unless `bare`. label: the feature that it is
    to predict; None where records are not divided into the two.
    shapes: per array whose bytes do not tell its shape, the features that do.
    """

    inputs: tuple[str, ...]
    bare: bool
    label: str | None
    features: Features
    shapes: Mapping[str, tuple[str, ...]]

    @property
    def parsed(self) -> Features:
        """All that has to be read of a record, by name."""
        wanted = {*self.inputs, *(name for several in self.shapes.values() for name in several)}
        if self.label is not None:
            wanted.add(self.label)
        return {name: one for name, one in self.features.items() if name in wanted}

    @property
    def pictures(self) -> tuple[str, ...]:
        """The inputs that are encoded pictures."""
        return tuple(name for name in self.inputs if self.features[name].kind == "image")

    @property
    def pixels(self) -> tuple[str, ...]:
        """The inputs that are uint8[height, width, channels] once they are decoded, or clips of
        such frames.
        """
        return tuple(name for name in self.inputs if _is_pixels(self.features[name]))

    @property
    def is_nullable(self) -> bool:
        """Whether a record may have no label."""
        return self.label is not None and self.features[self.label].shape != ()


def select(manifest: Manifest, options: LoadOptions) -> Selection:
    """What the records of a dataset become.

    Raises:
      ConfigError: what is asked for is not in them.
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
        bare=label is not None and len(inputs) == 1,
        label=label,
        features=features,
        shapes={name: _shape_features(name, one) for name, one in arrays if _varies(one)},
    )
    _check_label(manifest, options, selection)
    _check_pictures(options, selection)
    _check_places(manifest, options, selection)
    return selection


def _label(manifest: Manifest, options: LoadOptions) -> str | None:
    features = manifest.features
    if options.as_supervised is False:
        return None
    if options.label is not None:
        _expect_known("label", [options.label], features)
        return options.label
    objects = _renamed(manifest, _OBJECT_LABELS)
    is_asked = bool(options.as_supervised or options.one_hot or options.class_weights)
    if objects in features and not is_asked:
        return None  # it is the objects that a model is to find
    found = [name for name, one in features.items() if one.kind == "label" and name != objects]
    if len(found) == 1:
        return found[0]
    if is_asked:
        has = f"several: {', '.join(found)}" if found else "none"
        raise ConfigError(f"expected records with one label, these have {has}; say label='NAME'")
    return None


def _content(manifest: Manifest, label: str) -> tuple[str, ...]:
    """What a model usually learns from: pictures, or arrays, or tokens, or all columns."""
    features = manifest.features
    for kind in ("image", "raw"):
        found = tuple(name for name, feature in features.items() if feature.kind == kind)
        if found:
            return found
    if manifest.options.get("kind") == "text":
        for name in ("tokens", "text"):
            name = _renamed(manifest, name)
            if name in features:
                return (name,)
    about = {_renamed(manifest, name) for name in _ABOUT_WINDOWS}
    left_out = about | {label} if manifest.options.get("kind") == "sensor" else {label}
    left_out |= {name for name, one in features.items() if one.kind == "label"}
    found = tuple(sorted(features.keys() - left_out))
    if not found:
        raise ConfigError("records have nothing but a label; say as_supervised=False")
    return found


def _renamed(manifest: Manifest, name: str) -> str:
    """The name of a feature after --rename."""
    return str(manifest.options.get("rename", {}).get(name, name))


def _varies(feature: Feature) -> bool:
    """Whether the bytes of an array do not tell its shape."""
    return feature.kind == "raw" and feature.shape_is_open


def _shape_features(name: str, feature: Feature) -> tuple[str, ...]:
    if not feature.shape_features:
        raise ConfigError(
            f"inputs: {name} holds arrays of {_told(feature.raw_shape or ())}, whose shapes its"
            " records do not tell"
        )
    return feature.shape_features


def _check_label(manifest: Manifest, options: LoadOptions, selection: Selection) -> None:
    if selection.label is None:
        return
    feature = selection.features[selection.label]
    if selection.label in selection.inputs:
        raise ConfigError(f"{selection.label!r} is both among the inputs and the label")
    if feature.kind != "label" and (options.one_hot or options.class_weights):
        raise ConfigError(
            f"one_hot and class_weights are for classes, and {selection.label!r} is none"
        )
    if (options.one_hot or options.class_weights) and not manifest.labels:
        raise ConfigError("one_hot and class_weights are for classes, and the dataset names none")
    if feature.kind != "label" and (feature.shape != () or feature.dtype == "string"):
        raise ConfigError(
            f"label: expected a feature of one number, {selection.label!r} is {feature.dtype}"
            f" {_told(feature.shape)}"
        )


def _check_pictures(options: LoadOptions, selection: Selection) -> None:
    features = selection.features
    pictures = selection.pictures
    raw = [name for name in selection.inputs if features[name].kind == "raw"]
    if options.image_size is not None and not pictures:
        has = f"{raw[0]} holds arrays as they are" if raw else "there are none among the inputs"
        raise ConfigError(f"image_size is for encoded pictures: {has}")
    for name in ("augment", "normalize"):
        if getattr(options, name) and not selection.pixels:
            has = f"{raw[0]} is {features[raw[0]].raw_dtype}" if raw else "there are none"
            raise ConfigError(
                f"{name} is for pictures, uint8 height x width x channels, and for clips of them:"
                f" {has} among the inputs"
            )
    if options.normalize == "imagenet":
        for name in selection.pixels:
            if channels_of(features[name]) != 3:
                raise ConfigError("normalize: the means of imagenet are for three channels")
    if options.batch_size is None or options.padding == "ragged" or options.image_size:
        return
    for name in pictures:
        if None in (features[name].raw_shape or (None,)):
            raise ConfigError(
                f"the pictures in {name} are of different sizes, or of one that is not declared:"
                " say image_size, such as image_size=224, or padding='ragged'"
            )


def _check_places(manifest: Manifest, options: LoadOptions, selection: Selection) -> None:
    moves = [name for name in _MOVES if name in options.augment]
    places = [
        name for name in (_renamed(manifest, one) for one in _PLACES) if name in selection.inputs
    ]
    if moves and places:
        raise ConfigError(
            f"augment: {moves[0]} moves pixels, and {places[0]} would say where they were: vary"
            " pictures when they are written (--augment), take brightness and contrast, or inputs"
            " without boxes"
        )


def channels_of(feature: Feature) -> int:
    """Of what a picture decodes to."""
    return (feature.raw_shape or (None, None, 3))[-1] or 3


def _is_pixels(feature: Feature) -> bool:
    if feature.kind == "image":
        return True
    shape = feature.raw_shape or ()
    is_array = feature.kind == "raw" and feature.raw_dtype == "uint8" and feature.shape == ()
    return is_array and len(shape) in _RANKS and shape[-1] in _CHANNELS


def _expect_known(what: str, asked: Iterable[str], features: Features) -> None:
    for name in asked:
        if name not in features:
            raise ConfigError(
                f"{what}: there is no feature {name!r}{did_you_mean(name, features)}; expected some"
                f" of {', '.join(sorted(features))}"
            )


def _told(shape: Iterable[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "one value"
