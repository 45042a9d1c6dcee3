"""Assignment of the frames of a video to clips. Works on times and decodes nothing.

Frames are numbered in the order of their times. Clips consist of slots: without a target frame rate
a slot is a frame; with one, slot n is the frame that is shown at n / rate seconds.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import math
import zlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, NamedTuple, get_args

import numpy as np

from recordmill import strict_json
from recordmill.errors import ConfigError, DamageError, Reason, RecordError
from recordmill.notes import count_of
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.transforms.sources.video.frame_times import Ints, Packets

Rest = Literal["drop", "pad"]

_MICRO = 10**6
_LAST = 2**63 - 1
_DENOMINATOR = 10**5  # limit for frame rates, so that products stay below 2**63
_SLOTS = 2**26  # of a video at a frame rate, at most; 31 days at 25 frames a second
_LATE = 1.0  # seconds that a segment may extend past the end of its video, for rounding


class Clip(NamedTuple):
    """A clip of n frames.

    start: its first slot. frames: frame numbers in the video, int64[n]; the last frame is repeated
    as padding. times: microseconds from the beginning of the video, int64[n]. real_frames: number
    of frames without padding.
    """

    start: int
    frames: Ints
    times: Ints
    real_frames: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipSampling:
    """Options for sampling clips from a video, in slots.

    Raises:
      ConfigError: An option is invalid.
    """

    frames: int = option(16, name="clip_frames", metavar="N", help="Frames per clip.")
    stride: int | None = option(
        None,
        name="clip_stride",
        metavar="N",
        help="Frames from the start of one clip to the start of the next. Default: clips follow"
        " each other without overlap.",
    )
    step: int = option(
        1,
        name="frame_step",
        metavar="N",
        help="Take every N-th frame of the video into a clip.",
    )
    fps: float | None = option(
        None,
        parse=values.number,
        metavar="RATE",
        help="Resample the video to this frame rate. Default: all frames as they are.",
    )
    rest: Rest = option(
        "drop",
        name="clip_rest",
        help="Frames at the end that do not fill a clip: drop them, or pad a clip by repeating the"
        " last frame.",
    )

    def __post_init__(self) -> None:
        for name, value in (
            ("clip_frames", self.frames),
            ("clip_stride", self.stride),
            ("frame_step", self.step),
        ):
            if value is not None and value < 1:
                raise ConfigError(f"{option_name(name)}: expected 1 or more, got {value}")
        if self.fps is not None and not 1e-3 <= self.fps <= 1e4:
            raise ConfigError(
                f"{option_name('fps')}: expected 0.001 to 10000 frames a second, got {self.fps:g}"
            )
        if self.rest not in get_args(Rest):
            raise ConfigError(
                f"{option_name('clip_rest')}: expected drop or pad, got {self.rest!r}"
            )

    @property
    def span(self) -> int:
        """Slots that a clip covers."""
        return (self.frames - 1) * self.step + 1

    @property
    def hop(self) -> int:
        """Slots from the start of a clip to the start of the next."""
        return self.span if self.stride is None else self.stride

    @property
    def rate(self) -> Fraction | None:
        """`fps` as a fraction."""
        if self.fps is None:
            return None
        return Fraction(str(self.fps)).limit_denominator(_DENOMINATOR)

    def slots(self, packets: Packets, unit: Fraction) -> int:
        """Return the number of slots of a video. unit: of times, in seconds.

        Raises:
          RecordError: they are too many.
        """
        if self.rate is None:
            return len(packets.times)
        length = (packets.end - int(packets.times[0])) * unit
        found = math.ceil(length * self.rate)
        if found > _SLOTS:
            raise RecordError(
                Reason.TOO_LARGE,
                f"a video of {count_of(len(packets.times), 'frame')} in {float(length):.0f} seconds"
                f" takes {found} frames at --fps {self.fps:g}, more than {_SLOTS}: correct the"
                " times of its frames, or leave out --fps",
            )
        return found

    def frames_at(self, slots: Ints, times: Ints, unit: Fraction) -> Ints:
        """Return the frame number of each slot. times: since the start of the video, ascending."""
        if self.rate is None:
            return slots
        length = 1 / (self.rate * unit)  # of a slot
        if length.numerator <= _LAST // _SLOTS:
            limits = slots * length.numerator // length.denominator
        else:
            limits = np.array([math.floor(one * length) for one in slots.tolist()], np.int64)
        return np.searchsorted(times, limits, side="right") - 1

    def micros(self, slots: Ints, times: Ints, unit: Fraction) -> Ints:
        """Return the time of each slot in microseconds from the beginning of the video."""
        if self.rate is None:
            return _micros(times[slots] * unit.numerator, unit.denominator)
        return _micros(slots * self.rate.denominator, self.rate.numerator)

    def count(self, begin: int, stop: int) -> int:
        """Return the number of clips in the slots from `begin` to `stop`, the first at `begin`."""
        whole = max((stop - begin - self.span) // self.hop + 1, 0)
        covered = begin + (whole - 1) * self.hop + self.span if whole else begin
        following = begin + whole * self.hop
        return whole + (self.rest == "pad" and covered < stop and following < stop)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ClipSection:
    """Consecutive clips of a video, and the data to decode them.

    key: key frame to start decoding from, as in `Packets`.
    base: frame number of the key frame.
    times: of the key frame and the following frames that are needed.
    begin: time of the first frame of the video.
    start: first slot of the first clip.
    count: of clips.
    stop: slot where the clips must end.
    total: frames of the video.
    end: end time of the video.
    missing: as in `Packets`, if the section includes the end of the video; else 0.
    ordered: as in `Packets`.
    """

    key: tuple[int, int]
    base: int
    times: Ints
    begin: int
    start: int
    count: int
    stop: int
    total: int
    end: int
    missing: int | None = 0
    ordered: bool = True

    def clips(self, cut: ClipSampling, unit: Fraction) -> Iterator[Clip]:
        """Yield the clips. Frames are numbered from the beginning of the video."""
        times = self.times - self.begin
        steps = np.arange(cut.frames) * cut.step
        for start in range(self.start, self.start + self.count * cut.hop, cut.hop):
            real_frames = min(cut.frames, -(-(self.stop - start) // cut.step))
            slots = start + np.minimum(steps, (real_frames - 1) * cut.step)
            if cut.rate is None:
                frames = slots
                micros = cut.micros(slots - self.base, times, unit)
            else:
                frames = cut.frames_at(slots, times, unit) + self.base
                micros = cut.micros(slots, times, unit)
            yield Clip(start, frames, micros, real_frames)

    def rate(self, unit: Fraction) -> Fraction:
        """Return the average number of frames per second of the video."""
        return self.total / ((self.end - self.begin) * unit)

    def to_text(self) -> str:
        """Return JSON, for a column of a listing."""
        data = dataclasses.asdict(self)
        deltas = np.diff(self.times, prepend=0).astype("<i8").tobytes()
        data["times"] = base64.b85encode(zlib.compress(deltas)).decode()
        return strict_json.to_text(data, sort_keys=True, ascii_only=True)

    @classmethod
    def from_text(cls, text: str) -> ClipSection:
        """Parse the JSON of `to_text`. Raises DamageError."""
        try:
            data = json.loads(text)
            deltas = np.frombuffer(zlib.decompress(base64.b85decode(data["times"])), "<i8")
            data |= {"times": np.cumsum(deltas), "key": tuple(data["key"])}
            return cls(**data)
        except (ValueError, TypeError, LookupError, zlib.error) as error:
            raise DamageError(f"a staged section of a video is damaged: {error!r}") from error


def plan_sections(
    packets: Packets,
    cut: ClipSampling,
    unit: Fraction,
    *,
    segment: tuple[float | None, float | None] = (None, None),
    size: int | None = None,
) -> list[ClipSection]:
    """Divide the clips of a video, or of a segment of it, into sections.

    Args:
      packets: of the video.
      cut: how clips are sampled.
      unit: of times, in seconds.
      segment: its start and end in seconds from the beginning of the video; None for the ends of
        the video.
      size: approximate size of a section in bytes; None for one section.

    Raises:
      RecordError: there is no clip in the segment.
    """
    first = int(packets.times[0])
    times = packets.times - first
    begin, stop = _slots_of(packets, cut, unit, segment)
    count = cut.count(begin, stop)
    if not count and packets.missing != 0 and stop == cut.slots(packets, unit):
        raise _too_damaged(packets, "the rest is shorter than a clip")
    if not count:
        what = "a video" if segment == (None, None) else "a segment"
        raise RecordError(
            Reason.BAD_VALUE,
            f"{what} of {count_of(stop - begin, 'frame')}, but a clip takes {cut.span}: --clip-rest"
            " pad repeats the last frame",
        )
    starts = begin + np.arange(count) * cut.hop
    numbers = np.searchsorted(packets.times, packets.keys[:, 0])  # of key frames
    firsts = cut.frames_at(starts, times, unit)
    # The key frame from which each clip is decoded, and the section of this key frame.
    keys = np.searchsorted(numbers, firsts, side="right") - 1
    cuttable = size is not None and packets.ordered
    bounds = _bounds(packets.sizes, size) if cuttable and size else np.zeros(1, np.int64)
    groups = np.searchsorted(bounds, keys, side="right")
    edges = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), count]
    found = []
    for low, high in itertools.pairwise(edges):
        # Start one key frame earlier: in some videos the frames right after a key frame are wrong.
        key = max(int(keys[low]) - 1, 0) if packets.ordered else 0
        base = int(numbers[key])
        last = min(int(starts[high - 1]) + cut.span, stop) - 1
        until = int(cut.frames_at(np.array([last]), times, unit)[0]) + 1
        is_end = high == count and segment == (None, None)
        found.append(
            ClipSection(
                key=(int(packets.keys[key, 0]), int(packets.keys[key, 1])),
                base=base,
                times=packets.times[base:until],
                begin=first,
                start=int(starts[low]),
                count=high - low,
                stop=stop,
                total=len(packets.times),
                end=packets.end,
                missing=packets.missing if is_end else 0,
                ordered=packets.ordered,
            )
        )
    return found


def missing_frames(count: int | None) -> RecordError:
    """Return the error for frames that a header declares, but that are missing; None: unknown."""
    what = "a part of the video cannot be read, or it ends earlier than its header declares"
    if count is not None:
        what = (
            f"the last {count_of(count, 'frame')} that the header of the video declares"
            f" {'is' if count == 1 else 'are'} missing"
        )
    return RecordError(Reason.TRUNCATED, what)


def _too_damaged(packets: Packets, consequence: str) -> RecordError:
    """Return the error for a damaged video without a clip."""
    error = missing_frames(packets.missing)
    return RecordError(error.reason, f"{error.detail}: {consequence}")


def _slots_of(
    packets: Packets, cut: ClipSampling, unit: Fraction, segment: tuple[float | None, float | None]
) -> tuple[int, int]:
    """Return the start and stop slots of a segment. Raises RecordError for an invalid segment."""
    slots = cut.slots(packets, unit)
    if segment == (None, None):
        return 0, slots
    times = packets.times - packets.times[0]
    length = float((packets.end - int(packets.times[0])) * unit)
    start = 0.0 if segment[0] is None else segment[0]
    end = length if segment[1] is None else segment[1]
    what = f"a segment from {start:g} to {end:g} seconds"
    if not (math.isfinite(start) and math.isfinite(end)) or start < 0 or end <= start:
        raise RecordError(
            Reason.BAD_VALUE, f"{what}: expected a start of 0 or more, and a later end"
        )
    if (start >= length or end > length + _LATE) and packets.missing != 0:
        raise _too_damaged(packets, f"the rest takes {length:.3f} seconds, too short for {what}")
    if start >= length or end > length + _LATE:
        raise RecordError(Reason.BAD_VALUE, f"{what}, but the video takes {length:.3f}")
    at = cut.micros(np.arange(slots), times, unit)
    edges = np.searchsorted(at, [round(start * _MICRO), round(end * _MICRO)])
    return int(edges[0]), int(edges[1])


def _bounds(sizes: Ints, size: int) -> Ints:
    """Return the key frames where sections of at least `size` bytes begin."""
    found = [0]
    held = 0
    for key, one in enumerate(sizes.tolist()):
        if held >= size:
            found.append(key)
            held = 0
        held += one
    return np.array(found, np.int64)


def _micros(above: Ints, below: int) -> Ints:
    """Convert seconds as fractions to microseconds, rounded to the nearest."""
    seconds = above // below
    rest = above - seconds * below
    return seconds * _MICRO + (2 * rest * _MICRO + below) // (2 * below)
