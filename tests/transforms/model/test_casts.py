"""Casts: what stays what it is, what is rounded, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError, RecordError
from recordmill.transforms.model.casts import (
    DTYPES,
    cast_array,
    cast_problem,
    check_target,
    is_exact,
)

KIND = "another kind of number"
INEXACT = "cannot hold an array of"


@pytest.mark.parametrize(
    ("own", "target", "safe", "same_kind"),
    [
        ("int8", "int64", None, None),
        ("uint8", "float16", None, None),
        ("int16", "float16", INEXACT, None),
        ("int32", "float32", INEXACT, None),
        ("uint32", "float64", None, None),
        ("int64", "float64", INEXACT, None),  # numpy's own "safe" allows it
        ("uint64", "int64", INEXACT, None),
        ("float64", "float32", INEXACT, None),
        ("float32", "complex64", None, None),
        ("float64", "complex64", INEXACT, None),
        ("bool", "float32", None, None),
        ("float32", "int64", KIND, KIND),
        ("complex64", "float64", KIND, KIND),
        ("int8", "bool", KIND, KIND),
    ],
)
def test_what_is_cast(own, target, safe, same_kind) -> None:
    for how, why in (("safe", safe), ("same-kind", same_kind)):
        found = cast_problem(own, target, how)
        assert (found is None) == (why is None)
        assert why is None or why in found


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.data())
def test_a_safe_cast_keeps_every_number(own, target, data) -> None:
    bits = data.draw(st.binary(min_size=16, max_size=16))
    array = np.frombuffer(bits, own) if own != "bool" else np.frombuffer(bits, np.uint8) > 127
    if not is_exact(own, target):
        return
    out = cast_array(array, target)
    assert out.dtype.name == target
    back = out.real if np.dtype(own).kind != "c" else out
    np.testing.assert_array_equal(back.astype(own), array)


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.binary(min_size=16, max_size=16))
def test_a_cast_gives_no_other_number_than_the_nearest(own, target, bits) -> None:
    array = np.frombuffer(bits, own) if own != "bool" else np.frombuffer(bits, np.uint8) > 127
    if cast_problem(own, target, "same-kind"):
        return
    try:
        out = cast_array(array, target)
    except RecordError:
        return
    if out.dtype.kind in "iu":
        assert out.tolist() == array.tolist()
    else:
        np.testing.assert_array_equal(np.isfinite(out), np.isfinite(array))


@pytest.mark.parametrize(
    ("array", "target", "message"),
    [
        (np.array([1, 300]), "uint8", "300 is out of range of uint8"),
        (np.array([-1]), "uint8", "-1 is out of range of uint8"),
        (np.array([2**64 - 1], np.uint64), "int64", f"{2**64 - 1} is out of range of int64"),
        (np.array([1e300]), "float32", "1e+300 is out of range of float32"),
        (np.array([70000]), "float16", "70000 is out of range of float16"),
    ],
)
def test_what_is_too_large_is_a_reject(array, target, message) -> None:
    with pytest.raises(RecordError) as error:
        cast_array(array, target)
    assert message in error.value.detail


def test_infinity_stays(recwarn) -> None:
    out = cast_array(np.array([np.inf, -np.inf, np.nan]), "float16")
    np.testing.assert_array_equal(out, np.array([np.inf, -np.inf, np.nan], np.float16))
    assert not recwarn.list


@pytest.mark.parametrize("dtype", ["float128", "f4", "str", "object", ""])
def test_what_is_no_target(dtype) -> None:
    with pytest.raises(ConfigError, match="dtype: expected one of bool, int8"):
        check_target(dtype)
