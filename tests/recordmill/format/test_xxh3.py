"""xxh3_64 of many texts at once, against the library."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format import xxh3
from recordmill.format.xxh3 import hash_texts
from recordmill.transforms.model import batch


def hashed(texts):
    return hash_texts(b"".join(texts), np.cumsum([0, *map(len, texts)])).tolist()


def expected(texts):
    return [xxhash.xxh3_64_intdigest(text) for text in texts]


@given(st.lists(st.binary(max_size=80), max_size=10))
def test_texts_of_any_sizes(texts):
    assert hashed(texts) == expected(texts)


@pytest.mark.parametrize("size", range(80))
def test_texts_of_one_size(monkeypatch, size):
    generator = np.random.default_rng(size)
    texts = [generator.bytes(size) for _ in range(7)]
    for rows in (2, 100):
        monkeypatch.setattr(xxh3, "_ROWS", rows)
        assert hashed(texts) == expected(texts)


@given(st.lists(st.binary(min_size=16, max_size=16)), st.integers(0, 3))
def test_hashes_as_hex(values, start):
    hashes = pa.array(values, pa.binary(16)).slice(start)
    assert batch.hex_of(hashes).to_pylist() == [value.hex() for value in values[start:]]
    numbers = np.array([int.from_bytes(value[:8]) for value in values], np.uint64)
    assert batch.hex_of(numbers).to_pylist() == [value[:8].hex() for value in values]
