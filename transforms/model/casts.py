"""Numbers of one dtype as another: what is kept, what is rounded, what is refused."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError, Reason, RecordError

Cast = Literal["safe", "same-kind"]

# What TensorFlow and numpy both have; numpy's names.
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def check_target(dtype: str | None) -> None:
    """Raises ConfigError for a dtype that arrays cannot be cast to."""
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"--dtype: expected one of {', '.join(DTYPES)}; got {dtype!r}")


def is_exact(own: str, target: str) -> bool:
    """Whether every number of a dtype is one of the other."""
    one, other = np.dtype(own), np.dtype(target)
    if not np.can_cast(one, other, "safe"):
        return False
    if one.kind in "iu" and other.kind in "fc":  # numpy takes int64 for safe in float64
        bits = one.itemsize * 8 - (one.kind == "i")
        part: Any = np.empty(0, other).real.dtype
        return bits <= int(np.finfo(part).nmant) + 1
    return True


def cast_problem(own: str, target: str, how: Cast) -> str | None:
    """Why arrays of a dtype are not cast to another; None where they are."""
    if own == target or is_exact(own, target):
        return None
    if not np.can_cast(np.dtype(own), np.dtype(target), "same_kind"):
        return f"an array of {own}, which is not cast to {target}: another kind of number"
    if how == "same-kind":
        return None
    return (
        f"an array of {own}, which {target} does not hold exactly: --cast same-kind rounds, or"
        " choose a wider --dtype"
    )


def cast_array(array: npt.NDArray[Any], target: str) -> npt.NDArray[Any]:
    """The numbers in a dtype that `cast_problem` allows, little-endian and in C order.

    Raises RecordError for a number that is too large for it.
    """
    dtype = np.dtype(target).newbyteorder("<")
    if array.dtype.kind in "iu" and dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise _too_large(low if low < limits.min else high, target)
    with np.errstate(over="ignore"):
        out = array.astype(dtype, order="C", copy=False)
    if array.dtype.kind in "iufc" and dtype.kind in "fc" and not is_exact(array.dtype.name, target):
        beyond = np.isinf(out) & np.isfinite(array)
        if beyond.any():
            raise _too_large(array[beyond][0], target)
    return out


def _too_large(value: object, target: str) -> RecordError:
    return RecordError(Reason.BAD_VALUE, f"{value} is more than {target} holds")
