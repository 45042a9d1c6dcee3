"""Samples of columns of numbers: points that may separate thousands, and equal floats."""

import numpy as np
import pyarrow as pa
import pytest

from recordmill.transforms.sources.row_formats.equal_floats import equal_floats
from recordmill.transforms.sources.row_formats.number_points import PointUse, point_use


def use_of(texts: list[str | None]) -> PointUse:
    column = pa.array(texts, pa.string())
    return point_use(column, column.cast(pa.float64()), np.arange(1, len(texts) + 1), ".")


def test_points_of_several_blocks_are_added_up():
    blocks = [use_of([None, "7"]), use_of(["1.250", "7"]), use_of(["2.500", "2.125"])]
    joined = blocks[0].plus(blocks[1]).plus(blocks[2])
    assert joined == PointUse(grouped=3, value="1.250", row=1, plain=True)
    assert joined.groups_thousands(commas=False)
    assert not joined.plus(use_of(["0.5"])).groups_thousands(commas=True)
    whole = pa.array([1, 1000])
    more = point_use(whole.cast(pa.string()), whole, np.arange(2), ".")
    assert not joined.plus(more).groups_thousands(commas=True)


def test_a_sample_is_spread_over_the_block():
    texts = [*["5"] * 9000, *["1.250"] * 1000]
    found = use_of(texts)
    assert 3 <= found.grouped <= 100
    assert texts[found.row - 1] == found.value == "1.250"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e9, 1e9 + 1, None, float("nan"), float("inf")], (1e9, 1e9 + 1, True)),
        ([0.5, 1e9 + 0.25, 1e9 + 0.75], (1e9 + 0.25, 1e9 + 0.75, False)),
        ([*range(16, 40), 1e9, 1e9 + 1], None),  # less than a tenth
        ([0.1 + 0.2, 0.3, 0.1], None),  # differ by rounding alone
        ([n / 7 for n in range(2000)], None),
        ([1e300, 1e301, 5.0], None),
        ([1e9] * 9, None),
        ([None], None),
    ],
)
def test_floats_that_become_equal(values, expected):
    found = equal_floats(pa.array(values, pa.float64()))
    assert (found and tuple(found)) == expected
