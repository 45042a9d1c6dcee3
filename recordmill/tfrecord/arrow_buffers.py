"""Values of Arrow arrays as NumPy arrays, without the copies that Arrow's own conversions make."""

from __future__ import annotations

import functools
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.tfrecord.flat_arrays import Bytes, Ints

_Number = TypeVar("_Number", bound=np.generic)


def null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of the null values: bool[n]."""
    return numbers_of(array.is_null(), np.uint8).astype(np.bool_)


def numbers_of(array: pa.Array, dtype: type[_Number]) -> npt.NDArray[_Number]:
    """Return numbers or bools as an array of the dtype; the values at nulls are undefined."""
    if not len(array):  # an empty array may have no buffer
        return np.zeros(0, dtype)
    if pa.types.is_boolean(array.type):  # a bit each
        array = array.cast(pa.uint8())
    held = _dtype_of(array.type)
    numbers = np.frombuffer(array.buffers()[1], held, len(array), array.offset * held.itemsize)
    return numbers.astype(dtype, copy=False)  # Arrow's cast takes far longer


def float32_of(name: str, array: pa.Array) -> npt.NDArray[np.float32]:
    """Return the floats of a column as float32; the values at nulls are undefined.

    Raises:
        ValueError: a finite number is beyond float32.
    """
    try:
        with np.errstate(over="raise", invalid="ignore"):
            return numbers_of(array, np.float32)
    except FloatingPointError:  # perhaps of a value at a null
        with np.errstate(over="ignore", invalid="ignore"):
            floats = numbers_of(array, np.float32)
    lost = np.isinf(floats) & np.isfinite(numbers_of(array, np.float64)) & ~null_mask(array)
    if lost.any():
        at = int(np.argmax(lost))
        raise ValueError(
            f"column {name!r}: {array[at].as_py():g} is not a finite float32, the type of floats in"
            " an Example: leave such rows out"
        )
    return floats


@functools.cache
def _dtype_of(numbers: pa.DataType) -> np.dtype[np.generic]:
    kind = "f" if pa.types.is_floating(numbers) else "i"
    if pa.types.is_unsigned_integer(numbers):
        kind = "u"
    return np.dtype(f"{kind}{numbers.bit_width // 8}")


def bytes_of(array: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of strings or binary values, and their offsets, int64[n + 1]."""
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = array.buffers()
    large = array.type in (pa.large_string(), pa.large_binary())
    dtype = np.dtype(np.int64 if large else np.int32)
    used = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize)
    return np.frombuffer(data or b"", np.uint8), used.astype(np.int64)
