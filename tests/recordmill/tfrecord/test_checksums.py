"""CRC32C of many rows at once, compared with one call per row."""

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.tfrecord.checksums import crc_changes, crcs_of_similar_rows


@given(st.data())
def test_rows_that_differ_in_some_bytes(data):
    width = data.draw(st.integers(1, 60))
    edges = sorted(data.draw(st.sets(st.integers(0, width), max_size=8)))
    differing = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    start, stop = (edges[0], edges[-1]) if edges else (0, width)
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = np.repeat(generator.integers(0, 256, (1, width), np.uint8), 5, axis=0)
    for a, b in differing:
        rows[:, a:b] = generator.integers(0, 256, (5, b - a))
    expected = [google_crc32c.value(row[start:stop].tobytes()) for row in rows]
    assert crcs_of_similar_rows(rows, differing, start=start, stop=stop).tolist() == expected


@pytest.mark.parametrize("bytes_after", [0, 1, 7, 1000])
def test_changes_of_one_byte(bytes_after):
    rest = bytes(bytes_after)
    zero = google_crc32c.value(b"\0" + rest)
    expected = [google_crc32c.value(bytes([byte]) + rest) ^ zero for byte in range(256)]
    assert crc_changes(bytes_after).tolist() == expected
