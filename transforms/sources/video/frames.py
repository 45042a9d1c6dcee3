"""Decoding of the frames of a video, in the order in which the decoder puts them out.

In most videos a packet holds one frame, and its time identifies the frame. If the decoder reports
no fault, but its frames do not match the packets, the times are wrong, and frames are numbered in
the order in which they come out of the decoder.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from recordmill.errors import Reason, RecordError
from recordmill.transforms.sources.video.clip_plan import ClipSection
from recordmill.transforms.sources.video.frame_times import (
    Ints,
    Packets,
    are_usable,
    frame_length,
    time_of_packet,
    usable_times,
)
from recordmill.transforms.sources.video.video_decoder import VideoFile, pyav

Frames = Iterator[tuple[int, Any]]

_EMPTY = 8  # bytes of a packet that may hold no frame; one of MPEG-4 without a frame has 7
_DAMAGE = 0.25  # share of packets without a frame from which on the cause is not damage

# Frames that are decoded to check the times of a long video: a share of all, within limits.
_CHECKED_SHARE = 128
_CHECKED_LEAST, _CHECKED_MOST = 12, 500


class UnexpectedFramesError(Exception):
    """The frames of the decoder do not match the packets, though it reports no fault."""


def decode_section(video: VideoFile, section: ClipSection, *, strict: bool = False) -> Frames:
    """Decode all frames from the key frame of a section on.

    Yields (frame number, frame of PyAV or RecordError of a broken frame), in ascending order.
    After a broken frame, all frames up to the next key frame are broken too, because they depend on
    it.

    strict: whether frames that do not match the packets are an error.

    Raises:
      UnexpectedFramesError: `strict`, and frames do not match the packets.
    """
    if section.ordered:
        yield from _by_time(video, section.key, section.base, section.times, strict=strict)
        return
    output = _put_out(video, _from_key(video))
    for number, (_, frame) in enumerate(itertools.islice(output, len(section.times))):
        yield number, _undecodable(number) if frame is None else frame


def is_divisible(video: VideoFile, packets: Packets) -> bool:
    """Return whether decoding can start at any key frame, judged by the beginning of a video.

    The times of packets must identify frames, and key frames must be those of the decoder.
    """
    if not packets.ordered or video.stream.codec_context.codec.intra_only:
        return packets.ordered
    count = min(max(len(packets.times) // _CHECKED_SHARE, _CHECKED_LEAST), _CHECKED_MOST)
    key = int(packets.keys[0, 0]), int(packets.keys[0, 1])
    keys = set(np.searchsorted(packets.times, packets.keys[:, 0]).tolist())
    try:
        return all(
            number not in keys or isinstance(frame, RecordError) or frame.key_frame
            for number, frame in _by_time(video, key, 0, packets.times[:count], strict=True)
        )
    except UnexpectedFramesError:
        return False


def count_frames(video: VideoFile, packets: Packets) -> Packets:
    """Decode a video to count its frames, and return them in the order of the decoder.

    Packets without a frame are intact if they are empty, or if they are many, such as second fields
    of frames. Otherwise they are damaged; `packets` is then returned as it is, if its times
    identify the frames.

    Restarts the video before and after.

    Raises:
      RecordError: there is no frame.
    """
    times: list[int] = []
    full: set[int] = set()  # numbers of packets that are not empty

    def timed() -> Iterator[Any]:
        following = 0
        for packet in _from_key(video):
            if packet.size > _EMPTY and video.makes_frame(packet):
                full.add(len(times))
            times.append(time_of_packet(packet, following))
            following = max(following, times[-1] + (packet.duration or 0))
            yield packet

    video.restart()
    sources = [source for source, _ in _put_out(video, timed())]
    video.restart()
    if not sources:
        raise RecordError(Reason.CORRUPT, "no frame of the video can be decoded")
    found = np.array(times, np.int64)[sources]
    is_damaged = 0 < len(full.difference(sources)) < _DAMAGE * len(times)
    if is_damaged and packets.ordered and (np.diff(found) > 0).all():
        return packets
    found.sort()
    found = usable_times(found, video.unit)
    end = max(packets.end, int(found[-1]) + 1)
    if not are_usable(int(found[0]), end, video.unit):
        end = int(found[-1]) + frame_length(0, video.rate, video.unit)
    return dataclasses.replace(
        packets,
        times=found,
        keys=np.full((1, 2), found[0]),
        sizes=packets.sizes.sum(keepdims=True),
        end=end,
        missing=packets.missing if packets.missing != 0 or not is_damaged else None,
        ordered=False,
    )


def _by_time(
    video: VideoFile, key: tuple[int, int], base: int, times: Ints, *, strict: bool
) -> Frames:
    """Decode the frames with the given times. The first is the key frame, whose number is `base`.

    strict: as of `decode_section`, with its errors.
    """
    following, stop = base, base + len(times)
    numbers = {time: number for number, time in enumerate(times.tolist(), base)}
    is_broken = False
    broken: set[int] = set()
    sound_from = key[0]  # time from which frames depend on no broken frame
    if base:
        video.seek(key)
    for packet in itertools.chain(_from_key(video, key[0]), [None]):
        frames, is_bad = _decoded(video, packet)
        if packet is not None:
            # Frames shown before the first key frame may depend on earlier frames.
            is_bad &= packet.pts is None or packet.pts >= key[0]
            if is_broken and packet.is_keyframe and packet.pts is not None:
                is_broken, sound_from = False, packet.pts
        is_broken |= is_bad
        strict &= not is_bad  # after a fault, frames may be missing because of it
        if packet is not None:
            is_early = packet.pts is not None and packet.pts < sound_from
            if is_broken or is_early:
                broken.add(packet.pts)
        for frame in frames:
            number = numbers.get(frame.pts)
            strict &= not frame.is_corrupt
            if strict and number != following and (frame.pts is None or frame.pts >= key[0]):
                raise UnexpectedFramesError
            if number is None or number < following:
                continue
            for lost in range(following, number):
                yield lost, _undecodable(lost)
            following = number + 1
            is_bad = frame.is_corrupt or frame.pts in broken
            yield number, _undecodable(number) if is_bad else frame
        if following == stop:
            return
    if strict:
        raise UnexpectedFramesError
    for lost in range(following, stop):
        yield lost, _undecodable(lost)


def _put_out(video: VideoFile, packets: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Decode packets without regard to their times.

    Yields (number of the packet, frame of PyAV, or None for a broken frame or packet), in the order
    of the decoder. Replaces the time of each packet with its number, which decoders pass to frames.
    """
    is_broken = False
    broken: set[int] = set()
    lost: set[int] = set()  # broken packets that have given no frame yet
    awaited: int | None = None  # key frame; those before it may depend on broken ones
    source = 0
    for number, packet in enumerate(itertools.chain(packets, [None])):
        if packet is not None:
            if packet.is_keyframe:
                awaited = number if is_broken else None
                is_broken = False
            packet.pts = number
        frames, is_bad = _decoded(video, packet)
        is_broken |= is_bad
        if is_broken and packet is not None:
            broken.add(number)
            lost.add(number)
        for frame in frames:
            source = source if frame.pts is None else frame.pts
            lost.discard(source)
            awaited = None if source == awaited else awaited
            is_early = awaited is not None and source > awaited
            is_bad = frame.is_corrupt or is_early or source in broken
            for before in [] if is_bad else sorted(one for one in lost if one < source):
                lost.remove(before)
                yield before, None
            yield source, None if is_bad else frame
    for before in sorted(lost):
        yield before, None


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


def _undecodable(number: int) -> RecordError:
    return RecordError(Reason.CORRUPT, f"frame {number} of the video cannot be decoded")


def _from_key(video: VideoFile, time: int | None = None) -> Iterator[Any]:
    """Yield the packets from a key frame on. Reads from the beginning if the index is wrong.

    time: of the key frame; None for the first key frame, or the first packet without key frames.
    """
    started = False
    for again in (False, True):
        if again:
            video.restart()
        for packet in video.demux():
            is_key = packet.is_keyframe and time in (None, packet.pts)
            started = started or is_key or (again and time is None)
            if started:
                yield packet
        if started:
            return
