"""Assignment of frames to clips, against a slow and plain reference."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.transforms.sources.video.clip_plan import ClipSampling, ClipSection, plan_sections
from recordmill.transforms.sources.video.frame_times import Packets
from tests.examples_of_properties import many

MILLI = Fraction(1, 1000)


def packets(times: list[int], *, keys: list[int] | None = None, end: int | None = None) -> Packets:
    """Return packets of frames at these milliseconds; keys: indices of the key frames."""
    numbers = [0] if keys is None else keys
    return Packets(
        times=np.array(times, np.int64),
        keys=np.array([(times[n], times[n] - 3) for n in numbers], np.int64),
        sizes=np.full(len(numbers), 10, np.int64),
        end=times[-1] + 40 if end is None else end,
    )


def clips_of(
    found: Packets, cut: ClipSampling, **options: object
) -> list[tuple[int, list[int], int]]:
    """Return (first slot, frame numbers, frames without padding) of all clips."""
    sections = plan_sections(found, cut, MILLI, **options)
    return [
        (clip.start, clip.frames.tolist(), clip.real_frames)
        for section in sections
        for clip in ClipSection.from_text(section.to_text()).clips(cut, MILLI)
    ]


@st.composite
def videos(draw) -> Packets:
    gaps = draw(st.lists(st.integers(1, 90), min_size=1, max_size=60))
    times = (np.cumsum(gaps) + draw(st.integers(-50, 5000))).tolist()
    keys = sorted({0, *draw(st.lists(st.integers(0, len(times) - 1), max_size=8))})
    return packets(times, keys=keys, end=times[-1] + draw(st.integers(1, 90)))


cuts = st.builds(
    ClipSampling,
    frames=st.integers(1, 6),
    stride=st.none() | st.integers(1, 20),
    step=st.integers(1, 4),
    fps=st.none() | st.sampled_from([0.5, 7.0, 25.0, 29.97, 60.0]),
    rest=st.sampled_from(["drop", "pad"]),
)


@settings(max_examples=many(3), deadline=None)
@given(videos(), cuts, st.integers(1, 50))
def test_clips_equal_a_plain_reference(found, cut, size) -> None:
    times = [int(time) - int(found.times[0]) for time in found.times]
    slots = [*range(len(times))]
    if cut.fps is not None:
        rate = Fraction(str(cut.fps))
        length = (found.end - int(found.times[0])) * MILLI
        slots, number = [], 0
        while number / rate < length:
            slots.append(max(n for n, time in enumerate(times) if time * MILLI <= number / rate))
            number += 1
    expected = []
    start, covered = 0, 0
    while start < len(slots):
        places = [*range(start, start + cut.span, cut.step)]
        own = [place for place in places if place < len(slots)]
        if places[-1] >= len(slots) and (cut.rest == "drop" or covered >= len(slots)):
            break
        frames = [slots[place] for place in own] + [slots[own[-1]]] * (cut.frames - len(own))
        expected.append((start, frames, len(own)))
        covered = start + cut.span
        start += cut.hop
        if covered > len(slots):
            break
    if not expected:
        with pytest.raises(RecordError, match="bad_value: a video of"):
            clips_of(found, cut)
        return
    assert clips_of(found, cut) == expected
    assert clips_of(found, cut, size=size) == expected  # in sections they are the same


@pytest.mark.parametrize(
    ("segment", "slots"),
    [
        ((None, None), range(10)),
        ((0.0, 0.4), range(10)),
        ((0.08, 0.2), range(2, 5)),
        ((0.081, 0.201), range(3, 6)),
        ((None, 0.1), range(3)),
        ((0.3, None), range(8, 10)),
        ((0.3, 1.3), range(8, 10)),  # a second too long is rounded
    ],
)
def test_a_segment_has_the_frames_that_begin_in_it(segment, slots) -> None:
    found = packets([1000 + 40 * n for n in range(10)])
    got = clips_of(found, ClipSampling(frames=1), segment=segment)
    assert [frames for _, frames, _ in got] == [[n] for n in slots]


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ((0.4, 0.5), "a segment from 0.4 to 0.5 seconds, but the video takes 0.400"),
        ((0.0, 2.0), "a segment from 0 to 2 seconds, but the video takes 0.400"),
        ((0.2, 0.1), "expected a start of 0 or more, and a later end"),
        ((0.2, 0.2), "expected a start of 0 or more, and a later end"),
        ((-0.1, 0.2), "expected a start of 0 or more, and a later end"),
        ((float("nan"), 0.2), "expected a start of 0 or more, and a later end"),
        ((0.1, 0.11), "a segment of 0 frames, but a clip takes 1: --clip-rest pad"),
    ],
)
def test_invalid_segments(segment, message) -> None:
    found = packets([40 * n for n in range(10)])
    with pytest.raises(RecordError, match=message):
        clips_of(found, ClipSampling(frames=1), segment=segment)


def test_segments_of_damaged_videos_are_rejected_for_the_damage() -> None:
    found = dataclasses.replace(packets([40 * n for n in range(10)]), missing=7)
    for segment, message in (
        ((0.2, 2.0), "the rest takes 0.400 seconds, too short for a segment from 0.2 to 2 seconds"),
        ((0.5, 0.9), "the rest takes 0.400 seconds, too short for a segment from 0.5 to 0.9"),
        ((0.3, 0.8), "are missing: the rest is shorter than a clip"),
    ):
        with pytest.raises(RecordError, match=message) as raised:
            clips_of(found, ClipSampling(frames=4), segment=segment)
        assert raised.value.reason == Reason.TRUNCATED
    with pytest.raises(RecordError, match="a segment of 2 frames, but a clip takes 4"):
        clips_of(found, ClipSampling(frames=4), segment=(0.1, 0.2))


def test_times_are_exact_for_any_time_base() -> None:
    rate = Fraction(30000, 1001)
    found = Packets(
        times=np.arange(10**6, dtype=np.int64) * 1001,
        keys=np.array([(0, 0)]),
        sizes=np.array([1]),
        end=10**6 * 1001,
    )
    cut = ClipSampling(frames=10**6)
    (section,) = plan_sections(found, cut, Fraction(1, 30000))
    (clip,) = section.clips(cut, Fraction(1, 30000))
    for number in (0, 1, 2, 777_777, 999_999):
        assert abs(clip.times[number] - number * 10**6 / rate) <= Fraction(1, 2)


def test_decoding_begins_one_key_frame_early() -> None:
    found = packets([40 * n for n in range(40)], keys=[0, 10, 20, 30])
    sections = plan_sections(found, ClipSampling(frames=4), MILLI, size=1)
    assert [section.base for section in sections] == [0, 0, 10, 20]
    assert [section.start for section in sections] == [0, 12, 20, 32]
    assert [len(section.times) for section in sections] == [12, 20, 22, 20]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": 0}, "--clip-frames: expected 1 or more, got 0"),
        ({"stride": 0}, "--clip-stride: expected 1 or more, got 0"),
        ({"step": -1}, "--frame-step: expected 1 or more, got -1"),
        ({"fps": 0.0}, "--fps: expected 0.001 to 10000 frames a second, got 0"),
        ({"rest": "keep"}, "--clip-rest: expected drop or pad, got 'keep'"),
    ],
)
def test_invalid_options(options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        ClipSampling(**options)


def test_the_frames_of_slots_are_exact_for_every_unit_of_time() -> None:
    cut, unit = ClipSampling(fps=7.00001), Fraction(1, 10**9)
    slots = np.arange(0, 60_000_000, 9_999_991)
    starts = np.array([math.floor(slot / (cut.rate * unit)) for slot in slots.tolist()], np.int64)
    assert cut.frames_at(slots, starts, unit).tolist() == list(range(len(slots)))


def test_videos_with_too_many_frames_at_a_frame_rate_are_rejected() -> None:
    found = packets([0, 40, 10**12])
    assert len(clips_of(found, ClipSampling(frames=1))) == 3
    with pytest.raises(RecordError, match="takes 25000000001 frames at --fps 25") as error:
        clips_of(found, ClipSampling(frames=1, fps=25))
    assert error.value.reason is Reason.TOO_LARGE
