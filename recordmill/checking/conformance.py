"""Whether an Example is what the dataset declares."""

from __future__ import annotations

import dataclasses
import functools
import io
import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.format.decode import Value, decoder
from recordmill.format.features import DType, Feature, Features

# What Pillow's decoders are known to raise for content that is broken.
_BROKEN_PICTURE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


_DTYPES = {"i": "int64", "f": "float32"}  # of decoded numbers, by numpy's kind


class NonconformingError(ValueError):
    """An Example that is not as declared; the message says how."""


class Conformance:
    """Checks Examples against what a dataset declares."""

    def __init__(
        self, features: Features, *, labels: Sequence[str], label_offset: int, deep: bool
    ) -> None:
        """deep: decode every picture, too."""
        self.decode = decoder(features)
        self._rules = {name: _Rule.of(feature, deep=deep) for name, feature in features.items()}
        self._required = {name for name, rule in self._rules.items() if rule.fixed}
        self._label_features = [name for name, f in features.items() if f.kind == "label"]
        self._numbers = {label: label_offset + place for place, label in enumerate(labels)}
        self._names = {number: label for label, number in self._numbers.items()}

    def check(self, example: Mapping[str, Value]) -> None:
        """Checks the features of an Example.

        Raises:
          NonconformingError: says what is not as declared.
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
            found = {name: some for name, some in found.items() if self._rules[name].fixed}
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """A feature's declaration, worked out once for all records.

    unit: its values, or where `fixed` is false, what their number is a multiple of. size: more than
    any of its numbers is.
    """

    dtype: DType
    unit: int
    fixed: bool
    check_value: Callable[[bytes], None] | None
    size: int | None

    @classmethod
    def of(cls, feature: Feature, *, deep: bool) -> _Rule:
        check_value: Callable[[bytes], None] | None = None
        match feature.kind:
            case "text":
                check_value = _check_text
            case "raw" if feature.raw_dtype is not None and feature.raw_shape is not None:
                check_value = functools.partial(
                    _check_array, dtype=feature.raw_dtype, shape=feature.raw_shape
                )
            case "image" if deep:
                check_value = _check_picture
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
        # An array is int64 or float32; its dtype's name would take longer than all the rest.
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
    sizes = "x".join("?" if size is None else str(size) for size in shape) or "one value"
    number = f"a multiple of {unit}" if None in shape else str(unit)
    raise NonconformingError(f"expected {number} bytes ({dtype}, {sizes}), got {len(value)}")


def _check_picture(value: bytes) -> None:
    try:
        with Image.open(io.BytesIO(value)) as picture:
            picture.load()
    except _BROKEN_PICTURE as error:
        raise NonconformingError(
            f"no picture that can be decoded ({type(error).__name__})"
        ) from error
