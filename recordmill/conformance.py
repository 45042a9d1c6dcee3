"""Whether an Example is what the dataset declares."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from recordmill.example import Value
from recordmill.features import Feature, Features

# What Pillow's decoders are known to raise for content that is broken.
_BROKEN_PICTURE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


class NonconformingError(ValueError):
    """An Example that is not as declared; the message says how."""


class Conformance:
    """Checks Examples against what a dataset declares."""

    def __init__(
        self, features: Features, *, labels: Sequence[str], label_offset: int, deep: bool
    ) -> None:
        """deep: decode every picture, too."""
        self._features = features
        self._required = {name for name, feature in features.items() if None not in feature.shape}
        self._label_features = [name for name, f in features.items() if f.kind == "label"]
        self._numbers = {label: label_offset + place for place, label in enumerate(labels)}
        self._names = {number: label for label, number in self._numbers.items()}
        self._deep = deep

    def check(self, example: Mapping[str, Value]) -> None:
        """Checks the features of an Example.

        Raises:
          NonconformingError: says what is not as declared.
        """
        for name in sorted(self._required - example.keys()):
            raise NonconformingError(f"lacks the feature {name!r}")
        for name in sorted(example.keys() - self._features.keys()):
            raise NonconformingError(f"has the feature {name!r}, which is not declared")
        for name, values in example.items():
            try:
                _check_values(values, self._features[name], deep=self._deep)
            except NonconformingError as error:
                raise NonconformingError(f"feature {name!r}: {error}") from error
        for name in self._label_features:
            for number in _numbers(example.get(name)):
                if number not in self._names:
                    known = f"{min(self._names)} to {max(self._names)}" if self._names else "none"
                    raise NonconformingError(
                        f"feature {name!r}: expected the number of a class ({known}), got {number}"
                    )

    def check_label(self, example: Mapping[str, Value], label: str | None) -> None:
        """Checks that the class of a conforming Example is `label`.

        A record may hold the classes of its objects beside its own, so that one of the label
        features has to be it, or, where the record has none, all that hold just one are absent.

        Raises:
          NonconformingError: says what the class is instead.
        """
        found = {name: _numbers(example.get(name)) for name in self._label_features}
        if label is None:
            found = {name: some for name, some in found.items() if not self._features[name].shape}
            fits = not any(found.values())
        else:
            fits = not found or [self._numbers.get(label)] in found.values()
        if not fits:
            names = [self._names[number] for numbers in found.values() for number in numbers]
            got = ", ".join(map(repr, names)) or "missing"
            stated = "it has none" if label is None else repr(label)
            raise NonconformingError(f"its label is {got}, the index says {stated}")


def _numbers(values: Value) -> list[int]:
    return [] if values is None else [int(value) for value in values]


def _check_values(values: Value, feature: Feature, *, deep: bool) -> None:
    count = 0 if values is None else len(values)
    if values is not None and count and _dtype(values) != feature.dtype:
        raise NonconformingError(f"expected {feature.dtype}, got {_dtype(values)}")
    unit = math.prod(size for size in feature.shape if size is not None)
    if None not in feature.shape and count != unit:
        raise NonconformingError(f"expected {unit} values, got {count}")
    if unit and count % unit:
        raise NonconformingError(f"expected a multiple of {unit} values, got {count}")
    if not isinstance(values, list):
        return
    for value in values:
        match feature.kind:
            case "text":
                _check_text(value)
            case "raw":
                _check_array(value, feature)
            case "image" if deep:
                _check_picture(value)


def _dtype(values: list[bytes] | np.ndarray[Any, Any]) -> str:
    return "string" if isinstance(values, list) else values.dtype.name


def _check_text(value: bytes) -> None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise NonconformingError(f"not UTF-8 from byte {error.start} on") from error


def _check_array(value: bytes, feature: Feature) -> None:
    if feature.raw_dtype is None or feature.raw_shape is None:
        return
    shape = "x".join("?" if size is None else str(size) for size in feature.raw_shape)
    unit = np.dtype(feature.raw_dtype).itemsize
    unit *= math.prod(size for size in feature.raw_shape if size is not None)
    if None not in feature.raw_shape and len(value) != unit:
        raise NonconformingError(
            f"expected {unit} bytes ({feature.raw_dtype}, {shape or 'one value'}), got {len(value)}"
        )
    if unit and len(value) % unit:
        raise NonconformingError(
            f"expected a multiple of {unit} bytes ({feature.raw_dtype}, {shape}), got {len(value)}"
        )


def _check_picture(value: bytes) -> None:
    try:
        with Image.open(io.BytesIO(value)) as picture:
            picture.load()
    except _BROKEN_PICTURE as error:
        raise NonconformingError(
            f"no picture that can be decoded ({type(error).__name__})"
        ) from error
