"""How an array becomes records: as it is, item by item, or in chunks along an axis."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.transforms.sources.arrays.array_file import Span
from recordmill.transforms.sources.arrays.npy import shape_told

Unit = Literal["array", "item", "chunk"]
Rest = Literal["keep", "drop"]
Ints = npt.NDArray[np.int64]
Shape = tuple[int | None, ...]


class Places(NamedTuple):
    """Where records begin and end along the axis: int64[n] each."""

    starts: Ints
    stops: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayCut:
    """unit: what a record is. size, stride: of chunks, along `axis`, which counts from the end
    where it is below 0. rest: what becomes of a chunk that is shorter than the others.

    Raises:
      ConfigError: values that cannot work.
    """

    unit: Unit = "array"
    size: int = 0
    axis: int = 0
    stride: int = 0
    rest: Rest = "keep"

    def __post_init__(self) -> None:
        if self.unit == "chunk":
            for name, value in (("--chunk", self.size), ("--chunk-stride", self.stride)):
                if value < 1:
                    raise ConfigError(f"{name}: expected 1 or more, got {value}")

    def along(self, shape: tuple[int, ...]) -> int:
        """The axis that is cut, from 0 on. Raises RecordError for an array that has none."""
        axis = self.axis if self.unit == "chunk" else 0
        if not -len(shape) <= axis < len(shape):
            if not shape:
                raise RecordError(Reason.BAD_VALUE, "a single number, which cannot be cut")
            raise RecordError(
                Reason.BAD_VALUE, f"an array of {shape_told(shape)}, which has no axis {axis}"
            )
        return axis % len(shape)

    def count(self, shape: tuple[int, ...]) -> int:
        """How many records an array gives. Raises RecordError for one that gives none."""
        if self.unit == "array":
            return 1
        length = shape[self.along(shape)]
        if self.unit == "item":
            count = length
        elif self.rest == "keep":
            count = min(
                1 + max(-(-(length - self.size) // self.stride), 0), -(-length // self.stride)
            )
        else:
            count = max(1 + (length - self.size) // self.stride, 0)
        if count < 1:
            what = f"an array of {shape_told(shape)}, which has no items"
            if self.unit == "chunk":
                what = f"{length} along axis {self.along(shape)}, less than a chunk"
            raise RecordError(Reason.EMPTY, what)
        return count

    def leaves(self, shape: tuple[int, ...]) -> int:
        """Steps at the end of an array that gives records, which a shorter chunk would have."""
        if self.unit != "chunk" or self.rest == "keep":
            return 0
        last = (self.count(shape) - 1) * self.stride
        return max(shape[self.along(shape)] - last - max(self.size, self.stride), 0)

    def places(self, numbers: Ints, lengths: Ints) -> Places:
        """Of records by their numbers in arrays that are so long along the axis: int64[n] each."""
        if self.unit == "array":
            return Places(np.zeros_like(numbers), lengths)
        if self.unit == "item":
            return Places(numbers, numbers + 1)
        starts = numbers * self.stride
        return Places(starts, np.minimum(starts + self.size, lengths))

    def span(self, shape: tuple[int, ...], start: int, stop: int) -> Span | None:
        """Where a record is in an array; None for all of it."""
        return None if self.unit == "array" else Span(self.along(shape), start, stop)

    def shape_of(self, shape: tuple[int, ...]) -> Shape:
        """That of an array's records, None where they differ."""
        if self.unit == "array":
            return shape
        axis = self.along(shape)
        if self.unit == "item":
            return shape[1:]
        length = shape[axis]
        last = (self.count(shape) - 1) * self.stride
        size = min(self.size, length - last)
        alone = self.count(shape) == 1
        return (*shape[:axis], size if alone or size == self.size else None, *shape[axis + 1 :])


def merged(shapes: set[Shape]) -> Shape:
    """One shape for arrays of as many dimensions: None where they differ."""
    sizes = zip(*shapes, strict=True)
    return tuple(one[0] if len(set(one)) == 1 else None for one in sizes)
