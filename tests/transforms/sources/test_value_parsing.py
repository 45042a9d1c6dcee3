"""Type inference and parsing of columns of text."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.sources.row_formats.values.column_types import NARROW
from recordmill.transforms.sources.row_formats.values.value_parsing import (
    ValueParser,
    type_mismatch,
)

TEXTS = st.text("+-.0179eE tfrualse", min_size=1, max_size=6)
MANY = 500  # more than the sample


def _is(text: str, kind: pa.DataType) -> bool:
    try:
        pa.array([text]).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


@given(st.lists(TEXTS | st.integers().map(str) | st.floats().map(str) | st.none(), max_size=5))
def test_a_column_type_holds_all_values(values):
    texts = [value for value in values if value is not None]
    expected = [kind for kind in NARROW if all(_is(text, kind) for text in texts)]
    if any(re.match(r"[+-]?0\d", text) for text in texts):
        expected = []
    if pa.int64() not in expected and all(re.fullmatch(r"[+-]?\d+", text) for text in texts):
        expected = []
    found = ValueParser().infer_type("x", pa.array(values, pa.string()))
    assert found.types == ((*expected, pa.string()) if texts else ())


@pytest.mark.parametrize("odd", ["007", "-01", "+00.5", "0x1F", "0X0a", "x", "1" * 30])
def test_one_value_after_many_counts(odd):
    column = pa.array(["1"] * MANY + [odd])
    assert ValueParser().infer_type("x", column).types == (pa.string(),)
    assert ValueParser().infer_type("x", column.slice(1, MANY - 1)).types[0] == pa.int64()


def test_a_point_beside_a_decimal_comma_is_text():
    cells = ValueParser(decimal=",")
    assert cells.infer_type("x", pa.array(["1,5", "-2", ",5"])).types[0] == pa.float64()
    assert cells.infer_type("x", pa.array(["1,5", "1.000"])).types == (pa.string(),)
    values, unfit = cells.cast_or_null(pa.array(["1.000", "2,5", "1.000,5", None]), pa.float64())
    assert values.to_pylist() == [None, 2.5, None, None]
    assert unfit.tolist() == [True, False, True, False]


def test_large_integers_after_a_decimal_number_are_numbers():
    column = pa.array(["1" * 30] * MANY + ["0.5"])
    assert ValueParser().infer_type("x", column).types[0] == pa.float64()
    assert ValueParser().infer_type("x", column.slice(0, MANY)).types == (pa.string(),)


@pytest.mark.parametrize(("kind", "value"), [(pa.int64(), 2**53 + 1), (pa.uint64(), 2**63 + 5)])
def test_large_integers_are_numbers(kind, value):
    """They are rounded, as those of text are."""
    found, unfit = ValueParser().cast_or_null(pa.array([value, None], kind), pa.float64())
    assert found.to_pylist() == [float(value), None]
    assert not unfit.any()


@pytest.mark.parametrize("zone", ["+02:00", "Z", "-0930", " +01", "", "+2:00"])
def test_times_with_an_offset_are_rejected_with_advice(zone):
    value = f"2024-03-01T10:00:00{zone}"
    message = type_mismatch("my time", pa.timestamp("us"), value)
    first = f"column 'my time': expected a time such as 2026-01-31 18:00, got {value!r}"
    if zone in ("", "+2:00"):  # these have another fault
        assert message == first
    else:
        assert message == (
            f"{first}, which has an offset from UTC: convert times to UTC, without an offset, in"
            " the input, or keep them as text with --types 'my time=string'"
        )
    assert "offset" not in type_mismatch("t", pa.date32(), value)
