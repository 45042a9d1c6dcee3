"""Casts of arrays from one numeric dtype to another.

Safe casts keep every number exactly; same-kind casts may round; all others are errors.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.option_names import option_name

Cast = Literal["safe", "same-kind"]

# The dtypes that TensorFlow and NumPy share, by NumPy's names.
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def check_target(dtype: str | None) -> None:
    """Check that arrays can be cast to a dtype.

    Raises:
        ConfigError: the dtype is not supported.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(
            f"{option_name('dtype')}: expected one of {', '.join(DTYPES)}; got {dtype!r}"
        )


def is_exact(own: str, target: str) -> bool:
    """Return whether `target` represents every number of dtype `own` exactly."""
    one, other = np.dtype(own), np.dtype(target)
    if not np.can_cast(one, other, "safe"):
        return False
    if one.kind in "iu" and other.kind in "fc":  # NumPy calls int64 to float64 safe
        bits = one.itemsize * 8 - (one.kind == "i")
        part: Any = np.empty(0, other).real.dtype
        return bits <= int(np.finfo(part).nmant) + 1
    return True


def cast_problem(own: str, target: str, how: Cast) -> str | None:
    """Return the reason why arrays of dtype `own` cannot be cast to `target`; None if they can."""
    if own == target or is_exact(own, target):
        return None
    if not np.can_cast(np.dtype(own), np.dtype(target), "same_kind"):
        return f"an array of {own} cannot be cast to {target}, which is another kind of number"
    if how == "same-kind":
        return None
    return (
        f"{target} cannot hold an array of {own} exactly: round with --cast same-kind, or choose"
        " a wider --dtype"
    )


def cast_array(array: npt.NDArray[Any], target: str) -> npt.NDArray[Any]:
    """Return an array in a dtype that `cast_problem` allows, little-endian and in C order.

    Raises:
        RecordError: a number is out of range of the dtype.
    """
    dtype = np.dtype(target).newbyteorder("<")
    if array.dtype.kind in "iu" and dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise _out_of_range(low if low < limits.min else high, target)
    with np.errstate(over="ignore"):
        out = array.astype(dtype, order="C", copy=False)
    if array.dtype.kind in "iufc" and dtype.kind in "fc" and not is_exact(array.dtype.name, target):
        beyond = np.isinf(out) & np.isfinite(array)
        if beyond.any():
            raise _out_of_range(array[beyond][0], target)
    return out


def _out_of_range(value: object, target: str) -> RecordError:
    return RecordError(Reason.BAD_VALUE, f"{value} is out of range of {target}")
