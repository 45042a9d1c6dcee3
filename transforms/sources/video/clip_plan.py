"""Which frames of a film make which clips: arithmetic, no pictures.

Frames are numbered by their times. Clips are made of slots: without a frame rate of its own a slot
is a frame; with one, slot n is the frame that is shown at n / rate seconds.
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
import numpy.typing as npt

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.transforms.sources.video.video_decoder import Packets

Ints = npt.NDArray[np.int64]
Rest = Literal["drop", "pad"]

_MICRO = 10**6
_DENOMINATOR = 10**5  # of frame rates, at most: products stay below 2**63
_LATE = 1.0  # seconds that a segment may go on after its film has ended: people round


class Clip(NamedTuple):
    """A clip. start: its first slot. frames: int64[n], their numbers in the film; the last one
    again and again where there are no more. times: int64[n], microseconds from the beginning of
    the film. own: frames that are no repetition.
    """

    start: int
    frames: Ints
    times: Ints
    own: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipCut:
    """frames: of a clip. stride: slots from the start of a clip to that of the next. step: from a
    frame of a clip to the next one. fps: slots per second; None where they are frames. rest: what
    becomes of frames at the end that fill no clip.

    Raises:
      ConfigError: values that cannot work.
    """

    frames: int = 16
    stride: int | None = None
    step: int = 1
    fps: float | None = None
    rest: Rest = "drop"

    def __post_init__(self) -> None:
        for name, value in (
            ("--clip-frames", self.frames),
            ("--clip-stride", self.stride),
            ("--frame-step", self.step),
        ):
            if value is not None and value < 1:
                raise ConfigError(f"{name}: expected 1 or more, got {value}")
        if self.fps is not None and not 1e-3 <= self.fps <= 1e4:
            raise ConfigError(f"--fps: expected 0.001 to 10000 frames a second, got {self.fps:g}")
        if self.rest not in get_args(Rest):
            raise ConfigError(f"--clip-rest: expected drop or pad, got {self.rest!r}")

    @property
    def span(self) -> int:
        """Slots from the first frame of a clip to behind its last."""
        return (self.frames - 1) * self.step + 1

    @property
    def hop(self) -> int:
        """Slots from clip to clip: side by side, unless said otherwise."""
        return self.span if self.stride is None else self.stride

    @property
    def rate(self) -> Fraction | None:
        """`fps`, exactly."""
        if self.fps is None:
            return None
        return Fraction(str(self.fps)).limit_denominator(_DENOMINATOR)

    def slots(self, packets: Packets, unit: Fraction) -> int:
        """How many slots a film has. unit: seconds."""
        if self.rate is None:
            return len(packets.times)
        return math.ceil((packets.end - int(packets.times[0])) * unit * self.rate)

    def frames_at(self, slots: Ints, times: Ints, unit: Fraction) -> Ints:
        """The frame that each slot shows. times: from the beginning of the film, ascending."""
        if self.rate is None:
            return slots
        above = self.rate.denominator * unit.denominator
        limits = slots * above // (self.rate.numerator * unit.numerator)
        return np.searchsorted(times, limits, side="right") - 1

    def micros(self, slots: Ints, times: Ints, unit: Fraction) -> Ints:
        """Microseconds from the beginning of the film to each slot."""
        if self.rate is None:
            return _micros(times[slots] * unit.numerator, unit.denominator)
        return _micros(slots * self.rate.denominator, self.rate.numerator)

    def starts(self, begin: int, stop: int) -> int:
        """How many clips there are among the slots from `begin` to `stop`, the first at `begin`."""
        whole = max((stop - begin - self.span) // self.hop + 1, 0)
        covered = begin + (whole - 1) * self.hop + self.span if whole else begin
        following = begin + whole * self.hop
        return whole + (self.rest == "pad" and covered < stop and following < stop)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ClipSection:
    """Clips of a film that follow each other, and what it takes to read them.

    key: the frame to begin decoding with, as `Packets` has it. base: its number. times: of it and
    those after it, as far as they are needed. begin: of the film, the time of its first frame.
    start: the first slot of the first clip; count: of clips. stop: the slot where they must end.
    total: frames of the film. end: the time at which it ends. missing: as `Packets` has it, where
    this is the end of the film. ordered: as there.
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

    def clips(self, cut: ClipCut, unit: Fraction) -> Iterator[Clip]:
        """Frames are numbered from the beginning of the film."""
        times = self.times - self.begin
        steps = np.arange(cut.frames) * cut.step
        for start in range(self.start, self.start + self.count * cut.hop, cut.hop):
            own = min(cut.frames, -(-(self.stop - start) // cut.step))
            slots = start + np.minimum(steps, (own - 1) * cut.step)
            if cut.rate is None:
                frames = slots
                micros = cut.micros(slots - self.base, times, unit)
            else:
                frames = cut.frames_at(slots, times, unit) + self.base
                micros = cut.micros(slots, times, unit)
            yield Clip(start, frames, micros, own)

    def rate(self, unit: Fraction) -> Fraction:
        """Frames per second of the film, on average."""
        return self.total / ((self.end - self.begin) * unit)

    def to_text(self) -> str:
        """As it travels in a listing."""
        data = dataclasses.asdict(self)
        deltas = np.diff(self.times, prepend=0).astype("<i8").tobytes()
        data["times"] = base64.b85encode(zlib.compress(deltas)).decode()
        return json.dumps(data, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> ClipSection:
        """The inverse of `to_text`."""
        data = json.loads(text)
        deltas = np.frombuffer(zlib.decompress(base64.b85decode(data["times"])), "<i8")
        data |= {"times": np.cumsum(deltas), "key": tuple(data["key"])}
        return cls(**data)


def sections_of(
    packets: Packets,
    cut: ClipCut,
    unit: Fraction,
    *,
    segment: tuple[float | None, float | None] = (None, None),
    size: int | None = None,
) -> list[ClipSection]:
    """The clips of a film, or of a segment of it, in sections of about `size` bytes; all of them in
    one without that.

    segment: where it begins and ends, in seconds from the beginning of the film.

    Raises:
      RecordError: there is no clip in it.
    """
    first = int(packets.times[0])
    times = packets.times - first
    begin, stop = _slots_of(packets, cut, unit, segment)
    count = cut.starts(begin, stop)
    if not count:
        what = "a film" if segment == (None, None) else "a segment"
        raise RecordError(
            Reason.BAD_VALUE,
            f"{what} of {stop - begin} frames, and a clip takes {cut.span}: --clip-rest pad repeats"
            " the last one",
        )
    starts = begin + np.arange(count) * cut.hop
    numbers = np.searchsorted(packets.times, packets.keys[:, 0])  # of key frames
    firsts = cut.frames_at(starts, times, unit)
    # The key frame from which each clip is decoded, and the section that this is in.
    keys = np.searchsorted(numbers, firsts, side="right") - 1
    cuttable = size is not None and packets.ordered
    bounds = _bounds(packets.sizes, size) if cuttable and size else np.zeros(1, np.int64)
    groups = np.searchsorted(bounds, keys, side="right")
    edges = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), count]
    found = []
    for low, high in itertools.pairwise(edges):
        # One key frame earlier: a film may be such that decoding is right only some frames later.
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


def _slots_of(
    packets: Packets, cut: ClipCut, unit: Fraction, segment: tuple[float | None, float | None]
) -> tuple[int, int]:
    """Where a segment begins and ends. Raises RecordError for one that is none."""
    slots = cut.slots(packets, unit)
    if segment == (None, None):
        return 0, slots
    times = packets.times - packets.times[0]
    length = float((packets.end - int(packets.times[0])) * unit)
    start = 0.0 if segment[0] is None else segment[0]
    end = length if segment[1] is None else segment[1]
    told = f"a segment from {start:g} to {end:g} seconds"
    if not (math.isfinite(start) and math.isfinite(end)) or start < 0 or end <= start:
        raise RecordError(
            Reason.BAD_VALUE, f"{told}: expected a start from 0 on, and an end after it"
        )
    if start >= length or end > length + _LATE:
        raise RecordError(Reason.BAD_VALUE, f"{told}, and the film takes {length:.3f}")
    at = cut.micros(np.arange(slots), times, unit)
    edges = np.searchsorted(at, [round(start * _MICRO), round(end * _MICRO)])
    return int(edges[0]), int(edges[1])


def _bounds(sizes: Ints, size: int) -> Ints:
    """Which key frames sections begin with, so that each has so many bytes, or more."""
    found = [0]
    held = 0
    for key, one in enumerate(sizes.tolist()):
        if held >= size:
            found.append(key)
            held = 0
        held += one
    return np.array(found, np.int64)


def _micros(above: Ints, below: int) -> Ints:
    """Seconds as fractions to microseconds, rounded to the nearest."""
    seconds = above // below
    rest = above - seconds * below
    return seconds * _MICRO + (2 * rest * _MICRO + below) // (2 * below)
