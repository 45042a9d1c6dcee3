"""Splitting of arrays into records: whole, item by item, or in chunks along an axis."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.option_names import option_name
from recordmill.transforms.sources.arrays.array_file import Span
from recordmill.transforms.sources.arrays.npy import format_shape

Unit = Literal["array", "item", "chunk"]
Rest = Literal["keep", "drop"]
Ints = npt.NDArray[np.int64]
Shape = tuple[int | None, ...]


class Places(NamedTuple):
    """Start and stop (exclusive) of n records along the axis, int64[n] each."""

    starts: Ints
    stops: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySlicing:
    """Options for splitting an array into records.

    unit: the part of an array that is a record.
    size, stride: of chunks, along `axis`.
    axis: counts from the last axis if it is negative.
    rest: whether to keep or drop a chunk that is shorter than the others.

    Raises:
      ConfigError: size or stride is invalid.
    """

    unit: Unit = "array"
    size: int = 0
    axis: int = 0
    stride: int = 0
    rest: Rest = "keep"

    def __post_init__(self) -> None:
        if self.unit == "chunk":
            for name, value in (("chunk", self.size), ("chunk_stride", self.stride)):
                if value < 1:
                    raise ConfigError(f"{option_name(name)}: expected 1 or more, got {value}")

    @classmethod
    def of(
        cls, *, per_item: bool, chunk: int | None, axis: int, stride: int | None, rest: Rest
    ) -> ArraySlicing:
        """Return the slicing into items, into chunks of `chunk` steps, or into whole arrays."""
        if chunk is None:
            return cls(unit="item" if per_item else "array")
        stride = chunk if stride is None else stride
        return cls(unit="chunk", size=chunk, axis=axis, stride=stride, rest=rest)

    def along(self, shape: tuple[int, ...]) -> int:
        """Return the axis to split, 0 or more. Raises RecordError if the array has no such axis."""
        axis = self.axis if self.unit == "chunk" else 0
        if not -len(shape) <= axis < len(shape):
            if not shape:
                raise RecordError(Reason.BAD_VALUE, "a single number, which cannot be split")
            raise RecordError(
                Reason.BAD_VALUE, f"an array of {format_shape(shape)}, which has no axis {axis}"
            )
        return axis % len(shape)

    def count(self, shape: tuple[int, ...]) -> int:
        """Return the number of records of an array.

        Raises:
          RecordError: it has no records, or no values.
        """
        if 0 in shape:
            raise RecordError(
                Reason.EMPTY, f"an array of {format_shape(shape)}, which has no values"
            )
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
            what = f"{length} along axis {self.along(shape)}, which is less than a chunk"
            raise RecordError(Reason.EMPTY, what)
        return count

    def unused_steps(self, shape: tuple[int, ...]) -> int:
        """Return the number of steps at the end of an array that are in no chunk."""
        if self.unit != "chunk" or self.rest == "keep":
            return 0
        last = (self.count(shape) - 1) * self.stride
        return max(shape[self.along(shape)] - last - max(self.size, self.stride), 0)

    def places(self, numbers: Ints, lengths: Ints) -> Places:
        """Return the places of records.

        numbers: index of each record in its array, int64[n]. lengths: of its array along the axis,
        int64[n].
        """
        if self.unit == "array":
            return Places(np.zeros_like(numbers), lengths)
        if self.unit == "item":
            return Places(numbers, numbers + 1)
        starts = numbers * self.stride
        return Places(starts, np.minimum(starts + self.size, lengths))

    def span(self, shape: tuple[int, ...], start: int, stop: int) -> Span | None:
        """Return the span of a record in an array, None for the whole array."""
        return None if self.unit == "array" else Span(self.along(shape), start, stop)

    def shape_of(self, shape: tuple[int, ...]) -> Shape:
        """Return the shape of the records of an array, with None for sizes that vary."""
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


def merge_shapes(shapes: set[Shape]) -> Shape:
    """Merge shapes of equal rank: a size that varies becomes None."""
    sizes = zip(*shapes, strict=True)
    return tuple(one[0] if len(set(one)) == 1 else None for one in sizes)
