import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.options import values


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (values.size, "224", (224, 224)),
        (values.size, "480X640", (480, 640)),
        (values.size, "99999999", (99999999, 99999999)),  # too large, which ImageOptions says
        (values.byte_size, "128MB", 128_000_000),
        (values.duration, "10", 10_000_000),
        (values.duration, "0.5s", 500_000),
        (values.duration, "1h30m", 5_400_000_000),
        (values.duration, "2 d 3 us", 172_800_000_003),
        (values.moments, "a=1970-01-02,b=1970-01-01T01:00+01:00", {"a": 86_400_000_000, "b": 0}),
        (values.byte_size, "1 gib", 2**30),
        (values.byte_size, "1.5KB", 1500),
        (values.byte_size, "0.1KiB", 102),
        (values.byte_size, "9007199254740993", 9007199254740993),
        (values.colour, "255, 0,7", (255, 0, 7)),
        (values.colour, "#FFffFF", (255, 255, 255)),
        (values.colour, "Grey", (128, 128, 128)),
        (values.intensity_window, "-100:4e2", (-100.0, 400.0)),
        (values.intensity_window, "image", "image"),
        (values.fractions, "a=.5, b=5e-1", {"a": 0.5, "b": 0.5}),
        (values.shard_counts, "16", 16),
        (values.shard_counts, "a=1,b=2", {"a": 1, "b": 2}),
        (values.balance_target, "median", "median"),
        (values.balance_target, "100", 100),
        (values.boolean, "ON", True),
        (values.names, ["b, a", "b", "c,"], ("a", "b", "c")),
        (values.whole_number, "-1", -1),
    ],
)
def test_values(read: Callable[[Any], Any], text: Any, expected: Any) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "given", "message"),
    [
        (values.size, "big", "expected N or HEIGHTxWIDTH, such as 224 or 480x640; got 'big'"),
        (values.size, "-3", "got '-3'"),
        (values.size, "٣", "got '٣'"),
        (values.size, "0x9", "expected a size of at least one pixel, got '0x9'"),
        (values.byte_size, "12 parsecs", "such as 128MB, 1GiB or 1000000; got '12 parsecs'"),
        (values.byte_size, "-1", "got '-1'"),
        (values.duration, "soon", "a duration, such as 10s, 500ms, 1h30m or 1d; got 'soon'"),
        (values.duration, "10s!", "got '10s!'"),
        (values.duration, "", "got ''"),
        (values.moments, "a=yesterday", "such as test=2026-01-31T18:00; got 'a=yesterday'"),
        (values.colour, "256,0,0", "R,G,B of 0 to 255, as #rrggbb, or one of black, white, gray"),
        (values.colour, "#fff", "got '#fff'"),
        (values.intensity_window, "own", "expected LOW:HIGH, such as 0:4095, or image; got 'own'"),
        (values.fractions, "train", "such as train=0.8,test=0.2; got 'train'"),
        (values.fractions, "train=0.8,", "got 'train=0.8,'"),
        (values.fractions, "train=most", "got 'most'"),
        (values.fractions, "a=0.5,a=0.5", "got 'a' twice"),
        (values.shard_counts, "many", "such as 16 or train=16,test=2; got 'many'"),
        (values.shard_counts, "train=1.5", "got '1.5'"),
        (
            values.balance_target,
            "mean",
            "a number of records, median or repeat:THRESHOLD; got 'mean'",
        ),
        (values.balance_target, "repeat:2", "a fraction such as repeat:0.001; got 'repeat:2'"),
        (values.renames, ["a"], "expected OLD=NEW, such as image/encoded=image_raw; got 'a'"),
        (values.renames, ["=b"], "got '=b'"),
        (values.renames, ["a=b", "a=c"], "expected one new name for 'a', got 'b' and 'c'"),
        (values.runner, "spark", "expected direct or flink (or DirectRunner, FlinkRunner)"),
    ],
)
def test_bad_values(read: Callable[[Any], Any], given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read(given)


@given(st.integers(0, 2**63))
def test_bytes_read_back(size: int) -> None:
    shown = values.show_bytes(size)
    assert shown is not None
    assert values.byte_size(shown) == size


@given(st.integers(1, 10**12))
def test_durations_read_back(microseconds: int) -> None:
    shown = values.show_duration(microseconds)
    assert shown is not None
    assert values.duration(shown) == microseconds


@given(st.dictionaries(st.sampled_from("abc"), st.integers(-(10**15), 10**15), min_size=1))
def test_moments_read_back(moments: dict[str, int]) -> None:
    shown = values.show_moments(moments)
    assert shown is not None
    assert values.moments(shown) == moments


def test_bytes_show_in_the_largest_unit() -> None:
    shown = [values.show_bytes(size) for size in (128_000_000, 2**30, 1500, 0)]
    assert shown == ["128MB", "1GiB", "1500", "0"]
