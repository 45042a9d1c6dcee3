import numpy as np
import pytest

from recordmill.tfrecord.flat_arrays import hash_order, stable_order


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-5, 5, np.int64),
        (0, 70_000, np.uint32),
        (10**15 - 50, 10**15, np.int64),
        (-(2**15), 2**15 - 1, np.int16),
        (-(2**40), 2**40, np.int64),
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


@pytest.mark.parametrize("low", [0, 2**63])
@pytest.mark.parametrize("span", [1, 60, 2**20, 2**63 - 1])
def test_hashes_are_ordered_though_some_are_close(low, span):
    random = np.random.default_rng(0)
    for count in (0, 1, 2, 500):
        hashes = random.integers(0, span, count).astype(np.uint64) + np.uint64(low)
        hashes[count // 2 :] = hashes[: count - count // 2] ^ np.uint64(1)
        order = hash_order(hashes)
        assert sorted(order.tolist()) == [*range(count)]
        assert hashes[order].tolist() == sorted(hashes.tolist())
