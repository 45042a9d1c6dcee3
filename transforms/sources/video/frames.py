"""Decoding of the frames of a section of a video, in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from recordmill.errors import Reason, RecordError
from recordmill.transforms.sources.video.clip_plan import ClipSection
from recordmill.transforms.sources.video.video_decoder import VideoFile, pyav

Frames = Iterator[tuple[int, Any]]


def decode_section(video: VideoFile, section: ClipSection) -> Frames:
    """Decode all frames from the key frame of a section on.

    Yields (frame number, frame of PyAV or RecordError of a broken frame), in ascending order.
    After a broken frame, all frames up to the next key frame are broken too, because they depend on
    it.
    """
    ordered, key, following = section.ordered, section.key[0], section.base
    numbers = {time: number for number, time in enumerate(section.times.tolist(), following)}
    stop = following + len(section.times)
    is_broken = False
    broken: set[int] = set()
    for packet in itertools.chain(_from_key(video, section), [None]):
        frames, is_bad = _decoded(video, packet)
        if packet is not None:
            # Frames shown before the first key frame may depend on earlier frames.
            is_bad &= packet.pts is None or packet.pts >= key
            is_broken &= not (ordered and packet.is_keyframe)
        is_broken |= is_bad
        if is_broken and packet is not None:
            broken.add(packet.pts)
        for frame in frames:
            number = numbers.get(frame.pts) if ordered else following
            if number is None or not following <= number < stop:
                continue
            for lost in range(following, number):
                yield lost, _error(lost)
            following = number + 1
            is_bad = frame.is_corrupt or (frame.pts in broken if ordered else is_broken)
            yield number, _error(number) if is_bad else frame
        if following == stop:
            return
    for lost in range(following, stop):
        yield lost, _error(lost)


def _decoded(video: VideoFile, packet: Any) -> tuple[list[Any], bool]:
    """Return the frames that a packet completes, and whether the packet is broken.

    For None, return the frames that are left in the decoder.
    """
    try:
        if packet is None:
            return video.stream.codec_context.decode(None), False
        return packet.decode(), packet.is_corrupt
    except pyav().FFmpegError:
        return [], True


def _error(number: int) -> RecordError:
    return RecordError(Reason.CORRUPT, f"frame {number} of the video cannot be decoded")


def _from_key(video: VideoFile, section: ClipSection) -> Iterator[Any]:
    """Yield the packets from a key frame on. Reads from the beginning if the index is wrong."""
    key = section.key
    if section.base:
        video.seek(key)
    started = False
    for again in (False, True):
        if again:
            video.restart()
        for packet in video.demux():
            is_first = packet.pts == key[0] or not section.ordered
            started = started or (packet.is_keyframe and is_first)
            if started:
                yield packet
        if started:
            return
