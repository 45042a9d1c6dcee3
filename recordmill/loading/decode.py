"""Makes the elements of `recordmill.load` from records, in NumPy: for PyTorch and Grain."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from recordmill.errors import ConfigError
from recordmill.format.manifest import Manifest
from recordmill.loading import pixels
from recordmill.loading.options import LoadOptions, Normalize, parse_image_size, parse_names
from recordmill.loading.pixels import Pixels
from recordmill.loading.selection import Selection, channels_of, select
from recordmill.option_checks import expect_whole
from recordmill.tfrecord.typed_records import TypedRecord


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decode:
    """A transform that makes the elements of `recordmill.load`: (x, y), or a dictionary.

    Pass it as `transform` to `torch_dataset`, `torch_source` or `grain_source`. Images are decoded
    to NumPy arrays uint8[height, width, channels], and changed as `recordmill.load` changes them at
    the same position of the same epoch. Elements are (x, y, weight) if records have weights, or may
    lack their label or target; without it the weight is 0.

    Attributes:
      inputs, label, as_supervised, one_hot: as for `recordmill.load`.
      image_size, augment, normalize: as for `recordmill.load`.
      pad_to: length to which inputs of varying length are padded with zeros, or cut off, so that
        they form batches.
    """

    inputs: str | Iterable[str] | None = None
    label: str | None = None
    as_supervised: bool | None = None
    one_hot: bool = False
    image_size: int | Sequence[int] | None = None
    augment: str | Collection[str] = ()
    normalize: Normalize | None = None
    pad_to: int | None = None

    def bind(self, manifest: Manifest, split: str | None) -> BoundDecode:
        """Return the transform for the records of a dataset.

        Raises:
          ConfigError: an option is invalid, or does not match the features.
        """
        options = LoadOptions(
            split="all splits" if split is None else split,
            inputs=None if self.inputs is None else parse_names(self.inputs),
            label=self.label,
            as_supervised=self.as_supervised,
            one_hot=self.one_hot,
            image_size=parse_image_size(self.image_size),
            augment=frozenset(parse_names(self.augment)),
            normalize=self.normalize,
        )
        selection = select(manifest, options)
        for name in selection.images:
            feature = selection.features[name]
            if feature.raw_dtype == "uint16" and channels_of(feature) != 1:
                raise ConfigError(
                    f"{name!r} has PNGs in colour with 16 bits, which only TensorFlow decodes: use"
                    " recordmill.load, or write the dataset with image_format='raw'"
                )
        return BoundDecode(
            options=options,
            pad_to=None if self.pad_to is None else expect_whole("pad_to", self.pad_to, least=1),
            selection=selection,
            classes=len(manifest.labels),
            label_offset=manifest.label_offset,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundDecode:
    """The transform `Decode` for the records of one dataset."""

    options: LoadOptions
    pad_to: int | None
    selection: Selection
    classes: int
    label_offset: int

    @property
    def elements(self) -> tuple[Any, ...]:
        """All that determines the elements of a record."""
        selection, classes = self.selection, (self.classes, self.label_offset)
        chosen = selection.inputs, selection.label, selection.weight
        return selection.parsed, chosen, selection.multi_label, selection.may_be_nan, classes

    @property
    def features(self) -> list[str]:
        """Names of the features that it needs."""
        return [*self.selection.parsed]

    def __call__(self, record: TypedRecord, seed: int, position: int) -> Any:
        """Return the element of a record.

        seed: of the augmentations of the epoch. position: of the record in the epoch.

        Raises:
          ExampleError: an image cannot be decoded.
        """
        drawn = pixels.draws(seed, position) if self.options.augment else []
        inputs = {name: self._input(name, record[name], drawn) for name in self.selection.inputs}
        label = self.selection.label
        if label is None:
            return inputs
        x = inputs[self.selection.inputs[0]] if self.selection.is_single else inputs
        y, weight = self._target(label, record[label], drawn)
        if self.selection.weight is not None:
            stored = np.float32(record[self.selection.weight])
            weight = stored if weight is None else weight * stored
        return (x, y) if weight is None else (x, y, weight)

    def _input(self, name: str, value: Any, drawn: Sequence[float]) -> Any:
        if name in self.selection.masks:
            return self._masks(name, value, drawn)
        if name not in self.selection.pixels:
            return self._padded(name, value)
        if name in self.selection.images:
            value = self._images(name, value)
        if self.options.augment:
            value = np.ascontiguousarray(pixels.augment(value, self.options.augment, drawn))
        how = self.options.normalize
        return value if how is None else pixels.normalize(value, how)

    def _images(self, name: str, content: Any) -> Pixels:
        """Decode one image to [h, w, c], or several to [n, h, w, c]."""
        feature, size = self.selection.features[name], self.options.image_size

        def image(one: bytes) -> Pixels:
            decoded = pixels.decode(one, channels=channels_of(feature))
            return decoded if size is None else pixels.resize(decoded, size)

        return np.stack([*map(image, content)]) if feature.shape else image(content)

    def _masks(self, name: str, content: Any, drawn: Sequence[float]) -> Pixels:
        """Decode one mask to [h, w, 1], or several to [n, h, w]."""
        feature, size = self.selection.features[name], self.options.image_size

        def mask(one: bytes) -> Pixels:
            decoded = pixels.decode_mask(one)
            decoded = decoded if size is None else pixels.resize_mask(decoded, size)
            return pixels.augment_mask(decoded, self.options.augment, drawn)

        if not feature.shape:
            return np.ascontiguousarray(mask(content))
        if not len(content):
            sides = size or [side or 0 for side in (feature.raw_shape or (0, 0))[:2]]
            dtype = np.uint16 if feature.raw_dtype == "uint16" else np.uint8
            return np.zeros((0, *sides), dtype)
        return np.stack([mask(one)[..., 0] for one in content])

    def _padded(self, name: str, value: Any) -> Any:
        length, shape = self.pad_to, self.selection.features[name].shape
        if length is None or not shape or shape[0] is not None:
            return value
        cut = np.asarray(value[:length])
        rest = [(0, length - len(cut)), *[(0, 0)] * (cut.ndim - 1)]
        return np.pad(cut, rest, constant_values=b"" if cut.dtype == object else 0)

    def _target(self, label: str, value: Any, drawn: Sequence[float]) -> tuple[Any, Any]:
        """Return y, and the weight 0 or 1 if records may lack it; else None."""
        selection, feature, weight = self.selection, self.selection.features[label], None
        if label in selection.masks:
            return self._masks(label, value, drawn), None
        if selection.multi_label:
            hot = np.zeros(self.classes, np.float32)
            hot[np.asarray(value, np.int64) - self.label_offset] = 1
            return hot, None
        if selection.is_nullable:
            weight = np.float32(len(value) > 0)
            stand_in = self.label_offset if feature.kind == "label" else 0
            value = value[0] if weight else value.dtype.type(stand_in)
        elif selection.may_be_nan:
            is_number = ~np.isnan(value)
            weight = np.float32(is_number.all())
            value = np.where(is_number, value, np.float32(0))[()]
        if self.options.one_hot:
            value = (np.arange(self.classes) == value - self.label_offset).astype(np.float32)
        return value, weight
