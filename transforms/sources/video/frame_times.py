"""Times of the frames of a video, which files may store wrong."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_LONGEST = 100 * 366 * 86_400  # seconds of a video, at most; times that span more are wrong
_LAST = 2**63 - 1  # time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packets:
    """Times and sizes of the frames of a video, from its packets.

    times: presentation times of the frames, sorted, in the time base of the stream, int64[frames].
    keys: (presentation time, decoding time) of each key frame, ascending, int64[k, 2].
    sizes: bytes from a key frame to the next, int64[k].
    end: end time of the last frame.
    missing: number of frames that the header declares but that are missing; None if unknown.
    ordered: whether frames have unique times; else frames are numbered in decoding order.
    """

    times: Ints
    keys: Ints
    sizes: Ints
    end: int
    missing: int | None = 0
    ordered: bool = True


def time_of_packet(packet: Any, default: int) -> int:
    """Return the presentation time of a packet, or else its decoding time, or the default."""
    time = packet.dts if packet.pts is None else packet.pts
    return min(default, _LAST) if time is None else int(time)


def are_usable(begin: int, end: int, unit: Fraction) -> bool:
    """Return whether a video can take the time between two times. unit: of times, in seconds."""
    return (end - begin) * unit <= _LONGEST


def usable_times(times: Ints, unit: Fraction) -> Ints:
    """Return times; if they are not usable, as many times at their median distance, from 0 on.

    times: sorted. unit: in seconds.
    """
    if are_usable(int(times[0]), int(times[-1]), unit):
        return times
    ascending = times.view(np.uint64)
    gap = max(int(np.median(ascending[1:] - ascending[:-1])), 1)  # modulo 2**64, so exact
    if gap * len(times) * unit > _LONGEST:
        gap = 1
    return np.arange(len(times), dtype=np.int64) * gap


def frame_length(duration: int, rate: Fraction, unit: Fraction) -> int:
    """Return the time for which a frame is shown, 1 or more.

    duration: of its packet; used if it is usable. rate: frames per second, 0 if unknown. unit: of
    times, in seconds.
    """
    for length in (duration, round(1 / (rate * unit)) if rate > 0 else 0):
        if 0 < length * unit <= _LONGEST:
            return length
    return 1
