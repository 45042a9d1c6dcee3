"""CRC32C of many rows at once, against one call for each."""

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.crc import changes, crcs_of_alike


@given(st.data())
def test_rows_that_are_alike(data):
    width = data.draw(st.integers(1, 60))
    edges = sorted(data.draw(st.sets(st.integers(0, width), max_size=8)))
    stretches = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    start, stop = (edges[0], edges[-1]) if edges else (0, width)
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = np.repeat(generator.integers(0, 256, (1, width), np.uint8), 5, axis=0)
    for a, b in stretches:
        rows[:, a:b] = generator.integers(0, 256, (5, b - a))
    expected = [google_crc32c.value(row[start:stop].tobytes()) for row in rows]
    assert crcs_of_alike(rows, stretches, start=start, stop=stop).tolist() == expected


@pytest.mark.parametrize("following", [0, 1, 7, 1000])
def test_what_a_byte_changes(following):
    rest = bytes(following)
    none = google_crc32c.value(b"\0" + rest)
    expected = [google_crc32c.value(bytes([byte]) + rest) ^ none for byte in range(256)]
    assert changes(following).tolist() == expected
