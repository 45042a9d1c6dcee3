"""What texts can be: of a column what all of its values can be, wherever they stand in it."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.sources.row_formats.column_types import NARROW
from recordmill.transforms.sources.row_formats.value_parsing import Cells

TEXTS = st.text("+-.0179eE tfrualse", min_size=1, max_size=6)
MANY = 500  # more than are looked at first


def _is(text: str, kind: pa.DataType) -> bool:
    try:
        pa.array([text]).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


@given(st.lists(TEXTS | st.integers().map(str) | st.floats().map(str) | st.none(), max_size=5))
def test_a_column_is_what_all_of_its_values_can_be(values):
    texts = [value for value in values if value is not None]
    expected = [kind for kind in NARROW if all(_is(text, kind) for text in texts)]
    if any(re.match(r"[+-]?0\d", text) for text in texts):
        expected = []
    if pa.int64() not in expected and all(re.fullmatch(r"[+-]?\d+", text) for text in texts):
        expected = []
    found = Cells().kind("x", pa.array(values, pa.string()))
    assert found.types == ((*expected, pa.string()) if texts else ())


@pytest.mark.parametrize("odd", ["007", "-01", "+00.5", "0x1F", "0X0a", "x", "1" * 30])
def test_one_value_after_many_counts(odd):
    column = pa.array(["1"] * MANY + [odd])
    assert Cells().kind("x", column).types == (pa.string(),)
    assert Cells().kind("x", column.slice(1, MANY - 1)).types[0] == pa.int64()


def test_what_has_a_point_beside_a_decimal_comma_is_no_number():
    cells = Cells(decimal=",")
    assert cells.kind("x", pa.array(["1,5", "-2", ",5"])).types[0] == pa.float64()
    assert cells.kind("x", pa.array(["1,5", "1.000"])).types == (pa.string(),)
    values, unfit = cells.fit(pa.array(["1.000", "2,5", "1.000,5", None]), pa.float64())
    assert values.to_pylist() == [None, 2.5, None, None]
    assert unfit.tolist() == [True, False, True, False]


def test_large_integers_after_a_decimal_number_are_numbers():
    column = pa.array(["1" * 30] * MANY + ["0.5"])
    assert Cells().kind("x", column).types[0] == pa.float64()
    assert Cells().kind("x", column.slice(0, MANY)).types == (pa.string(),)
