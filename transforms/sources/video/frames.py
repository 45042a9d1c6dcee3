"""The frames of a section of a film, decoded in order, each by its number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from recordmill.errors import Reason, RecordError
from recordmill.transforms.sources.video.clip_plan import ClipSection
from recordmill.transforms.sources.video.video_decoder import Film, library

Frames = Iterator[tuple[int, Any]]


def decode_section(film: Film, section: ClipSection) -> Frames:
    """(number in the film, a frame of PyAV's, or the RecordError of one that cannot be decoded) of
    every frame from the section's key frame on, ascending.

    After a frame that is broken, those are too that are decoded after it, to the next key frame:
    they are made of it.
    """
    ordered, key, following = section.ordered, section.key[0], section.base
    numbers = {time: number for number, time in enumerate(section.times.tolist(), following)}
    stop = following + len(section.times)
    is_broken = False
    broken: set[int] = set()
    for packet in itertools.chain(_from_key(film, section), [None]):
        frames, is_bad = _decoded(film, packet)
        if packet is not None:
            # What is shown before the first key frame may be made of frames before that.
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


def _decoded(film: Film, packet: Any) -> tuple[list[Any], bool]:
    """The frames that a packet completes, for None those that the decoder still has; and whether
    something is wrong with it.
    """
    try:
        if packet is None:
            return film.stream.codec_context.decode(None), False
        return packet.decode(), packet.is_corrupt
    except library().FFmpegError:
        return [], True


def _error(number: int) -> RecordError:
    return RecordError(Reason.CORRUPT, f"frame {number} of the film cannot be decoded")


def _from_key(film: Film, section: ClipSection) -> Iterator[Any]:
    """The packets from a key frame on. Where the index leads past it, the film is read up to it."""
    key = section.key
    if section.base:
        film.seek(key)
    started = False
    for again in (False, True):
        if again:
            film.restart()
        for packet in film.demux():
            is_first = packet.pts == key[0] or not section.ordered
            started = started or (packet.is_keyframe and is_first)
            if started:
                yield packet
        if started:
            return
