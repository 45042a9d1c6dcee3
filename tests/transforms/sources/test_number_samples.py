"""Floats that become equal as float32."""

import pyarrow as pa
import pytest

from recordmill.transforms.sources.row_formats.values.equal_floats import equal_floats


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e9, 1e9 + 1, None, float("nan"), float("inf")], (1e9, 1e9 + 1)),
        ([0.5, 1e9 + 0.25, 1e9 + 0.75], (1e9 + 0.25, 1e9 + 0.75)),
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
