"""Checks Examples against the features that a dataset declares."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.errors import RecordError
from recordmill.tfrecord.decode import Value, decoder
from recordmill.tfrecord.features import DType, Feature, Features, shape_text

_SIDES = ("height", "width")
_PNG = b"\x89PNG\r\n\x1a\n"  # the signature

_GRAY = 0  # PNG's colour type
_DTYPES = {"i": "int64", "f": "float32"}  # dtypes of decoded numbers, by numpy's kind


class NonconformingError(ValueError):
    """An Example that is not as declared; the message says why."""


class Conformance:
    """Checks Examples against the declared features and classes of a dataset.

    labels: the class names; label_offset: the number of the first class.
    deep: also decode every image, and compare its height and width with the declared shape.
    on_damage: called with libjpeg's warning on a JPEG that is decoded although its data is damaged.
    """

    def __init__(
        self,
        features: Features,
        *,
        labels: Sequence[str],
        label_offset: int,
        deep: bool,
        on_damage: Callable[[str], None] = lambda warning: None,
    ) -> None:
        self.decode = decoder(features)
        self._rules = {
            name: _Rule.of(feature, deep=deep, on_damage=on_damage)
            for name, feature in features.items()
        }
        self._required = {name for name, rule in self._rules.items() if rule.fixed}
        self._masks = {
            name: feature.shape_features
            for name, feature in features.items()
            if feature.kind == "mask" and len(feature.shape_features) == len(_SIDES)
        }
        self._label_features = [name for name, f in features.items() if f.kind == "label"]
        self._numbers = {label: label_offset + place for place, label in enumerate(labels)}
        self._names = {number: label for label, number in self._numbers.items()}

    def check(self, example: Mapping[str, Value]) -> None:
        """Check the features of an Example.

        Raises:
          NonconformingError: a feature is not as declared.
        """
        for name in sorted(self._required - example.keys()):
            raise NonconformingError(f"lacks the feature {name!r}")
        for name in sorted(example.keys() - self._rules.keys()):
            raise NonconformingError(f"has the feature {name!r}, which is not declared")
        for name, values in example.items():
            try:
                self._rules[name].check(values)
            except NonconformingError as error:
                raise NonconformingError(f"feature {name!r}: {error}") from error
        for name, sides in self._masks.items():
            for content in example.get(name) or ():
                _check_mask_size(name, content, example, sides)
        for name in self._label_features:
            for number in _numbers(example.get(name)):
                if number not in self._names:
                    known = f"{min(self._names)} to {max(self._names)}" if self._names else "none"
                    raise NonconformingError(
                        f"feature {name!r}: expected the number of a class ({known}), got {number}"
                    )

    def check_label(self, example: Mapping[str, Value], label: str | None) -> None:
        """Check that the class of a conforming Example is `label`; None means unlabelled.

        A record may have several label features, such as its own class and those of its objects:
        one of them must hold exactly `label`. In an unlabelled record the features of one value
        must be absent.

        Raises:
          NonconformingError: the class is another one; the message names it.
        """
        found = {name: _numbers(example.get(name)) for name in self._label_features}
        if label is None:
            found = {name: some for name, some in found.items() if self._rules[name].fixed}
            fits = not any(found.values())
        else:
            fits = not found or [self._numbers.get(label)] in found.values()
        if not fits:
            raise self._other_label(found, [] if label is None else [label])

    def check_labels(self, example: Mapping[str, Value], labels: Sequence[str]) -> None:
        """Check that a label feature of a conforming Example has all these classes, and no others.

        Raises:
          NonconformingError: they are others; the message names them.
        """
        found = {name: _numbers(example.get(name)) for name in self._label_features}
        wanted = sorted(self._numbers.get(label, -1) for label in labels)
        if found and wanted not in found.values():
            raise self._other_label(found, labels)

    def _other_label(
        self, found: Mapping[str, Sequence[int]], labels: Sequence[str]
    ) -> NonconformingError:
        names = [self._names[number] for numbers in found.values() for number in numbers]
        got = ", ".join(map(repr, names)) or "missing"
        stated = ", ".join(map(repr, labels)) or "it has none"
        return NonconformingError(f"its label is {got}, the index says {stated}")


def _numbers(values: Value) -> list[int]:
    return [] if values is None else [int(value) for value in values]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """The checks of one feature, prepared once for all records.

    unit: the number of values; if `fixed` is false, that number is a multiple of it.
    check_value: checks one byte string.
    size: numbers must be from 0 to size - 1.
    """

    dtype: DType
    unit: int
    fixed: bool
    check_value: Callable[[bytes], None] | None
    size: int | None

    @classmethod
    def of(cls, feature: Feature, *, deep: bool, on_damage: Callable[[str], None]) -> _Rule:
        check_value: Callable[[bytes], None] | None = None
        match feature.kind:
            case "text":
                check_value = _check_text
            case "raw" if feature.raw_dtype is not None and feature.raw_shape is not None:
                check_value = functools.partial(
                    _check_array, dtype=feature.raw_dtype, shape=feature.raw_shape
                )
            case "mask":
                bits = 16 if feature.raw_dtype == "uint16" else 8
                check_value = functools.partial(
                    _check_mask, bits=bits, shape=feature.raw_shape, deep=deep
                )
            case "image" if deep:
                check_value = (
                    functools.partial(_check_image16, shape=feature.raw_shape)
                    if feature.raw_dtype == "uint16"
                    else functools.partial(
                        _check_image, shape=feature.raw_shape, on_damage=on_damage
                    )
                )
        return cls(
            dtype=feature.dtype,
            unit=math.prod(size for size in feature.shape if size is not None),
            fixed=None not in feature.shape,
            check_value=check_value,
            size=feature.size,
        )

    def check(self, values: Value) -> None:
        count = 0 if values is None else len(values)
        if count != self.unit:
            if self.fixed:
                raise NonconformingError(f"expected {self.unit} values, got {count}")
            if self.unit and count % self.unit:
                raise NonconformingError(f"expected a multiple of {self.unit} values, got {count}")
        if values is None or not count:
            return
        # Looked up by kind: reading the name of a dtype would take longer than all other checks.
        dtype = "string" if isinstance(values, list) else _DTYPES[values.dtype.kind]
        if dtype != self.dtype:
            raise NonconformingError(f"expected {self.dtype}, got {dtype}")
        if self.check_value is not None and isinstance(values, list):
            for value in values:
                self.check_value(value)
        if self.size is not None and not isinstance(values, list):
            _check_indices(values, self.size)


def _check_indices(values: npt.NDArray[Any], size: int) -> None:
    wrong = values[(values < 0) | (values >= size)]
    if wrong.size:
        raise NonconformingError(f"expected numbers from 0 to {size - 1}, got {wrong[0]}")


def _check_text(value: bytes) -> None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise NonconformingError(f"not UTF-8 from byte {error.start} on") from error


def _check_array(value: bytes, *, dtype: str, shape: Sequence[int | None]) -> None:
    unit = np.dtype(dtype).itemsize * math.prod(size for size in shape if size is not None)
    whole = len(value) % unit == 0 if unit else not value
    if whole and (None in shape or len(value) == unit):
        return
    number = f"a multiple of {unit}" if None in shape else str(unit)
    raise NonconformingError(
        f"expected {number} bytes ({dtype}, {shape_text(shape)}), got {len(value)}"
    )


def _check_image(
    value: bytes,
    *,
    shape: Sequence[int | None] | None,
    on_damage: Callable[[str], None] = lambda warning: None,
) -> None:
    """Check that an image can be decoded. shape: as declared, with channels last, or None.

    The number of channels may differ, because the loader converts it.
    """
    # Checks that are not deep do without Pillow.
    from recordmill.format.image_files import UNREADABLE_IMAGE, load_image, open_image

    try:
        with open_image(value) as image:
            warning = load_image(image, value)
            sides = (image.height, image.width)
    except RecordError as error:
        raise NonconformingError(f"the image cannot be decoded ({error.detail})") from error
    except UNREADABLE_IMAGE as error:
        raise NonconformingError(f"the image cannot be decoded ({type(error).__name__})") from error
    if warning is not None:
        on_damage(warning)
    if shape is None:
        return
    *declared, _ = shape or (None,)
    if len(declared) != len(sides) or any(
        size not in (None, side) for size, side in zip(declared, sides, strict=True)
    ):
        raise NonconformingError(
            f"expected the height and width of {shape_text(shape)}, got {shape_text(sides)}"
        )


def _check_mask(value: bytes, *, bits: int, shape: Sequence[int | None] | None, deep: bool) -> None:
    if value[: len(_PNG)] != _PNG or value[24:26] != bytes([bits, _GRAY]):
        raise NonconformingError(f"expected a gray PNG of {bits} bits per pixel")
    if deep:
        _check_image(value, shape=shape)


def _check_mask_size(
    name: str, content: bytes, example: Mapping[str, Value], sides: Sequence[str]
) -> None:
    """Check that a mask has the size of its image. sides: the features of height and width."""
    width, height = struct.unpack(">II", content[16:24])
    for side, found in zip(sides, (height, width), strict=True):
        stated = _numbers(example.get(side))
        if stated != [found]:
            raise NonconformingError(
                f"feature {name!r}: expected a mask of the size of the image, got {width}x{height}"
            )


def _check_image16(value: bytes, *, shape: Sequence[int | None] | None) -> None:
    if not value.startswith(_PNG) or value[24:25] != b"\x10":  # where a PNG has its bit depth
        raise NonconformingError("expected a PNG with 16 bits per channel")
    _check_image(value, shape=shape)
