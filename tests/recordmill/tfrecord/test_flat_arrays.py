import numpy as np
import pytest

from recordmill.tfrecord.flat_arrays import stable_order


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-5, 5, np.int64),
        (0, 70_000, np.uint32),
        (10**15 - 50, 10**15, np.int64),
        (-(2**62), 2**62, np.int64),
        (2**63 - 20, 2**63 + 20, np.uint64),
    ],
)
def test_equal_integers_keep_their_order(low, high, dtype):
    random = np.random.default_rng(0)
    for count in (0, 1, 2, 500):
        numbers = np.array([low + int(n * (high - low)) for n in random.random(count)], dtype)
        numbers = numbers[random.integers(0, max(count, 1), count)]
        expected = sorted(range(count), key=lambda index: numbers[index])
        assert stable_order(numbers).tolist() == expected
